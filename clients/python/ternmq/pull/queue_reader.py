"""The background work of a pull consumer: assigns its queues, pulls them, and commits at intervals.

Life        the offsets are opened, then routes and handshakes, then the first assignment; at the end no more pulls, the
            last automatic commit, termination
Commits     automatic ones go as far as messages are handled, see `PullBuffer.mark_handled`
Failures    of assignments leave the queues unchanged, the next commit makes up for a failed one; both are logged
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from ternmq.connections.connection import GrpcConnection
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.connections.route import RouteQueue
from ternmq.consuming.consumer import Consumer
from ternmq.consuming.queue_assignments import QueueAssignments
from ternmq.errors import ClientError
from ternmq.messages.filters import Subscriptions, TagFilter
from ternmq.options import ClientOptions
from ternmq.pull.offset_committer import OffsetCommitter
from ternmq.pull.offset_file import OffsetFile
from ternmq.pull.offsets import GroupOffsets, OffsetStore, StartFrom, find_offset
from ternmq.pull.pull_buffer import PullBuffer
from ternmq.pull.pull_queue import PullQueue
from ternmq.pull.queue_pulls import PulledBatch, PullSource, QueuePulls, pull_batch
from ternmq.pull.queue_rebalancer import AssignmentListener, QueueRebalancer
from ternmq.times.wire_time import to_duration, to_seconds
from ternmq_common.event_loop.background_tasks import cancel_tasks
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
        self._offsets: OffsetStore = (
            GroupOffsets(group, self._call_endpoint)
            if policy.offsets_file is None
            else OffsetFile(policy.offsets_file, group)
        )
        self._buffer = PullBuffer(messages_max=policy.buffered_messages_max, bytes_max=policy.buffered_bytes_max)
        source = PullSource(self._find_position, self._pull_queue, self._find_start)
        self._pulls = QueuePulls(source, self._buffer, error_pause_s=self._timing.error_pause_s)
        self._rebalancing = QueueRebalancer(self._buffer, self._pulls, on_assignment, self._commit_handled)
        self._committer = OffsetCommitter(self._offsets, self._rebalancing.lose_queue)
        self._assigning = QueueAssignments(
            self._filters, self._query_queues, self._assigned_queues, period_s=self._timing.assignment_s
        )
        self._periodic: list[asyncio.Task[None]] = []
        self._all_handled_at_close = True

    def _apply_settings(self, connection: GrpcConnection, settings: pb.Settings) -> None:
        super()._apply_settings(connection, settings)
        self._batch_size = settings.subscription.receive_batch_size or RECEIVE_BATCH_MAX
        self._poll_s = to_seconds(settings.subscription.long_polling_timeout) or LONG_POLLING_S

    async def _start_work(self) -> None:
        await self._offsets.open_store()
        await super()._start_work()
        await self._assign_queues()
        # "latest" means from the start on. A position that can't be found now is tried again by the pulls, which also
        # log it.
        await asyncio.gather(*map(self._find_position, self._buffer.queues.values()), return_exceptions=True)
        self._periodic.append(self._tasks.start(self._assign_forever(self._assigning, self._assign_queues)))
        if self._policy.auto_commit_s is not None:
            self._periodic.append(
                self._tasks.start(self._run_every(self._policy.auto_commit_s, self._commit_all_handled))
            )

    async def _finish_work(self) -> None:
        self._buffer.close()
        await cancel_tasks(self._periodic)
        await self._pulls.close()
        if self._all_handled_at_close:
            self._buffer.mark_handled()
        await self._commit_all_handled()
        await self._committer.close()
        await self._rebalancing.close()

    # Queues.

    async def _assign_queues(self, *, missing_only: bool = False) -> None:
        """Read the queues that the server names, and no others."""
        wanted = await self._assigning.wanted_queues(self.client_id, missing_only=missing_only)
        await self._rebalancing.apply_assignment(wanted)

    def _assigned_queues(self, topic: str) -> list[RouteQueue]:
        return [state.queue for state in self._buffer.queues.values() if state.queue.topic == topic]

    async def _query_queues(self, topic: str) -> Collection[RouteQueue]:
        """Query the queues of a topic. A server that doesn't assign queues names none, which means all."""
        if not self._broadcasting:
            assigned = await self._query_assignment(topic)
            if all(queue.queue_id >= 0 for queue in assigned):
                return assigned
        return (await self._routes.get_route(topic)).readable

    # Pulls.

    async def _find_position(self, state: PullQueue) -> None:
        """Find the position of a queue that has none."""
        async with state.beginning:
            if state.next_offset is not None:
                return
            committed = await self._offsets.load_offset(state.queue)
            queue_offset = await self._find_start(state) if committed is None else committed
            if state.next_offset is None:  # else a seek was faster
                state.begin_at(queue_offset, committed=committed)

    async def _find_start(self, state: PullQueue) -> int:
        return await find_offset(self._call_endpoint, state.queue, self._policy.start_from)

    async def _pull_queue(self, state: PullQueue) -> PulledBatch:
        queue, requested_offset = state.queue, state.pulled_offset
        request = rpc.PullMessageRequest(
            group=pb.Resource(name=self.group),
            message_queue=queue.proto,
            offset=requested_offset,
            batch_size=min(self._batch_size, state.free_messages),
            filter_expression=self._filters[queue.topic].to_proto(),
            long_polling_timeout=to_duration(self._poll_s),
        )
        timeout_s = self._poll_s + self._request_timeout_s
        with self._isolated.watch_call(queue.endpoints):
            pulled = await pull_batch(self._connection_to(queue.endpoints), request, queue, timeout_s=timeout_s)
        if pulled.views:
            self._hooks.delivered(self.client_id, self.group, pulled.views)
        elif pulled.next_pull_offset(requested_offset) > requested_offset and pulled.status.code != pb.ILLEGAL_OFFSET:
            self._log_skipped(state, requested_offset, pulled)
        return pulled

    def _log_skipped(self, state: PullQueue, requested_offset: int, pulled: PulledBatch) -> None:
        """Log skipped messages: usual with a filter; without one they are gone, or another member has handled them."""
        wanted = self._filters[state.queue.topic]
        has_filter = not isinstance(wanted, TagFilter) or wanted.expression.strip() != "*"
        logger.log(
            logging.DEBUG if has_filter else logging.WARNING,
            "%s goes on at %d, not at %d, as the server says: %s",
            state.name,
            pulled.next_offset,
            requested_offset,
            pulled.status.message,
        )

    # Commits.

    async def _commit_all_handled(self) -> None:
        await self._commit_handled(self._buffer.known_queues)

    async def _commit_handled(self, states: Sequence[PullQueue]) -> None:
        if self._policy.auto_commit_s is None:
            return
        try:
            await self._committer.commit_offsets({state: state.handled_offset for state in states})
        except ClientError as error:
            logger.log(log_level_of(error), "%s: the progress is not committed: %s", self.client_id, error)
        self._buffer.forget_committed()
