"""The client's end of a connection: opens streams, one after the other or several at a time, and reports how they
end."""

from collections.abc import Callable, Iterable
from typing import Final

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.frames import DEFAULT_FRAME_MAX, PREFACE, ErrorCode, Http2Error, SettingId
from ternmq_rpc.grpc_http2.headers.header_reader import HeaderReader, HeaderTable
from ternmq_rpc.grpc_http2.headers.header_rules import MalformedHeaders
from ternmq_rpc.grpc_http2.headers.literal_headers import literal_block
from ternmq_rpc.grpc_http2.machine import Http2Machine, S, greeting_frames
from ternmq_rpc.grpc_http2.messages import GrpcStatus, status_text
from ternmq_rpc.serving.budgets import BudgetLedger, ConnectionBudgets

_LAST_NUMBER: Final = h2.WINDOW_MAX
# Servers answer with the same few fields again and again, except for what `grpc-message` says.
_HEADERS: Final = HeaderReader(("content-type", "grpc-status", "grpc-message"), cached_max=64)


class ClientMachine(Http2Machine[S]):
    """The HTTP/2 state machine of a client.

    A stream that ended with status OK gives the event ENDED, any other end BROKEN. If the server sent the status, the
    stream has `is_ended_there` too.
    """

    __slots__ = ("_authority", "_block", "_block_of", "_number", "_table", "leaving")

    def __init__(self, authority: str, budgets: ConnectionBudgets, now: float) -> None:
        super().__init__(budgets, BudgetLedger(), now)
        self._authority = authority
        self._number = 1
        # The header block of the last call, and of which method and headers: the next one mostly has the same.
        self._block = b""
        self._block_of: tuple[str, tuple[tuple[str, str], ...]] = ("", ())
        self._table: HeaderTable | None = None
        self.leaving = False
        self._ready.append(PREFACE + greeting_frames({SettingId.ENABLE_PUSH: 0}, budgets.connection_in_bytes_max))

    @property
    def can_open(self) -> bool:
        """Whether another stream can be opened."""
        return not self.leaving and self.failure is None and self._number <= _LAST_NUMBER

    def open_stream(
        self, method: str, create_stream: Callable[[int, int], S], headers: Iterable[tuple[str, str]] = ()
    ) -> S:
        """Begin a call. `create_stream` creates its stream from number and window; `headers` are added to those of
        gRPC."""
        assert self.can_open
        number = self._last_stream = self._number
        self._number += 2
        stream = self.streams[number] = create_stream(number, self._outflow.first_window)
        stream.is_conversation = True
        block = self._encode_headers(method, tuple(headers))
        self._ready.append(h2.header_frames(number, block, DEFAULT_FRAME_MAX, end_stream=False))
        return stream

    def _encode_headers(self, method: str, headers: tuple[tuple[str, str], ...]) -> bytes:
        if self._block_of != (method, headers):
            self._block = literal_block(
                (
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":path", method),
                    (":authority", self._authority),
                    ("te", "trailers"),
                    ("content-type", "application/grpc"),
                    ("user-agent", "ternmq"),
                    *headers,
                )
            )
            self._block_of = (method, headers)
        return self._block

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
                self._break_stream(stream, f"it does not speak gRPC: HTTP status {status or 'missing'}", None)
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
            text = status_text(status, fields.get("grpc-message", ""))
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
                self._break_stream(stream, why, None)
        self._events.append((EventKind.LEAVING, None, why))
