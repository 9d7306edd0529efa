"""Finds the fields of many protobuf messages at once, by numpy: a step of Python for each field, none for each message.

All messages lie one behind the other in the same bytes. In each step the messages whose next field has the lowest tag
advance by one field, so messages whose fields are in the same order, as encoders write them, advance together.

Limits   sizes and positions are below 2 GiB; nested messages are found as bytes, and are looked into by another call
Refused  what isn't protobuf, and groups (wire types 3 and 4), which are out of use for years: `NotScannable`
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# A number may be read beyond the last message before that is noticed: so many bytes have to follow it.
PADDING_BYTES = 16
_VARINT_BYTES_MAX = 10
_NO_TAG = np.int64(1 << 62)
_VARINT, _BYTES = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}


class NotScannable(Exception):
    """These bytes need a decoder that knows all of protobuf."""


@dataclass(frozen=True, slots=True)
class Found:
    """One field of some messages: field number * 8 + wire type is its `tag`, `rows` are the messages' numbers.

    `values` are numbers (as int64) of a field of wire type 0. Of all others they are where contents begin, and `sizes`
    are their lengths in bytes.
    """

    tag: int
    rows: Ints
    values: Ints
    sizes: Ints


def find_fields(data: Bytes, starts: Ints, stops: Ints) -> Iterator[Found]:
    """All fields of the messages `data[start:stop]`; `PADDING_BYTES` follow the last one. Fields of one message come in
    the order in which they stand in it."""
    count = len(starts)
    every_row = np.arange(count)
    places = starts
    # Most messages have the same fields, so this loop mostly comes to the end of all of them.
    while tag := _find_common_tag(data, places, stops):
        values, sizes, places = _read_contents(data, tag & 7, places + 1)
        if np.count_nonzero(places > stops):
            raise NotScannable("a field is longer than its message")
        yield Found(tag, every_row, values, sizes)
    if not np.count_nonzero(places < stops):
        return
    tags = np.full(count, _NO_TAG)
    places = places.copy()
    _read_tags(data, tags, places, stops, every_row)
    while (tag := int(tags.min())) != _NO_TAG:
        rows = every_row if int(tags.max()) == tag else np.flatnonzero(tags == tag)
        values, sizes, after = _read_contents(data, tag & 7, places[rows])
        if np.count_nonzero(after > stops[rows]):
            raise NotScannable("a field is longer than its message")
        places[rows] = after
        yield Found(tag, rows, values, sizes)
        _read_tags(data, tags, places, stops, rows)


def _find_common_tag(data: Bytes, places: Ints, stops: Ints) -> int:
    """The next tag of all messages, where it is the same and one byte; else 0, which is none."""
    count = len(places)
    if not count or np.count_nonzero(places < stops) < count:
        return 0
    firsts = data.take(places)
    tag = int(firsts[0])
    return tag if tag < 0x80 and np.count_nonzero(firsts == tag) == count else 0


def _read_contents(data: Bytes, wire_type: int, places: Ints) -> tuple[Ints, Ints, Ints]:
    """Values and sizes as in `Found`, and the places behind the fields."""
    if wire_type in _FIXED_BYTES:
        sizes = np.full(len(places), _FIXED_BYTES[wire_type])
        return places, sizes, places + sizes
    if wire_type not in (_VARINT, _BYTES):
        raise NotScannable(f"wire type {wire_type}")
    numbers, after = read_varints(data, places)
    if wire_type == _VARINT:
        return numbers, after - places, after
    # Without its sign, a negative size is larger than all bytes.
    if len(numbers) and int(np.maximum.reduce(numbers.view(np.uint64))) > len(data):
        raise NotScannable("a field is longer than all messages")
    return after, numbers, after + numbers


def read_varints(data: Bytes, places: Ints) -> tuple[Ints, Ints]:
    """The numbers that begin at these places, as int64, and the places behind them."""
    return _read_from_bit(data, places, 0)


def _read_from_bit(data: Bytes, places: Ints, shift: int) -> tuple[Ints, Ints]:
    """The numbers' bits from this one on, whose bytes begin at these places, and the places behind them."""
    if shift == 7 * _VARINT_BYTES_MAX:
        raise NotScannable("a number has more than 10 bytes")
    byte = data.take(places)
    places = places + 1
    going_on = byte >= 0x80
    count = np.count_nonzero(going_on)
    if not count:
        return byte.astype(np.int64) << shift, places
    # The tenth byte has one bit of the 64; what is above them is dropped, as decoders do.
    numbers = (byte & 0x7F).astype(np.int64) << shift
    if count == len(byte):
        more, places = _read_from_bit(data, places, shift + 7)
        numbers |= more
    else:
        rows = np.flatnonzero(going_on)
        more, places[rows] = _read_from_bit(data, places[rows], shift + 7)
        numbers[rows] |= more
    return numbers, places


def _read_tags(data: Bytes, tags: Ints, places: Ints, stops: Ints, rows: Ints) -> None:
    """The next tags of these messages; messages that have ended have none."""
    at = places[rows]
    unfinished = at < stops[rows]
    if not unfinished.all():
        tags[rows[~unfinished]] = _NO_TAG
        rows, at = rows[unfinished], at[unfinished]
    tags[rows], places[rows] = read_varints(data, at)


def scannable(data: bytes) -> Bytes:
    """Bytes, which `PADDING_BYTES` follow already, as an array."""
    return np.frombuffer(data, np.uint8)
