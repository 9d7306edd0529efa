"""The send side of flow control: keeps messages until the windows of HTTP/2 allow to send them.

Window    how many bytes of DATA the peer accepts: one for each stream, one for the connection. It makes them larger by
          WINDOW_UPDATE, and may change the windows of all streams by SETTINGS, also to below zero.
Order     bytes of one stream are sent in the order in which they were written, then its tail; streams take turns, a
          frame each.
Cost      a stream without a window is in no queue, so that waiting costs nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from librt.strings import BytesWriter

from ternmq_common.binary.numbers import COPIED_BYTES_MAX, write_u32_be
from ternmq_rpc.grpc_http2.frames import (
    DATA,
    DEFAULT_FRAME_MAX,
    DEFAULT_WINDOW,
    WINDOW_MAX,
    ErrorCode,
    Http2Error,
    encode_header,
    write_header,
)
from ternmq_rpc.grpc_http2.messages import PREFIX, PREFIX_BYTES
from ternmq_rpc.serving.budgets import BudgetLedger


class OutStream:
    """The sending half of a stream: its window, and the bytes that wait; `tail` creates the last frame."""

    __slots__ = ("_pieces", "in_line", "number", "out_bytes", "out_window", "tail")

    def __init__(self, number: int, out_window: int) -> None:
        self.number = number
        self.out_window = out_window
        self.out_bytes = 0
        self.in_line = False
        self.tail: Callable[[], bytes] | None = None
        self._pieces: deque[memoryview] | None = None

    @property
    def has_waiting(self) -> bool:
        return self.out_bytes > 0 or self.tail is not None

    def add_message(self, message: bytes) -> int:
        """Have the message wait; return how many bytes it takes."""
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = deque()
        pieces.append(memoryview(PREFIX.pack(0, len(message))))
        if message:
            pieces.append(memoryview(message))
        self.out_bytes += PREFIX_BYTES + len(message)
        return PREFIX_BYTES + len(message)

    def take_frame(self, size: int, buffers: list[bytes | memoryview]) -> None:
        """Move `size` bytes from the waiting ones into one frame."""
        assert self._pieces is not None
        self.out_window -= size
        self.out_bytes -= size
        buffers.append(encode_header(DATA, size, 0, self.number))
        while size:
            piece = self._pieces.popleft()
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            buffers.append(piece)
            size -= len(piece)

    def drop_waiting(self) -> int:
        """Drop the waiting bytes; return how many they were."""
        dropped, self.out_bytes = self.out_bytes, 0
        self._pieces = None
        self.tail = None
        return dropped


class SendQueue:
    """All streams of a connection. `bytes` are waiting; `sent` only grows, so it shows whether the peer reads anything.

    Invariants: what was sent of a stream, or of all, never exceeds the windows; nothing of a stream overtakes what
    waits of it; a stream is in the wait queue if and only if it has bytes and a window for them.
    """

    __slots__ = ("_ledger", "_line", "_tails", "bytes", "first_window", "frame_max", "sent", "window")

    def __init__(self, ledger: BudgetLedger) -> None:
        self.window = DEFAULT_WINDOW
        self.first_window = DEFAULT_WINDOW
        self.frame_max = DEFAULT_FRAME_MAX
        self.bytes = 0
        self.sent = 0
        self._ledger = ledger
        # None while nothing waits: an empty deque takes 600 bytes of each idle connection.
        self._line: deque[OutStream] | None = None
        self._tails: list[OutStream] = []

    @property
    def can_send(self) -> bool:
        """Whether `take_frames` would return something."""
        return bool(self._tails or (self._line and self.window > 0))

    def close_stream(self, out: OutStream) -> None:
        """Drop what the stream has to send."""
        if out.out_bytes or out.tail is not None:
            self._count_waiting(-out.drop_waiting())

    def try_send(self, out: OutStream, messages: Sequence[bytes], flags: int = 0) -> bytes | None:
        """Return the messages as one frame with these flags that may be sent now; None: they have to wait."""
        count = len(messages)
        size = PREFIX_BYTES * count + (len(messages[0]) if count == 1 else sum(map(len, messages)))
        if size > out.out_window or size > self.window or size > self.frame_max or self._line or out.out_bytes:
            return None
        out.out_window -= size
        self.window -= size
        writer = BytesWriter()
        write_header(writer, DATA, size, flags, out.number)
        if size <= COPIED_BYTES_MAX:
            for message in messages:
                writer.append(0)
                write_u32_be(writer, len(message))
                writer.write(message)
            return writer.getvalue()
        pieces = [writer.getvalue()]
        for message in messages:
            pieces += (PREFIX.pack(0, len(message)), message)
        return b"".join(pieces)

    def add_messages(self, out: OutStream, messages: Sequence[bytes]) -> None:
        """Queue the messages of a stream."""
        self._count_waiting(sum(map(out.add_message, messages)))
        self._enqueue_stream(out)

    def end_stream(self, out: OutStream, tail: Callable[[], bytes]) -> None:
        """End the stream after what waits; `tail` creates the last frame."""
        out.tail = tail
        if not out.out_bytes:
            self._tails.append(out)

    def take_frames(self, bytes_max: int) -> list[bytes | memoryview]:
        """Return buffers of whole frames that may be sent now, about `bytes_max` in all; empty if nothing may."""
        buffers: list[bytes | memoryview] = []
        tails, self._tails = self._tails, []
        for out in tails:
            self._send_tail(out, buffers)
        left = bytes_max
        line = self._line
        while line and self.window > 0 and left > 0:
            out = line.popleft()
            out.in_line = False
            size = min(self.frame_max, self.window, out.out_window, out.out_bytes)
            if size <= 0:
                continue  # it was closed, or its window shrank
            out.take_frame(size, buffers)
            self.window -= size
            left -= size
            self.sent += size
            self._count_waiting(-size)
            if out.out_bytes:
                self._enqueue_stream(out)
            else:
                self._send_tail(out, buffers)
        if not line:
            self._line = None
        return buffers

    def _send_tail(self, out: OutStream, buffers: list[bytes | memoryview]) -> None:
        if out.tail is not None:
            buffers.append(out.tail())
            out.tail = None

    def _enqueue_stream(self, out: OutStream) -> None:
        if out.out_bytes and out.out_window > 0 and not out.in_line:
            out.in_line = True
            if self._line is None:
                self._line = deque()
            self._line.append(out)

    def _count_waiting(self, size: int) -> None:
        self.bytes += size
        self._ledger.unread_bytes += size

    # --- what the peer allows

    def grow_window(self, increment: int) -> None:
        """Make the connection's window larger."""
        self.window += increment
        if self.window > WINDOW_MAX:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is larger than there can be")

    def grow_stream_window(self, out: OutStream, increment: int) -> bool:
        """Make a stream's window larger; False: it would exceed the largest possible."""
        out.out_window += increment
        self._enqueue_stream(out)
        return out.out_window <= WINDOW_MAX

    def set_first_window(self, size: int, streams: Iterable[OutStream]) -> None:
        """Change the initial window, and the windows of all open streams by the same difference."""
        change = size - self.first_window
        self.first_window = size
        for out in streams:
            if not self.grow_stream_window(out, change):
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window is larger than there can be")
