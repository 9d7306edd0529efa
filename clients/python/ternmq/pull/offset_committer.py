"""Commits the offsets of a pull consumer.

Order       one commit at a time for each queue; a commit that a later offset or a seek has overtaken isn't sent. A
            caller that is cancelled leaves its commit running: else the next one could be overtaken by it
Given up    a queue that another member may have by now is only set forward: its offset is read first
Lost        a commit that is FORBIDDEN means that the queue belongs to another member, so its state is dropped
Repetition  commits that may succeed later are repeated a few times, since a second one changes nothing
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping

from ternmq.errors import ClientError, Forbidden
from ternmq.pull.offsets import OffsetStore
from ternmq.pull.pull_queue import PullQueue
from ternmq.times.backoff import SEND_BACKOFF
from ternmq_common.event_loop.background_tasks import BackgroundTasks

logger = logging.getLogger(__name__)

COMMIT_ATTEMPTS = 3


class OffsetCommitter:
    """Stores offsets; `lost` is called for queues that belong to another member."""

    def __init__(self, offsets: OffsetStore, lost: Callable[[PullQueue], None]) -> None:
        self._offsets = offsets
        self._lost = lost
        self._commits = BackgroundTasks(logger)

    async def commit_offsets(self, targets: Mapping[PullQueue, int | None]) -> None:
        """Commit the known offsets; if some fail, the others are committed, and the first error is raised."""
        tasks = [
            self._commits.start_awaited(self._commit_queue(state, queue_offset, state.epoch))
            for state, queue_offset in targets.items()
            if queue_offset is not None and _is_news(state, queue_offset)
        ]
        for outcome in await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True)):
            if outcome is not None:
                raise outcome

    async def close(self) -> None:
        """Cancel the commits whose callers have gone."""
        await self._commits.stop()

    async def _commit_queue(self, state: PullQueue, queue_offset: int, epoch: int) -> None:
        async with state.committing:
            if state.epoch != epoch or not _is_news(state, queue_offset):
                return
            try:
                await self._store_repeatedly(state, queue_offset)
            except Forbidden as error:
                logger.warning("the commit of %s up to %d: %s", state.name, queue_offset, error)
                self._lost(state)
            else:
                if state.epoch == epoch:
                    state.committed = queue_offset

    async def _store_repeatedly(self, state: PullQueue, queue_offset: int) -> None:
        for attempt in itertools.count(1):
            try:
                return await self._store_offset(state, queue_offset)
            except ClientError as error:
                if attempt == COMMIT_ATTEMPTS or not error.retryable:
                    raise
            await asyncio.sleep(SEND_BACKOFF.delay_s(attempt + 1))
        raise AssertionError("the loop above has no end")

    async def _store_offset(self, state: PullQueue, queue_offset: int) -> None:
        if state.given_up:
            known = await self._offsets.load_offset(state.queue)
            if known is not None and known >= queue_offset:
                return
        await self._offsets.store_offset(state.queue, queue_offset)


def _is_news(state: PullQueue, queue_offset: int) -> bool:
    return state.committed is None or state.committed < queue_offset
