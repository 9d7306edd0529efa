"""Sorts the keys of an index block by hash, at the cost of a few steps in C for many keys, and in short steps.

Rank    A key as one float: its bits are, from the lowest, 32 of the position, the lower 24 of the hash, and a constant.
        Among keys with the same highest byte of the hash, ranks are in the order of hash and position, and Python sorts
        floats faster than other objects. The constant is the upper part of the exponent, so that no rank is infinite or
        a NaN.
Groups  Keys are grouped by the high bits of their hashes, so that each group is small, and is sorted by itself.
"""

import sys
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_RANK_BYTES: Final = 8
_EXPONENT: Final = b"\x20"
_HASH_BITS: Final = 32
# The highest byte of the hash is not in the rank, so that it must be the same in the whole group.
_GROUP_BITS_MIN: Final = 8
_GROUP_BITS_MAX: Final = 12
# So many keys, or up to twice as many, are in a group, if hashes are spread evenly.
_GROUP_KEYS: Final = 64
# So many keys are sorted by one call, during which no other thread runs: about a tenth of a millisecond.
_SORTED_AT_ONCE: Final = 1024
_KEYS_AT_ONCE: Final = 4096
_SAMPLE_KEYS: Final = 64


def sort_keys(
    hashes: "array[int]", positions: "array[int]", pause: "Callable[[], None]"
) -> tuple[bytearray, bytearray]:
    """Return the hashes in ascending order and their positions, each as 4 bytes, little-endian.

    Both arrays are of u32; positions ascend, and so do those of equal hashes in the result. `pause` is called between
    steps of less than a millisecond.
    """
    ranks = array("d")
    highest = bytearray()
    group_bits = min(max((len(hashes) // _GROUP_KEYS).bit_length(), _GROUP_BITS_MIN), _GROUP_BITS_MAX)
    unpaused = 0
    for number, group in enumerate(_group_ranks(hashes, positions, group_bits, pause)):
        highest += bytes((number >> (group_bits - _GROUP_BITS_MIN),)) * len(group)
        for part in _sort_in_steps(group, pause):
            ranks.fromlist(part)
        unpaused += len(group)
        if unpaused >= _KEYS_AT_ONCE:
            unpaused = 0
            pause()
    return _read_ranks(ranks, highest, pause)


def _group_ranks(
    hashes: "array[int]", positions: "array[int]", group_bits: int, pause: "Callable[[], None]"
) -> list[list[float]]:
    """Return the ranks of the keys by the highest bits of their hashes, in the order of the keys."""
    groups: list[list[float]] = [[] for _ in range(1 << group_bits)]
    shift = _HASH_BITS - group_bits
    for begin in range(0, len(hashes), _KEYS_AT_ONCE):
        some = hashes[begin : begin + _KEYS_AT_ONCE]
        for rank, value in zip(_make_ranks(some, positions[begin : begin + _KEYS_AT_ONCE]), some, strict=True):
            groups[value >> shift].append(rank)
        pause()
    return groups


def _make_ranks(hashes: "array[int]", positions: "array[int]") -> "array[float]":
    of_hashes, of_positions = to_little_endian(hashes), to_little_endian(positions)
    data = bytearray(_RANK_BYTES * len(hashes))
    for byte in range(4):
        data[byte::_RANK_BYTES] = of_positions[byte::4]
    for byte in range(3):
        data[4 + byte :: _RANK_BYTES] = of_hashes[byte::4]
    data[7::_RANK_BYTES] = _EXPONENT * len(hashes)
    ranks = array("d", bytes(data))
    if sys.byteorder == "big":
        ranks.byteswap()
    return ranks


def _read_ranks(ranks: "array[float]", highest: bytearray, pause: "Callable[[], None]") -> tuple[bytearray, bytearray]:
    """Return the hashes and positions of ranks, given the highest byte of each hash."""
    hashes, positions = bytearray(), bytearray()
    for begin in range(0, len(ranks), _KEYS_AT_ONCE):
        some = ranks[begin : begin + _KEYS_AT_ONCE]
        if sys.byteorder == "big":
            some.byteswap()
        data = some.tobytes()
        of_hashes, of_positions = bytearray(4 * len(some)), bytearray(4 * len(some))
        for byte in range(4):
            of_positions[byte::4] = data[byte::_RANK_BYTES]
        for byte in range(3):
            of_hashes[byte::4] = data[4 + byte :: _RANK_BYTES]
        of_hashes[3::4] = highest[begin : begin + len(some)]
        hashes += of_hashes
        positions += of_positions
        pause()
    return hashes, positions


def _sort_in_steps(ranks: list[float], pause: "Callable[[], None]") -> list[list[float]]:
    """Return the ranks in sorted parts. A group is large if many keys are the same, or if a client chose them so."""
    if len(ranks) <= _SORTED_AT_ONCE:
        ranks.sort()
        return [ranks]
    parts: list[list[float]] = []
    waiting = [ranks]
    while waiting:
        group = waiting.pop()
        runs = _sort_runs(group, pause)
        if all(run[-1] <= following[0] for run, following in pairwise(runs)):
            parts += runs
        else:
            waiting += _split_at_median(group, pause)
    return parts


def _sort_runs(ranks: list[float], pause: "Callable[[], None]") -> list[list[float]]:
    runs: list[list[float]] = []
    for begin in range(0, len(ranks), _SORTED_AT_ONCE):
        runs.append(sorted(ranks[begin : begin + _SORTED_AT_ONCE]))
        pause()
    return runs


def _split_at_median(ranks: list[float], pause: "Callable[[], None]") -> list[list[float]]:
    """Return the ranks above the median of a sample, those equal to it, and those below it, without empty lists."""
    sample = sorted(ranks[:: len(ranks) // _SAMPLE_KEYS])
    median = sample[len(sample) // 2]
    above: list[float] = []
    equal: list[float] = []
    below: list[float] = []
    for begin in range(0, len(ranks), _KEYS_AT_ONCE):
        for rank in ranks[begin : begin + _KEYS_AT_ONCE]:
            (above if rank > median else below if rank < median else equal).append(rank)
        pause()
    return [each for each in (above, equal, below) if each]


def to_little_endian(values: "array[int]") -> bytes:
    """Return the numbers as bytes, the lowest first."""
    if sys.byteorder == "big":
        values = array("I", values)
        values.byteswap()
    return values.tobytes()
