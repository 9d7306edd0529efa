"""One call, as who serves it sees it: a stream with the headers and the deadline that it came with."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.grpc_stream.messages import Status
from ternmq_common.grpc_stream.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_common.grpc_stream.call_server import CallConnection
    from ternmq_common.grpc_stream.outflow import StreamOutflow
    from ternmq_common.output_room import AnswerRoom


class Method(NamedTuple):
    """How calls of a method are served: in a task each, from their first message on.

    `talks` is for conversations: they are served from their headers on, and a server that ends does not wait for them.
    """

    serve: "Callable[[ServedCall], Awaitable[None]]"
    talks: bool = False


class CallRefused(Exception):
    """Ends the call that is served with this status; the text is for the client."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        super().__init__(text)


class ServedCall(Stream):
    """The task that serves it is cancelled when the client breaks it off or is gone, or its deadline has passed."""

    __slots__ = ("begun", "deadline", "headers", "method", "moment", "task")

    _connection: "CallConnection"

    def __init__(
        self,
        connection: "CallConnection",
        out: "StreamOutflow",
        method: Method,
        headers: dict[str, str],
        deadline: float | None,
    ) -> None:
        super().__init__(connection, out, message_max=connection.message_max)
        self.method = method
        self.headers = headers
        self.deadline = deadline
        self.moment = 0.0
        self.task: asyncio.Task[None] | None = None
        self.begun = False

    @property
    def listener(self) -> str:
        """The name of the listener where it came in."""
        return self._connection.listener

    def remaining_s(self) -> float | None:
        """How long the client will wait, None for ever."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - asyncio.get_running_loop().time())

    def room(self) -> "AnswerRoom | None":
        """For what it is answered with: messages are to be taken only when there is some."""
        return None

    def begin(self) -> None:
        """Send the headers of the answer now; else they go with its first message."""
        if not self.begun and self._shut is None:
            self.begun = True
            self._connection.begin(self)

    def write(self, *messages: bytes) -> None:
        self.begin()
        super().write(*messages)

    async def finish(self, *messages: bytes, assured: bool = False) -> None:
        """Send the rest of the answer, and end it in order.

        `assured`: return when the kernel has it all; StreamBroken if it never will.
        """
        if self._shut is not None:
            raise self._why()
        if self._connection.finish(self, messages):
            self.ended_here = True
            self._shut = "the call was answered"
            if assured:
                await self.drained()
        else:
            self.write(*messages)
            await self.end()

    # --- for the connection

    def receive(self, data: bytes, start: int, stop: int) -> None:
        super().receive(data, start, stop)
        if self.task is None and self._messages:
            self._connection.serve(self)

    def end_there(self) -> None:
        super().end_there()
        if self.task is None:
            self._connection.serve(self)

    def break_off(self, why: str, status: int | None = None) -> None:
        super().break_off(why, status)
        self._connection.deadlines.unset(self)
        if self.task is not None:
            self.task.cancel()

    def expire(self) -> None:
        """The deadline has passed."""
        self.abort("the deadline has passed", status=Status.DEADLINE_EXCEEDED)

    def served(self, task: "asyncio.Task[None]") -> None:
        """Its task has ended."""
        self.task = None
        self._connection.served(self, task)
