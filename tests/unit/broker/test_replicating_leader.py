"""What the leader of a shard tells when it may serve no longer, and when it may again."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ternmq_broker.replication.space_shortage import SpaceShortage
from ternmq_broker.replication.timing import ReplicationTiming
from ternmq_broker.server.replication.leader import NotServing, ReplicatingLeader
from ternmq_broker.store.repairing.damage import LogDamage
from ternmq_common.catalog.cluster import ReplicationMode
from ternmq_common.server_settings import FlushMode

pytestmark = pytest.mark.plain  # its membership and broker are stand-ins

TIMING = ReplicationTiming(lease_s=6.0)


class Shown:
    """A leader whose one follower is away, and the clock that it goes by."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.told = 0
        settings = SimpleNamespace(
            replication=ReplicationMode.SYNC, catch_up_bytes_per_second=1 << 20, flush=FlushMode.SYNC
        )
        membership = SimpleNamespace(
            timing=TIMING, settings=settings, store_id="me", shard="broker-0", last_entry=None, names_of=", ".join
        )
        store = SimpleNamespace(
            log=SimpleNamespace(log_start=0, log_end=0, synced=0, vouch_limit=0),
            indexes=SimpleNamespace(spill_limit=0),
            damage=LogDamage(),
        )
        self.store = store
        self.others_hold = 0
        broker = SimpleNamespace(store=store, disk_failure=None, refuses_for_room=False, limit_readable=self._hold)
        replicas = [SimpleNamespace(store_id=name, in_sync=True) for name in ("me", "other")]
        self.leader = ReplicatingLeader(
            cast("Any", membership),
            cast("Any", broker),
            cast("Any", SimpleNamespace(epoch=1, min_insync=2, replicas=replicas)),
            leased_at_s=0.0,
            acknowledged=0,
            shortage=SpaceShortage(),
            seconds=lambda: self.now_s,
        )
        self.leader.on_served_again = self._served_again

    def _hold(self, log_offset: int) -> None:
        self.others_hold = log_offset

    def _served_again(self) -> None:
        self.leader.check_serves()
        self.told += 1

    def renewed(self) -> None:
        """The registry has prolonged the lease."""
        self.leader._leading.note_renewal(self.now_s)


async def test_who_is_refused_between_two_steps_is_told_as_well() -> None:
    """The lease may run out and be renewed between two looks at it: who asked meanwhile must not wait for ever."""
    shown = Shown()
    await shown.leader._do_periodic_work()
    shown.now_s = TIMING.lease_s
    with pytest.raises(NotServing):
        shown.leader.check_serves()
    shown.renewed()
    await shown.leader._do_periodic_work()
    assert shown.told == 1
    await shown.leader._do_periodic_work()
    assert shown.told == 1


async def test_nobody_is_told_before_it_serves() -> None:
    shown = Shown()
    shown.now_s = TIMING.lease_s
    for _ in range(3):
        await shown.leader._do_periodic_work()
        with pytest.raises(NotServing):
            shown.leader.check_serves()
    assert shown.told == 0
    shown.renewed()
    await shown.leader._do_periodic_work()
    assert shown.told == 1


@pytest.mark.parametrize(
    ("is_given_up", "is_other_damaged", "moves"), [(False, False, True), (False, True, False), (True, False, False)]
)
async def test_a_leader_whose_damage_waits_for_a_repair_gives_the_lead_to_a_replica_that_is_whole(
    *, is_given_up: bool, is_other_damaged: bool, moves: bool
) -> None:
    shown = Shown()
    shown.leader.store.damage.add_range(0, 10, 0.0)
    shown.leader.store.damage.postpone_repair(0, 0.0, is_given_up=is_given_up)
    other = SimpleNamespace(
        held=0, has_room=True, is_damaged=is_other_damaged, heard_s=0.0, send_heartbeat=lambda: None
    )
    shown.leader._followers["other"] = cast("Any", other)
    for second in range(1, 12):
        shown.now_s = shown.leader._renewed_s = other.heard_s = float(second)
        shown.renewed()
        await shown.leader._do_periodic_work()
        assert not (second <= 3 and shown.leader.move_requested.is_set()), "mostly it is repaired at once"
    assert shown.leader.move_requested.is_set() is moves
    assert shown.leader.move_to == ("other" if moves else "")


async def test_who_is_added_to_those_in_sync_counts_before_the_registry_hears_of_it() -> None:
    """The simulation of running replicas found it: a sync of the leader that ended just then acknowledged what the new
    one had not made durable, and it could have led next."""
    shown = Shown()
    leader, held = shown.leader, {"other": 200, "new": 100}
    shown.store.log.end, shown.store.log.synced = 200, 100
    cast("Any", leader._membership).set_in_sync = _never
    for name, position in held.items():
        leader._leading.add_follower(name, position, 0.0)
        leader._leading.note_answer(name, position, requested_s=0.1, end_then=position, promises=True)
    shown.now_s = 0.1
    leader._again_s = 1.0
    await leader._do_periodic_work()
    assert shown.others_hold == 200
    leader._again_s = 0.0
    await leader._do_periodic_work()
    assert shown.others_hold == 100
    await leader._ticks.stop()
    leader._tasks.cancel()


async def _never(*_: object) -> None:
    await asyncio.Event().wait()
