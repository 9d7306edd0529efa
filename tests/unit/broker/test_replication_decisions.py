"""What replicas decide, where a simulation (`tests/simulation`) would hardly come."""

from ternmq_broker.replication.epochs import EpochMarks
from ternmq_broker.replication.follower_state import FollowerState, ShardView
from ternmq_broker.replication.leader_state import InSyncChange, LeaderState
from ternmq_broker.replication.timing import ReplicationTiming

TIMING = ReplicationTiming(lease_s=6.0, lag_s=1.5, disconnected_s=0.3)
BOTH = frozenset(("a", "b"))


def leading() -> LeaderState:
    return LeaderState("a", BOTH, min_insync=1, timing=TIMING, now_s=100.0, leased_at_s=100.0, start=0, acknowledged=0)


def test_a_replica_that_connects_again_and_again_and_never_keeps_up_leaves_the_in_sync_set() -> None:
    leader = leading()
    leader.note_own_log(10, 10)
    change: InSyncChange | None = None
    for tenth in range(30):
        now_s = 100.0 + tenth / 10
        if tenth % 2 == 0:
            leader.note_disconnect("b", now_s)
            leader.add_follower("b", 0, now_s)
        change = change or leader.next_change(now_s)
    assert change == InSyncChange(BOTH, frozenset("a"))


def test_a_replica_whose_log_stays_damaged_leaves_the_in_sync_set_until_it_is_repaired() -> None:
    leader = leading()
    leader.note_own_log(10, 10)
    leader.add_follower("b", 10, 100.0)

    def answered(now_s: float, *, is_damaged: bool) -> InSyncChange | None:
        leader.note_answer("b", 10, requested_s=now_s, end_then=10, promises=True)
        leader.note_damage("b", now_s, is_damaged=is_damaged)
        return leader.next_change(now_s)

    assert answered(101.0, is_damaged=True) is None
    assert answered(101.0 + TIMING.lag_s, is_damaged=True) is None, "mostly it is repaired at once"
    assert answered(101.5 + TIMING.lag_s, is_damaged=True) == InSyncChange(BOTH, frozenset("a"))
    leader.finish_change(frozenset("a"))
    assert answered(104.0, is_damaged=True) is None
    assert leader.is_damaged("b")
    assert answered(105.0, is_damaged=False) == InSyncChange(frozenset("a"), BOTH)


def test_a_damaged_replica_stays_in_sync_and_holds_up_no_sends_where_it_is_needed() -> None:
    leader = LeaderState(
        "a", BOTH, min_insync=2, timing=TIMING, now_s=100.0, leased_at_s=100.0, start=0, acknowledged=0
    )
    leader.note_own_log(10, 10)
    leader.add_follower("b", 10, 100.0)
    for tenth in range(50):
        now_s = 100.0 + tenth / 10
        leader.note_answer("b", 10, requested_s=now_s, end_then=10, promises=True)
        leader.note_damage("b", now_s, is_damaged=True)
        assert leader.next_change(now_s) is None
        assert leader.refusal_reason(now_s) is None


def test_a_replica_that_knows_of_damage_takes_over_only_if_nobody_else_does() -> None:
    follower = FollowerState("b", TIMING, now_s=0.0)
    follower.note_view(view(epoch=3, leader_live=False), requested_s=5.0)
    assert not follower.may_take_over(10.0, is_damaged=True)
    assert not follower.may_take_over(10.0 + 2 * TIMING.lease_s - 0.1, is_damaged=True)
    assert follower.may_take_over(10.0 + 2 * TIMING.lease_s - 0.1, is_damaged=False)
    assert follower.may_take_over(10.0 + 2 * TIMING.lease_s, is_damaged=True)
    follower.note_view(view(epoch=4, leader_live=True), requested_s=30.0)
    assert not follower.may_take_over(31.0, is_damaged=True)
    follower.note_view(view(epoch=4, leader_live=False), requested_s=40.0)
    assert not follower.may_take_over(41.0, is_damaged=True), "it waits for others once more"


def view(*, epoch: int, leader_live: bool) -> ShardView:
    return ShardView(epoch=epoch, leader="a", leader_live=leader_live, in_sync=BOTH)


def test_a_look_at_the_registry_that_was_overtaken_by_a_later_one_counts_for_nothing() -> None:
    follower = FollowerState("b", TIMING, now_s=0.0)
    follower.note_view(view(epoch=3, leader_live=False), requested_s=5.0)
    follower.note_view(view(epoch=3, leader_live=True), requested_s=4.0)
    assert follower.may_take_over(10.0)
    follower.note_view(view(epoch=3, leader_live=True), requested_s=6.0)
    assert not follower.may_take_over(10.0)


def test_where_logs_are_the_same_is_not_known_if_they_have_no_mark_in_common() -> None:
    first, second = EpochMarks(((7, 700), (8, 800))), EpochMarks(((10, 650), (11, 900)))
    assert first.common_end(850, second, 1000) is None
    # One that has no mark has nothing but what was there before the first, which all have.
    assert first.common_end(850, EpochMarks(), 600) == 600
    assert first.common_end(850, EpochMarks(((8, 800),)), 820) == 820


def test_a_leader_of_an_earlier_epoch_is_not_followed() -> None:
    follower = FollowerState("b", TIMING, now_s=0.0)
    assert follower.accept_epoch(3)
    assert not follower.accept_epoch(2)
    assert follower.epoch == 3
    assert follower.accept_epoch(3)
