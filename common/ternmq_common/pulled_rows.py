"""Pulled messages by column: all messages of a pull's answer in one piece, from which a reader takes columns without a
step for each message (`pulling.md, Rows`).

Rows   count u32 | queue offsets i64 | store times i64, ms | sizes of `rest` u32 | sizes of `system` u32 |
       all `rest` | all `system`; little-endian. `rest` and `system` are the parts of a stored message (`wire.py`)
Place  field 1000 of a PullMessageResponse that has nothing else, so that a decoder which doesn't know it passes it over
"""

import struct
from collections.abc import Iterator, Sequence

from ternmq_common.wire import DeliveredFrames, encode_field

# PullMessageResponse has no field of this number.
ROWS_TAG = b"\xc2\x3e"
_COUNT = struct.Struct("<I")
_BYTES_BEFORE_CONTENTS = 24  # of each message


class MalformedRows(ValueError):
    """These bytes are no rows."""


def encode_rows(
    offsets: Sequence[int], stored_ms: Sequence[int], rests: Sequence[bytes], systems: Sequence[bytes]
) -> bytes:
    """Encode messages as a serialized PullMessageResponse."""
    count = len(offsets)
    numbers = struct.pack(
        f"<I{2 * count}q{2 * count}I", count, *offsets, *stored_ms, *map(len, rests), *map(len, systems)
    )
    return encode_field(ROWS_TAG, b"".join((numbers, *rests, *systems)))


class PulledRows:
    """The rows of one answer: `count` messages, in `data`, which is what the docstring of the module describes."""

    __slots__ = ("count", "data")

    def __init__(self, data: memoryview) -> None:
        """MalformedRows: these bytes are no rows."""
        if len(data) < _COUNT.size:
            raise MalformedRows("rows without a count")
        self.count: int = _COUNT.unpack_from(data)[0]
        self.data = data
        if self.contents_at > len(data) or self.contents_at + sum(self._sizes()) != len(data):
            raise MalformedRows(f"{self.count} rows that are not {len(data)} bytes")

    @classmethod
    def of_response(cls, response: bytes) -> "PulledRows":
        """The rows of a serialized PullMessageResponse, which begins with `ROWS_TAG`; MalformedRows."""
        size, at = 0, len(ROWS_TAG)
        for shift in range(0, 35, 7):
            if at == len(response):
                break
            size |= (response[at] & 0x7F) << shift
            at += 1
            if response[at - 1] < 0x80:
                break
        if size != len(response) - at:
            raise MalformedRows("rows that are not as long as they say")
        return cls(memoryview(response)[at:])

    @property
    def numbers_at(self) -> int:
        """Where the columns of numbers begin."""
        return _COUNT.size

    @property
    def contents_at(self) -> int:
        """Where the contents of the messages begin."""
        return _COUNT.size + _BYTES_BEFORE_CONTENTS * self.count

    def _sizes(self) -> tuple[int, ...]:
        """The sizes of all `rest`s, then of all `system`s."""
        sizes: tuple[int, ...] = struct.unpack_from(f"<{2 * self.count}I", self.data, self.numbers_at + 16 * self.count)
        return sizes

    def as_responses(self, topic: bytes, queue_id: int) -> Iterator[bytes]:
        """The same messages as a server sends them without rows: serialized PullMessageResponses with one message each,
        but for the host. `topic` is a serialized `Resource`."""
        count, sizes = self.count, self._sizes()
        numbers = struct.unpack_from(f"<{2 * count}q", self.data, self.numbers_at)
        frames = DeliveredFrames(topic=topic, store_host=b"")
        rest_at = self.contents_at
        system_at = rest_at + sum(sizes[:count])
        for row in range(count):
            rest_end, system_end = rest_at + sizes[row], system_at + sizes[count + row]
            yield frames.encode_message(
                rest=bytes(self.data[rest_at:rest_end]),
                system=bytes(self.data[system_at:system_end]),
                stored_ms=numbers[count + row],
                queue_id=queue_id,
                queue_offset=numbers[row],
                attempt=1,
                handle=None,
            )
            rest_at, system_at = rest_end, system_end
