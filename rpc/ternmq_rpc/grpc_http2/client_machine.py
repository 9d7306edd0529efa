"""The client's end of a connection: opens streams, one after the other or several at a time, and reports how they
end."""

from collections.abc import Callable
from typing import Final

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.frames import DEFAULT_FRAME_MAX, PREFACE, ErrorCode, Http2Error, SettingId
from ternmq_rpc.grpc_http2.headers.header_reader import HeaderReader, HeaderTable
from ternmq_rpc.grpc_http2.headers.header_rules import MalformedHeaders
from ternmq_rpc.grpc_http2.headers.literal_headers import literal_block
from ternmq_rpc.grpc_http2.machine import Http2Machine, S, greeting_frames
from ternmq_rpc.grpc_http2.messages import GrpcStatus, decode_percent, status_text
from ternmq_rpc.grpc_http2.timeouts import TIMEOUT, format_timeout
from ternmq_rpc.serving.budgets import BudgetLedger, ConnectionBudgets

Headers = tuple[tuple[str, str], ...]
_LAST_NUMBER: Final = h2.WINDOW_MAX
# Refusals by an HTTP server in front of the gRPC server, by their HTTP status.
_REFUSALS: Final = {"401": int(GrpcStatus.UNAUTHENTICATED), "403": int(GrpcStatus.PERMISSION_DENIED)}
_PING: Final = h2.encode_frame(h2.PING, 0, 0, b"still on")
# Methods and timeouts whose headers are kept.
_OPENINGS_MAX: Final = 256
# A request may be answered by window updates, and by a ping.
_EARNED_BY_REQUEST: Final = 3
# Servers answer with the same few fields again and again, except for what `grpc-message` says.
_HEADERS: Final = HeaderReader(("content-type", "grpc-status", "grpc-message"), cached_max=64)


