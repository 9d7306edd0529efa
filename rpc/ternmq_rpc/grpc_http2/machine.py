"""The HTTP/2 state machine that both ends of a connection share: frames, flow control, header blocks, streams, budgets.

Bytes in     `receive_bytes` takes received bytes and returns events. One call does a limited amount of work
             (`BudgetLedger.turn_budget`), so that other connections do not wait long; while the machine is
             `has_backlog`, call it again without new bytes.
Bytes out    `take_output` returns what may be sent. The shell sets `blocked` while the network takes nothing: messages
             then wait here, where they are counted.
Time         is passed in with the calls, in seconds of any clock that only grows.
Errors       the peer's mistakes never raise: they are answered by RST_STREAM or GOAWAY, and `failure` says why.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, Optional, TypeVar

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.frames import ErrorCode, Http2Error, SettingId
from ternmq_rpc.grpc_http2.headers.header_blocks import HeaderBlocks
from ternmq_rpc.grpc_http2.headers.header_rules import MalformedHeaders
from ternmq_rpc.grpc_http2.headers.literal_headers import NO_TABLE
from ternmq_rpc.grpc_http2.inflow import ReceiveWindow
from ternmq_rpc.grpc_http2.messages import GrpcStatus, MessageRefused
from ternmq_rpc.grpc_http2.outflow import SendQueue
from ternmq_rpc.grpc_http2.wire_stream import STREAM_WINDOW, WireStream
from ternmq_rpc.serving.budgets import CALL_COST, BudgetLedger, ConnectionBudgets, RateAllowance

FRAME_MAX: Final = 256 << 10
HEADER_BYTES_MAX: Final = 16 << 10
# A field can be as short as a byte, so large blocks cost more.
_BYTES_PER_COST: Final = 16
_OF_BLOCKS: Final = frozenset((h2.HEADERS, h2.CONTINUATION))
# Answers to the peer's frames that wait because it does not read.
_UNSENT_ANSWERS_MAX: Final = 1000
# A DATA frame that was sent may be answered by a WINDOW_UPDATE or two, and a PING that measures the round trip.
_EARNED_BY_DATA: Final = 3
_SETTINGS_PER_STREAMS: Final = 64

S = TypeVar("S", bound=WireStream)
Events = list[tuple[EventKind, Optional[S], str]]  # noqa: UP045 - a generic alias is made of it


class ConnectionFailure(Exception):
    """Why a connection was ended: the code that the peer was sent, and `limit`, the budget that was exceeded, empty if
    a rule of HTTP/2 was broken."""

    def __init__(self, code: ErrorCode, text: str, limit: str) -> None:
        self.code = code
        self.limit = limit
        super().__init__(text)


class OverBudget(Http2Error):
    """The peer exceeded a budget, and the connection ends for it."""

    def __init__(self, limit: str, text: str) -> None:
        self.limit = limit
        super().__init__(ErrorCode.ENHANCE_YOUR_CALM, text)


def greeting_frames(settings: Mapping[SettingId, int], window: int) -> bytes:
    """Return the first frames of an end: its own settings, the shared ones, and the window of the whole connection."""
    shared = {
        SettingId.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        SettingId.MAX_FRAME_SIZE: FRAME_MAX,
        SettingId.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
    }
    return h2.settings_frame({**settings, **shared}) + h2.window_frame(0, window - h2.DEFAULT_WINDOW)


class Http2Machine(ABC, Generic[S]):
    """One end of a connection. `last_read`: when bytes were read last; `last_arrival`: when they arrived, as far as is
    known.

    `limit_counts` counts how often a budget ended a call here, by the budget's name; its reader empties it.
    """

    __slots__ = (
        "_behind_s",
        "_behind_until",
        "_blocks",
        "_control",
        "_events",
        "_frames",
        "_frames_left",
        "_inflow",
        "_last_stream",
        "_outflow",
        "_ready",
        "_table_update",
        "_unsent_answers",
        "blocked",
        "budgets",
        "failure",
        "greeted",
        "has_backlog",
        "held_bytes",
        "last_arrival",
        "last_read",
        "ledger",
        "limit_counts",
        "now",
        "partial_bytes",
        "streams",
    )

    def __init__(self, budgets: ConnectionBudgets, ledger: BudgetLedger, now: float) -> None:
        self.budgets = budgets
        self.ledger = ledger
        self.now = self.last_read = self.last_arrival = now
        self.streams: dict[int, S] = {}
        self.limit_counts: dict[str, int] | None = None
        self.failure: ConnectionFailure | None = None
        self.greeted = False
        self.blocked = False
        self.has_backlog = False
        self.held_bytes = 0
        self.partial_bytes = 0
        self._frames = h2.FrameReader(FRAME_MAX)
        self._frames_left: Iterable[tuple[int, int, int, int, int]] = ()
        self._events: Events[S] = []
        self._outflow = SendQueue(ledger)
        self._ready: list[bytes | memoryview] = []
        self._table_update = b""
        self._last_stream = 0
        self._inflow = ReceiveWindow(budgets.connection_in_bytes_max)
        self._blocks = HeaderBlocks(HEADER_BYTES_MAX)
        self._control = RateAllowance(budgets.control_frames_per_s, 2.0 * budgets.control_frames_per_s, now)
        self._unsent_answers = 0
        self._behind_s = 0.0
        self._behind_until = now

    # --- what the two ends do differently

    @abstractmethod
    def _handle_headers(self, number: int, block: bytes, *, end_stream: bool) -> None:
        """Handle a whole header block."""

    @abstractmethod
    def _stream_ended(self, stream: S) -> None:
        """Handle END_STREAM after DATA, when all messages were whole."""

    @abstractmethod
    def abort_stream(self, stream: S, status: GrpcStatus, text: str) -> None:
        """End the stream now, and drop what waits."""

    def _check_stray(self, number: int, *, end_stream: bool) -> None:
        """Check contents of a stream that has ended; Http2Error if they can't have been in flight when it ended."""

    def _limit_streams(self, streams_max: int) -> None:
        """Note how many streams the peer allows to be open."""

    def _add_lingering(self, number: int) -> None:
        """Remember a stream that has ended here, since the peer may not know yet."""

    def _forget_lingering(self, number: int) -> None:
        """Note that nothing more can arrive for the stream."""

    def _count_reset(self) -> None:
        """Count a stream that the peer reset, or that it made this side reset; Http2Error if there are too many."""

    # --- bytes in

    def receive_bytes(self, data: bytes, now: float) -> Events[S]:
        """Process received bytes, or go on with those that wait; return the events of this turn."""
        self.now = now
        events: Events[S] = []
        if self.failure is not None:
            return events
        self._events = events
        if data:
            assert not self.has_backlog, "bytes wait for their turn"
            self.last_read = now
            self.last_arrival = now - self._backlog_wait_s()
            self._frames_left = self._frames.read_frames(data)
        left = self.ledger.turn_budget(now)
        try:
            for kind, flags, number, start, stop in self._frames_left:
                if kind == h2.DATA and not self._blocks.stream:
                    self._handle_data(flags, number, start, stop)
                    left -= 1
                else:
                    self._handle_frame(kind, flags, number, self._frames.data[start:stop])
                    left -= 1
                    if kind in _OF_BLOCKS:
                        left -= CALL_COST + (stop - start) // _BYTES_PER_COST
                if left <= 0:
                    if not self.has_backlog:
                        self.has_backlog = True
                        self.ledger.behind[self] = self.last_arrival
                    self._events = []
                    return events
        except Http2Error as error:
            self.fail_connection(error.code, str(error), error.limit if isinstance(error, OverBudget) else "")
        self._end_backlog()
        self._events = []  # else an idle connection would keep its last call
        self._frames_left = ()
        self._frames.data = b""
        return events

    @property
    def unfinished_input(self) -> tuple[int, int] | None:
        """The frame and the header block that have begun and are not whole; None if there is neither."""
        frame, block = self._frames.begun_frame, self._blocks.stream
        return (frame, block) if frame or block else None

    # --- bytes out

    @property
    def has_output(self) -> bool:
        """Whether `take_output` would return something."""
        return bool(self._ready) or self._outflow.can_send

    @property
    def unread_bytes(self) -> int:
        """How many bytes of messages wait because the peer does not read them."""
        return self._outflow.bytes

    @property
    def sent_bytes(self) -> int:
        """How many bytes of waiting messages were sent in all; it only grows."""
        return self._outflow.sent

    def take_output(self, bytes_max: int) -> list[bytes | memoryview]:
        """Take the buffers to send, with about `bytes_max` of the waiting messages; empty if there are none."""
        buffers, self._ready = self._ready, []
        self._unsent_answers = 0
        sendable = self._outflow.take_frames(bytes_max)
        if not sendable:
            return buffers
        self._control.add_allowance(_EARNED_BY_DATA * len(sendable))
        return buffers + sendable

    def send_messages(self, stream: S, messages: Sequence[bytes]) -> None:
        """Send messages as soon as flow control allows."""
        frame = None if self.blocked else self._outflow.try_send(stream, messages)
        if frame is None:
            self._outflow.add_messages(stream, messages)
        else:
            self._control.add_allowance(_EARNED_BY_DATA)
            self._ready.append(frame)

    def count_read(self, stream: S, size: int) -> None:
        """Note that `size` bytes of the stream's messages were read; 0: none, and there is none to read."""
        if stream.early_bytes and size:
            size -= stream.early_bytes
            stream.early_bytes = 0
        if stream.is_conversation and size > 0:
            self._release_bytes(stream, size)
        incoming = stream.incoming
        if not incoming.messages and incoming.partial > stream.early_bytes and self._may_come_early(stream):
            size += incoming.partial - stream.early_bytes
            stream.early_bytes = incoming.partial
        stream.owed_bytes += size
        if stream.owed_bytes > STREAM_WINDOW // 2 and not stream.is_forgotten and self.failure is None:
            owed, stream.owed_bytes = stream.owed_bytes, 0
            stream.window += owed
            update = b"" if stream.is_ended_there else h2.window_frame(stream.number, owed)
            self._queue_output(update + self._inflow.give_back(owed))

    def _may_come_early(self, stream: S) -> bool:
        """Whether more of an unfinished message may arrive than the window allows."""
        del stream
        return True

    # --- the end

    def fail_connection(self, code: ErrorCode, text: str, limit: str = "") -> None:
        """End the connection by GOAWAY with the reason."""
        if self.failure is None:
            self.failure = ConnectionFailure(code, text, limit)
            self._ready.append(h2.goaway_frame(self._last_stream, code, text[:200]))

    def close_streams(self) -> list[S]:
        """Forget a connection that was closed; return the streams that were open."""
        streams = list(self.streams.values())
        for stream in streams:
            self.forget_stream(stream)
        self._ready.clear()
        self._frames_left = ()
        self._end_backlog()
        return streams

    def _end_backlog(self) -> None:
        """Note that no received bytes wait."""
        if self.has_backlog:
            self.has_backlog = False
            del self.ledger.behind[self]
            self._behind_until = self.now
            self._behind_s = self.now - self.last_read

    def _backlog_wait_s(self) -> float:
        """Return how long the bytes that are read now waited in the kernel. While this end was behind it read nothing,
        and a steady input arrived in the middle of that time on average."""
        if not self._behind_s:
            return 0.0
        waited_s = self._behind_s - (self.now - self._behind_until)
        self._behind_s = 0.0
        return max(0.0, waited_s / 2)

    def forget_stream(self, stream: S) -> None:
        """Forget a stream: messages that were sent to it and not read do not count any longer."""
        if stream.is_forgotten:
            return
        stream.is_forgotten = True
        del self.streams[stream.number]
        self._outflow.close_stream(stream)
        if stream.incoming.partial:
            self.partial_bytes -= stream.incoming.partial
        if stream.held_bytes:
            self._release_bytes(stream, stream.held_bytes)
        if self.failure is None and (update := self._inflow.give_back(STREAM_WINDOW - stream.window)):
            self._ready.append(update)

    # --- frames

    def _handle_data(self, flags: int, number: int, start: int, stop: int) -> None:
        size = stop - start
        self._inflow.count_received(size)
        stream = self.streams.get(number)
        if stream is None or stream.is_ended_there:
            if flags & h2.PADDED:
                h2.without_padding(self._frames.data, start, stop)  # may be an error of the connection
            self._handle_stray_data(stream, number, size, end_stream=bool(flags & h2.END_STREAM))
            return
        stream.window -= size
        if stream.window < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the stream's window allows")
        if flags & h2.PADDED:
            start, stop = h2.without_padding(self._frames.data, start, stop)
            stream.owed_bytes += size - (stop - start)  # no call reads it
            size = stop - start
        if not size and not flags & h2.END_STREAM:
            self._spend_control(1, "empty DATA")
            self.count_read(stream, 0)
        elif stream.expected_bytes is None or self._check_length(stream, size, flags):
            self._handle_content(stream, flags, start, stop)

    def _handle_content(self, stream: S, flags: int, start: int, stop: int) -> None:
        """Add contents to the stream's messages."""
        size = stop - start
        incoming = stream.incoming
        before = incoming.partial
        try:
            incoming.read_messages(self._frames.data, start, stop)
        except MessageRefused as refused:
            self.partial_bytes += incoming.partial - before
            self._refuse_message(stream, refused)
            return
        stream.held_bytes += size
        self.held_bytes += size
        self.ledger.held_bytes += size
        if incoming.partial != before:
            self.partial_bytes += incoming.partial - before
        if flags & h2.END_STREAM:
            self._end_content(stream)
        elif incoming.messages:
            self._events.append((EventKind.MESSAGES, stream, ""))
        else:
            self.count_read(stream, 0)
        if self.held_bytes > self.budgets.connection_in_bytes_max - FRAME_MAX:
            self._relieve_input()

    def _end_content(self, stream: S) -> None:
        if stream.incoming.partial:
            self._end_with_status(stream, GrpcStatus.INTERNAL, "the stream ended within a message")
        else:
            self._stream_ended(stream)

    def _check_length(self, stream: S, size: int, flags: int) -> bool:
        """Return whether the contents fit `content-length`; reset the stream if not."""
        assert stream.expected_bytes is not None
        stream.expected_bytes -= size
        if stream.expected_bytes >= 0 and not (flags & h2.END_STREAM and stream.expected_bytes):
            return True
        self._reset_stream(stream, ErrorCode.PROTOCOL_ERROR, "the content is shorter or longer than content-length")
        return False

    def _refuse_message(self, stream: S, refused: MessageRefused) -> None:
        self._end_with_status(stream, refused.status, str(refused))

    def _relieve_input(self) -> None:
        """React when the connection has nearly reached its limit."""

    def _release_bytes(self, stream: S, size: int) -> None:
        """Stop counting `size` bytes that the stream held."""
        size = min(size, stream.held_bytes)
        stream.held_bytes -= size
        self.held_bytes -= size
        self.ledger.held_bytes -= size

    def _handle_stray_data(self, stream: S | None, number: int, size: int, *, end_stream: bool) -> None:
        """Handle DATA on a stream that has ended: in flight when it ended here, or a mistake of the peer."""
        if number == 0 or number > self._last_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"DATA on stream {number}, which nobody has opened")
        self._queue_output(self._inflow.give_back(size))
        if stream is not None:
            self._reset_stream(stream, ErrorCode.STREAM_CLOSED, "it went on after the end of the stream")
            return
        self._check_stray(number, end_stream=end_stream)
        if not size:
            self._spend_control(1, "empty DATA")

    def _handle_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._blocks.stream and (kind != h2.CONTINUATION or number != self._blocks.stream):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block was not continued")
        if not self.greeted and (kind != h2.SETTINGS or flags & h2.ACK):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if kind == h2.HEADERS:
            self._handle_header_frame(flags, number, payload)
            return
        self._spend_control(1, "control frames")
        if kind in (h2.SETTINGS, h2.PING, h2.GOAWAY):
            if number:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream {number}")
            self._handle_connection_frame(kind, flags, payload)
        elif kind == h2.WINDOW_UPDATE:
            self._handle_window_update(number, h2.read_u32(payload, "WINDOW_UPDATE") & h2.WINDOW_MAX)
        elif kind <= h2.CONTINUATION:
            if not number:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream 0")
            self._handle_stream_frame(kind, flags, number, payload)

    def _handle_header_frame(self, flags: int, number: int, payload: bytes) -> None:
        if not number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers on stream 0")
        if flags & h2.PRIORITIZED:
            self._check_dependency(number, payload[1:5] if flags & h2.PADDED else payload[:4])
        block = self._blocks.begin_block(number, flags, payload)
        if block is not None:
            self._handle_headers(number, block, end_stream=self._blocks.end_stream)

    def _check_dependency(self, number: int, field: bytes) -> None:
        if int.from_bytes(field) & h2.WINDOW_MAX == number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {number} depends on itself")

    def _handle_connection_frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == h2.SETTINGS:
            self._handle_settings(flags, payload)
        elif kind == h2.PING:
            if len(payload) != 8:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes")
            if not flags & h2.ACK:
                self._queue_answer(h2.encode_frame(h2.PING, h2.ACK, 0, payload))
        else:
            self._handle_goaway(*h2.read_goaway(payload))

    def _handle_goaway(self, last_stream: int, code: int, text: str) -> None:
        """Note that the peer accepts no streams after `last_stream`."""

    def _handle_settings(self, flags: int, payload: bytes) -> None:
        if flags & h2.ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS that is not empty")
            return
        # Each may change the windows of all streams.
        self._spend_control(1 + len(self.streams) // _SETTINGS_PER_STREAMS, "SETTINGS")
        for number, value in dict(h2.read_settings(payload)).items():
            if number == SettingId.INITIAL_WINDOW_SIZE:
                self._outflow.set_first_window(value, self.streams.values())
            elif number == SettingId.MAX_FRAME_SIZE:
                self._outflow.frame_max = min(value, FRAME_MAX)
            elif number == SettingId.HEADER_TABLE_SIZE:
                self._table_update = NO_TABLE
            elif number == SettingId.MAX_CONCURRENT_STREAMS:
                self._limit_streams(value)
        self._queue_answer(h2.encode_frame(h2.SETTINGS, h2.ACK, 0))
        if not self.greeted:
            self.greeted = True
            self._events.append((EventKind.GREETED, None, ""))

    def _handle_window_update(self, number: int, increment: int) -> None:
        if number > self._last_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"WINDOW_UPDATE on stream {number}, which nobody has opened")
        if not number:
            if not increment:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            self._outflow.grow_window(increment)
        elif (stream := self.streams.get(number)) is not None:
            if not increment:
                self._reset_stream(stream, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            elif not self._outflow.grow_stream_window(stream, increment):
                self._reset_stream(stream, ErrorCode.FLOW_CONTROL_ERROR, "too large a window")

    def _handle_stream_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == h2.RST_STREAM:
            code = h2.read_u32(payload, "RST_STREAM")
            if number > self._last_stream:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"RST_STREAM on stream {number}, which nobody has opened")
            if (stream := self.streams.get(number)) is not None:
                stream.is_refused = code == ErrorCode.REFUSED_STREAM
                self.forget_stream(stream)
                self._events.append((EventKind.BROKEN, stream, f"it broke the stream off: {h2.error_name(code)}"))
                self._count_reset()
            self._forget_lingering(number)
        elif kind == h2.PRIORITY:
            if len(payload) != 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes")
            self._check_dependency(number, payload[:4])
        elif kind == h2.CONTINUATION:
            block = self._blocks.continue_block(flags, payload)
            if block is not None:
                self._handle_headers(number, block, end_stream=self._blocks.end_stream)
        else:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream {number}")

    # --- inside

    def _refuse_headers(self, number: int, stream: S | None, error: MalformedHeaders) -> None:
        """End the stream for its headers; the connection goes on."""
        if stream is not None:
            self._reset_stream(stream, ErrorCode.PROTOCOL_ERROR, f"its headers are malformed: {error}")
        else:
            self._queue_answer(h2.reset_frame(number, ErrorCode.PROTOCOL_ERROR))
            self._add_lingering(number)
            self._count_reset()

    def _reset_stream(self, stream: S, code: ErrorCode, why: str) -> None:
        """Reset a stream whose rules the peer broke."""
        self._queue_answer(h2.reset_frame(stream.number, code))
        self.forget_stream(stream)
        self._events.append((EventKind.BROKEN, stream, why))
        self._count_reset()

    def _end_with_status(self, stream: S, status: GrpcStatus, text: str) -> None:
        """End a stream with a status, for what the peer sent on it."""
        self.abort_stream(stream, status, text)
        stream.status = int(status)
        self._events.append((EventKind.BROKEN, stream, text))

    def _queue_output(self, data: bytes) -> None:
        if data:
            self._ready.append(data)

    def _queue_answer(self, data: bytes) -> None:
        """Send the answer to a frame of the peer. A peer that does not read may not ask for many."""
        self._ready.append(data)
        if self.blocked:
            self._unsent_answers += 1
            if self._unsent_answers > _UNSENT_ANSWERS_MAX:
                raise OverBudget("control_frames", "the peer does not read the answers of its frames")

    def _spend_control(self, cost: int, what: str) -> None:
        if not self._control.try_spend(cost, self.now):
            raise OverBudget(
                "control_frames", f"too many {what}: {self.budgets.control_frames_per_s} a second may come"
            )

    def _count_limit(self, limit: str) -> None:
        """Count that a budget ended a call."""
        if self.limit_counts is None:
            self.limit_counts = {}
        self.limit_counts[limit] = self.limit_counts.get(limit, 0) + 1
