"""A request of the remoting protocol that a server has not answered yet."""

from typing import TYPE_CHECKING, Final

from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    import asyncio

    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_rpc.remoting.connection import RemotingConnection

# The memory of a request beside its bytes: the command, its fields, a task that waits.
_OBJECTS_BYTES: Final = 3072


class ServedRequest:
    """A request in progress. `size` is how much it counts against the connection's limits; `task` serves it, None while
    it needs none, and goes on without the connection if it `outlives_connection`. Exactly one of `answer_request` and
    `drop_request` takes effect; later calls do nothing."""

    __slots__ = ("command", "connection", "is_answered", "outlives_connection", "received_at", "room", "size", "task")

    def __init__(self, connection: "RemotingConnection", command: Command, size: int, now: float) -> None:
        self.connection = connection
        self.command = command
        self.size = size + _OBJECTS_BYTES
        self.received_at = now
        self.task: asyncio.Task[None] | None = None
        self.is_answered = False
        self.outlives_connection = False
        self.room: AnswerRoom | None = None

    @property
    def wire_bytes(self) -> int:
        """How many bytes of its frame came."""
        return self.size - _OBJECTS_BYTES

    @property
    def is_awaited(self) -> bool:
        """Whether a server that stops waits for its end."""
        return True

    def answer_request(self, response: Command) -> None:
        """Answer it, unless its sender wants no answer."""
        if not self.is_answered:
            self.is_answered = True
            self.connection.finish_request(self, response)

    def drop_request(self) -> None:
        """End it without an answer."""
        if not self.is_answered:
            self.is_answered = True
            self.connection.finish_request(self, None)

    def cancel_task(self) -> None:
        """Cancel what serves it."""
        if self.task is not None:
            self.task.cancel()

    def open_answer_room(self) -> "AnswerRoom":
        """Return the room for its answer, to be reserved before anything is taken for it; the end of the request
        leaves it."""
        if self.room is None:
            self.room = self.connection.open_answer_room()
        return self.room
