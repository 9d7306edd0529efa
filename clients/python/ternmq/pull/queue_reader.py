"""The background work of a pull consumer: assigns its queues, pulls them, and commits at intervals.

Life        the offsets are opened, then routes and handshakes, then the first assignment; at the end no more pulls, the
            last automatic commit, termination
Commits     automatic ones go as far as messages are handled, see `PullBuffer.step`
Failures    of assignments leave the queues unchanged, those of commits are made up by the next one; both are logged
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from ternmq.assigning import Assigning
from ternmq.client import cancelled
from ternmq.connection import Connection
from ternmq.consumer import Consumer
from ternmq.errors import ClientError
from ternmq.filters import Subscriptions, TagFilter
from ternmq.options import ClientOptions
from ternmq.pull.buffer import PullBuffer
from ternmq.pull.committing import Committer
from ternmq.pull.offset_file import OffsetFile
from ternmq.pull.offsets import GroupOffsets, Offsets, StartFrom, find_offset
from ternmq.pull.pulling import PulledBatch, PullSource, QueuePulls, pull
from ternmq.pull.queue import PullQueue
from ternmq.pull.rebalancing import AssignmentListener, Rebalancing
from ternmq.reachability import level_of
from ternmq.route import Queue
from ternmq.wire_time import duration, seconds_of
from ternmq_common.limits import RECEIVE_BATCH_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

LONG_POLLING_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPolicy:
    """How to read. `auto_commit_s` is None if only the user commits; `offsets_file` is for broadcasting."""

    start_from: StartFrom
    auto_commit_s: float | None
    buffered_messages_max: int
    buffered_bytes_max: int
    offsets_file: Path | None


class QueueReader(Consumer):
    """The base of `PullConsumer`, which adds the methods for users."""

    client_type = pb.PULL_CONSUMER

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        policy: ReadingPolicy,
        on_assignment: AssignmentListener | None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(endpoint, group, subscriptions, **options)
        self._policy = policy
        self._batch_size = RECEIVE_BATCH_MAX
        self._poll_s = LONG_POLLING_S
        self._broadcasting = policy.offsets_file is not None
        self._offsets: Offsets = (
            GroupOffsets(group, self._call) if policy.offsets_file is None else OffsetFile(policy.offsets_file, group)
        )
        self._buffer = PullBuffer(messages_max=policy.buffered_messages_max, bytes_max=policy.buffered_bytes_max)
        source = PullSource(self._begin, self._pull, self._find_start)
        self._pulls = QueuePulls(source, self._buffer, error_pause_s=self._timing.error_pause_s)
        self._rebalancing = Rebalancing(self._buffer, self._pulls, on_assignment, self._auto_commit)
        self._committer = Committer(self._offsets, self._rebalancing.lose)
        self._assigning = Assigning(self._filters, self._queues_of, self._read_of, period_s=self._timing.assignment_s)
        self._periodic: list[asyncio.Task[None]] = []
        self._all_handled_at_close = True

    def _take_settings(self, connection: Connection, settings: pb.Settings) -> None:
        super()._take_settings(connection, settings)
        self._batch_size = settings.subscription.receive_batch_size or RECEIVE_BATCH_MAX
        self._poll_s = seconds_of(settings.subscription.long_polling_timeout) or LONG_POLLING_S

    async def _started(self) -> None:
        await self._offsets.open()
        await super()._started()
        await self._assign()
        # "latest" means from the start on. A position that can't be found now is tried again by the pulls, which also
        # log it.
        await asyncio.gather(*map(self._begin, self._buffer.queues.values()), return_exceptions=True)
        self._periodic.append(self._spawn(self._assign_again(self._assigning, self._assign)))
        if self._policy.auto_commit_s is not None:
            self._periodic.append(self._spawn(self._every(self._policy.auto_commit_s, self._auto_commit_all)))

    async def _finish(self) -> None:
        self._buffer.close()
        await cancelled(self._periodic)
        await self._pulls.close()
        if self._all_handled_at_close:
            self._buffer.step()
        await self._auto_commit_all()
        await self._committer.close()
        await self._rebalancing.close()

    # Queues.

    async def _assign(self, *, missing_only: bool = False) -> None:
        """Read the queues that the server names, and no others."""
        wanted = await self._assigning.wanted(self.client_id, missing_only=missing_only)
        await self._rebalancing.become(wanted)

    def _read_of(self, topic: str) -> list[Queue]:
        return [state.queue for state in self._buffer.queues.values() if state.queue.topic == topic]

    async def _queues_of(self, topic: str) -> Collection[Queue]:
        """Query the queues of a topic. A server that doesn't assign queues names none, which means all."""
        if not self._broadcasting:
            assigned = await self._assignment(topic)
            if all(queue.queue_id >= 0 for queue in assigned):
                return assigned
        return (await self._routes.get(topic)).readable

    # Pulls.

    async def _begin(self, state: PullQueue) -> None:
        """Find the position of a queue that has none."""
        async with state.beginning:
            if state.position is not None:
                return
            committed = await self._offsets.load(state.queue)
            queue_offset = await self._find_start(state) if committed is None else committed
            if state.position is None:  # else a seek was faster
                state.begin(queue_offset, committed=committed)

    async def _find_start(self, state: PullQueue) -> int:
        return await find_offset(self._call, state.queue, self._policy.start_from)

    async def _pull(self, state: PullQueue) -> PulledBatch:
        queue, asked_offset = state.queue, state.pulled
        request = rpc.PullMessageRequest(
            group=pb.Resource(name=self.group),
            message_queue=queue.proto,
            offset=asked_offset,
            batch_size=min(self._batch_size, state.free),
            filter_expression=self._filters[queue.topic].to_proto(),
            long_polling_timeout=duration(self._poll_s),
        )
        timeout_s = self._poll_s + self._request_timeout_s
        with self._isolated.watch(queue.endpoints):
            pulled = await pull(self._connection(queue.endpoints), request, queue, timeout_s=timeout_s)
        if pulled.views:
            self._hooks.delivered(self.client_id, self.group, pulled.views)
        elif pulled.going_on_from(asked_offset) > asked_offset and pulled.status.code != pb.ILLEGAL_OFFSET:
            self._log_skipped(state, asked_offset, pulled)
        return pulled

    def _log_skipped(self, state: PullQueue, asked_offset: int, pulled: PulledBatch) -> None:
        """Log skipped messages: usual with a filter; without one they are gone, or another member has handled them."""
        wanted = self._filters[state.queue.topic]
        has_filter = not isinstance(wanted, TagFilter) or wanted.expression.strip() != "*"
        logger.log(
            logging.DEBUG if has_filter else logging.WARNING,
            "%s goes on at %d, not at %d, as the server says: %s",
            state.name,
            pulled.next_offset,
            asked_offset,
            pulled.status.message,
        )

    # Commits.

    async def _auto_commit_all(self) -> None:
        await self._auto_commit(self._buffer.known)

    async def _auto_commit(self, states: Sequence[PullQueue]) -> None:
        if self._policy.auto_commit_s is None:
            return
        try:
            await self._committer.commit({state: state.handled for state in states})
        except ClientError as error:
            logger.log(level_of(error), "%s: the progress is not committed: %s", self.client_id, error)
        self._buffer.forget_committed()
