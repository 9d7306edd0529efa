"""One call of a client, for the code that serves it: a stream with the headers and the deadline of the call."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.callbacks import tell
from ternmq_rpc.grpc_http2.messages import Status
from ternmq_rpc.grpc_stream.stream import Stream

if TYPE_CHECKING:
    import asyncio

    from ternmq_common.output_room import AnswerRoom
    from ternmq_rpc.grpc_http2.server_machine import Fields
    from ternmq_rpc.grpc_stream.call_connection import CallConnection


class ServedMethod(NamedTuple):
    """How calls of a method are served: in a task each, from their first message on.

    `talks`: the method is a conversation. It is served from the headers on, and a server that stops does not wait for
    it. `at_once` is tried first, with the first message, and needs no task. If it returns True it has answered the call
    (`ServedCall.answer`), or will; else it has done nothing. It must not raise.
    """

    serve: Callable[["ServedCall"], Awaitable[None]]
    talks: bool = False
    at_once: Callable[["ServedCall", bytes], bool] | None = None


class CallRefused(Exception):
    """Ends the call that is being served with this status; the text is for the client."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        super().__init__(text)


class ServedCall(Stream):
    """A call. The task that serves it is cancelled when the client aborts it or disconnects, or its deadline passes.

    `method` is None for a call that is not served. `pends`: it is served without a task, and not answered yet.
    `concluded`: its answer was handed over, and the code that served it is done.
    """

    __slots__ = (
        "_client",
        "_told",
        "concluded",
        "deadline",
        "headers",
        "method",
        "moment",
        "pends",
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
        self.pends = False
        self.concluded = False
        self._told: Callable[[bool], None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.trailers: Fields = ()

    @property
    def listener(self) -> str:
        """The name of the listener that accepted the connection."""
        return self._client.listener

    @property
    def note(self) -> object:
        """What the server's owner has noted about the connection, for the next call; None at first."""
        return self._client.note

    @note.setter
    def note(self, note: object) -> None:
        self._client.note = note

    @property
    def came_at(self) -> float:
        """About when its request arrived, by the loop's clock."""
        return self._client.machine.came

    def room(self) -> "AnswerRoom":
        """Return the room for its answer, to be reserved before anything is taken for it."""
        return self._client.answer_room()

    def remaining_s(self) -> float | None:
        """Return how long the client will still wait; None if for ever."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - self._client.loop.time())

    def begin(self, *fields: tuple[str, str]) -> None:
        """Send the headers of the answer now, with these fields; else they go with its first message."""
        if not self.begun and self._shut is None:
            self._client.begin(self, fields)

    def write(self, *messages: bytes) -> None:
        self.begin()
        super().write(*messages)

    async def finish(self, *messages: bytes, assured: bool = False, trailers: "Fields" = ()) -> None:
        """Send the rest of the answer, and end the call in order, with these trailers.

        `assured`: return when the kernel has everything; StreamBroken if it never will.
        """
        if self._shut is not None:
            raise self._why()
        if self._client.finish(self, messages, trailers):
            self.ended_here = True
            self._shut = "the call was answered"
            if assured:
                await self.drained()
        else:
            self.write(*messages)
            await self.end(trailers=trailers)

    def answer(self, message: bytes) -> None:
        """End a call that is served without a task with this message; does nothing if the client has disconnected."""
        self._client.answered(self)
        if self._shut is None:
            self._finish((message,))

    def conclude(self, messages: "Sequence[bytes]", told: "Callable[[bool], None]") -> None:
        """Send the rest of the answer and end the call in order, without waiting. `told` is called with whether the
        kernel got all of it. Nothing more has to be done for the call, and its task, if it has one, may end."""
        assert not self.concluded
        self.concluded = True
        self._told = told
        self._client.concludes(self)
        if self._shut is None:
            self._finish(messages)
        self._look()

    def _finish(self, messages: "Sequence[bytes]") -> None:
        """Send the rest without waiting: what can't be sent now follows."""
        if self._client.finish(self, messages, ()):
            self.ended_here = True
            self._shut = "the call was answered"
        else:
            self.write(*messages)
            self._shut = "this side has ended the stream"
            self._end()

    def _look(self) -> None:
        """Report the outcome of the answer, if it is known."""
        if self._broken is None and self._client.holds(self):
            return
        told, self._told = self._told, None
        if told is not None:  # else it was reported meanwhile
            self._client.concluded(self)
            tell(told, self._broken is None and self.ended_here)

    async def end(self, *, trailers: "Fields" = ()) -> None:
        """End the call in order, with these trailers after what was written."""
        if trailers:
            self.trailers = trailers
        await super().end()

    def _end(self) -> None:
        if not self.begun:
            self._client.begin(self, ())
        super()._end()

    # --- for the connection

    def wake_writers(self) -> None:
        super().wake_writers()
        if self._told is not None:
            self._look()

    def tell_broken(self) -> None:
        super().tell_broken()
        self._client.deadlines.unset(self)
        if self.task is not None:
            self.task.cancel()

    def expire(self) -> None:
        """Abort the call: its deadline has passed."""
        self.abort("the deadline has passed", status=Status.DEADLINE_EXCEEDED)

    def served(self, task: "asyncio.Task[None]") -> None:
        """Note that the call's task has ended."""
        self.task = None
        self._client.served(self, task)
