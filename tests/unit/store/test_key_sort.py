"""Sorting the keys of an index block: right for any keys, also many of one hash or of one message, in short steps."""

import random
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.index.key_sort import sort_keys

HASH_MAX = 2**32 - 1
HASHES = st.integers(0, HASH_MAX) | st.sampled_from([0, 1, 0x00FF_FFFF, 0x0100_0000, 0xFFF0_0000, HASH_MAX])
# The largest group that one call may sort.
STEP_KEYS = 1024


def sort_pairs(pairs: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    """Return the keys as sorted, and how often the sort paused."""
    pauses: list[None] = []
    hashes, positions = (array("I", column) for column in zip(*pairs, strict=True)) if pairs else (array("I"),) * 2
    columns = sort_keys(hashes, positions, lambda: pauses.append(None))
    read = [[int.from_bytes(column[at : at + 4], "little") for at in range(0, len(column), 4)] for column in columns]
    return list(zip(*read, strict=True)), len(pauses)


@given(hashes=st.lists(HASHES, max_size=300), positions=st.lists(st.integers(0, HASH_MAX), max_size=300))
def test_any_keys_are_in_order_of_hash_and_position(hashes: list[int], positions: list[int]) -> None:
    pairs = list(zip(hashes, sorted(positions), strict=False))
    assert sort_pairs(pairs)[0] == sorted(pairs)


@pytest.mark.parametrize(
    ("hashes", "keys_of_message"),
    [
        pytest.param([7], 1, id="one key everywhere"),
        pytest.param([7, 6], 8000, id="messages with thousands of two keys"),
        pytest.param([*range(1 << 16)], 2, id="hashes that a client chose to be close together"),
        pytest.param([HASH_MAX - number for number in range(5000)], 1, id="the highest hashes"),
    ],
)
def test_a_large_group_is_sorted_in_short_steps(hashes: list[int], keys_of_message: int) -> None:
    chosen = random.Random(3)
    keys = 40_000
    pairs = [(chosen.choice(hashes), at // keys_of_message * 300) for at in range(keys)]
    in_order, pauses = sort_pairs(pairs)
    assert in_order == sorted(pairs)
    assert pauses >= keys // STEP_KEYS
