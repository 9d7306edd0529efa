"""Ends waiting polls of a client, without messages, when it ends its Telemetry stream in order.

A client that shuts down has no other way to end a poll: by cutting the call it would lose messages on their way.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode

if TYPE_CHECKING:
    from ternmq_rpc.serving.call_face import CallFace


class WaitingPoll:
    """One waiting poll, served in the current task."""

    __slots__ = ("_served", "is_ended")

    def __init__(self, served: "CallFace") -> None:
        self._served = served
        self.is_ended = False

    def cancel_poll(self) -> None:
        """Cancel the poll, once."""
        if not self.is_ended and self._served.task is not None:
            self.is_ended = True
            self._served.task.cancel()

    def was_ended(self) -> bool:
        """Return whether the task was cancelled by this; if so, it goes on, to answer."""
        task = asyncio.current_task()
        if self.is_ended and task is not None:
            task.uncancel()
        return self.is_ended


class WaitingPolls:
    """The waiting polls of a front."""

    def __init__(self) -> None:
        self._of: dict[str, set[WaitingPoll]] = {}

    def begin(self, client_id: str, served: "CallFace") -> WaitingPoll:
        """A poll of the client waits, until `leave`."""
        poll = WaitingPoll(served)
        self._of.setdefault(client_id, set()).add(poll)
        return poll

    def remove_poll(self, client_id: str, poll: WaitingPoll) -> None:
        """Remove a poll that ended."""
        polls = self._of[client_id]
        polls.discard(poll)
        if not polls:
            del self._of[client_id]

    def end_client_polls(self, client_id: str) -> None:
        """End all polls of the client."""
        for poll in self._of.get(client_id, ()):
            poll.cancel_poll()


class EndedPoll:
    """The answer to a poll that was ended, which claimed nothing."""

    code: int = ErrorCode.MESSAGE_NOT_FOUND

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames

    async def return_undelivered(self) -> None:
        """Do nothing, since nothing was claimed."""