class ClientMachine(Http2Machine[S]):
    """The HTTP/2 state machine of a client.

    A stream that ended with status OK gives the event ENDED, any other end BROKEN. If the server sent the status, the
    stream has `is_ended_there` too.
    """

    __slots__ = (
        "_authority",
        "_block",
        "_block_of",
        "_number",
        "_openings",
        "_scheme",
        "_table",
        "leaving",
        "streams_max",
    )

    def __init__(self, authority: str, budgets: ConnectionBudgets, now: float, *, scheme: str = "http") -> None:
        super().__init__(budgets, BudgetLedger(), now)
        self._authority = authority
        self._scheme = scheme
        self._number = 1
        # The header blocks with which calls of a method begin, and that of the last call's own headers: the next one
        # mostly has the same.
        self._openings: dict[tuple[str, float], bytes] = {}
        self._block = b""
        self._block_of: Headers = ()
        self._table: HeaderTable | None = None
        self.leaving = False
        self.streams_max = _LAST_NUMBER
        self._ready.append(PREFACE + greeting_frames({SettingId.ENABLE_PUSH: 0}, budgets.connection_in_bytes_max))

    @property
    def can_open(self) -> bool:
        """Whether another stream can be opened."""
        return not self.leaving and self.failure is None and self._number <= _LAST_NUMBER

    @property
    def has_room(self) -> bool:
        """Whether the server allows another stream."""
        return len(self.streams) < self.streams_max

    def open_stream(
        self, method: str, create_stream: Callable[[int, int], S], headers: Headers = (), *, timeout_s: float = 0.0
    ) -> S:
        """Begin a call. `create_stream` creates its stream from number and window; `headers` are added to those of
        gRPC. `timeout_s` is how long this side waits; 0: for ever."""
        assert self.can_open
        number = self._last_stream = self._number
        self._number += 2
        stream = self.streams[number] = create_stream(number, self._outflow.first_window)
        stream.is_conversation = True
        if headers is not self._block_of:
            self._block = literal_block(headers)
            self._block_of = headers
        opening = self._openings.get((method, timeout_s)) or self._encode_opening(method, timeout_s)
        size = len(opening) + len(self._block)
        if size <= DEFAULT_FRAME_MAX:
            head = h2.encode_header(h2.HEADERS, size, h2.END_HEADERS, number)
            self._ready.append(head + opening + self._block)
        else:
            self._ready.append(h2.header_frames(number, opening + self._block, DEFAULT_FRAME_MAX, end_stream=False))
        return stream

    def _encode_opening(self, method: str, timeout_s: float) -> bytes:
        """Encode the headers of gRPC itself."""
        timeout = ((TIMEOUT, format_timeout(timeout_s)),) if timeout_s else ()
        block = literal_block(
            (
                (":method", "POST"),
                (":scheme", self._scheme),
                (":path", method),
                (":authority", self._authority),
                ("te", "trailers"),
                *timeout,
                ("content-type", "application/grpc"),
                ("user-agent", "ternmq"),
            )
        )
        if len(self._openings) >= _OPENINGS_MAX:
            self._openings.clear()
        self._openings[method, timeout_s] = block
        return block

    def send_request(self, stream: S, message: bytes) -> None:
        """Send the only message of this side, and its end."""
        stream.is_ended_here = True
        frame = None if self.blocked else self._outflow.try_send(stream, (message,), h2.END_STREAM)
        if frame is not None:
            self._control.add_allowance(_EARNED_BY_REQUEST)
            self._ready.append(frame)
        else:
            self._outflow.add_messages(stream, (message,))
            self.end_stream(stream)

    def send_ping(self) -> None:
        """Have the server answer, so that something is read if it is there."""
        if self.failure is None:
            self._ready.append(_PING)

    def end_stream(self, stream: S) -> None:
        """Send the end of the stream after all that waits."""
        stream.is_ended_here = True
        self._outflow.end_stream(stream, lambda: h2.encode_frame(h2.DATA, h2.END_STREAM, stream.number))

    def abort_stream(self, stream: S, status: GrpcStatus, text: str) -> None:
        del status, text
        if not stream.is_forgotten:
            self._ready.append(h2.reset_frame(stream.number, ErrorCode.CANCEL))
            self.forget_stream(stream)

    def send_goaway(self) -> None:
        """Tell the server by GOAWAY that the connection is not used any more."""
        if self.failure is None:
            self._ready.append(h2.goaway_frame(0, ErrorCode.NO_ERROR, ""))

    # --- what is received

    def _limit_streams(self, streams_max: int) -> None:
        self.streams_max = streams_max

    def _handle_headers(self, number: int, block: bytes, *, end_stream: bool) -> None:
        stream = self.streams.get(number)
        try:
            fields = self._decode_headers(block)
        except MalformedHeaders as error:
            self._refuse_headers(number, stream, error)
            return
        if number > self._last_stream or number % 2 == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"headers on stream {number}, which nobody has opened")
        if stream is None:
            return
        if not stream.has_headers:
            status = fields.get(":status", "")
            if status.startswith("1") and not end_stream:
                return
            stream.has_headers = True
            if status != "200" or not fields.get("content-type", "").startswith("application/grpc"):
                text = f"it does not speak gRPC: HTTP status {status or 'missing'}"
                self._break_stream(stream, text, _REFUSALS.get(status))
                return
        elif not end_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers in the midst of a stream")
        if end_stream:
            self._handle_trailers(stream, fields)

    def _decode_headers(self, block: bytes) -> dict[str, str]:
        """Return the fields that are read here. MalformedHeaders: some are not allowed."""
        if self._table is None:
            _HEADERS.check_coding(block)
            self._table = HeaderTable()
        return _HEADERS.read_block(block, self._table)

    def _handle_trailers(self, stream: S, fields: dict[str, str]) -> None:
        """Handle the trailers: the server has ended the stream with a status."""
        status = fields.get("grpc-status", str(int(GrpcStatus.UNKNOWN)))
        if status != "0":
            stream.is_ended_there = True
            message = fields.get("grpc-message", "")
            stream.details = decode_percent(message) if message else ""
            text = status_text(status, message)
            self._break_stream(stream, text, int(status) if status.isdecimal() and len(status) < 10 else None)
        elif stream.incoming.partial:
            self._break_stream(stream, "the stream ended within a message", GrpcStatus.INTERNAL)
        else:
            stream.is_ended_there = True
            if not stream.is_ended_here:
                self._ready.append(h2.reset_frame(stream.number, ErrorCode.CANCEL))
            self._events.append((EventKind.ENDED, stream, ""))
            self.forget_stream(stream)

    def _stream_ended(self, stream: S) -> None:
        self._break_stream(stream, "it ended the stream without a status", None)

    def _break_stream(self, stream: S, text: str, status: int | None) -> None:
        stream.status = status
        self.forget_stream(stream)
        self._events.append((EventKind.BROKEN, stream, text))

    def _handle_goaway(self, last_stream: int, code: int, text: str) -> None:
        self.leaving = True
        why = f"it ends the connection: {h2.error_name(code)}"
        if text:
            why += f", {text}"
        for stream in list(self.streams.values()):
            if stream.number > last_stream:
                stream.is_refused = True
                self._break_stream(stream, why, None)
        self._events.append((EventKind.LEAVING, None, why))
