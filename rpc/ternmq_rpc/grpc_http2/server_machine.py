"""The server's end of a connection. Each stream is a call; clients are not trusted.

Budgets     exceeding one ends the call with RESOURCE_EXHAUSTED where that is enough, else the connection with
            ENHANCE_YOUR_CALM; `time_limits.py` finds what takes too long.
Lingering   calls that ended here before their client ended them: what the client sent in the meantime is ignored.
            Anything else that arrives for a call that has ended is the client's mistake.
"""

from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.frames import PREFACE, ErrorCode, Http2Error, SettingId
from ternmq_rpc.grpc_http2.headers.header_reader import HeaderReader, HeaderTable
from ternmq_rpc.grpc_http2.headers.header_rules import MalformedHeaders, check_request, check_trailers
from ternmq_rpc.grpc_http2.headers.literal_headers import literal_block
from ternmq_rpc.grpc_http2.machine import Events, Http2Machine, OverBudget, S, greeting_frames
from ternmq_rpc.grpc_http2.messages import GrpcStatus, MessageRefused, encode_percent
from ternmq_rpc.serving.budgets import BudgetLedger, ConnectionBudgets, RateAllowance

Fields = Sequence[tuple[str, str]]
_TIME_LIMIT_CODES: Final = {
    "header_timeout": ErrorCode.PROTOCOL_ERROR,
    "output_timeout": ErrorCode.ENHANCE_YOUR_CALM,
}
_BEGIN: Final = literal_block(((":status", "200"), ("content-type", "application/grpc")))
_DONE: Final = literal_block((("grpc-status", "0"),))
_NOT_GRPC: Final = literal_block(((":status", "415"),))
# The allowance of a call: so many frames without a request.
_EARNED_BY_CALL: Final = 2
_LINGERING_PER_STREAM: Final = 4
# The first byte of a TLS handshake.
_TLS: Final = 0x16
_TLS_HERE: Final = "this is TLS, and the port takes plain text only, for the server has no certificate there"


def _refuse_stream(number: int, out_window: int, headers: dict[str, str]) -> NoReturn:
    raise AssertionError(f"stream {number} was opened on a connection that is closed")


