"""The leader of a shard with replicas: gives them the log, and goes by what they hold.

`replication/leading.py` decides; this module carries it out: streams to followers, heartbeats, changes of the in-sync
set in the registry, and what follows for the broker: up to where it acknowledges and lets read, and whether it accepts
sends and delivers messages.
"""

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from ternmq_broker.replication.leader_state import NO_LOG_LIMIT, InSyncChange, LeaderState
from ternmq_broker.server.replication.follower_stream import FollowerStream
from ternmq_broker.server.replication.replica_messages import FollowRequest, HeldReport, LeaderHeartbeat
from ternmq_broker.upkeep.log_upkeep import RepairSources
from ternmq_common.catalog.cluster import ReplicationMode
from ternmq_common.errors import ErrorCode, MessagingError, StartupError
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.event_loop.turn_end import turn_end
from ternmq_common.server_settings import FlushMode
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.broker import Broker
    from ternmq_broker.replication.space_shortage import SpaceShortage
    from ternmq_broker.replication.timing import ReplicationTiming
    from ternmq_broker.server.replication.membership import ShardMembership
    from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad
    from ternmq_rpc.grpc_stream.served_call import ServedCall

_log = logging.getLogger(__name__)
_TICK_S: Final = 0.05
_BEATS_PER_LEASE: Final = 10
_AGAIN_S: Final = 0.25
# Damage is repaired within a second, if a connected replica has a whole copy.
_REPAIR_PATIENCE_S: Final = 3.0


class NotServing(MessagingError):
    """The leader may not deliver messages now, since another replica may be the leader."""


class TooFewReplicas(MessagingError):
    """Too few replicas can store a message now; messages that need fewer can still be stored."""


