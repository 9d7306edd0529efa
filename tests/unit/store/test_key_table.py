"""The keys of index blocks: whatever keys there are, a search finds those that are there, and damage is never taken for
a key that is not there."""

from array import array
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_broker.store.index import key_table
from ternmq_broker.store.index.key_sort import to_little_endian
from ternmq_broker.store.index.key_table import DamagedKeys, KeysInLogOrder, SortedKeys, do_not_pause
from tests.support.memory_disk import MemoryFile

AT = 24
# Few different ones, so that many keys share a hash and one hash fills pages; those at the ends of what there is too.
HASHES = st.integers(0, 5) | st.integers(0, 2**32 - 1) | st.just(2**32 - 1)
MANY = key_table.PAGE_KEYS * 3


def keys_of(hashes: list[int]) -> "tuple[array[int], array[int]]":
    """With positions as a log has them: two keys of each message."""
    return array("I", hashes), array("I", [number // 2 * 100 for number in range(len(hashes))])


def written(hashes: "array[int]", positions: "array[int]") -> tuple[MemoryFile, SortedKeys]:
    table = b"".join(key_table.encode_sorted(hashes, positions))
    assert len(table) == key_table.sorted_table_bytes(len(hashes))
    return MemoryFile(bytes(AT) + table), SortedKeys(AT, len(hashes), table)


def places(hashes: "array[int]", positions: "array[int]", wanted: int) -> list[int]:
    """What a search is to find."""
    return [positions[at] for at in range(len(hashes) - 1, -1, -1) if hashes[at] == wanted]


many_hashes = st.lists(HASHES, max_size=MANY) | st.builds(
    lambda few, times: few * times, st.lists(HASHES, min_size=1, max_size=3), st.integers(1, MANY)
)


@given(hashes=many_hashes, absent=HASHES)
@example(hashes=[7] * (2 * key_table.PAGE_KEYS), absent=6)
@example(hashes=[7] * key_table.PAGE_KEYS + [8] * key_table.PAGE_KEYS, absent=9)
def test_every_key_is_found_newest_first_and_no_other(hashes: list[int], absent: int) -> None:
    keys = keys_of(hashes)
    file, table = written(*keys)
    for wanted in {*hashes, absent}:
        assert list(table.find_positions(file, wanted)) == places(*keys, wanted)


@given(hashes=many_hashes)
def test_a_table_is_read_back_whole(hashes: list[int]) -> None:
    keys = keys_of(hashes)
    table = b"".join(key_table.encode_sorted(*keys))
    read = key_table.decode_sorted(table + b"more", len(hashes))
    assert list(read[0]) == sorted(hashes)
    assert sorted(zip(*read, strict=True)) == sorted(zip(*keys, strict=True))


@given(hashes=st.lists(HASHES, min_size=1, max_size=MANY), data=st.data())
def test_a_flipped_bit_is_said_or_does_no_harm(hashes: list[int], data: st.DataObject) -> None:
    keys = keys_of(hashes)
    file, table = written(*keys)
    content = bytearray(file.read(0, file.size))
    pages_at = AT + 4 * -(-len(hashes) // key_table.PAGE_KEYS)  # what is before is in memory
    at = data.draw(st.integers(pages_at, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    for wanted in set(hashes):
        try:
            found = list(table.find_positions(MemoryFile(bytes(content)), wanted))
        except DamagedKeys:
            continue
        assert found == places(*keys, wanted)


@given(hashes=st.lists(HASHES, min_size=1, max_size=MANY), data=st.data())
def test_a_table_that_is_cut_off_is_said(hashes: list[int], data: st.DataObject) -> None:
    keys = keys_of(hashes)
    file, table = written(*keys)
    cut = MemoryFile(file.read(0, file.size - data.draw(st.integers(1, file.size))))
    for wanted in set(hashes):
        try:
            found = list(table.find_positions(cut, wanted))
        except DamagedKeys:
            continue
        assert found == places(*keys, wanted)


@given(hashes=many_hashes, wanted=st.sets(HASHES, min_size=1, max_size=3))
def test_keys_in_the_order_of_the_log_are_found_too(hashes: list[int], wanted: set[int]) -> None:
    keys, positions = keys_of(hashes)
    data = to_little_endian(keys) + to_little_endian(positions)
    table = KeysInLogOrder(AT, len(hashes), crc32(data))
    found = [positions[at] for at in range(len(keys) - 1, -1, -1) if keys[at] in wanted]
    assert list(table.find_positions(MemoryFile(bytes(AT) + data), wanted, do_not_pause)) == found
    if data:
        damaged = MemoryFile(bytes(AT) + data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(DamagedKeys):
            list(table.find_positions(damaged, wanted, do_not_pause))


@pytest.mark.parametrize("hashes", [range(0, 1 << 32, 400_009), [1 << 31] * 9000, range(5000, 0, -1)])
def test_many_keys_are_sorted_in_small_steps(hashes: "list[int]") -> None:
    keys = keys_of(list(hashes))
    pauses: list[None] = []
    pieces = key_table.encode_sorted(*keys, lambda: pauses.append(None))
    read = key_table.decode_sorted(b"".join(pieces), len(hashes))
    in_order = sorted(zip(*keys, strict=True))
    assert list(zip(*read, strict=True)) == in_order
    assert len(pauses) >= len(hashes) // 1024
