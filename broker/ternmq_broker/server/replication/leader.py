"""The leader of a shard with replicas: gives them the log, and goes by what they hold.

`replication/leading.py` decides; this module carries it out: streams to followers, heartbeats, changes of the in-sync
set in the registry, and what follows for the broker: up to where it acknowledges and lets read, and whether it accepts
sends and delivers messages.
"""

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.background_loop import BackgroundLoop
from ternmq_broker.log_upkeep import Sources
from ternmq_broker.replication.leading import EVERYTHING, InSyncChange, Leading
from ternmq_broker.server.replication.follower_stream import FollowerStream
from ternmq_broker.server.replication.wire import Follow, Heartbeat, Held
from ternmq_common.cluster import ReplicationMode
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.server_settings import FlushMode
from ternmq_common.turn_end import turn_end
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ternmq_broker.broker import Broker
    from ternmq_broker.replication.shortage import Shortage
    from ternmq_broker.replication.timing import ReplicationTiming
    from ternmq_broker.server.replication.membership import Membership
    from ternmq_common.cluster import BrokerEntry, BrokerLoad
    from ternmq_rpc.grpc_stream.served_call import ServedCall

_log = logging.getLogger(__name__)
_TICK_S = 0.05
_BEATS_PER_LEASE = 10
_AGAIN_S = 0.25
# Damage is repaired within a second, if a connected replica has a whole copy.
_REPAIR_PATIENCE_S = 3.0


class NotServing(MessagingError):
    """The leader may not deliver messages now, since another replica may be the leader."""


class TooFewReplicas(MessagingError):
    """A message can't be held by enough replicas now; one that needs not to be can be stored all the same."""