class ReplicatingLeader:
    """One leadership, in one epoch. `deposed` is set when the registry has another leader, or epoch."""

    def __init__(
        self,
        membership: "ShardMembership",
        broker: "Broker",
        entry: "BrokerEntry",
        *,
        leased_at_s: float,
        acknowledged: int,
        shortage: "SpaceShortage",
        seconds: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """`entry` is the shard as the registry had it when this replica became its leader.

        `shortage` is kept over all leaderships of this replica.
        """
        self._membership = membership
        self._broker = broker
        self.store = broker.store
        self.epoch = entry.epoch
        self.min_insync = entry.min_insync
        self._timing: ReplicationTiming = membership.timing
        self._mode = membership.settings.replication
        self.catch_up_bytes_per_s = membership.settings.catch_up_bytes_per_second
        self._flushes = membership.settings.flush is FlushMode.SYNC
        self._seconds = seconds
        self._leading = LeaderState(
            membership.store_id,
            {replica.store_id for replica in entry.replicas if replica.in_sync},
            min_insync=entry.min_insync,
            timing=self._timing,
            now_s=seconds(),
            leased_at_s=leased_at_s,
            start=self.store.log.log_end,
            acknowledged=acknowledged,
            waits_for_replicas=self._mode is ReplicationMode.SYNC,
        )
        self._followers: dict[str, FollowerStream] = {}
        self._tasks = BackgroundTasks()
        self._ticks = BackgroundLoop(
            self._do_periodic_work, name="replication", what="a step of replication failed", every_s=_TICK_S
        )
        self._next_beat_s = self._again_s = 0.0
        self._renewed_s = leased_at_s
        self._was_serving = True
        self._logged_untaken = "", 0
        self._wakes_followers = False
        self._shortage = shortage
        self.moves_for_shortage = False
        self.deposed = asyncio.Event()
        self.move_to = ""
        self.move_requested = asyncio.Event()
        self.on_served_again: Callable[[], None] = lambda: None

    # --- life

    async def begin_epoch(self) -> None:
        """Begin the leader's part of the log; for a broker that has not started yet.

        OSError: the disk refuses the write. StartupError: a sync failed, so that what the disk has is not known.
        """
        store = self.store
        store.log.vouch_limit = self._leading.acknowledged
        store.damage.may_be_repaired = bool(self._other_replicas)
        self._broker.log_upkeep.sources = self.repair_sources
        make_durable = store.replica_log.begin_epoch(self.epoch)
        try:
            await asyncio.to_thread(make_durable)
        except OSError as error:
            if store.log.synced < store.log.log_end:
                raise StartupError(f"its disk can't be relied on any more: {error}") from error
            raise
        self._turn_end = turn_end()
        store.log.on_append = self._plan_wake
        self._update_acknowledged()

    def start(self, load: "Callable[[], BrokerLoad]") -> None:
        """Renew the lease and serve followers from now on; the broker has started."""
        self._ticks.start()
        self._tasks.start(self._renew_forever(load), name="heartbeat")
        self._broker.wake_when_readable(self.store.log.log_end)

    async def stop(self) -> None:
        """Stop leading. Nothing is acknowledged from here on that was not before."""
        self.store.log.on_append = None
        await self._ticks.stop()
        await self._tasks.stop()
        for follower in list(self._followers.values()):
            follower.end_stream("its leader leads no more")

    # --- followers

    async def serve_follower(self, call: "ServedCall") -> None:
        """Serve the stream of a follower."""
        await FollowerStream(self, call).serve_stream()

    async def refusal_of(self, hello: FollowRequest) -> str | None:
        """Why the replica of that hello may not follow; None if it may."""
        if hello.shard != self._membership.shard:
            return f"this is shard {self._membership.shard}, not {hello.shard}"
        if hello.epoch > self.epoch:
            return f"this was the leader in epoch {self.epoch}, and {hello.epoch} is a later one"
        if not await self._membership.is_replica(hello.store_id):
            return "it is no replica of this shard, as the registry has it"
        if hello.end > hello.start and hello.key != self.store.log.layouts.key:
            return "its data is of another store; start it with an empty --data-dir"
        return None

    def name_of(self, replica: str) -> str:
        """The name of the replica with that store in the registry."""
        return self._membership.names_of([replica])

    def add_follower(self, follower: FollowerStream) -> None:
        before = self._followers.get(follower.replica)
        if before is not None:
            before.end_stream("it has connected again")
        self._followers[follower.replica] = follower
        follower.heard_s = self._seconds()
        self._leading.add_follower(follower.replica, follower.held, self._seconds())
        self._update_acknowledged()

    def remove_follower(self, follower: FollowerStream) -> None:
        self._broker.unfollow_journal(follower.send_journal)
        if self._followers.get(follower.replica) is follower:
            del self._followers[follower.replica]
            self._leading.note_disconnect(follower.replica, self._seconds())
            _log.info("replica %s stopped following: %s", follower.name, follower.end_reason)

    def note_held(self, follower: FollowerStream, held: HeldReport) -> None:
        """Note how far a follower has the log."""
        if self._followers.get(follower.replica) is not follower:
            return
        now_s, position = self._seconds(), held.position
        follower.heard_s = now_s
        answered = partial(self._leading.note_answer, follower.replica, position)
        answered(requested_s=min(held.had_all_s, now_s), end_then=position, promises=False)
        answered(requested_s=min(held.heard_s, now_s), end_then=NO_LOG_LIMIT, promises=held.promises)
        self._leading.note_damage(follower.replica, now_s, is_damaged=held.is_damaged)
        self._update_acknowledged()

    def report_untaken(self, follower: FollowerStream, position: int) -> None:
        """Report damage: a follower could not take the log from that position on."""
        if not follower.held <= position <= follower.sent:
            return
        if self._logged_untaken != (follower.replica, position):
            self._logged_untaken = follower.replica, position
            _log.warning("replica %s can't take the log from log offset %d on", follower.name, position)
        self.store.damage.report_damage(position, 0)

    def repair_sources(self) -> RepairSources:
        """Return the replicas that may have damaged parts of this log: in-sync followers first, which have all of
        it."""
        followers = sorted(self._followers.values(), key=lambda each: each.replica not in self._leading.in_sync)
        asks = [follower.ask_for_log for follower in followers]
        return RepairSources(asks, are_all=self._other_replicas <= self._followers.keys())

    @property
    def _other_replicas(self) -> frozenset[str]:
        """All other replicas of the shard, as far as is known."""
        membership, entry = self._membership, self._membership.last_entry
        ids = () if entry is None else (each.store_id for each in entry.replicas)
        return frozenset(ids) - {membership.store_id}

    async def whole_journal(self, follower: FollowerStream) -> list[bytes]:
        """All lines of the journal; later lines are sent to the follower by themselves."""
        return await self._broker.follow_journal(follower.send_journal)

    def create_heartbeat(self) -> LeaderHeartbeat:
        """The heartbeat that goes along with everything that the leader sends."""
        self._note_own_log()
        store = self.store
        return LeaderHeartbeat(self._seconds(), store.log.log_start, store.log.log_end, self._leading.acknowledged)

    # --- progress

    def _plan_wake(self) -> None:
        """Plan to wake the followers at the end of this turn: the log has grown, and the disk syncs meanwhile."""
        if not self._wakes_followers and self._followers:
            self._wakes_followers = True
            self._turn_end.add_work(self._wake_followers)

    def _wake_followers(self) -> None:
        self._wakes_followers = False
        for follower in self._followers.values():
            follower.send_more()

    def _note_own_log(self) -> None:
        end = self.store.log.log_end
        self._leading.note_own_log(end, self.store.log.synced if self._flushes else end)

    def _update_acknowledged(self) -> None:
        """Pass on to store and broker what is acknowledged now."""
        self._note_own_log()
        store, acknowledged = self.store, self._leading.acknowledged
        store.log.vouch_limit = acknowledged
        store.indexes.spill_limit = max(store.indexes.spill_limit, acknowledged)
        self._broker.limit_readable(self._leading.held_by_others)

    # --- for the broker

    def check_serves(self) -> None:
        """Raise NotServing while another replica may be the leader."""
        if not self._leading.may_serve(self._seconds()):
            self._note_not_serving()
            raise NotServing(
                ErrorCode.HA_NOT_AVAILABLE,
                f"broker {self._membership.shard} can't prolong its lease, and does nothing until it can",
            )

    def check_sends(self, topic: str) -> None:
        """Raise NotServing, or TooFewReplicas if a message of the topic can't be held by enough replicas."""
        self.check_serves()
        if self.is_async(topic):
            return
        refusal = self._leading.refusal_reason(self._seconds())
        if refusal is not None:
            raise TooFewReplicas(
                ErrorCode.HA_NOT_AVAILABLE, f"broker {self._membership.shard} accepts no messages now: {refusal}"
            )

    def is_async(self, topic: str) -> bool:
        """Whether messages of the topic are acknowledged when the leader has them."""
        return self._membership.mode_of(topic, self._mode) is ReplicationMode.ASYNC

    @property
    def in_sync(self) -> frozenset[str]:
        return self._leading.in_sync

    def is_damaged(self, replica: str) -> bool:
        """Whether some of that replica's log is damaged, as it reported."""
        return self._leading.is_damaged(replica)

    def has_all(self, replica: str) -> bool:
        """Whether the replica is in sync and has the log to its end."""
        follower = self._followers.get(replica)
        return follower is not None and follower.held >= self.store.log.log_end and replica in self._leading.in_sync

    # --- figures, in any thread

    @property
    def refusal_reason(self) -> str | None:
        """Why sends that must be held by enough replicas are refused; None if they are not."""
        refusal = self._leading.refusal_reason(self._seconds())
        return None if refusal is None else f"this replica leads its shard, and accepts no messages: {refusal}"

    @property
    def acknowledged_end(self) -> int:
        """The log offset up to which the log is acknowledged."""
        return self._leading.acknowledged

    @property
    def is_serving(self) -> bool:
        """Whether no other replica can be the leader now."""
        return self._leading.may_serve(self._seconds())

    @property
    def lease_age_s(self) -> float:
        """How many seconds ago the lease was renewed."""
        return self._seconds() - self._renewed_s

    def behind_by_name(self) -> dict[str, int]:
        """How many bytes of the log each other replica lacks, by its name.

        For a replica that is not connected, by its last report to the registry.
        """
        entry, end, followers = self._membership.last_entry, self.store.log.log_end, self._followers.copy()
        others = (
            [] if entry is None else [each for each in entry.replicas if each.store_id != self._membership.store_id]
        )
        held = {
            each.name: followers[each.store_id].held if each.store_id in followers else each.position for each in others
        }
        return {name: max(0, end - position) for name, position in held.items()}

    async def notify_elected(self, replica: str, epoch: int) -> None:
        """Notify that follower that the registry has elected it."""
        if replica in self._followers:
            await self._followers[replica].send_elected(epoch)

    # --- periodic work

    async def _do_periodic_work(self) -> None:
        now_s = self._seconds()
        if self._broker.disk_failure is not None:
            self.end_leadership(str(self._broker.disk_failure))
        self._update_acknowledged()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + self._timing.lease_s / _BEATS_PER_LEASE
            for follower in list(self._followers.values()):
                follower.send_heartbeat()
                if now_s - follower.heard_s > 2 * self._timing.lease_s:
                    follower.end_stream("it is silent")
        if not self._leading.may_serve(now_s):
            self._note_not_serving()
        elif not self._was_serving:
            self._was_serving = True
            _log.info("this replica serves again")
            self.on_served_again()
        self.store.damage.may_be_repaired = bool(self._other_replicas)
        self._ask_for_better_leader(now_s)
        if now_s >= self._again_s and (change := self._leading.next_change(now_s)) is not None:
            # An added replica counts from here on: a sync that ends soon must not acknowledge what it lacks.
            self._update_acknowledged()
            self._tasks.start(self._change_in_sync(change), name="in-sync set")

    def _note_not_serving(self) -> None:
        """Note that this replica does not serve, so that refused callers are notified when it serves again."""
        if self._was_serving:
            self._was_serving = False
            _log.warning("the lease ran out, and not every in-sync replica lets this one lead: it delivers nothing")

    def _ask_for_better_leader(self, now_s: float) -> None:
        """Ask for a handover if this disk is full, or its log stays damaged, and another replica is better off."""
        # Without the registry no other replica could lead, nor this one again.
        if self.move_requested.is_set() or self.lease_age_s > self._timing.lease_s / 2:
            return
        in_sync = self._leading.in_sync
        with_room = {
            name: each.held
            for name, each in self._followers.items()
            if each.has_room and not each.is_damaged and name in in_sync
        }
        is_full = self._broker.refuses_for_room
        is_damaged = self.store.damage.waiting_s(now_s) > _REPAIR_PATIENCE_S
        action = self._shortage.space_action(now_s, is_short=is_full or is_damaged, with_room=with_room)
        if action is None:
            return
        if action.target is None and is_full:
            _log.warning("no in-sync replica has room on its disk either, so this one leads on without sends")
        if action.target is None and is_damaged:
            _log.warning("this log is damaged, and no in-sync replica has a whole one: this one leads on")
        if action.target is None:
            return
        name = self.name_of(action.target)
        if is_full:
            _log.warning("this disk has no room for messages, and that of replica %s has: it shall lead", name)
        else:
            _log.warning(
                "this log is damaged and can't be repaired, and replica %s knows of no damage: it shall lead", name
            )
        self.move_to = action.target
        self.moves_for_shortage = True
        self.move_requested.set()

    async def _change_in_sync(self, change: InSyncChange) -> None:
        membership = self._membership
        try:
            actual = await membership.set_in_sync(self.epoch, change.expected, change.wanted)
        except Exception as error:  # noqa: BLE001 - the outermost of this task, and it logs
            self._again_s = self._seconds() + _AGAIN_S
            self._leading.finish_change(None)
            if isinstance(error, RegistryUnavailable):
                _log.warning("the in-sync set can't be changed now: %s", error.message)
            else:
                _log.exception("the in-sync set can't be changed now")
            return
        if actual is None:
            self.end_leadership("the registry has another epoch")
            return
        self._leading.finish_change(actual)
        _log.info("in sync are %s", membership.names_of(actual))
        self._update_acknowledged()

    async def _renew_forever(self, load: "Callable[[], BrokerLoad]") -> None:
        membership, beat_s = self._membership, self._timing.lease_s / 3
        is_renewed = True
        while not self.deposed.is_set():
            await asyncio.sleep(beat_s if is_renewed else beat_s / 4)
            requested_s = self._seconds()
            try:
                entry = await membership.renew_leader(self.epoch, load(), self.store.log.synced)
            except Exception as error:  # noqa: BLE001 - the outermost of this task, and it logs
                if is_renewed:
                    _log.warning("the lease can't be renewed: %s", error)
                is_renewed = False
                continue
            if entry is None:
                self.end_leadership("the registry has another leader")
                return
            if not is_renewed:
                _log.info("the lease is renewed again")
            is_renewed = True
            self._leading.note_renewal(requested_s)
            self._renewed_s = requested_s
            if entry.move_to and entry.move_to != membership.store_id:
                self.move_to = entry.move_to
                self.move_requested.set()

    def end_leadership(self, why: str) -> None:
        """End this leadership: another replica leads, or this one can't."""
        if not self.deposed.is_set():
            _log.warning("lost leadership of shard %s: %s", self._membership.shard, why)
            self.deposed.set()
