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
