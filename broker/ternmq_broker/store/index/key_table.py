"""The key table of an index block: which log offsets may have a message with a certain key.

Sorted      Blocks of today: hashes of keys in ascending order, in pages, so that a search reads one page of 516 bytes
            of each block, and a second one where it finds something. Keys of one hash are in the log's order.

                4 B a page    the first hash of each page (the fences)
                a page        up to 128 hashes of 4 B | crc32 of them, begun with the page's number
                a page        up to 128 positions of 4 B, of the hashes in the same places | crc32 likewise

Log order   Blocks of earlier versions: all hashes, then all positions, in the log's order. A search reads them all.

Memory      The fences of sorted keys, a quarter of a bit a key; for keys in the log's order a checksum of them all.
Damage      Every read is checked: a damaged page raises DamagedKeys, and never seems to lack a key.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.index.key_sort import sort_keys
from ternmq_common.binary.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ternmq_broker.store.disk.files import StoreFile

PAGE_KEYS: Final = 128
_KEY_BYTES: Final = 4
_CHECK_BYTES: Final = 4
_PAGE_BYTES: Final = 4 * PAGE_KEYS + _CHECK_BYTES
# So many bytes of keys in the log's order are searched by one call.
_SEARCHED_BYTES_AT_ONCE: Final = 1 << 16


class DamagedKeys(Exception):
    """The bytes on the disk are not those that were written."""


def do_not_pause() -> None:
    """Continue at once."""


# --- sorted keys


def encode_sorted(
    hashes: "array[int]", positions: "array[int]", pause: "Callable[[], None]" = do_not_pause
) -> list[bytes]:
    """Return the pieces of the table of these keys, which are in the log's order; `pause` is called between steps."""
    sorted_hashes, sorted_positions = sort_keys(hashes, positions, pause)
    fences = b"".join(
        [bytes(sorted_hashes[at : at + _KEY_BYTES]) for at in range(0, len(sorted_hashes), _KEY_BYTES * PAGE_KEYS)]
    )
    pieces = [fences]
    for data in (sorted_hashes, sorted_positions):
        for page, at in enumerate(range(0, len(data), _KEY_BYTES * PAGE_KEYS)):
            values = bytes(data[at : at + _KEY_BYTES * PAGE_KEYS])
            pieces += values, crc32(values, page).to_bytes(_CHECK_BYTES, "little")
            if not page % 32:
                pause()
    return pieces


def sorted_table_bytes(keys: int) -> int:
    """Return the size of a table of so many sorted keys."""
    return 8 * keys + (4 + 2 * _CHECK_BYTES) * _page_count(keys)


def decode_sorted(data: bytes, keys: int) -> "tuple[array[int], array[int]]":
    """Return hashes and positions of a whole table, by their hashes; nothing is checked."""
    pages = _page_count(keys)
    values = []
    for begin in (4 * pages, 4 * pages + 4 * keys + _CHECK_BYTES * pages):
        plain = bytearray(data[begin : begin + 4 * keys + _CHECK_BYTES * pages])
        for page in reversed(range(pages)):
            end = min(4 * keys, 4 * PAGE_KEYS * (page + 1)) + _CHECK_BYTES * page
            del plain[end : end + _CHECK_BYTES]
        values.append(_parse_integers(plain))
    hashes, positions = values
    return hashes, positions


