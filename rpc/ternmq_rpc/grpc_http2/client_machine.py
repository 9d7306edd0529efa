"""The client's end of a connection: opens streams, one after the other or several at a time, and reports how they
end."""

from collections.abc import Callable, Iterable

import hpack

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.budgets import BudgetLedger, Budgets
from ternmq_rpc.grpc_http2.events import Event
from ternmq_rpc.grpc_http2.frames import DEFAULT_FRAME_MAX, PREFACE, ErrorCode, Http2Error, Setting
from ternmq_rpc.grpc_http2.header_rules import MalformedHeaders, checked_fields
from ternmq_rpc.grpc_http2.literal_headers import literal_block
from ternmq_rpc.grpc_http2.machine import HEADER_BYTES_MAX, Machine, S, greeting
from ternmq_rpc.grpc_http2.messages import Status, status_text

_LAST_NUMBER = h2.WINDOW_MAX


class ClientMachine(Machine[S]):
    """The HTTP/2 state machine of a client.

    A stream that ended with status OK gives the event ENDED, any other end BROKEN. If the server sent the status, the
    stream has `ended_there` too.
    """

    __slots__ = ("_authority", "_decoder", "_number", "leaving")

    def __init__(self, authority: str, budgets: Budgets, now: float) -> None:
        super().__init__(budgets, BudgetLedger(), now)
        self._authority = authority
        self._number = 1
        self._decoder: hpack.Decoder | None = None
        self.leaving = False
        self._ready.append(PREFACE + greeting({Setting.ENABLE_PUSH: 0}, budgets.connection_in_bytes_max))

    @property
    def usable(self) -> bool:
        """Whether another stream can be opened."""
        return not self.leaving and self.failure is None and self._number <= _LAST_NUMBER

    def open(self, method: str, make: Callable[[int, int], S], headers: Iterable[tuple[str, str]] = ()) -> S:
        """Begin a call. `make` creates its stream from number and window; `headers` are added to those of gRPC."""
        assert self.usable
        number = self._last_stream = self._number
        self._number += 2
        stream = self.streams[number] = make(number, self._outflow.first_window)
        stream.talks = True
        block = literal_block(
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
        self._ready.append(h2.header_frames(number, block, DEFAULT_FRAME_MAX, end_stream=False))
        return stream

    def end(self, stream: S) -> None:
        """Send the end of the stream after all that waits."""
        stream.ended_here = True
        self._outflow.end(stream, lambda: h2.frame(h2.DATA, h2.END_STREAM, stream.number))

    def abort(self, stream: S, status: Status, text: str) -> None:
        del status, text
        if not stream.gone:
            self._ready.append(h2.rst_stream(stream.number, ErrorCode.CANCEL))
            self.forget(stream)

    def goodbye(self) -> None:
        """Tell the server by GOAWAY that the connection is not used any more."""
        if self.failure is None:
            self._ready.append(h2.goaway(0, ErrorCode.NO_ERROR, ""))

    # --- what is received

    def _headers(self, number: int, block: bytes, *, end_stream: bool) -> None:
        stream = self.streams.get(number)
        try:
            fields = self._decoded(block)
        except MalformedHeaders as error:
            self._malformed(number, stream, error)
            return
        if number > self._last_stream or number % 2 == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"headers on stream {number}, which nobody has opened")
        if stream is None:
            return
        if not stream.begun:
            status = fields.get(":status", "")
            if status.startswith("1") and not end_stream:
                return
            stream.begun = True
            if status != "200" or not fields.get("content-type", "").startswith("application/grpc"):
                self._broken(stream, f"it does not speak gRPC: HTTP status {status or 'missing'}", None)
                return
        elif not end_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers in the midst of a stream")
        if end_stream:
            self._outcome(stream, fields)

    def _decoded(self, block: bytes) -> dict[str, str]:
        """Decode a block that may refer to the header table. MalformedHeaders: its fields are not allowed."""
        if self._decoder is None:
            self._decoder = hpack.Decoder(max_header_list_size=HEADER_BYTES_MAX)
        try:
            pairs = self._decoder.decode(block, raw=True)
        except hpack.HPACKError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"a header block can't be read: {error}") from error
        return checked_fields((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in pairs)

    def _outcome(self, stream: S, fields: dict[str, str]) -> None:
        """Handle the trailers: the server has ended the stream with a status."""
        status = fields.get("grpc-status", str(int(Status.UNKNOWN)))
        if status != "0":
            stream.ended_there = True
            text = status_text(status, fields.get("grpc-message", ""))
            self._broken(stream, text, int(status) if status.isdecimal() and len(status) < 10 else None)
        elif stream.incoming.partial:
            self._broken(stream, "the stream ended within a message", Status.INTERNAL)
        else:
            stream.ended_there = True
            if not stream.ended_here:
                self._ready.append(h2.rst_stream(stream.number, ErrorCode.CANCEL))
            self._events.append((Event.ENDED, stream, ""))
            self.forget(stream)

    def _stream_ended(self, stream: S) -> None:
        self._broken(stream, "it ended the stream without a status", None)

    def _broken(self, stream: S, text: str, status: int | None) -> None:
        stream.status = status
        self.forget(stream)
        self._events.append((Event.BROKEN, stream, text))

    def _goaway(self, last_stream: int, code: int, text: str) -> None:
        self.leaving = True
        why = f"it ends the connection: {h2.error_name(code)}"
        if text:
            why += f", {text}"
        for stream in list(self.streams.values()):
            if stream.number > last_stream:
                self._broken(stream, why, None)
        self._events.append((Event.LEAVING, None, why))