class ServerMachine(Http2Machine[S]):
    """The HTTP/2 state machine of a server. `create_stream` creates a stream from its number, the window for answers,
    and the headers; `reader` reads those, for all connections of a server.

    `unfinished`: calls whose request is not complete, the oldest first; conversations while one of their messages is
    not. `last_used`: when a call was opened last.

    """

    __slots__ = (
        "_create_stream",
        "_extra",
        "_lingering",
        "_preface",
        "_reader",
        "_resets",
        "_table",
        "last_used",
        "leaving",
        "unfinished",
    )

    def __init__(
        self,
        create_stream: Callable[[int, int, dict[str, str]], S],
        reader: HeaderReader,
        budgets: ConnectionBudgets,
        ledger: BudgetLedger,
        now: float,
    ) -> None:
        super().__init__(budgets, ledger, now)
        self._create_stream = create_stream
        self._reader = reader
        self._table = HeaderTable()
        self._extra = 0
        self._preface = PREFACE
        self._resets: RateAllowance | None = None  # most connections never need it
        self._lingering: dict[int, None] = {}
        self.unfinished: dict[int, S] = {}
        self.leaving = False
        self.last_used = now
        self._ready.append(
            greeting_frames({SettingId.MAX_CONCURRENT_STREAMS: budgets.streams_max}, budgets.connection_in_bytes_max)
        )

    def release_shell(self) -> None:
        """Drop the reference to the shell of a closed connection, which refers to this machine."""
        self._create_stream = _refuse_stream

    # --- bytes in

    def receive_bytes(self, data: bytes, now: float) -> Events[S]:
        if self._preface and data:
            size = min(len(data), len(self._preface))
            if self._preface[:size] != data[:size]:
                is_tls = data[0] == _TLS and len(self._preface) == len(PREFACE)
                self.fail_connection(ErrorCode.PROTOCOL_ERROR, _TLS_HERE if is_tls else "this is not HTTP/2")
                return []
            self._preface, data = self._preface[size:], data[size:]
        return super().receive_bytes(data, now)

    def _handle_headers(self, number: int, block: bytes, *, end_stream: bool) -> None:
        stream = self.streams.get(number)
        malformed: MalformedHeaders | None = None
        fields: dict[str, str] = {}
        if not self._last_stream:
            self._reader.check_coding(block)
        try:
            fields = self._reader.read_block(block, self._table)
            if stream is not None:
                self._handle_trailers(stream, fields, end_stream=end_stream)
                return
            check_request(fields, end_stream=end_stream)
        except MalformedHeaders as error:
            malformed = error
        if stream is None and self._is_late(number, end_stream=end_stream):
            return
        self._last_stream = max(number, self._last_stream)
        if malformed is not None:
            self._refuse_headers(number, stream, malformed)
            return
        if self.leaving or len(self.streams) >= self.budgets.streams_max:
            self._refuse_call(number)
        else:
            self._open_call(number, fields, end_stream=end_stream)

    def _is_late(self, number: int, *, end_stream: bool) -> bool:
        """Return whether these headers are for a call that has ended."""
        if number % 2 == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {number} can't be opened by a client")
        if number > self._last_stream:
            return False
        self._check_stray(number, end_stream=end_stream)
        return True

    def _refuse_call(self, number: int) -> None:
        """Refuse a call that exceeds the announced number of streams; the client may repeat it elsewhere."""
        self._queue_answer(h2.reset_frame(number, ErrorCode.REFUSED_STREAM))
        self._add_lingering(number)
        if not self.leaving:
            self._count_limit("connection_streams")
            self._count_reset()

    def _open_call(self, number: int, fields: dict[str, str], *, end_stream: bool) -> None:
        length = fields.get("content-length")
        self.last_used = self.now
        self._control.add_allowance(_EARNED_BY_CALL)
        stream = self._create_stream(number, self._outflow.first_window, fields)
        if length is not None:
            stream.expected_bytes = int(length)
        self.streams[number] = stream
        self._events.append((EventKind.STARTED, stream, ""))
        if end_stream:
            self._stream_ended(stream)
        else:
            stream.request_began = self.now
            self.unfinished[number] = stream

    def _handle_trailers(self, stream: S, fields: dict[str, str], *, end_stream: bool) -> None:
        """Check the trailers of a request and ignore them: clients of gRPC send none."""
        if not end_stream or stream.is_ended_there:
            code = ErrorCode.STREAM_CLOSED if stream.is_ended_there else ErrorCode.PROTOCOL_ERROR
            self._reset_stream(stream, code, "it sent headers a second time")
            return
        check_trailers(fields)
        if stream.expected_bytes:
            raise MalformedHeaders("less content than content-length")
        self._end_content(stream)

    def _stream_ended(self, stream: S) -> None:
        stream.is_ended_there = True
        self.unfinished.pop(stream.number, None)
        self._events.append((EventKind.ENDED, stream, ""))

    def _check_stray(self, number: int, *, end_stream: bool) -> None:
        if number not in self._lingering:
            raise Http2Error(ErrorCode.STREAM_CLOSED, f"stream {number} has ended")
        if end_stream:
            del self._lingering[number]

    def _forget_lingering(self, number: int) -> None:
        self._lingering.pop(number, None)

    def _count_reset(self) -> None:
        if self._resets is None:
            budgets = self.budgets
            self._resets = RateAllowance(budgets.resets_per_s, max(budgets.streams_max, budgets.resets_per_s), self.now)
        if not self._resets.try_spend(1, self.now):
            raise OverBudget("resets", f"too many calls are broken off: {self.budgets.resets_per_s} a second may be")

    # --- what one connection keeps

    def begin_conversation(self, stream: S) -> None:
        """Treat the call as a conversation: it may last, and each message counts until it is read."""
        stream.is_conversation = True
        self.unfinished.pop(stream.number, None)

    def count_read(self, stream: S, size: int) -> None:
        super().count_read(stream, size)
        if stream.is_conversation:
            self._watch_message(stream)

    def _watch_message(self, stream: S) -> None:
        """Limit the time within a message of a conversation; between messages it may wait for ever."""
        if not stream.incoming.partial:
            self.unfinished.pop(stream.number, None)
        elif stream.number not in self.unfinished and not stream.is_forgotten:
            stream.request_began = self.now
            self.unfinished[stream.number] = stream

    def _may_come_early(self, stream: S) -> bool:
        if self.held_bytes <= self.budgets.connection_in_bytes_max:
            return True
        # Else no message would ever be whole.
        return next(iter(self.unfinished), stream.number) == stream.number

    def _relieve_input(self) -> None:
        """End the newest calls with partial messages if those fill the budget; complete requests end by themselves."""
        enough = (self.budgets.connection_in_bytes_max + self._extra) * 7 // 8
        if self.partial_bytes <= enough or self._extend_window():
            return
        text = (
            f"too many requests of this connection are half sent: {self.held_bytes} bytes are held "
            f"(connection_in_bytes_max is {self.budgets.connection_in_bytes_max})"
        )
        for stream in list(self.unfinished.values())[:0:-1]:
            if stream.incoming.partial and self.partial_bytes > enough:
                self._count_limit("connection_in_bytes")
                self._end_with_status(stream, GrpcStatus.RESOURCE_EXHAUSTED, text)

    def _extend_window(self) -> bool:
        """Let the client send as much again, while all connections together have half of their budget left."""
        extra = self.budgets.connection_in_bytes_max
        if self.ledger.held_bytes + extra > self.budgets.in_bytes_max // 2:
            return False
        self._extra += extra
        self._ready.append(self._inflow.extend_window(extra))
        return True

    def _release_bytes(self, stream: S, size: int) -> None:
        super()._release_bytes(stream, size)
        if self.unfinished and self.partial_bytes > h2.DEFAULT_FRAME_MAX:
            oldest = next(iter(self.unfinished.values()))
            if oldest is not stream and oldest.incoming.partial:
                super().count_read(oldest, 0)

    def _refuse_message(self, stream: S, refused: MessageRefused) -> None:
        if refused.status is GrpcStatus.RESOURCE_EXHAUSTED:
            self._count_limit("request_bytes")
        super()._refuse_message(stream, refused)

    def forget_stream(self, stream: S) -> None:
        if not stream.is_forgotten:
            self.unfinished.pop(stream.number, None)
            if not stream.is_ended_there:
                self._add_lingering(stream.number)
            super().forget_stream(stream)

    def _add_lingering(self, number: int) -> None:
        self._lingering[number] = None
        if len(self._lingering) > _LINGERING_PER_STREAM * self.budgets.streams_max:
            # Halved at once: the first of a dict is hard to find again and again.
            for old in list(self._lingering)[: len(self._lingering) // 2]:
                del self._lingering[old]

    # --- answers

    @property
    def has_calls(self) -> bool:
        """Whether calls are in progress."""
        return bool(self.streams)

    def fail_time_limit(self, limit: str, text: str) -> None:
        """End the connection, since its client exceeded a limit of `TimeLimits`."""
        code = _TIME_LIMIT_CODES.get(limit, ErrorCode.NO_ERROR)
        if limit == "header_timeout" and not self.greeted:
            code = ErrorCode.SETTINGS_TIMEOUT
        self.fail_connection(code, text, limit)

    def stop_calls(self, why: str) -> None:
        """Accept no more calls, and tell the client why."""
        if not self.leaving and self.failure is None:
            self.leaving = True
            self._ready.append(h2.goaway_frame(self._last_stream, ErrorCode.NO_ERROR, why))

    def send_ping(self) -> None:
        """Send a PING, to which a live client answers."""
        self._ready.append(h2.encode_frame(h2.PING, 0, 0, bytes(8)))

    def send_headers(self, stream: S, fields: Fields = ()) -> None:
        """Send the headers of the answer."""
        stream.has_headers = True
        self._ready.append(self._header_frames(stream.number, _add_fields(_BEGIN, fields)))

    def finish_call(self, stream: S, messages: Sequence[bytes], trailers: Fields) -> bool:
        """Send the messages and the end of the call, if nothing has to wait; return whether it was sent."""
        if self.blocked or stream.out_bytes:
            return False
        body = self._outflow.try_send(stream, messages) if messages else b""
        if body is None:
            return False
        number = stream.number
        head = b"" if stream.has_headers else self._header_frames(number, _BEGIN)
        tail = self._header_frames(number, _add_fields(_DONE, trailers), h2.END_STREAM)
        reset = b"" if stream.is_ended_there else h2.reset_frame(number, ErrorCode.NO_ERROR)
        self._ready.append(b"".join((head, body, tail, reset)))
        self._control.add_allowance(_EARNED_BY_CALL)
        self.forget_stream(stream)
        return True

    def end_call(self, stream: S, trailers: Fields) -> None:
        """End the call in order, after all that waits; its headers have been sent."""

        def tail() -> bytes:
            block = self._header_frames(stream.number, _add_fields(_DONE, trailers), h2.END_STREAM)
            reset = b"" if stream.is_ended_there else h2.reset_frame(stream.number, ErrorCode.NO_ERROR)
            stream.tail = None
            self.forget_stream(stream)
            return block + reset

        stream.is_ended_here = True
        if stream.out_bytes or self.blocked:
            self._outflow.end_stream(stream, tail)
        else:
            self._ready.append(tail())

    def abort_stream(self, stream: S, status: GrpcStatus, text: str) -> None:
        if stream.is_forgotten:
            return
        number = stream.number
        if stream.out_bytes:  # maybe a part of a message is sent, after which there can't be a status
            self._ready.append(h2.reset_frame(number, ErrorCode.CANCEL))
        else:
            fields = _status_block(status, text)
            block = self._header_frames(number, fields if stream.has_headers else _BEGIN + fields, h2.END_STREAM)
            reset = b"" if stream.is_ended_there else h2.reset_frame(number, ErrorCode.NO_ERROR)
            self._ready.append(block + reset)
        self.forget_stream(stream)

    def refuse_http(self, stream: S) -> None:
        """Answer a request that is not a gRPC call."""
        block = self._header_frames(stream.number, _NOT_GRPC, h2.END_STREAM)
        reset = b"" if stream.is_ended_there else h2.reset_frame(stream.number, ErrorCode.NO_ERROR)
        self._ready.append(block + reset)
        self.forget_stream(stream)

    def is_overfull(self) -> bool:
        """Return whether the client reads so little that no further call of it is served."""
        return self.unread_bytes > self.budgets.connection_out_bytes_max

    def _header_frames(self, number: int, block: bytes, flags: int = 0) -> bytes:
        """Return the frames of a header block; the first block of the connection sets the table's size to 0."""
        if self._table_update:
            block = self._table_update + block
            self._table_update = b""
        if len(block) > self._outflow.frame_max:
            return h2.header_frames(number, block, self._outflow.frame_max, end_stream=bool(flags))
        return h2.encode_frame(h2.HEADERS, flags | h2.END_HEADERS, number, block)


def _add_fields(block: bytes, fields: Fields) -> bytes:
    return block + literal_block(fields) if fields else block


def _status_block(status: GrpcStatus, text: str) -> bytes:
    fields = [("grpc-status", str(int(status)))]
    if text:
        fields.append(("grpc-message", encode_percent(text)))
    return literal_block(fields)
