"""The ReceiveMessage calls of a consumer, each in a task of its own.

Cancelling  a caller that stops waiting leaves the call running. Cutting it off would hide messages in flight: the
            server counts as delivered what it has written
Left calls  the next receive of the topic takes one over, so that receives with short timeouts don't pile up polls at
            the server. Messages that arrive while no call waits are `unwanted`
End         nothing more is begun; the server is requested to end waiting polls; those that it doesn't end in time
            are cancelled
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ternmq.errors import ClientError, NotRunning
from ternmq.messages.message_view import MessageView
from ternmq_common.event_loop.background_tasks import cancel_tasks

logger = logging.getLogger(__name__)

ViewT = TypeVar("ViewT", bound=MessageView)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollTerms:
    """The arguments of a receive. `invisible_s` is 0 if the server keeps the messages hidden by itself."""

    topic: str
    max_messages: int
    invisible_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ReceivePoll(Generic[ViewT]):
    """One call in progress."""

    terms: PollTerms
    task: asyncio.Task[list[ViewT]]


class ReceivePolls(Generic[ViewT]):
    """The calls of one consumer. `unwanted` takes messages for which no call waits any more.

    Invariants: `_open` are the polls whose outcome was not returned yet; no call waits for those in `_left`.
    """

    def __init__(self, unwanted: Callable[[list[ViewT]], None]) -> None:
        self._unwanted = unwanted
        self._open: set[ReceivePoll[ViewT]] = set()
        self._left: dict[ReceivePoll[ViewT], None] = {}
        self._has_ended = False

    def begin_poll(self, terms: PollTerms, work: Coroutine[Any, Any, list[ViewT]]) -> ReceivePoll[ViewT]:
        """Begin a call; its caller waits for it by `wait_outcome`."""
        if self._has_ended:
            work.close()
            raise _closed_error()
        poll = ReceivePoll(terms, asyncio.create_task(work))
        self._open.add(poll)
        poll.task.add_done_callback(lambda _: self._collect_unwanted(poll))
        return poll

    def take_over(self, terms: PollTerms) -> ReceivePoll[ViewT] | None:
        """Take over a call for the topic that was left, the oldest with the same terms if there is one."""
        if terms.max_messages < 1:
            return None  # the server answers what is wrong with it
        of_topic = [poll for poll in self._left if poll.terms.topic == terms.topic]
        found = next((poll for poll in of_topic if poll.terms == terms), of_topic[0] if of_topic else None)
        if found is not None:
            del self._left[found]
        return found

    async def wait_outcome(self, poll: ReceivePoll[ViewT]) -> list[ViewT]:
        """Wait for the call and return its messages, or raise. If cancelled, the call is left; NotRunning after
        `end_polls`."""
        try:
            await asyncio.wait([poll.task])
        except asyncio.CancelledError:
            if poll in self._open:
                self._left[poll] = None
                self._collect_unwanted(poll)
            raise
        if self._has_ended:
            self._collect_unwanted(poll)
            raise _closed_error()
        self._open.discard(poll)
        return poll.task.result()

    async def end_polls(self, within_s: float) -> None:
        """Begin nothing more, and wait for the calls in progress; cancel those that are not done in time."""
        self._has_ended = True
        for poll in list(self._open):
            self._collect_unwanted(poll)
        tasks = [poll.task for poll in self._open]
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)
        await cancel_tasks([poll.task for poll in self._open])

    def _collect_unwanted(self, poll: ReceivePoll[ViewT]) -> None:
        """Collect the result of a finished poll if no call waits for it."""
        if not poll.task.done() or poll not in self._open or not (self._has_ended or poll in self._left):
            return
        self._open.discard(poll)
        self._left.pop(poll, None)
        if poll.task.cancelled():
            return
        error = poll.task.exception()
        if error is None:
            if views := poll.task.result():
                self._unwanted(views)
        elif isinstance(error, ClientError):
            logger.debug("an abandoned receive failed: %s", error)
        else:
            logger.error("an abandoned receive failed", exc_info=error)


def _closed_error() -> NotRunning:
    return NotRunning("the consumer was closed while it waited for messages")