class SortedKeys:
    """The sorted table of `keys` keys at byte `at` of a file."""

    __slots__ = ("_at", "_fences", "_keys")

    def __init__(self, at: int, keys: int, table: bytes) -> None:
        """`table` is the table, or its beginning."""
        self._at = at
        self._keys = keys
        self._fences = _parse_integers(table[: 4 * _page_count(keys)])

    def find_positions(self, file: "StoreFile", wanted: int) -> "Iterator[int]":
        """Yield the positions of records that have a key of that hash, the last first. DamagedKeys, OSError."""
        page = bisect_right(self._fences, wanted) - 1
        if page < 0:
            return
        pattern = wanted.to_bytes(4, "little")
        while page >= 0:
            data = self._read_page(file, page, 0)
            # Nearly always it is not there; this test needs no object for each key.
            if pattern in data:
                hashes = _parse_integers(data)
                low, high = bisect_left(hashes, wanted), bisect_right(hashes, wanted)
                if low < high:
                    yield from reversed(_parse_integers(self._read_page(file, page, 1))[low:high])
            if self._fences[page] < wanted:
                return
            page -= 1  # those of one hash may begin in the page before

    def _read_page(self, file: "StoreFile", page: int, half: int) -> bytes:
        """Read a page of hashes, or with `half` 1 of positions."""
        pages = len(self._fences)
        size = 4 * min(PAGE_KEYS, self._keys - PAGE_KEYS * page)
        hashes_at = self._at + 4 * pages
        table_at = hashes_at + half * (4 * self._keys + _CHECK_BYTES * pages)
        data = file.read(table_at + page * _PAGE_BYTES, size + _CHECK_BYTES)
        values = data[:size]
        if len(data) != size + _CHECK_BYTES or data[size:] != crc32(values, page).to_bytes(_CHECK_BYTES, "little"):
            raise DamagedKeys(f"page {page} of the keys at byte {self._at}")
        return values


# --- keys in the log's order


class KeysInLogOrder:
    """The table of `keys` keys in the log's order at byte `at` of a file; `check` is the crc32 of its bytes."""

    __slots__ = ("_at", "_check", "_keys")

    def __init__(self, at: int, keys: int, check: int) -> None:
        self._at = at
        self._keys = keys
        self._check = check

    def find_positions(self, file: "StoreFile", wanted: set[int], pause: "Callable[[], None]") -> "Iterator[int]":
        """Yield the positions of records that have a key of one of the hashes, the last first. DamagedKeys, OSError."""
        data = file.read(self._at, 8 * self._keys)
        if len(data) != 8 * self._keys or crc32(data) != self._check:
            raise DamagedKeys(f"the keys at byte {self._at}")
        places = find_hashes(data[: 4 * self._keys], wanted, pause)
        for place in places:
            at = 4 * (self._keys + place)
            yield int.from_bytes(data[at : at + 4], "little")


def decode_in_log_order(data: bytes, keys: int) -> "tuple[array[int], array[int]]":
    """Return hashes and positions of a whole table; nothing is checked."""
    return _parse_integers(data[: 4 * keys]), _parse_integers(data[4 * keys : 8 * keys])


def find_hashes(hashes: bytes, wanted: set[int], pause: "Callable[[], None]") -> "Iterator[int]":
    """Yield where one of the wanted hashes is in hashes of 4 bytes, little-endian; the last first."""
    for end in range(len(hashes), 0, -_SEARCHED_BYTES_AT_ONCE):
        begin = max(0, end - _SEARCHED_BYTES_AT_ONCE)
        yield from (
            _find_one_hash(hashes, begin, end, wanted)
            if len(wanted) == 1
            else (begin // 4 + place for place in _find_many_hashes(_parse_integers(hashes[begin:end]), wanted))
        )
        pause()


def _find_one_hash(hashes: bytes, begin: int, end: int, wanted: set[int]) -> "Iterator[int]":
    [one] = wanted
    pattern = one.to_bytes(4, "little")
    at = hashes.rfind(pattern, begin, end)
    while at >= 0:
        if not at % 4:
            yield at // 4
        at = hashes.rfind(pattern, begin, at + 3)


def _find_many_hashes(hashes: "array[int]", wanted: set[int]) -> "Iterator[int]":
    return (place for place in range(len(hashes) - 1, -1, -1) if hashes[place] in wanted)


def _parse_integers(data: "bytes | bytearray") -> "array[int]":
    values = array("I", bytes(data))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _page_count(keys: int) -> int:
    return -(-keys // PAGE_KEYS)
