"""The queues that the servers assign to a consumer: queried for each topic at intervals.

Failures    leave the queues of a topic unchanged
Missing     a topic that doesn't exist is queried more often, after a second at most: it may be created at any moment,
            also by its first message. The log says once that it is missing, and once that it exists
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.connections.route import RouteQueue
from ternmq.errors import ClientError
from ternmq_common.pacing.backoff import ExponentialBackoff
from ternmq_protos.v2 import definition_pb2 as pb

logger = logging.getLogger(__name__)

MISSING_BACKOFF = ExponentialBackoff(initial_s=0.1, max_s=1.0, multiplier=1.5)


class QueueAssignments:
    """The assignments of one consumer. `query_assignment` queries those of a topic, `current_queues` returns the queues
    that it has now. `on_found` is called before a topic that was missing gets its first queues."""

    def __init__(
        self,
        topics: Iterable[str],
        query_assignment: Callable[[str], Awaitable[Collection[RouteQueue]]],
        current_queues: Callable[[str], Collection[RouteQueue]],
        *,
        period_s: float,
        on_found: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._topics = list(topics)
        self._query_assignment = query_assignment
        self._current_queues = current_queues
        self._period_s = period_s
        self._on_found = on_found
        self._missing: set[str] = set()
        self._looks = 0
        self._due_s = 0.0

    async def wanted_queues(self, client_id: str, *, missing_only: bool = False) -> set[RouteQueue]:
        """Return the queues to have now; with `missing_only` only topics that are missing are queried."""
        queues: set[RouteQueue] = set()
        for topic in self._topics:
            if missing_only and topic not in self._missing:
                queues.update(self._current_queues(topic))
                continue
            try:
                queues.update(await self._query_assignment(topic))
            except ClientError as error:
                queues.update(self._current_queues(topic))
                self._note_failure(client_id, topic, error)
            else:
                await self._note_found(client_id, topic)
        if not missing_only:
            self._due_s = asyncio.get_running_loop().time() + self._period_s
        self._looks = self._looks + 1 if self._missing else 0
        return queues

    async def wait_due(self) -> bool:
        """Wait until the next query is due; return whether it is only for missing topics."""
        left_s = self._due_s - asyncio.get_running_loop().time()
        soon_s = MISSING_BACKOFF.delay_s(self._looks)
        is_soon = bool(self._missing) and soon_s < left_s
        await asyncio.sleep(soon_s if is_soon else max(0.0, left_s))
        return is_soon

    def _note_failure(self, client_id: str, topic: str, error: ClientError) -> None:
        if error.code != pb.TOPIC_NOT_FOUND:
            text = "%s: the assignment of %s stays as it was: %s"
            logger.log(log_level_of(error), text, client_id, topic, error)
        elif topic not in self._missing:
            self._missing.add(topic)
            logger.warning("%s: nothing is consumed of %s until it exists: %s", client_id, topic, error)

    async def _note_found(self, client_id: str, topic: str) -> None:
        if topic in self._missing:
            self._missing.discard(topic)
            logger.info("%s: topic %s exists now", client_id, topic)
            if self._on_found is not None:
                await self._on_found()
