"""The figures of a replica, for metrics and pages.

Threads  all is read in any thread, so everything is a number, or is copied in one step.
"""

from typing import TYPE_CHECKING

from ternmq_runtime.observability.figures import BrokerFigures, GroupLag, LedShard, MessageCounts, ReplicaFigures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ternmq_broker.server.replication.follower import ShardFollower
    from ternmq_broker.server.replication.leader import ReplicatingLeader
    from ternmq_broker.server.replication.membership import ShardMembership
    from ternmq_broker.server.replication.replica_files import ReplicaFiles


class CopyFigures:
    """The figures of a follower's disk and log, as of a broker without clients; `counts` has what proxies read
    there."""

    def __init__(self, files: "ReplicaFiles", follower: "ShardFollower", counts: MessageCounts) -> None:
        self._files = files
        self._follower = follower
        self._counts = counts

    def current_figures(self) -> BrokerFigures:
        """The present figures; may be called in any thread."""
        opened, room = self._files.opened, self._files.opened.room
        store = opened.store
        return BrokerFigures(
            messages=self._counts,
            retries=0,
            dead_letters={},
            lost=0,
            accepts=self._follower.disk_failure is None,
            polls_waiting=0,
            transactions=0,
            log_bytes=store.log.log_end - store.log.log_start,
            segments=store.log.segment_count,
            records=store.log.appended_records,
            skipped_bytes=store.recovery.skipped_bytes,
            torn_bytes=store.recovery.torn_bytes,
            damaged_bytes=store.damage.damaged_bytes,
            repaired_bytes=store.damage.repaired_bytes,
            journal_lines_skipped=opened.journal.skipped_lines,
            files_set_aside=store.files_set_aside,
            disk_used=room.used_share,
            disk_free_bytes=room.free_bytes,
            disk_free_min_bytes=room.free_min_bytes,
            disk_refuses=False,
            syncs=self._follower.sync_durations,
        )

    async def count_lags(self) -> "AsyncIterator[GroupLag]":
        """Yields nothing: the leader has the lags of groups."""
        for lag in list[GroupLag]():
            yield lag

    async def count_timers(self) -> int:
        """0: the leader counts timers."""
        return 0


def leader_figures(membership: "ShardMembership", leader: "ReplicatingLeader", times_led: int) -> ReplicaFigures:
    """The figures of a replica that leads; may be called in any thread."""
    return ReplicaFigures(
        shard=membership.shard,
        leads=True,
        serves=leader.is_serving,
        epoch=leader.epoch,
        times_led=times_led,
        position=leader.store.log.synced,
        acknowledged=leader.acknowledged_end,
        led=LedShard(
            in_sync=len(leader.in_sync),
            replicas=membership.replicas_wanted,
            min_insync=leader.min_insync,
            refuses=leader.refusal_reason is not None,
            followers=leader.behind_by_name(),
        ),
    )


def follower_figures(
    membership: "ShardMembership", files: "ReplicaFiles", follower: "ShardFollower | None", times_led: int
) -> ReplicaFigures:
    """The figures of a replica that does not lead; may be called in any thread.

    `follower` is None on the way from one role to the other.
    """
    entry = membership.last_entry
    return ReplicaFigures(
        shard=membership.shard,
        leads=False,
        serves=False,
        epoch=(0 if entry is None else entry.epoch) if follower is None else follower.known_epoch,
        times_led=times_led,
        position=files.opened.store.log.synced,
        acknowledged=0 if follower is None else follower.acknowledged_end,
        behind_bytes=0 if follower is None else follower.behind_bytes,
    )
