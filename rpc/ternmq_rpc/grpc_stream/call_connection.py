"""A client's connection at the call server: turns its events into calls, and enforces its limits."""

from typing import TYPE_CHECKING

from ternmq_common.output_room import AnswerRoom, OutputRoom
from ternmq_rpc.grpc_http2.events import Event
from ternmq_rpc.grpc_http2.frames import PREFACE, ErrorCode
from ternmq_rpc.grpc_http2.messages import Status
from ternmq_rpc.grpc_http2.server_machine import ServerMachine
from ternmq_rpc.grpc_http2.time_limits import TimeLimits
from ternmq_rpc.grpc_stream.connection import Http2Connection
from ternmq_rpc.grpc_stream.deadlines import TIMEOUT, parsed_timeout
from ternmq_rpc.grpc_stream.served_call import ServedCall

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from ternmq_rpc.grpc_http2.machine import ConnectionFailure
    from ternmq_rpc.grpc_http2.server_machine import Fields
    from ternmq_rpc.grpc_stream.call_server import CallServer

# A connection that holds so much of complete requests will hold less when they end, so it may be paused.
_WHOLE_BYTES = 256 << 10
_TLS_ONLY = "this port takes TLS only, and the connection is plain text"


class CallConnection(Http2Connection[ServedCall, ServerMachine[ServedCall]]):
    """One connection of a `CallServer`. `reads_nothing`: the bytes that wait for the client have not moved between the
    last two checks."""

    __slots__ = (
        "_is_plain",
        "_limits",
        "_room",
        "_sent",
        "_server",
        "_tasks",
        "_waits",
        "deadlines",
        "listener",
        "message_max",
        "note",
        "reads_nothing",
    )

    def __init__(self, server: "CallServer", listener: str) -> None:
        super().__init__(buffer=server.buffer)
        self.message_max = server.budgets.message_bytes_max
        self.listener = listener
        self.deadlines = server.deadlines
        self.reads_nothing = False
        self.note: object = None
        self._server = server
        self._tasks = 0
        self._sent = 0
        self._waits = False
        self._is_plain = False  # plain text where only TLS is served
        self._room: OutputRoom | None = None
        self._limits = TimeLimits(self.loop.time())

    def make_machine(self) -> ServerMachine[ServedCall]:
        server = self._server
        return ServerMachine(self._make_call, server.headers, server.budgets, server.ledger, self.loop.time())

    def _make_call(self, number: int, out_window: int, headers: dict[str, str]) -> ServedCall:
        return ServedCall(self, number, out_window, headers)

    def connection_made(self, transport: "asyncio.BaseTransport") -> None:
        super().connection_made(transport)
        self._server.made(self)

    def on_lost(self) -> None:
        self.machine.let_go()
        self._server.lost(self)

    def leave(self) -> None:
        """Accept no more calls."""
        self.machine.leave("the server ends")
        self.schedule()

    def end_calls(self) -> None:
        """Abort the calls in progress."""
        for call in list(self.machine.streams.values()):
            call.abort("the server ends", status=Status.UNAVAILABLE)

    # --- what is received

    def on_event(self, event: Event, stream: ServedCall, text: str) -> None:
        del text
        if event is Event.STARTED:
            self._started(stream)
        elif stream.method is None:
            return  # it was refused
        elif stream.task is not None:
            stream.wake_reader()
        elif not stream.gone and not stream.pends:
            self._serve(stream)

    def _started(self, call: ServedCall) -> None:
        machine = self.machine
        headers = call.headers
        if call.gone:
            return
        if self._is_plain:
            machine.abort(call, Status.UNAVAILABLE, _TLS_ONLY)
            return
        if headers[":method"] != "POST" or not headers.get("content-type", "").startswith("application/grpc"):
            machine.refuse_http(call)
            return
        method = self._server.find(headers[":path"])
        if method is None:
            machine.abort(call, Status.UNIMPLEMENTED, f"{headers[':path']} is not served here")
            return
        if machine.overfull():
            self._server.limits.say(self.peer, "connection_out_bytes", "it does not read its answers")
            machine.abort(call, Status.RESOURCE_EXHAUSTED, "this connection has too many answers that were not read")
            return
        if self._tasks - len(machine.streams) > self._server.budgets.streams_max:
            self.cut_off("resets", "calls are broken off faster than they end")
            return
        call.method = method
        if TIMEOUT in headers:
            timeout_s = parsed_timeout(headers[TIMEOUT])
            if timeout_s is not None:
                call.deadline = machine.now + timeout_s
                self.deadlines.set(call, call.deadline, machine.now)
        if method.talks:
            machine.converse(call)
            self._serve(call)

    def after_receive(self) -> None:
        if self._server.holds_much:
            self._wait_if_it_helps()
            self._server.relieve()
        if self.machine.limits is not None:
            limits, self.machine.limits = self.machine.limits, None
            for limit, times in limits.items():
                self._server.limits.say(self.peer, limit, "calls are ended", times=times)

    def _wait_if_it_helps(self) -> None:
        """Read nothing until a call has ended, if some calls have all that they need to end."""
        if self.machine.held - self.machine.partial > _WHOLE_BYTES:
            self._waits = True
            self._pause_reading()

    def resume_reading(self) -> None:
        if not self._waits:
            super().resume_reading()

    # --- limits

    def on_failure(self, failure: "ConnectionFailure") -> None:
        why = f"the connection is closed: {failure.code.name}, {failure}"
        self._server.limits.say(self.peer, failure.limit or "protocol", why)

    def cut_off(self, limit: str, why: str) -> None:
        """Close the connection because of what it holds."""
        self.machine.fail(ErrorCode.ENHANCE_YOUR_CALM, why, limit)
        if self.machine.failure is not None and not self.closed:
            self._failed(self.machine.failure)

    def refuse_plain(self, begun: bytes) -> bool:
        """Tell a client that speaks plain text that only TLS is served here; return whether the connection goes on.

        HTTP/2 goes on and each call is refused: clients whose connection is closed for it connect again at once,
        hundreds of times a second. Other connections are closed."""
        if PREFACE.startswith(begun[: len(PREFACE)]):
            self._is_plain = True
            self._server.limits.say(self.peer, "plain", _TLS_ONLY)
            return True
        self.machine.fail(ErrorCode.INADEQUATE_SECURITY, _TLS_ONLY, "plain")
        assert self.machine.failure is not None
        self._failed(self.machine.failure)
        return False

    def look(self, now: float, *, crowded: bool) -> None:
        """End what takes too long."""
        if self.closed:
            return
        machine = self.machine
        self.reads_nothing = machine.unread > 0 and machine.sent == self._sent
        self._sent = machine.sent
        for call in self._limits.look(machine, now, crowded=crowded):
            text = f"the request did not come within {machine.budgets.body_timeout_s:g} s"
            self._server.limits.say(self.peer, "body_timeout", "calls are ended: their requests do not come")
            call.abort(text, status=Status.DEADLINE_EXCEEDED)
        if machine.failure is not None:
            self._failed(machine.failure)
        elif machine.has_output:
            self.flush()

    def answer_room(self) -> AnswerRoom:
        """Return the room for one call's answer, within the limit of this connection."""
        if self._room is None:
            self._room = OutputRoom(lambda: self.machine.unread, self._server.budgets.connection_out_bytes_max)
        return AnswerRoom(self._room)

    def flush(self) -> None:
        super().flush()
        if self._room is not None:
            self._room.changed()

    # --- calls

    def _serve(self, call: ServedCall) -> None:
        self._tasks += 1
        assert call.method is not None
        at_once, messages = call.method.at_once, call.incoming.messages
        if at_once is not None and len(messages) == 1:
            call.pends = True
            self._server.pending += 1
            if at_once(call, messages.first):
                return
            call.pends = False
            self._server.pending -= 1
        call.task = self._server.serve(call)
        if call.task is None and not call.concluded:
            self._ended(call)

    def answered(self, call: ServedCall) -> None:
        """Stop counting a call that is served without a task and about to be answered."""
        call.pends = False
        self.deadlines.unset(call)
        self._tasks -= 1
        self._server.answered()
        if self._waits:
            self._go_on_reading()

    def served(self, call: ServedCall, task: "asyncio.Task[None]") -> None:
        """Note that the call's task has ended, in whatever way."""
        del self._server.tasks[task]
        if not call.concluded:
            self._ended(call)

    def concludes(self, call: ServedCall) -> None:
        """Note that the call is no longer served, while its answer is being sent."""
        call.pends = True
        self._server.pending += 1

    def concluded(self, call: ServedCall) -> None:
        """Note that the answer is with the kernel, or can never be sent."""
        call.pends = False
        self._server.answered()
        self._ended(call)

    def _ended(self, call: ServedCall) -> None:
        """Stop serving the call; abort it if nobody ended it."""
        self.deadlines.unset(call)
        self._tasks -= 1
        if not call.gone:
            call.abort("it is not served any more", status=Status.CANCELLED)
        self._go_on_reading()

    def took(self, stream: ServedCall, size: int) -> None:
        super().took(stream, size)
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        if self._waits:
            self._waits = False
            self.resume_reading()

    # --- what is sent

    def begin(self, call: ServedCall, fields: "Fields") -> None:
        """Send the headers of the answer."""
        self.machine.begin(call, fields)
        self.schedule()

    def finish(self, call: ServedCall, messages: "Sequence[bytes]", trailers: "Fields") -> bool:
        """Send the messages and the end of the call, if nothing has to wait; return whether it was sent."""
        done = self.machine.finish(call, messages, trailers)
        self.schedule()
        return done

    def end(self, call: ServedCall) -> None:
        """End the call after all that waits."""
        self.machine.end(call, call.trailers)
        self.schedule()
