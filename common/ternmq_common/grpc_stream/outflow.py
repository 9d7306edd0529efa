"""What is written and may not be sent yet: frames within the windows of HTTP/2's flow control, without a network.

Window    how many bytes of DATA the other side takes: one for each stream, one for the connection. It makes them larger
          by WINDOW_UPDATE, and may change all streams' windows by SETTINGS, also to below zero.
Order     bytes of one stream are sent in the order in which they were written, then its tail; streams take turns.
"""

import struct
from collections import deque
from collections.abc import Callable, Sequence

from ternmq_common.grpc_stream.http2_frames import (
    DATA,
    DEFAULT_FRAME_MAX,
    DEFAULT_WINDOW,
    HEADER,
    WINDOW_MAX,
    ErrorCode,
    Http2Error,
)
from ternmq_common.grpc_stream.messages import PREFIX, PREFIX_BYTES

# Frame header and message prefix in one.
_MESSAGE_HEAD = struct.Struct(">IBIBI")


class StreamOutflow:
    """One stream's part: its window, and what waits; `tail` makes the frame after which nothing follows."""

    __slots__ = ("bytes", "pieces", "stream", "tail", "window")

    def __init__(self, stream: int, window: int) -> None:
        self.stream = stream
        self.window = window
        self.pieces: deque[memoryview] = deque()
        self.bytes = 0
        self.tail: Callable[[], bytes] | None = None

    @property
    def waits(self) -> bool:
        return self.bytes > 0 or self.tail is not None


class Outflow:
    """All streams of a connection.

    Invariants: what was sent of a stream or of all streams never exceeds what the windows allowed; nothing of a stream
    overtakes what waits of it.
    """

    __slots__ = ("_stream_window", "_streams", "_waiting", "frame_max", "window")

    def __init__(self) -> None:
        self.window = DEFAULT_WINDOW
        self._stream_window = DEFAULT_WINDOW
        self.frame_max = DEFAULT_FRAME_MAX
        self._streams: dict[int, StreamOutflow] = {}
        self._waiting: dict[int, StreamOutflow] = {}

    def __len__(self) -> int:
        """How many streams wait for something."""
        return len(self._waiting)

    def open(self, stream: int) -> StreamOutflow:
        out = self._streams[stream] = StreamOutflow(stream, self._stream_window)
        return out

    def close(self, out: StreamOutflow) -> None:
        """Forget the stream, and what it has to send."""
        self._streams.pop(out.stream, None)
        self._waiting.pop(out.stream, None)
        out.pieces.clear()
        out.bytes = 0
        out.tail = None

    def at_once(self, out: StreamOutflow, messages: Sequence[bytes]) -> bytes | None:
        """The messages as one frame that may be sent now; None: they have to wait."""
        count = len(messages)
        size = PREFIX_BYTES * count + (len(messages[0]) if count == 1 else sum(map(len, messages)))
        if size > out.window or size > self.window or size > self.frame_max or self._waiting:
            return None
        out.window -= size
        self.window -= size
        if count == 1:
            return _MESSAGE_HEAD.pack(size << 8, 0, out.stream, 0, size - PREFIX_BYTES) + messages[0]
        pieces = [HEADER.pack(size << 8, 0, out.stream)]
        for message in messages:
            pieces += (PREFIX.pack(0, len(message)), message)
        return b"".join(pieces)

    def add(self, out: StreamOutflow, message: bytes) -> None:
        """Have the message wait for its turn."""
        out.pieces.append(memoryview(PREFIX.pack(0, len(message))))
        if message:
            out.pieces.append(memoryview(message))
        out.bytes += PREFIX_BYTES + len(message)
        self._waiting[out.stream] = out

    def end(self, out: StreamOutflow, tail: Callable[[], bytes]) -> None:
        """Have the stream ended after what waits."""
        out.tail = tail
        self._waiting[out.stream] = out

    def take(self, bytes_max: int) -> list[bytes | memoryview]:
        """Buffers of whole frames that may be sent now, about `bytes_max` in all; empty: nothing may."""
        buffers: list[bytes | memoryview] = []
        size = 0
        for out in list(self._waiting.values()):
            while out.bytes and size < bytes_max:
                room = min(self.frame_max, self.window, out.window, out.bytes)
                if room <= 0:
                    break
                self._frame(out, room, buffers)
                size += room
            if not out.bytes and size < bytes_max:
                del self._waiting[out.stream]
                if out.tail is not None:
                    buffers.append(out.tail())
                    out.tail = None
            elif size >= bytes_max:
                self._waiting[out.stream] = self._waiting.pop(out.stream)
                break
        return buffers

    def _frame(self, out: StreamOutflow, room: int, buffers: list[bytes | memoryview]) -> None:
        """Move that many bytes from what waits into one frame."""
        out.window -= room
        self.window -= room
        out.bytes -= room
        buffers.append(HEADER.pack(room << 8 | DATA, 0, out.stream))
        while room:
            piece = out.pieces.popleft()
            if len(piece) > room:
                out.pieces.appendleft(piece[room:])
                piece = piece[:room]
            buffers.append(piece)
            room -= len(piece)

    # --- what the other side allows

    def grow(self, increment: int) -> None:
        """The connection's window is larger."""
        self.window += increment
        if self.window > WINDOW_MAX:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is larger than there can be")

    def grow_stream(self, stream: int, increment: int) -> bool:
        """A stream's window is larger; False: larger than there can be. Streams that are no more are let pass."""
        out = self._streams.get(stream)
        if out is None:
            return True
        out.window += increment
        return out.window <= WINDOW_MAX

    def set_stream_window(self, size: int) -> None:
        """All streams' windows change by as much as the size that they begin with."""
        change = size - self._stream_window
        self._stream_window = size
        for out in self._streams.values():
            out.window += change
            if out.window > WINDOW_MAX:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window is larger than there can be")
