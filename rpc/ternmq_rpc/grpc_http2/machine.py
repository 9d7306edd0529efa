"""What both ends of a connection share: frames, flow control, header blocks, the streams that are open, and budgets.

Bytes in     `receive` takes what came and gives events. It does so much at a time (`BudgetLedger.slice`) that nobody
             else has to wait long; while it is `behind`, it is to be called again without new bytes.
Bytes out    `outgoing` gives what may be sent. Whoever moves the bytes says by `blocked` that the network takes none:
             messages wait then, where they count.
Time         comes with the calls, in seconds of any clock that only grows.
Errors       what the other side does wrong never raises: it is told by RST_STREAM or GOAWAY, and `failure` says why.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Optional, TypeVar

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.budgets import HEADERS_COST, STREAM_WINDOW, Allowance, BudgetLedger, Budgets
from ternmq_rpc.grpc_http2.events import Event
from ternmq_rpc.grpc_http2.frames import ErrorCode, Http2Error, Setting
from ternmq_rpc.grpc_http2.header_blocks import HeaderBlocks
from ternmq_rpc.grpc_http2.header_rules import MalformedHeaders
from ternmq_rpc.grpc_http2.inflow import Inflow
from ternmq_rpc.grpc_http2.literal_headers import NO_TABLE
from ternmq_rpc.grpc_http2.messages import MessageRefused, Status
from ternmq_rpc.grpc_http2.outflow import Outflow
from ternmq_rpc.grpc_http2.wire_stream import WireStream

FRAME_MAX = 256 << 10
HEADER_BYTES_MAX = 16 << 10
# Fields can be as short as a byte, so that large blocks cost more.
_BYTES_PER_COST = 16
_OF_BLOCKS = frozenset((h2.HEADERS, h2.CONTINUATION))
# Answers to frames of the other side that wait because it does not read.
_UNSENT_ANSWERS_MAX = 1000
# A DATA frame that is sent may bring a WINDOW_UPDATE or two, and a PING that measures the way.
_EARNED_BY_DATA = 3
_SETTINGS_PER_STREAMS = 64

S = TypeVar("S", bound=WireStream)
Events = list[tuple[Event, Optional[S], str]]  # noqa: UP045 - a generic alias is made of it


class ConnectionFailure(Exception):
    """Why a connection was ended: the code that the other side was told, and `limit`, the budget that was passed, empty
    where a rule of HTTP/2 was broken."""

    def __init__(self, code: ErrorCode, text: str, limit: str) -> None:
        self.code = code
        self.limit = limit
        super().__init__(text)


class OverBudget(Http2Error):
    """The other side went beyond a budget, and the connection ends for it."""

    def __init__(self, limit: str, text: str) -> None:
        self.limit = limit
        super().__init__(ErrorCode.ENHANCE_YOUR_CALM, text)


def greeting(settings: Mapping[Setting, int], window: int) -> bytes:
    """What an end says first: its own settings and those of both, and how much it takes on the whole connection."""
    shared = {
        Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        Setting.MAX_FRAME_SIZE: FRAME_MAX,
        Setting.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
    }
    return h2.settings({**settings, **shared}) + h2.window_update(0, window - h2.DEFAULT_WINDOW)


class Machine(ABC, Generic[S]):
    """One end of a connection. `heard` is when bytes were read last, and `came` when they came, as far as is known.

    `limits` counts how often a budget ended a call here, by the budget's name; whoever reads it empties it.
    """

    __slots__ = (
        "_behind_s",
        "_behind_until",
        "_blocks",
        "_coming",
        "_control",
        "_events",
        "_frames",
        "_inflow",
        "_last_stream",
        "_outflow",
        "_ready",
        "_table_update",
        "_unsent_answers",
        "behind",
        "blocked",
        "budgets",
        "came",
        "failure",
        "greeted",
        "heard",
        "held",
        "ledger",
        "limits",
        "now",
        "partial",
        "streams",
    )

    def __init__(self, budgets: Budgets, ledger: BudgetLedger, now: float) -> None:
        self.budgets = budgets
        self.ledger = ledger
        self.now = self.heard = self.came = now
        self.streams: dict[int, S] = {}
        self.limits: dict[str, int] | None = None
        self.failure: ConnectionFailure | None = None
        self.greeted = False
        self.blocked = False
        self.behind = False
        self.held = 0
        self.partial = 0
        self._frames = h2.FrameReader(FRAME_MAX)
        self._coming: Iterable[tuple[int, int, int, int, int]] = ()
        self._events: Events[S] = []
        self._outflow = Outflow(ledger)
        self._ready: list[bytes | memoryview] = []
        self._table_update = b""
        self._last_stream = 0
        self._inflow = Inflow(budgets.connection_in_bytes_max)
        self._blocks = HeaderBlocks(HEADER_BYTES_MAX)
        self._control = Allowance(budgets.control_frames_per_s, 2.0 * budgets.control_frames_per_s, now)
        self._unsent_answers = 0
        self._behind_s = 0.0
        self._behind_until = now

    # --- what the ends do differently

    @abstractmethod
    def _headers(self, number: int, block: bytes, *, end_stream: bool) -> None:
        """A whole header block came."""

    @abstractmethod
    def _stream_ended(self, stream: S) -> None:
        """END_STREAM came with DATA, and all messages were whole."""

    @abstractmethod
    def abort(self, stream: S, status: Status, text: str) -> None:
        """End the stream now, whatever waits."""

    def _stray(self, number: int, *, end_stream: bool) -> None:
        """Contents of a stream that is no more; Http2Error if they can't have been on their way when it was ended."""

    def _linger(self, number: int) -> None:
        """The stream has ended here, and the other side may not know yet."""

    def _reset_came(self, number: int) -> None:
        """Nothing more can come of the stream."""

    def _stream_reset(self) -> None:
        """The other side broke a stream off, or made this side do it; Http2Error if it does so too often."""

    # --- bytes in

    def receive(self, data: bytes, now: float) -> Events[S]:
        """Take bytes that came, or go on with those that are there; what they mean, as far as this turn goes."""
        self.now = now
        events: Events[S] = []
        if self.failure is not None:
            return events
        self._events = events
        if data:
            assert not self.behind, "bytes wait for their turn"
            self.heard = now
            self.came = now - self._waited_s()
            self._coming = self._frames.feed(data)
        left = self.ledger.slice(now)
        try:
            for kind, flags, number, start, stop in self._coming:
                if kind == h2.DATA and not self._blocks.stream:
                    self._data(flags, number, start, stop)
                    left -= 1
                else:
                    self._frame(kind, flags, number, self._frames.data[start:stop])
                    left -= 1
                    if kind in _OF_BLOCKS:
                        left -= HEADERS_COST + (stop - start) // _BYTES_PER_COST
                if left <= 0:
                    if not self.behind:
                        self.behind = True
                        self.ledger.behind[self] = self.came
                    self._events = []
                    return events
        except Http2Error as error:
            self.fail(error.code, str(error), error.limit if isinstance(error, OverBudget) else "")
        self._caught_up()
        self._events = []  # else an idle connection would keep its last call
        self._coming = ()
        self._frames.data = b""
        return events

    @property
    def half(self) -> tuple[int, int] | None:
        """Which frame and which block of headers has begun and is not whole; None if there is none."""
        frame, block = self._frames.half, self._blocks.stream
        return (frame, block) if frame or block else None

    # --- bytes out

    @property
    def has_output(self) -> bool:
        """Whether `outgoing` would give something."""
        return bool(self._ready) or self._outflow.sendable

    @property
    def unread(self) -> int:
        """Bytes of messages that wait because the other side does not take them."""
        return self._outflow.bytes

    @property
    def sent(self) -> int:
        """Only grows, while what waits is taken."""
        return self._outflow.sent

    def outgoing(self, bytes_max: int) -> list[bytes | memoryview]:
        """Buffers to be sent, with about that many bytes of what waits; empty: there are none."""
        buffers, self._ready = self._ready, []
        self._unsent_answers = 0
        sendable = self._outflow.take(bytes_max)
        if not sendable:
            return buffers
        self._control.earn(_EARNED_BY_DATA * len(sendable))
        return buffers + sendable

    def send(self, stream: S, messages: Sequence[bytes]) -> None:
        """Send messages as soon as they may be."""
        frame = None if self.blocked else self._outflow.at_once(stream, messages)
        if frame is None:
            self._outflow.add(stream, messages)
        else:
            self._control.earn(_EARNED_BY_DATA)
            self._ready.append(frame)

    def took(self, stream: S, size: int) -> None:
        """So many bytes of its messages were read, or none and there is none to read."""
        if stream.early and size:
            size -= stream.early
            stream.early = 0
        if stream.talks and size > 0:
            self._release(stream, size)
        incoming = stream.incoming
        if not incoming.messages and incoming.partial > stream.early and self._may_come_early(stream):
            size += incoming.partial - stream.early
            stream.early = incoming.partial
        stream.owed += size
        if stream.owed > STREAM_WINDOW // 2 and not stream.gone and self.failure is None:
            owed, stream.owed = stream.owed, 0
            stream.window += owed
            update = b"" if stream.ended_there else h2.window_update(stream.number, owed)
            self._write(update + self._inflow.give_back(owed))

    def _may_come_early(self, stream: S) -> bool:
        """Whether more of an unfinished message may come than the window holds."""
        del stream
        return True

    # --- the end

    def fail(self, code: ErrorCode, text: str, limit: str = "") -> None:
        """End the connection, and say why."""
        if self.failure is None:
            self.failure = ConnectionFailure(code, text, limit)
            self._ready.append(h2.goaway(self._last_stream, code, text[:200]))

    def close(self) -> list[S]:
        """The connection is no more; the streams that were open."""
        streams = list(self.streams.values())
        for stream in streams:
            self.forget(stream)
        self._ready.clear()
        self._coming = ()
        self._caught_up()
        return streams

    def _caught_up(self) -> None:
        """Nothing that came waits."""
        if self.behind:
            self.behind = False
            del self.ledger.behind[self]
            self._behind_until = self.now
            self._behind_s = self.now - self.heard

    def _waited_s(self) -> float:
        """How long what is read now waited outside, where nobody sees it: while this end was behind nothing was read,
        and what comes steadily came in the middle of that time."""
        if not self._behind_s:
            return 0.0
        waited_s = self._behind_s - (self.now - self._behind_until)
        self._behind_s = 0.0
        return max(0.0, waited_s / 2)

    def forget(self, stream: S) -> None:
        """The stream is no more: what it was sent and nobody has read does not count any longer."""
        if stream.gone:
            return
        stream.gone = True
        del self.streams[stream.number]
        self._outflow.close(stream)
        if stream.incoming.partial:
            self.partial -= stream.incoming.partial
        if stream.held:
            self._release(stream, stream.held)
        if self.failure is None and (update := self._inflow.give_back(STREAM_WINDOW - stream.window)):
            self._ready.append(update)

    # --- frames

    def _data(self, flags: int, number: int, start: int, stop: int) -> None:
        size = stop - start
        self._inflow.take(size)
        stream = self.streams.get(number)
        if stream is None or stream.ended_there:
            if flags & h2.PADDED:
                h2.without_padding(self._frames.data, start, stop)  # may be an error of the connection
            self._stray_data(stream, number, size, end_stream=bool(flags & h2.END_STREAM))
            return
        stream.window -= size
        if stream.window < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the stream's window allows")
        if flags & h2.PADDED:
            start, stop = h2.without_padding(self._frames.data, start, stop)
            stream.owed += size - (stop - start)  # nobody reads it
            size = stop - start
        if not size and not flags & h2.END_STREAM:
            self._spend(1, "empty DATA")
            self.took(stream, 0)
        elif stream.expected is None or self._expected(stream, size, flags):
            self._content(stream, flags, start, stop)

    def _content(self, stream: S, flags: int, start: int, stop: int) -> None:
        """Take contents of a stream."""
        size = stop - start
        incoming = stream.incoming
        before = incoming.partial
        try:
            incoming.feed(self._frames.data, start, stop)
        except MessageRefused as refused:
            self.partial += incoming.partial - before
            self._refused_message(stream, refused)
            return
        stream.held += size
        self.held += size
        self.ledger.held += size
        if incoming.partial != before:
            self.partial += incoming.partial - before
        if flags & h2.END_STREAM:
            self._content_ended(stream)
        elif incoming.messages:
            self._events.append((Event.MESSAGES, stream, ""))
        else:
            self.took(stream, 0)
        if self.held > self.budgets.connection_in_bytes_max - FRAME_MAX:
            self._holds_much()

    def _content_ended(self, stream: S) -> None:
        if stream.incoming.partial:
            self._break(stream, Status.INTERNAL, "the stream ended within a message")
        else:
            self._stream_ended(stream)

    def _expected(self, stream: S, size: int, flags: int) -> bool:
        """Whether the contents fit what `content-length` said of them; the stream is reset if not."""
        assert stream.expected is not None
        stream.expected -= size
        if stream.expected >= 0 and not (flags & h2.END_STREAM and stream.expected):
            return True
        self._reset(stream, ErrorCode.PROTOCOL_ERROR, "the content is not as long as content-length said")
        return False

    def _refused_message(self, stream: S, refused: MessageRefused) -> None:
        self._break(stream, refused.status, str(refused))

    def _holds_much(self) -> None:
        """Nearly all that one connection may hold has come."""

    def _release(self, stream: S, size: int) -> None:
        """That much of what the stream held is held no more."""
        size = min(size, stream.held)
        stream.held -= size
        self.held -= size
        self.ledger.held -= size

    def _stray_data(self, stream: S | None, number: int, size: int, *, end_stream: bool) -> None:
        """DATA on a stream that has ended: on its way when it was ended here, or a mistake of the other side."""
        if number == 0 or number > self._last_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"DATA on stream {number}, which nobody has opened")
        self._write(self._inflow.give_back(size))
        if stream is not None:
            self._reset(stream, ErrorCode.STREAM_CLOSED, "it went on after the end of the stream")
            return
        self._stray(number, end_stream=end_stream)
        if not size:
            self._spend(1, "empty DATA")

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._blocks.stream and (kind != h2.CONTINUATION or number != self._blocks.stream):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block was not continued")
        if not self.greeted and (kind != h2.SETTINGS or flags & h2.ACK):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if kind == h2.HEADERS:
            self._header_frame(flags, number, payload)
            return
        self._spend(1, "control frames")
        if kind in (h2.SETTINGS, h2.PING, h2.GOAWAY):
            if number:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream {number}")
            self._connection_frame(kind, flags, payload)
        elif kind == h2.WINDOW_UPDATE:
            self._window_update(number, h2.read_u32(payload, "WINDOW_UPDATE") & h2.WINDOW_MAX)
        elif kind <= h2.CONTINUATION:
            if not number:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream 0")
            self._stream_frame(kind, flags, number, payload)

    def _header_frame(self, flags: int, number: int, payload: bytes) -> None:
        if not number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers on stream 0")
        if flags & h2.PRIORITIZED:
            self._check_dependency(number, payload[1:5] if flags & h2.PADDED else payload[:4])
        block = self._blocks.begin(number, flags, payload)
        if block is not None:
            self._headers(number, block, end_stream=self._blocks.end_stream)

    def _check_dependency(self, number: int, field: bytes) -> None:
        if int.from_bytes(field) & h2.WINDOW_MAX == number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {number} depends on itself")

    def _connection_frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == h2.SETTINGS:
            self._settings(flags, payload)
        elif kind == h2.PING:
            if len(payload) != 8:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes")
            if not flags & h2.ACK:
                self._answer(h2.frame(h2.PING, h2.ACK, 0, payload))
        else:
            self._goaway(*h2.read_goaway(payload))

    def _goaway(self, last_stream: int, code: int, text: str) -> None:
        """The other side takes no streams after that one."""

    def _settings(self, flags: int, payload: bytes) -> None:
        if flags & h2.ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS that is not empty")
            return
        # Each may change the windows of all streams.
        self._spend(1 + len(self.streams) // _SETTINGS_PER_STREAMS, "SETTINGS")
        for number, value in dict(h2.read_settings(payload)).items():
            if number == Setting.INITIAL_WINDOW_SIZE:
                self._outflow.set_first_window(value, self.streams.values())
            elif number == Setting.MAX_FRAME_SIZE:
                self._outflow.frame_max = min(value, FRAME_MAX)
            elif number == Setting.HEADER_TABLE_SIZE:
                self._table_update = NO_TABLE
        self._answer(h2.frame(h2.SETTINGS, h2.ACK, 0))
        if not self.greeted:
            self.greeted = True
            self._events.append((Event.GREETED, None, ""))

    def _window_update(self, number: int, increment: int) -> None:
        if number > self._last_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"WINDOW_UPDATE on stream {number}, which nobody has opened")
        if not number:
            if not increment:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            self._outflow.grow(increment)
        elif (stream := self.streams.get(number)) is not None:
            if not increment:
                self._reset(stream, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            elif not self._outflow.grow_stream(stream, increment):
                self._reset(stream, ErrorCode.FLOW_CONTROL_ERROR, "too large a window")

    def _stream_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == h2.RST_STREAM:
            code = h2.read_u32(payload, "RST_STREAM")
            if number > self._last_stream:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"RST_STREAM on stream {number}, which nobody has opened")
            if (stream := self.streams.get(number)) is not None:
                self.forget(stream)
                self._events.append((Event.BROKEN, stream, f"it broke the stream off: {h2.error_name(code)}"))
                self._stream_reset()
            self._reset_came(number)
        elif kind == h2.PRIORITY:
            if len(payload) != 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes")
            self._check_dependency(number, payload[:4])
        elif kind == h2.CONTINUATION:
            block = self._blocks.go_on(flags, payload)
            if block is not None:
                self._headers(number, block, end_stream=self._blocks.end_stream)
        else:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream {number}")

    # --- inside

    def _malformed(self, number: int, stream: S | None, error: MalformedHeaders) -> None:
        """The stream ends for its headers; the connection goes on."""
        if stream is not None:
            self._reset(stream, ErrorCode.PROTOCOL_ERROR, f"its headers are malformed: {error}")
        else:
            self._answer(h2.rst_stream(number, ErrorCode.PROTOCOL_ERROR))
            self._linger(number)
            self._stream_reset()

    def _reset(self, stream: S, code: ErrorCode, why: str) -> None:
        """The other side broke a rule of the stream."""
        self._answer(h2.rst_stream(stream.number, code))
        self.forget(stream)
        self._events.append((Event.BROKEN, stream, why))
        self._stream_reset()

    def _break(self, stream: S, status: Status, text: str) -> None:
        """End a stream for what the other side sent on it."""
        self.abort(stream, status, text)
        stream.status = int(status)
        self._events.append((Event.BROKEN, stream, text))

    def _write(self, data: bytes) -> None:
        if data:
            self._ready.append(data)

    def _answer(self, data: bytes) -> None:
        """Send what a frame of the other side asks for; it must read to ask for more."""
        self._ready.append(data)
        if self.blocked:
            self._unsent_answers += 1
            if self._unsent_answers > _UNSENT_ANSWERS_MAX:
                raise OverBudget("control_frames", "frames are answered that nobody reads")

    def _spend(self, cost: int, what: str) -> None:
        if not self._control.spend(cost, self.now):
            raise OverBudget(
                "control_frames", f"too many {what}: {self.budgets.control_frames_per_s} a second may come"
            )

    def _passed(self, limit: str) -> None:
        """A budget ended a call."""
        if self.limits is None:
            self.limits = {}
        self.limits[limit] = self.limits.get(limit, 0) + 1
