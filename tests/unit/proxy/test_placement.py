"""Which queue a message goes to, for any brokers and queues; and why there is none."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import QueueRef, Topic, TopicRoute
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.processors.sending.placement import (
    QueuePlacement,
    check_readable,
    queue_of_group,
    queue_of_priority,
    unreadable_error,
    unwritable_error,
)

PRINTABLE = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=20
)
NAMES = st.lists(st.text("abc-0123456789", min_size=1, max_size=6), min_size=1, max_size=6, unique=True).map(
    lambda names: tuple(sorted(names))
)
QUEUES = st.integers(1, 32)
GROUPS = [f"order-{number}" for number in range(600)]


def route(*brokers: str, queues: int = 4) -> TopicRoute:
    """To brokers that can be written and read."""
    return TopicRoute(Topic(name="orders", type=MessageType.NORMAL, queues=queues, brokers=brokers), *[brokers] * 4)


@given(NAMES, QUEUES, st.data())
def test_messages_take_turns_on_all_queues_that_can_be_written_and_on_no_other(
    brokers: tuple[str, ...], queues: int, data: st.DataObject
) -> None:
    writable = tuple(sorted(data.draw(st.sets(st.sampled_from(brokers), min_size=1))))
    placement, where = QueuePlacement(), replace(route(*brokers, queues=queues), writable=writable)
    taken = [placement.next_queue(where) for _ in range(2 * len(writable) * queues)]
    assert Counter(taken) == {
        QueueRef("orders", broker, queue_id): 2 for broker in writable for queue_id in range(queues)
    }
    assert [queue.broker for queue in taken[: len(writable) * queues : queues]] == list(writable)
    assert [queue.queue_id for queue in taken[:queues]] == list(range(queues)), "all queues of a broker, then the next"


@given(NAMES, st.data())
def test_a_broker_that_comes_or_goes_leaves_no_queue_without_its_turn(
    brokers: tuple[str, ...], data: st.DataObject
) -> None:
    placement = QueuePlacement()
    subsets = st.sets(st.sampled_from(brokers), min_size=1).map(lambda names: tuple(sorted(names)))
    for writable in data.draw(st.lists(subsets, min_size=1, max_size=5)):
        where = replace(route(*brokers), writable=writable)
        taken = {placement.next_queue(where) for _ in range(len(writable) * 4)}
        assert len(taken) == len(writable) * 4


@given(NAMES, st.data())
def test_a_half_message_that_comes_again_goes_to_the_same_broker_while_that_can_be_written(
    brokers: tuple[str, ...], data: st.DataObject
) -> None:
    writable = tuple(sorted(data.draw(st.sets(st.sampled_from(brokers), min_size=1))))
    here, there = QueuePlacement(), QueuePlacement()
    for number in range(20):
        first = here.queue_of_half(route(*brokers), f"id {number}")
        again = there.queue_of_half(replace(route(*brokers), writable=writable), f"id {number}")
        assert again.broker == first.broker if first.broker in writable else again.broker in writable


def test_half_messages_are_spread_over_all_brokers_and_queues() -> None:
    placement = QueuePlacement()
    taken = Counter(placement.queue_of_half(route("a", "b"), f"id {number}") for number in range(800))
    assert len(taken) == 2 * 4
    assert max(taken.values()) < 1.5 * min(taken.values())


@given(NAMES, QUEUES, PRINTABLE)
def test_a_message_group_has_one_queue_in_whatever_order_brokers_are_listed(
    brokers: tuple[str, ...], queues: int, group: str
) -> None:
    queue = queue_of_group(route(*brokers, queues=queues), group)
    assert queue.broker in brokers
    assert queue.queue_id in range(queues)
    assert queue_of_group(route(*reversed(brokers), queues=queues), group) == queue


def test_a_message_group_stays_while_its_broker_is_away() -> None:
    whole = route("a", "b", "c")
    for group in GROUPS[:50]:
        queue = queue_of_group(whole, group)
        left = tuple(broker for broker in whole.brokers if broker != queue.broker)
        assert queue_of_group(replace(whole, writable=left, readable=left), group) == queue


@given(NAMES, st.integers(1, 16))
def test_a_broker_that_goes_for_good_moves_its_own_groups_only(brokers: tuple[str, ...], queues: int) -> None:
    gone, *left = brokers
    for group in GROUPS[:60] if left else ():
        before = queue_of_group(route(*brokers, queues=queues), group)
        after = queue_of_group(route(*left, queues=queues), group)
        assert before.broker == gone or after == before


@pytest.mark.parametrize("brokers", [("a",), ("a", "b"), ("a", "b", "c", "d")])
def test_more_queues_move_their_share_of_the_groups_and_none_to_another_broker(brokers: tuple[str, ...]) -> None:
    before = [queue_of_group(route(*brokers, queues=12), group) for group in GROUPS]
    after = [queue_of_group(route(*brokers, queues=16), group) for group in GROUPS]
    assert [queue.broker for queue in before] == [queue.broker for queue in after]
    moved = [now for was, now in zip(before, after, strict=True) if now != was]
    assert {queue.queue_id for queue in moved} == {12, 13, 14, 15}
    assert 0.15 < len(moved) / len(GROUPS) < 0.35


def test_one_more_broker_gets_its_share_of_the_groups_from_all_others() -> None:
    before = [queue_of_group(route("a", "b", "d"), group) for group in GROUPS]
    after = [queue_of_group(route("a", "b", "c", "d"), group) for group in GROUPS]
    moved = [(was.broker, now.broker) for was, now in zip(before, after, strict=True) if now != was]
    assert {now for _, now in moved} == {"c"}
    assert {was for was, _ in moved} == {"a", "b", "d"}
    assert 0.15 < len(moved) / len(GROUPS) < 0.35


def test_groups_are_spread_evenly() -> None:
    counts = Counter(queue_of_group(route("a", "b", "c", queues=4), group) for group in GROUPS)
    assert len(counts) == 12
    assert max(counts.values()) < 2.2 * len(GROUPS) / 12


def test_on_one_broker_a_message_group_is_where_it_always_was() -> None:
    """Stores that are there have messages of these groups in these queues."""
    queues = [queue_of_group(route("broker-0", queues=8), f"order-{number}").queue_id for number in range(8)]
    assert queues == [1, 5, 1, 3, 0, 4, 0, 4]


@given(st.integers(0, 2**31 - 1), QUEUES)
def test_a_priority_is_a_queue_and_those_above_share_the_last(priority: int, queues: int) -> None:
    topic = route("a", queues=queues).topic
    assert queue_of_priority(topic, "a", priority).queue_id == min(priority, queues - 1)


def permitting(permission: QueuePermission) -> TopicRoute:
    whole = route("a", "b")
    return replace(whole, topic=replace(whole.topic, permission=permission))


@pytest.mark.parametrize("permission", [QueuePermission.READ, QueuePermission.NONE])
def test_a_topic_that_takes_no_messages_says_so(permission: QueuePermission) -> None:
    where = replace(permitting(permission), writable=(), ordered=())
    with pytest.raises(MessagingError, match=f"FORBIDDEN: .* its permission is {permission}"):
        QueuePlacement().next_queue(where)
    with pytest.raises(MessagingError, match=f"FORBIDDEN: .* its permission is {permission}"):
        queue_of_group(where, "g")


def test_brokers_that_take_nothing_are_forbidden_and_those_that_are_away_may_be_back() -> None:
    assert unwritable_error(replace(route("a", "b"), writable=(), ordered=())).code == pb.FORBIDDEN
    away = unwritable_error(replace(route("a", "b"), writable=()))
    assert (away.code, away.retryable) == (pb.HA_NOT_AVAILABLE, True)
    assert "a, b" in away.message


@pytest.mark.parametrize("permission", [QueuePermission.WRITE, QueuePermission.NONE])
def test_a_topic_that_can_not_be_read_says_so(permission: QueuePermission) -> None:
    where = replace(permitting(permission), readable=())
    assert unreadable_error(where).code == pb.FORBIDDEN
    with pytest.raises(MessagingError, match=f"its permission is {permission}"):
        check_readable(where.topic)


def test_what_can_be_read_when_its_brokers_are_back_may_be_asked_for_again() -> None:
    where = replace(permitting(QueuePermission.READ), readable=())
    check_readable(where.topic)
    assert unreadable_error(where).retryable