class ReplicatingLeader:
    """One leadership, in one epoch. `deposed` is set when the registry has another leader, or epoch."""

    def __init__(
        self,
        membership: "Membership",
        broker: "Broker",
        entry: "BrokerEntry",
        *,
        leased_at_s: float,
        acknowledged: int,
        shortage: "Shortage",
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
        self._leading = Leading(
            membership.store_id,
            {replica.store_id for replica in entry.replicas if replica.in_sync},
            min_insync=entry.min_insync,
            timing=self._timing,
            now_s=seconds(),
            leased_at_s=leased_at_s,
            start=self.store.end,
            acknowledged=acknowledged,
            waits_for_replicas=self._mode is ReplicationMode.SYNC,
        )
        self._followers: dict[str, FollowerStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticks = BackgroundLoop(
            self._tick, name="replication", what="a step of replication failed", every_s=_TICK_S
        )
        self._next_beat_s = self._again_s = 0.0
        self._renewed_s = leased_at_s
        self._was_serving = True
        self._said_untaken = "", 0
        self._wakes_followers = False
        self._shortage = shortage
        self.moves_for_room = False
        self.deposed = asyncio.Event()
        self.move_to = ""
        self.asked_to_move = asyncio.Event()
        self.on_served_again: Callable[[], None] = lambda: None

    # --- life

    async def begin(self) -> None:
        """Begin the leader's part of the log; for a broker that has not started yet."""
        store = self.store
        store.vouch_limit = self._leading.acknowledged
        store.damage.may_be_repaired = bool(self._others)
        self._broker.log_upkeep.sources = self.sources
        await asyncio.to_thread(store.begin_epoch(self.epoch))
        self._turn_end = turn_end()
        store.appended = self._appended
        self._moved()

    def start(self, load: "Callable[[], BrokerLoad]") -> None:
        """Renew the lease and serve followers from now on; the broker has started."""
        self._ticks.start()
        self._spawn(self._renew_forever(load), "heartbeat")
        self._broker.wake_when_readable(self.store.end)

    async def stop(self) -> None:
        """Stop leading. Nothing is acknowledged from here on that was not before."""
        self.store.appended = None
        await self._ticks.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for follower in list(self._followers.values()):
            follower.end("its leader leads no more")

    def _spawn(self, work: "Coroutine[None, None, None]", name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- followers

    async def serve(self, call: "ServedCall") -> None:
        """Serve the stream of a follower."""
        await FollowerStream(self, call).serve()

    async def refusal_of(self, hello: Follow) -> str | None:
        """Why the replica of that hello may not follow; None if it may."""
        if hello.shard != self._membership.shard:
            return f"this is shard {self._membership.shard}, not {hello.shard}"
        if hello.epoch > self.epoch:
            return f"this was the leader in epoch {self.epoch}, and {hello.epoch} is a later one"
        if not await self._membership.is_replica(hello.store_id):
            return "it is no replica of this shard, as the registry has it"
        if hello.end > hello.start and hello.key != self.store.key:
            return "its data is of another store; start it with an empty --data-dir"
        return None

    def name_of(self, replica: str) -> str:
        """The name of the replica with that store in the registry."""
        return self._membership.named([replica])

    def joined(self, follower: FollowerStream) -> None:
        before = self._followers.get(follower.replica)
        if before is not None:
            before.end("it has connected again")
        self._followers[follower.replica] = follower
        follower.heard_s = self._seconds()
        self._leading.connected(follower.replica, follower.held, self._seconds())
        self._moved()

    def left(self, follower: FollowerStream) -> None:
        self._broker.unfollow_journal(follower.journaled)
        if self._followers.get(follower.replica) is follower:
            del self._followers[follower.replica]
            self._leading.gone(follower.replica, self._seconds())
            _log.info("replica %s stopped following: %s", follower.name, follower.why)

    def answered(self, follower: FollowerStream, held: Held) -> None:
        """Note what a follower holds."""
        if self._followers.get(follower.replica) is not follower:
            return
        now_s, position = self._seconds(), held.position
        follower.heard_s = now_s
        answered = partial(self._leading.answered, follower.replica, position)
        answered(asked_s=min(held.had_all_s, now_s), end_then=position, promises=False)
        answered(asked_s=min(held.heard_s, now_s), end_then=EVERYTHING, promises=held.promises)
        self._leading.said_damaged(follower.replica, now_s, is_damaged=held.is_damaged)
        self._moved()

    def untaken(self, follower: FollowerStream, position: int) -> None:
        """Report damage: a follower could not take the log from that position on."""
        if not follower.held <= position <= follower.sent:
            return
        if self._said_untaken != (follower.replica, position):
            self._said_untaken = follower.replica, position
            _log.warning("replica %s can't take the log from log offset %d on", follower.name, position)
        self.store.damage.report(position, 0)

    def sources(self) -> Sources:
        """Where to ask for damaged parts of this log: in-sync followers first, which have all of it."""
        followers = sorted(self._followers.values(), key=lambda each: each.replica not in self._leading.in_sync)
        asks = [follower.ask_for_log for follower in followers]
        return Sources(asks, are_all=self._others <= self._followers.keys())

    @property
    def _others(self) -> frozenset[str]:
        """All other replicas of the shard, as far as is known."""
        membership, entry = self._membership, self._membership.entry
        ids = () if entry is None else (each.store_id for each in entry.replicas)
        return frozenset(ids) - {membership.store_id}

    async def whole_journal(self, follower: FollowerStream) -> list[bytes]:
        """All lines of the journal; later lines are sent to the follower by themselves."""
        return await self._broker.follow_journal(follower.journaled)

    def heartbeat(self) -> Heartbeat:
        """The heartbeat that goes along with everything that the leader sends."""
        self._look()
        store = self.store
        return Heartbeat(self._seconds(), store.start, store.end, self._leading.acknowledged)

    # --- progress

    def _appended(self) -> None:
        """Plan to wake the followers at the end of this turn: the log has grown, and the disk syncs meanwhile."""
        if not self._wakes_followers and self._followers:
            self._wakes_followers = True
            self._turn_end.work(self._wake_followers)

    def _wake_followers(self) -> None:
        self._wakes_followers = False
        for follower in self._followers.values():
            follower.wake()

    def _look(self) -> None:
        end = self.store.end
        self._leading.own(end, self.store.synced if self._flushes else end)

    def _moved(self) -> None:
        """Pass on to store and broker what is acknowledged now."""
        self._look()
        store, acknowledged = self.store, self._leading.acknowledged
        store.vouch_limit = acknowledged
        store.spill_limit = max(store.spill_limit, acknowledged)
        self._broker.others_hold(self._leading.others_hold)

    # --- for the broker

    def check_serves(self) -> None:
        """Raise NotServing while another replica may be the leader."""
        if not self._leading.may_serve(self._seconds()):
            self._serves_not()
            raise NotServing(
                ErrorCode.HA_NOT_AVAILABLE,
                f"broker {self._membership.shard} can't prolong its lease, and does nothing until it can",
            )

    def check_sends(self, topic: str) -> None:
        """Raise NotServing, or TooFewReplicas if a message of the topic can't be held by enough replicas."""
        self.check_serves()
        if self.is_async(topic):
            return
        refusal = self._leading.refusal(self._seconds())
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
        """Whether the replica is in sync and holds the log to its end."""
        follower = self._followers.get(replica)
        return follower is not None and follower.held >= self.store.end and replica in self._leading.in_sync

    # --- figures, in any thread

    @property
    def problem(self) -> str | None:
        """Why sends that must be held by enough replicas are refused; None if they are not."""
        refusal = self._leading.refusal(self._seconds())
        return None if refusal is None else f"this replica leads its shard, and accepts no messages: {refusal}"

    @property
    def acknowledged(self) -> int:
        """The log offset up to which the log is acknowledged."""
        return self._leading.acknowledged

    @property
    def serves(self) -> bool:
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
        entry, end, followers = self._membership.entry, self.store.end, self._followers.copy()
        others = (
            [] if entry is None else [each for each in entry.replicas if each.store_id != self._membership.store_id]
        )
        held = {
            each.name: followers[each.store_id].held if each.store_id in followers else each.position for each in others
        }
        return {name: max(0, end - position) for name, position in held.items()}

    async def tell_elected(self, replica: str, epoch: int) -> None:
        """Notify that follower that the registry has elected it."""
        if replica in self._followers:
            await self._followers[replica].elected(epoch)

    # --- periodic work

    async def _tick(self) -> None:
        now_s = self._seconds()
        if self._broker.disk_failure is not None:
            self.depose(str(self._broker.disk_failure))
        self._moved()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + self._timing.lease_s / _BEATS_PER_LEASE
            for follower in list(self._followers.values()):
                follower.beat()
                if now_s - follower.heard_s > 2 * self._timing.lease_s:
                    follower.end("it is silent")
        if not self._leading.may_serve(now_s):
            self._serves_not()
        elif not self._was_serving:
            self._was_serving = True
            _log.info("this replica serves again")
            self.on_served_again()
        self.store.damage.may_be_repaired = bool(self._others)
        self._look_for_better(now_s)
        if now_s >= self._again_s and (change := self._leading.change(now_s)) is not None:
            # An added replica counts from here on: a sync that ends soon must not acknowledge what it lacks.
            self._moved()
            self._spawn(self._change(change), "in-sync set")

    def _serves_not(self) -> None:
        """Note that this replica does not serve, so that refused callers are notified when it serves again."""
        if self._was_serving:
            self._was_serving = False
            _log.warning("the lease ran out, and not every in-sync replica lets this one lead: it delivers nothing")

    def _look_for_better(self, now_s: float) -> None:
        """Ask for a handover if this disk is full, or its log stays damaged, and another replica is better off."""
        # Without the registry no other replica could lead, nor this one again.
        if self.asked_to_move.is_set() or self.lease_age_s > self._timing.lease_s / 2:
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
        self.moves_for_room = True
        self.asked_to_move.set()

    async def _change(self, change: InSyncChange) -> None:
        membership = self._membership
        try:
            actual = await membership.set_in_sync(self.epoch, change.expected, change.wanted)
        except Exception as error:  # noqa: BLE001 - the outermost of this task, and it logs
            self._again_s = self._seconds() + _AGAIN_S
            self._leading.changed(None)
            if isinstance(error, RegistryUnavailable):
                _log.warning("the in-sync set can't be changed now: %s", error.message)
            else:
                _log.exception("the in-sync set can't be changed now")
            return
        if actual is None:
            self.depose("the registry has another epoch")
            return
        self._leading.changed(actual)
        _log.info("in sync are %s", membership.named(actual))
        self._moved()

    async def _renew_forever(self, load: "Callable[[], BrokerLoad]") -> None:
        membership, beat_s = self._membership, self._timing.lease_s / 3
        is_renewed = True
        while not self.deposed.is_set():
            await asyncio.sleep(beat_s if is_renewed else beat_s / 4)
            asked_s = self._seconds()
            try:
                entry = await membership.renew(self.epoch, load(), self.store.synced)
            except Exception as error:  # noqa: BLE001 - the outermost of this task, and it logs
                if is_renewed:
                    _log.warning("the lease can't be renewed: %s", error)
                is_renewed = False
                continue
            if entry is None:
                self.depose("the registry has another leader")
                return
            if not is_renewed:
                _log.info("the lease is renewed again")
            is_renewed = True
            self._leading.renewed(asked_s)
            self._renewed_s = asked_s
            if entry.move_to and entry.move_to != membership.store_id:
                self.move_to = entry.move_to
                self.asked_to_move.set()

    def depose(self, why: str) -> None:
        """End this leadership: another replica leads, or this one can't."""
        if not self.deposed.is_set():
            _log.warning("lost leadership of shard %s: %s", self._membership.shard, why)
            self.deposed.set()
