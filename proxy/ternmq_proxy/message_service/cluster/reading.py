"""Reads by offset: see `ServiceReading`."""

from typing import TYPE_CHECKING

from ternmq_common.shard.remote_shard import ReadingCalls

if TYPE_CHECKING:
    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.shard.model import PulledMessages, QueueBounds, QueueReaderId, QueueRef
    from ternmq_proxy.message_service.cluster.called_brokers import CalledBrokers
    from ternmq_proxy.message_service.cluster.receives.follower_reads import FollowerReads
    from ternmq_proxy.message_service.cluster.receives.pulling import ClusterPulling


class ClusterReading(ReadingCalls):
    """Reads from the broker that a queue names, or its followers."""

    def __init__(self, brokers: "CalledBrokers", pulling: "ClusterPulling", followers: "FollowerReads | None") -> None:
        super().__init__(brokers.ask_named)
        self._pulling = pulling
        self._followers = followers

    async def pull(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> "PulledMessages":
        """See `ServiceReading.pull`."""
        return await self._pulling.pull_messages(
            queue, offset, passing, batch=batch, poll_s=poll_s, reader=reader, room=room
        )

    async def bounds(
        self, queue: "QueueRef", *, reader: "QueueReaderId | None" = None, offset: int = 0
    ) -> "QueueBounds":
        """Return the bounds of the leader, which also say what its followers have cold."""
        bounds = await super().bounds(queue, reader=reader, offset=offset)
        if self._followers is not None:
            self._followers.note_bounds(queue, bounds)
        return bounds
