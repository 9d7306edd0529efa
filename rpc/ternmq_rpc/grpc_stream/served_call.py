"""One call of a client, for the code that serves it: a stream with the headers and the deadline of the call."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.event_loop.callbacks import call_back
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.grpc_stream.stream import MessageStream

if TYPE_CHECKING:
    import asyncio

    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_rpc.grpc_http2.server_machine import Fields
    from ternmq_rpc.grpc_stream.call_connection import CallConnection


class ServedMethod(NamedTuple):
    """How calls of a method are served: in a task each, from their first message on.

    `is_conversation`: the method is a conversation. It is served from the headers on, and a server that stops does not
    wait for it. `serve_directly` is tried first, with the first message, and needs no task. If it returns True it has
    answered the call (`ServedCall.answer_directly`), or will; else it has done nothing. It must not raise.
    """

    serve: Callable[["ServedCall"], Awaitable[None]]
    is_conversation: bool = False
    serve_directly: Callable[["ServedCall", bytes], bool] | None = None


class CallRefused(Exception):
    """Ends the call that is being served with this status; the text is for the client."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        self.status = status
        super().__init__(text)


class ServedCall(MessageStream):
    """A call. The task that serves it is cancelled when the client aborts it or disconnects, or its deadline passes.

    `method` is None for a call that is not served. `is_pending`: it is served without a task, and not answered yet.
    `is_concluded`: its answer was handed over, and the code that served it is done.
    """

    __slots__ = (
        "_client",
        "_on_concluded",
        "deadline",
        "headers",
        "is_concluded",
        "is_pending",
        "method",
        "moment",
        "task",
        "trailers",
    )

    def __init__(self, connection: "CallConnection", number: int, out_window: int, headers: dict[str, str]) -> None:
        super().__init__(connection, number, out_window, message_max=connection.message_max)
        self._client = connection
        self.method: ServedMethod | None = None
        self.headers = headers
        self.deadline: float | None = None
        self.moment = 0.0
        self.is_pending = False
        self.is_concluded = False
        self._on_concluded: Callable[[bool], None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.trailers: Fields = ()

    @property
    def is_awaited(self) -> bool:
        """Whether a server that stops waits for its end."""
        return self.method is not None and not self.method.is_conversation

    @property
    def listener(self) -> str:
        """The name of the listener that accepted the connection."""
        return self._client.listener

    @property
    def note(self) -> object:
        """A note of the server's owner about the connection, for the next call; None at first."""
        return self._client.note

    @note.setter
    def note(self, note: object) -> None:
        self._client.note = note

    @property
    def received_at(self) -> float:
        """About when its request arrived, by the loop's clock."""
        return self._client.machine.last_arrival

    def open_answer_room(self) -> "AnswerRoom":
        """Return the room for its answer, to be reserved before anything is taken for it."""
        return self._client.open_answer_room()

    def remaining_s(self) -> float | None:
        """Return how long the client will still wait; None if for ever."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - self._client.loop.time())

    def send_headers(self, *fields: tuple[str, str]) -> None:
        """Send the headers of the answer now, with these fields; else they go with its first message."""
        if not self.has_headers and self._shut is None:
            self._client.send_headers(self, fields)

    def write_messages(self, *messages: bytes) -> None:
        self.send_headers()
        super().write_messages(*messages)

    async def finish_answer(self, *messages: bytes, assured: bool = False, trailers: "Fields" = ()) -> None:
        """Send the rest of the answer, and end the call in order, with these trailers.

        `assured`: return when the kernel has everything; StreamBroken if it never will.
        """
        if self._shut is not None:
            raise self._failure_error()
        if self._client.finish_call(self, messages, trailers):
            self.is_ended_here = True
            self._shut = "the call was answered"
            if assured:
                await self.wait_drained()
        else:
            self.write_messages(*messages)
            await self.end_stream(trailers=trailers)

    def answer_directly(self, message: bytes) -> None:
        """End a call that is served without a task with this message; does nothing if the client has disconnected."""
        self._client.forget_answered(self)
        if self._shut is None:
            self._send_rest((message,))

    def conclude_answer(self, messages: "Sequence[bytes]", on_concluded: "Callable[[bool], None]") -> None:
        """Send the rest of the answer and end the call in order, without waiting. `on_concluded` is called with whether
        the kernel got all of it. Nothing more has to be done for the call, and its task, if it has one, may end."""
        assert not self.is_concluded
        self.is_concluded = True
        self._on_concluded = on_concluded
        self._client.begin_concluding(self)
        if self._shut is None:
            self._send_rest(messages)
        self._report_outcome()

    def _send_rest(self, messages: "Sequence[bytes]") -> None:
        """Send the rest without waiting: what can't be sent now follows."""
        if self._client.finish_call(self, messages, ()):
            self.is_ended_here = True
            self._shut = "the call was answered"
        else:
            self.write_messages(*messages)
            self._shut = "this side has ended the stream"
            self._send_end()

    def _report_outcome(self) -> None:
        """Report the outcome of the answer, if it is known."""
        if self._broken is None and self._client.has_unsent(self):
            return
        callback, self._on_concluded = self._on_concluded, None
        if callback is not None:  # else it was reported meanwhile
            self._client.end_concluding(self)
            call_back(callback, self._broken is None and self.is_ended_here)

    async def end_stream(self, *, trailers: "Fields" = ()) -> None:
        """End the call in order, with these trailers after what was written."""
        if trailers:
            self.trailers = trailers
        await super().end_stream()

    def _send_end(self) -> None:
        if not self.has_headers:
            self._client.send_headers(self, ())
        super()._send_end()

    # --- for the connection

    def wake_writers(self) -> None:
        super().wake_writers()
        if self._on_concluded is not None:
            self._report_outcome()

    def report_broken(self) -> None:
        super().report_broken()
        self._client.deadlines.clear_deadline(self)
        if self.task is not None:
            self.task.cancel()

    def expire_call(self) -> None:
        """Abort the call: its deadline has passed."""
        self.abort_stream("the deadline has passed", status=GrpcStatus.DEADLINE_EXCEEDED)

    def task_ended(self, task: "asyncio.Task[None]") -> None:
        """Note that the call's task has ended."""
        self.task = None
        self._client.forget_served(self, task)
