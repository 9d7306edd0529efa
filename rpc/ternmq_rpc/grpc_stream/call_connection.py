"""A client's connection at the call server: turns its events into calls, and enforces its limits."""

from typing import TYPE_CHECKING, Final

from ternmq_common.receiving.output_room import AnswerRoom, OutputRoom
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.frames import PREFACE, ErrorCode
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_http2.server_machine import ServerMachine
from ternmq_rpc.grpc_http2.timeouts import TIMEOUT, parse_timeout
from ternmq_rpc.grpc_stream.connection import Http2Connection
from ternmq_rpc.grpc_stream.served_call import ServedCall
from ternmq_rpc.serving.time_limits import TimeLimits

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from ternmq_rpc.grpc_http2.machine import ConnectionFailure
    from ternmq_rpc.grpc_http2.server_machine import Fields
    from ternmq_rpc.grpc_stream.call_server import CallServer
    from ternmq_rpc.serving.pending_calls import PendingCalls

# A connection with so many bytes of complete requests will have fewer when they end, so it may be paused.
_WHOLE_BYTES: Final = 256 << 10
_TLS_ONLY: Final = "this port takes TLS only, and the connection is plain text"


class CallConnection(Http2Connection[ServedCall, ServerMachine[ServedCall]]):
    """One connection of a `CallServer`. `reads_nothing`: the bytes that wait for the client have not moved between the
    last two checks."""

    __slots__ = (
        "_is_plain",
        "_limits",
        "_pending_calls",
        "_room",
        "_sent",
        "_server",
        "_tasks",
        "_waits_for_calls",
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
        self._pending_calls: PendingCalls = server.pending_calls
        self._tasks = 0
        self._sent = 0
        self._waits_for_calls = False
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
        self._server.add_connection(self)

    def handle_lost(self) -> None:
        self.machine.release_shell()
        self._server.remove_connection(self)

    def stop_calls(self) -> None:
        """Accept no more calls."""
        self.machine.stop_calls("the server ends")
        self.schedule_write()

    def end_calls(self) -> None:
        """Abort the calls in progress."""
        for call in list(self.machine.streams.values()):
            call.abort_stream("the server ends", status=GrpcStatus.UNAVAILABLE)

    # --- what is received

    def handle_event(self, event: EventKind, stream: ServedCall, text: str) -> None:
        del text
        if event is EventKind.STARTED:
            self._start_call(stream)
        elif stream.method is None:
            return  # it was refused
        elif stream.task is not None:
            stream.wake_reader()
        elif not stream.is_forgotten and not stream.is_pending:
            self._serve_call(stream)

    def _start_call(self, call: ServedCall) -> None:
        machine = self.machine
        headers = call.headers
        if call.is_forgotten:
            return
        if self._is_plain:
            machine.abort_stream(call, GrpcStatus.UNAVAILABLE, _TLS_ONLY)
            return
        if headers[":method"] != "POST" or not headers.get("content-type", "").startswith("application/grpc"):
            machine.refuse_http(call)
            return
        method = self._server.find(headers[":path"])
        if method is None:
            machine.abort_stream(call, GrpcStatus.UNIMPLEMENTED, f"{headers[':path']} is not served here")
            return
        if machine.is_overfull():
            self._server.limits.log_limit(self.peer, "connection_out_bytes", "it does not read its answers")
            machine.abort_stream(
                call, GrpcStatus.RESOURCE_EXHAUSTED, "this connection has too many answers that were not read"
            )
            return
        if self._tasks - len(machine.streams) > self._server.budgets.streams_max:
            self.cut_off("resets", "calls are broken off faster than they end")
            return
        call.method = method
        if TIMEOUT in headers:
            timeout_s = parse_timeout(headers[TIMEOUT])
            if timeout_s is not None:
                call.deadline = machine.now + timeout_s
                self.deadlines.set_deadline(call, call.deadline, machine.now)
        if method.is_conversation:
            machine.begin_conversation(call)
            self._serve_call(call)

    def after_receive(self) -> None:
        if self.machine.ledger.is_nearly_full:
            self._pause_if_useful()
            self._server.limit_input()
        if self.machine.limit_counts is not None:
            limits, self.machine.limit_counts = self.machine.limit_counts, None
            for limit, times in limits.items():
                self._server.limits.log_limit(self.peer, limit, "calls are ended", times=times)

    def _pause_if_useful(self) -> None:
        """Read nothing until a call has ended, if some calls have all that they need to end."""
        if self.machine.held_bytes - self.machine.partial_bytes > _WHOLE_BYTES:
            self._waits_for_calls = True
            self._pause_reading()

    def resume_reading(self) -> None:
        if not self._waits_for_calls:
            super().resume_reading()

    # --- limits

    def handle_failure(self, failure: "ConnectionFailure") -> None:
        why = f"the connection is closed: {failure.code.name}, {failure}"
        self._server.limits.log_limit(self.peer, failure.limit or "protocol", why)

    def cut_off(self, limit: str, why: str) -> None:
        """Close the connection because of the memory it uses."""
        self.machine.fail_connection(ErrorCode.ENHANCE_YOUR_CALM, why, limit)
        if self.machine.failure is not None and not self.closed:
            self._close_failed(self.machine.failure)

    def refuse_plain(self, begun: bytes) -> bool:
        """Tell a client that speaks plain text that only TLS is served here; return whether the connection goes on.

        HTTP/2 goes on and each call is refused: clients whose connection is closed for it connect again at once,
        hundreds of times a second. Other connections are closed."""
        if PREFACE.startswith(begun[: len(PREFACE)]):
            self._is_plain = True
            self._server.limits.log_limit(self.peer, "plain", _TLS_ONLY)
            return True
        self.machine.fail_connection(ErrorCode.INADEQUATE_SECURITY, _TLS_ONLY, "plain")
        assert self.machine.failure is not None
        self._close_failed(self.machine.failure)
        return False

    @property
    def held_bytes(self) -> int:
        """The bytes of its requests in progress."""
        return self.machine.held_bytes

    @property
    def unread_bytes(self) -> int:
        """The bytes of its answers that the client has not read."""
        return self.machine.unread_bytes

    def check_limits(self, now: float, *, crowded: bool) -> None:
        """End what takes too long."""
        if self.closed:
            return
        machine = self.machine
        self.reads_nothing = machine.unread_bytes > 0 and machine.sent_bytes == self._sent
        self._sent = machine.sent_bytes
        for call in self._limits.check_limits(machine, now, crowded=crowded):
            text = f"the request did not come within {machine.budgets.body_timeout_s:g} s"
            self._server.limits.log_limit(self.peer, "body_timeout", "calls are ended: their requests do not come")
            call.abort_stream(text, status=GrpcStatus.DEADLINE_EXCEEDED)
        if machine.failure is not None:
            self._close_failed(machine.failure)
        elif machine.has_output:
            self.write_output()
        else:
            self.quiet_until = self._limits.quiet_until(machine)

    def open_answer_room(self) -> AnswerRoom:
        """Return the room for one call's answer, within the limit of this connection."""
        if self._room is None:
            self._room = OutputRoom(lambda: self.machine.unread_bytes, self._server.budgets.connection_out_bytes_max)
        return AnswerRoom(self._room)

    def write_output(self) -> None:
        super().write_output()
        if self._room is not None:
            self._room.admit_waiting()

    # --- calls

    def _serve_call(self, call: ServedCall) -> None:
        self._tasks += 1
        assert call.method is not None
        at_once, messages = call.method.serve_directly, call.incoming.messages
        if at_once is not None and len(messages) == 1:
            call.is_pending = True
            self._pending_calls.add_call()
            if at_once(call, messages.first_message):
                return
            call.is_pending = False
            self._pending_calls.remove_call()
        call.task = self._server.start_call(call)
        if call.task is None and not call.is_concluded:
            self._end_call(call)

    def forget_answered(self, call: ServedCall) -> None:
        """Stop counting a call that is served without a task and about to be answered."""
        call.is_pending = False
        self.deadlines.clear_deadline(call)
        self._tasks -= 1
        self._pending_calls.remove_call()
        if self._waits_for_calls:
            self._resume_after_wait()

    def forget_served(self, call: ServedCall, task: "asyncio.Task[None]") -> None:
        """Note that the call's task has ended, with or without an error."""
        del self._server.tasks[task]
        if not call.is_concluded:
            self._end_call(call)

    def begin_concluding(self, call: ServedCall) -> None:
        """Note that the call is no longer served, while its answer is being sent."""
        call.is_pending = True
        self._pending_calls.add_call()

    def end_concluding(self, call: ServedCall) -> None:
        """Note that the answer is with the kernel, or can never be sent."""
        call.is_pending = False
        self._pending_calls.remove_call()
        self._end_call(call)

    def _end_call(self, call: ServedCall) -> None:
        """Stop serving the call; abort it if it has not ended."""
        self.deadlines.clear_deadline(call)
        self._tasks -= 1
        if not call.is_forgotten:
            call.abort_stream("it is not served any more", status=GrpcStatus.CANCELLED)
        self._resume_after_wait()

    def count_read(self, stream: ServedCall, size: int) -> None:
        super().count_read(stream, size)
        self._resume_after_wait()

    def _resume_after_wait(self) -> None:
        if self._waits_for_calls:
            self._waits_for_calls = False
            self.resume_reading()

    # --- what is sent

    def send_headers(self, call: ServedCall, fields: "Fields") -> None:
        """Send the headers of the answer."""
        self.machine.send_headers(call, fields)
        self.schedule_write()

    def finish_call(self, call: ServedCall, messages: "Sequence[bytes]", trailers: "Fields") -> bool:
        """Send the messages and the end of the call, if nothing has to wait; return whether it was sent."""
        done = self.machine.finish_call(call, messages, trailers)
        self.schedule_write()
        return done

    def end_stream(self, call: ServedCall) -> None:
        """End the call after all that waits."""
        self.machine.end_call(call, call.trailers)
        self.schedule_write()
