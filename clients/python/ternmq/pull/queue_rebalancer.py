"""Takes and gives up queues when the server assigns them again.

Order       for queues given up: no more pulls, the buffer is dropped, what is handled is committed; then the listener
            is called; then the new queues are pulled. So a listener may commit what is given up, and seek in what is
            new
Lost        a queue that turned out to belong to another member is given up too, without a commit
Listener    called for one change at a time; an exception in it is logged and has no other effect
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from ternmq.connections.route import RouteQueue
from ternmq.pull.pull_buffer import PullBuffer
from ternmq.pull.pull_queue import MessageQueue, PullQueue
from ternmq.pull.queue_pulls import QueuePulls
from ternmq_common.event_loop.background_tasks import BackgroundTasks

logger = logging.getLogger(__name__)

AssignmentListener: TypeAlias = Callable[[list[MessageQueue], list[MessageQueue]], Awaitable[None] | None]
"""Called with the queues that are new and those that were given up."""


class QueueRebalancer:
    """Keeps the queues of a buffer equal to the assigned ones."""

    def __init__(
        self,
        buffer: PullBuffer,
        pulls: QueuePulls,
        listener: AssignmentListener | None,
        settle: Callable[[Sequence[PullQueue]], Awaitable[None]],
    ) -> None:
        self._buffer = buffer
        self._pulls = pulls
        self._listener = listener
        self._settle = settle
        self._one_at_a_time = asyncio.Lock()
        self._listener_calls = BackgroundTasks(logger)

    async def apply_assignment(self, wanted: Iterable[RouteQueue]) -> None:
        """Give up queues that aren't assigned any more, take new ones, and follow queues that moved to another
        address."""
        by_name = {MessageQueue.named(queue): queue for queue in wanted}
        revoked = self._buffer.revoke_queues(sorted(self._buffer.queues.keys() - by_name.keys()))
        for state in revoked:
            self._pulls.stop_pulling(state)
        for name, state in self._buffer.queues.items():
            state.queue = by_name[name]
        granted = self._buffer.grant_queues(
            by_name[name] for name in sorted(by_name.keys() - self._buffer.queues.keys())
        )
        if revoked:
            await self._settle(revoked)
        if granted or revoked:
            await self._call_listener(granted, revoked)
        for state in self._buffer.queues.values():
            self._pulls.start_pulling(state)

    def lose_queue(self, state: PullQueue) -> None:
        """Give up a queue that belongs to another member; the next assignment may bring it back."""
        if self._buffer.lose_queue(state):
            self._pulls.stop_pulling(state)
            self._listener_calls.start(self._call_listener([], [state]))

    async def close(self) -> None:
        await self._listener_calls.stop()

    async def _call_listener(self, granted: Sequence[PullQueue], revoked: Sequence[PullQueue]) -> None:
        if self._listener is None:
            return
        async with self._one_at_a_time:
            try:
                outcome = self._listener([state.name for state in granted], [state.name for state in revoked])
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception:
                logger.exception("the listener for assignments failed")
