"""Polls that wait, by the client: they end, with nothing, when it ends its Telemetry stream in order.

A client that is about to go has no other way to end a poll: if it cut the call, it would lose what is on its way.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode

if TYPE_CHECKING:
    from ternmq_rpc.grpc_stream.served_call import ServedCall


class WaitingPoll:
    """One of them, served in the current task."""

    __slots__ = ("_served", "is_ended")

    def __init__(self, served: "ServedCall") -> None:
        self._served = served
        self.is_ended = False

    def cancel_poll(self) -> None:
        """Cancel it, once."""
        if not self.is_ended and self._served.task is not None:
            self.is_ended = True
            self._served.task.cancel()

    def was_ended(self) -> bool:
        """Whether that is why the task was cancelled; it goes on then, to answer."""
        task = asyncio.current_task()
        if self.is_ended and task is not None:
            task.uncancel()
        return self.is_ended


class WaitingPolls:
    """Those of a front."""

    def __init__(self) -> None:
        self._of: dict[str, set[WaitingPoll]] = {}

    def add_poll(self, client_id: str, served: "ServedCall") -> WaitingPoll:
        """A poll of the client waits, until `leave`."""
        poll = WaitingPoll(served)
        self._of.setdefault(client_id, set()).add(poll)
        return poll

    def remove_poll(self, client_id: str, poll: WaitingPoll) -> None:
        """It waits no more."""
        polls = self._of[client_id]
        polls.discard(poll)
        if not polls:
            del self._of[client_id]

    def end_client_polls(self, client_id: str) -> None:
        """End those of the client."""
        for poll in self._of.get(client_id, ()):
            poll.cancel_poll()


class EndedPoll:
    """The answer to a poll that was ended, which took nothing."""

    code: int = ErrorCode.MESSAGE_NOT_FOUND

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames

    async def return_undelivered(self) -> None:
        """There is nothing to give back."""
