"""The interface of a served call, which is the same for every protocol."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from ternmq_common.receiving.output_room import AnswerRoom


class CallFace(Protocol):
    """A call of a client. `task` serves it, None if it needs none; it is cancelled when the client aborts the call or
    disconnects, or its deadline passes. `note` is what the server's owner has noted about the connection."""

    task: "asyncio.Task[None] | None"
    note: object

    @property
    def listener(self) -> str:
        """The name of the listener that accepted the connection."""

    @property
    def peer(self) -> str:
        """The client's address, `host:port`."""

    @property
    def received_at(self) -> float:
        """About when its request arrived, by the loop's clock."""

    def open_answer_room(self) -> "AnswerRoom":
        """Return the room for its answer, to be reserved before anything is taken for it."""

    def remaining_s(self) -> float | None:
        """Return how long the client will still wait; None if for ever."""
