"""Counts the fields in the bytes of a request before they are parsed, since two bytes can become an object of a
hundred.

A field counts each time that it occurs, a message among the fields once and with all its fields, and packed numbers
once for each two of their bytes. So there are at most half as many fields as bytes, and only requests that might have
too many are examined: level by level, for as long as the rest could matter. Bytes that are no message end where they
are broken, which the parser reports.
"""

from collections import deque
from enum import Enum, auto
from functools import cache
from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor import FieldDescriptor

from ternmq_common.event_loop.fairness import wait_for_turn

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

# Half a millisecond of counting.
_TURN_FIELDS: Final = 500
_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_GROUP: Final = 3
_GROUP_END: Final = 4
_FIXED32: Final = 5
# The begin and end of a group, which our messages don't have, are a field each. No other wire type can be parsed.
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4, _GROUP: 0, _GROUP_END: 0}
_VARINT_BYTES_MAX: Final = 10
_TEXTS: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


class _PackedNumbers(Enum):
    """Marks a field of packed numbers."""

    NUMBERS = auto()


async def has_more_fields(data: bytes, kind: "Descriptor", fields_max: int) -> bool:
    """Return whether a message of that kind has more than `fields_max` fields; other tasks get turns meanwhile."""
    counting = _FieldCounter(data, kind)
    while counting.count <= fields_max < counting.count_at_most:
        await wait_for_turn()
        counting.count_fields(min(counting.count + _TURN_FIELDS, fields_max + 1))
    return counting.count > fields_max


class _FieldCounter:
    """Counts fields. `count` were seen; `unseen` are the stretches to examine, each `(begin, end, kind)`."""

    def __init__(self, data: bytes, kind: "Descriptor") -> None:
        self._data = data
        self._unseen = deque([(0, len(data), kind)])
        self._unseen_bytes = len(data)
        self.count = 0

    @property
    def count_at_most(self) -> int:
        return self.count + self._unseen_bytes // 2

    def count_fields(self, enough: int) -> None:
        """Count until `count` is about `enough`, or everything is examined."""
        while self._unseen and self.count < enough:
            begin, end, kind = self._unseen.popleft()
            try:
                at = self._look_into(begin, end, _inner_fields(kind), enough)
            except IndexError:  # it is broken at the very end
                at = end
            if at < end:
                self._unseen.appendleft((at, end, kind))
            self._unseen_bytes -= min(at, end) - begin

    def _look_into(self, at: int, stop: int, inner_of: "dict[int, Descriptor | _PackedNumbers]", enough: int) -> int:
        """Return where the next field begins, `stop` after the last. It makes no calls for small fields, of which there
        are many."""
        data, count = self._data, self.count
        while at < stop and count < enough:
            tag = data[at]
            at += 1
            if tag >= 0x80:
                tag, at = _read_varint(data, at - 1)
            count += 1
            wire_type = tag & 7
            if wire_type == _LENGTH:
                size = data[at]
                at += 1
                if size >= 0x80:
                    size, at = _read_varint(data, at - 1)
                inner = inner_of.get(tag) if size else None
                if at + size > stop:
                    at = stop
                elif inner is _PackedNumbers.NUMBERS:
                    count += size // 2
                elif inner is not None:
                    self._unseen.append((at, at + size, inner))
                    self._unseen_bytes += size
                at += size
            elif wire_type == _VARINT:
                while data[at] >= 0x80:
                    at += 1
                at += 1
            else:
                at += _SIZES.get(wire_type, stop)
        self.count = count
        return min(at, stop)


@cache
def _inner_fields(kind: "Descriptor") -> "dict[int, Descriptor | _PackedNumbers]":
    """Return the fields that have content, by their tags."""
    found: dict[int, Descriptor | _PackedNumbers] = {}
    for field in kind.fields:
        if field.message_type is not None:
            found[field.number << 3 | _LENGTH] = field.message_type
        elif field.is_repeated and field.type not in _TEXTS:
            found[field.number << 3 | _LENGTH] = _PackedNumbers.NUMBERS
    return found


def field_end(data: bytes, at: int) -> int | None:
    """Return where the field that begins there ends; None if it does not end, or is a group."""
    try:
        tag, at = _read_varint(data, at)
        wire_type = tag & 7
        if wire_type == _LENGTH:
            size, at = _read_varint(data, at)
            at += size
        elif wire_type == _VARINT:
            _, at = _read_varint(data, at)
        else:
            at += {_FIXED64: 8, _FIXED32: 4}.get(wire_type, len(data) + 1)
    except IndexError:
        return None
    return at if at <= len(data) else None


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at this position, and where it ends. Raises IndexError if it does not end."""
    value = 0
    for place, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise IndexError
