"""The client's end of a connection that has many calls at a time."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.client_connection import BUDGETS, ClientConnection
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_rpc.serving.deadlines import CallDeadlines

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_rpc.grpc_http2.client_machine import Headers

_LATE: Final = "no answer came in time"


class ClientCall(MessageStream):
    """One call of a client, for its user: a stream. `answer` is that of a call with one request and one answer, which
    needs no task that reads it."""

    __slots__ = ("_calls", "answer", "moment")

    def __init__(self, connection: "CallsConnection", number: int, out_window: int) -> None:
        super().__init__(connection, number, out_window, message_max=connection.message_max)
        self._calls = connection
        self.answer: asyncio.Future[bytes] | None = None
        self.moment = 0.0

    def send_request(self, message: bytes) -> None:
        """Send the only message of this side, and end it."""
        self._calls.send_request(self, message)

    def expire_call(self) -> None:
        """End it: its deadline has passed."""
        self._messages.clear()
        self.status = int(GrpcStatus.DEADLINE_EXCEEDED)
        self._calls.abort_stream(self, GrpcStatus.DEADLINE_EXCEEDED, _LATE)

    def mark_broken(self, why: str, status: int | None = None) -> bool:
        self._calls.forget_call(self)
        return super().mark_broken(why, status)

    def report_broken(self) -> None:
        answer = self.answer
        if answer is None:
            super().report_broken()
        elif not answer.done():
            answer.set_exception(self._failure_error())

    def set_answer(self) -> None:
        """Set the answer, for the caller that waits for it."""
        answer, messages = self.answer, self._messages
        assert answer is not None
        if not answer.done():
            if len(messages) == 1:
                answer.set_result(messages.first_message)
            else:
                why = f"{len(messages)} answers came, one was expected"
                answer.set_exception(StreamBroken(why, status=int(GrpcStatus.INTERNAL)))


class CallsConnection(ClientConnection[ClientCall]):
    """A connection for calls. `on_unusable` is called once, when it takes no more calls: the server leaves, or the
    connection was lost; the text says why.

    Room       the server says how many calls may be open. Others wait, in the order in which they came.
    Keepalive  a connection on which nothing was read for `keepalive_s` is probed by a ping; one that is silent for
               `keepalive_timeout_s` after that is closed.
    """

    __slots__ = (
        "_deadlines",
        "_granted",
        "_keepalive_s",
        "_keepalive_timeout_s",
        "_keepalive_timer",
        "_on_unusable",
        "_waiting",
    )

    def __init__(
        self,
        authority: str,
        *,
        on_unusable: "Callable[[CallsConnection, str], None]",
        keepalive_s: float,
        keepalive_timeout_s: float,
    ) -> None:
        super().__init__(authority, message_max=BUDGETS.message_bytes_max)
        self._on_unusable: Callable[[CallsConnection, str], None] | None = on_unusable
        self._keepalive_s = keepalive_s
        self._keepalive_timeout_s = keepalive_timeout_s
        self._keepalive_timer: asyncio.TimerHandle | None = None
        self._deadlines = CallDeadlines()
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Calls that were given room and have not begun yet.
        self._granted = 0

    # --- calls

    @property
    def has_room(self) -> bool:
        """Whether a call may begin at once."""
        return self.machine.has_room and not self._waiting and not self._granted

    async def wait_room(self) -> None:
        """Wait for the turn of a call, which must begin at once then. StreamBroken: the connection takes no more."""
        if self._on_unusable is None:
            raise StreamBroken(f"{self.authority} takes no more calls on this connection", is_refused=True)
        turn: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append(turn)
        self._admit_waiting()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._granted -= 1
                self._admit_waiting()
            raise
        self._granted -= 1

    def _admit_waiting(self) -> None:
        machine, waiting = self.machine, self._waiting
        while waiting and len(machine.streams) + self._granted < machine.streams_max:
            turn = waiting.popleft()
            if not turn.done():
                self._granted += 1
                turn.set_result(None)

    def begin_call(self, method: str, headers: "Headers", timeout_s: float) -> ClientCall:
        """Begin a call, which ends after `timeout_s` seconds; 0: never. There must be room."""
        call = self.machine.open_stream(method, self._create_call, headers, timeout_s=timeout_s)
        if timeout_s:
            now = self.loop.time()
            self._deadlines.set_deadline(call, now + timeout_s, now)
        self.schedule_write()
        return call

    def begin_unary(self, method: str, headers: "Headers", request: bytes, timeout_s: float) -> ClientCall:
        """Begin a call with this request and one answer, `ClientCall.answer`."""
        call = self.begin_call(method, headers, timeout_s)
        call.answer = self.loop.create_future()
        self.machine.send_request(call, request)
        return call

    def send_request(self, call: ClientCall, message: bytes) -> None:
        """Send the only message of this side, and end it."""
        self.machine.send_request(call, message)
        self.schedule_write()

    def _create_call(self, number: int, out_window: int) -> ClientCall:
        return ClientCall(self, number, out_window)

    def forget_call(self, call: ClientCall) -> None:
        """Note that a call has ended."""
        self._deadlines.clear_deadline(call)

    def end_stream(self, stream: ClientCall) -> None:
        """End this side of a call after all that waits."""
        self.machine.end_stream(stream)
        self.schedule_write()

    def abort_stream(self, stream: ClientCall, status: GrpcStatus, text: str) -> None:
        super().abort_stream(stream, status, text)
        self._admit_or_close()

    # --- what is received

    def handle_event(self, event: EventKind, stream: ClientCall, text: str) -> None:
        del text
        if event is EventKind.ENDED:
            self._deadlines.clear_deadline(stream)
            if stream.answer is not None:
                stream.set_answer()
                return
            stream.refuse_writes(f"{self.authority} has ended the call")
        if stream.answer is None:
            stream.wake_reader()

    def after_receive(self) -> None:
        self._admit_or_close()

    def _admit_or_close(self) -> None:
        """Let others begin where calls have ended; close a connection that takes no more, after its last call."""
        if self._waiting:
            self._admit_waiting()
        if self.machine.leaving and not self.machine.streams and not self.closed:
            self.hang_up("the server has ended the connection")

    # --- the connection's life

    def handle_greeting(self) -> None:
        super().handle_greeting()
        self._keepalive_timer = self.loop.call_later(self._keepalive_s, self._probe_server)

    def handle_leaving(self, why: str) -> None:
        self._end_calls(f"{self.peer}: {why}")

    def handle_lost(self) -> None:
        super().handle_lost()
        self._end_calls(self._end_reason or f"{self.authority} closed the connection")

    def hang_up(self, why: str) -> None:
        if not self.closed:
            self.machine.send_goaway()
        super().hang_up(why)
        self._end_calls(why)

    def _end_calls(self, why: str) -> None:
        """Take no more calls."""
        if self._keepalive_timer is not None and (self.closed or self._transport is None):
            self._keepalive_timer.cancel()
            self._keepalive_timer = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(StreamBroken(why, is_refused=True))
        report, self._on_unusable = self._on_unusable, None
        if report is not None:
            report(self, why)

    def _probe_server(self) -> None:
        """Ping the server if it is silent, and look again later."""
        silent_s = self.loop.time() - self.machine.last_read
        if silent_s >= self._keepalive_s:
            self.machine.send_ping()
            self.schedule_write()
            self._keepalive_timer = self.loop.call_later(
                self._keepalive_timeout_s, self._check_answer, self.loop.time()
            )
        else:
            self._keepalive_timer = self.loop.call_later(self._keepalive_s - silent_s, self._probe_server)

    def _check_answer(self, sent_at: float) -> None:
        if self.machine.last_read < sent_at:
            self._end_reason = f"{self.authority} does not answer pings"
            if self._transport is not None:
                self._transport.abort()
        else:
            self._probe_server()
