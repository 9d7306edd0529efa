"""What replicas decide, where a simulation (`tests/simulation`) would hardly come."""

from ternmq_broker.replication.epochs import EpochMarks
from ternmq_broker.replication.following import Following, ShardView
from ternmq_broker.replication.leading import InSyncChange, Leading
from ternmq_broker.replication.timing import ReplicationTiming

TIMING = ReplicationTiming(lease_s=6.0, lag_s=1.5, gone_s=0.3)
BOTH = frozenset(("a", "b"))


def leading() -> Leading:
    return Leading("a", BOTH, min_insync=1, timing=TIMING, now_s=100.0, leased_at_s=100.0, start=0, acknowledged=0)


def test_a_replica_that_connects_again_and_again_and_never_keeps_up_leaves_the_in_sync_set() -> None:
    leader = leading()
    leader.own(10, 10)
    change: InSyncChange | None = None
    for tenth in range(30):
        now_s = 100.0 + tenth / 10
        if tenth % 2 == 0:
            leader.gone("b", now_s)
            leader.connected("b", 0, now_s)
        change = change or leader.change(now_s)
    assert change == InSyncChange(BOTH, frozenset("a"))


def test_a_replica_whose_log_stays_damaged_leaves_the_in_sync_set_until_it_is_repaired() -> None:
    leader = leading()
    leader.own(10, 10)
    leader.connected("b", 10, 100.0)

    def answered(now_s: float, *, is_damaged: bool) -> InSyncChange | None:
        leader.answered("b", 10, asked_s=now_s, end_then=10, promises=True)
        leader.said_damaged("b", now_s, is_damaged=is_damaged)
        return leader.change(now_s)

    assert answered(101.0, is_damaged=True) is None
    assert answered(101.0 + TIMING.lag_s, is_damaged=True) is None, "mostly it is repaired at once"
    assert answered(101.5 + TIMING.lag_s, is_damaged=True) == InSyncChange(BOTH, frozenset("a"))
    leader.changed(frozenset("a"))
    assert answered(104.0, is_damaged=True) is None
    assert leader.is_damaged("b")
    assert answered(105.0, is_damaged=False) == InSyncChange(frozenset("a"), BOTH)


def test_a_damaged_replica_stays_in_sync_and_holds_up_no_sends_where_it_is_needed() -> None:
    leader = Leading("a", BOTH, min_insync=2, timing=TIMING, now_s=100.0, leased_at_s=100.0, start=0, acknowledged=0)
    leader.own(10, 10)
    leader.connected("b", 10, 100.0)
    for tenth in range(50):
        now_s = 100.0 + tenth / 10
        leader.answered("b", 10, asked_s=now_s, end_then=10, promises=True)
        leader.said_damaged("b", now_s, is_damaged=True)
        assert leader.change(now_s) is None
        assert leader.refusal(now_s) is None


def test_a_replica_that_knows_of_damage_takes_over_only_if_nobody_else_does() -> None:
    follower = Following("b", TIMING, now_s=0.0)
    follower.saw(view(epoch=3, leader_live=False), asked_s=5.0)
    assert not follower.may_take_over(10.0, is_damaged=True)
    assert not follower.may_take_over(10.0 + 2 * TIMING.lease_s - 0.1, is_damaged=True)
    assert follower.may_take_over(10.0 + 2 * TIMING.lease_s - 0.1, is_damaged=False)
    assert follower.may_take_over(10.0 + 2 * TIMING.lease_s, is_damaged=True)
    follower.saw(view(epoch=4, leader_live=True), asked_s=30.0)
    assert not follower.may_take_over(31.0, is_damaged=True)
    follower.saw(view(epoch=4, leader_live=False), asked_s=40.0)
    assert not follower.may_take_over(41.0, is_damaged=True), "it waits for others once more"


def view(*, epoch: int, leader_live: bool) -> ShardView:
    return ShardView(epoch=epoch, leader="a", leader_live=leader_live, in_sync=BOTH)


def test_a_look_at_the_registry_that_was_overtaken_by_a_later_one_counts_for_nothing() -> None:
    follower = Following("b", TIMING, now_s=0.0)
    follower.saw(view(epoch=3, leader_live=False), asked_s=5.0)
    follower.saw(view(epoch=3, leader_live=True), asked_s=4.0)
    assert follower.may_take_over(10.0)
    follower.saw(view(epoch=3, leader_live=True), asked_s=6.0)
    assert not follower.may_take_over(10.0)


def test_where_logs_are_the_same_is_not_known_if_they_have_no_mark_in_common() -> None:
    first, second = EpochMarks(((7, 700), (8, 800))), EpochMarks(((10, 650), (11, 900)))
    assert first.common_end(850, second, 1000) is None
    # One that has no mark has nothing but what was there before the first, which all have.
    assert first.common_end(850, EpochMarks(), 600) == 600
    assert first.common_end(850, EpochMarks(((8, 800),)), 820) == 820


def test_a_leader_of_an_earlier_epoch_is_not_followed() -> None:
    follower = Following("b", TIMING, now_s=0.0)
    assert follower.accepts(3)
    assert not follower.accepts(2)
    assert follower.epoch == 3
    assert follower.accepts(3)
