"""What a store has that its registry does not know, in one line."""

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.shard.model import HeldTopic, Topic
from ternmq_registry.unknown_topics import is_user_topic, unknown_topics, warning_of

ORDERS = Topic(name="orders", type=MessageType.NORMAL, queues=8)


def test_a_topic_is_unknown_that_is_not_there_or_has_fewer_queues() -> None:
    held = {"orders": HeldTopic(8, 3), "letters": HeldTopic(1, 1)}
    assert unknown_topics(held, {"orders": ORDERS}) == {"letters": HeldTopic(1, 1)}
    assert unknown_topics({"orders": HeldTopic(9, 3)}, {"orders": ORDERS}) == {"orders": HeldTopic(9, 3)}
    assert unknown_topics({"orders": HeldTopic(1, 3)}, {"orders": ORDERS}) == {}


def test_the_brokers_own_topics_are_none_of_a_registry() -> None:
    own = ("%RETRY%g", "%DLQ%g", "TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_trace")
    assert unknown_topics(dict.fromkeys(own, HeldTopic(1, 1)), {}) == {}


def test_queues_of_lite_topics_are_told_as_their_topic() -> None:
    held = {"%LMQ%$chats$a": HeldTopic(1, 2), "%LMQ%$chats$b%$c": HeldTopic(1, 3), "%LMQ%$games$a": HeldTopic(1, 0)}
    assert unknown_topics(held, {}) == {"chats": HeldTopic(1, 5), "games": HeldTopic(1, 0)}
    assert unknown_topics(held, {"chats": ORDERS}) == {"games": HeldTopic(1, 0)}
    assert unknown_topics({"chats": HeldTopic(3, 1), **held}, {"games": ORDERS}) == {"chats": HeldTopic(3, 6)}


def test_messages_of_lite_topics_are_among_those_that_would_be_lost_with_a_broker() -> None:
    assert [is_user_topic(name) for name in ("orders", "%LMQ%$chats$a", "%RETRY%g", "%DLQ%g", "rmq_sys_trace")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_five_are_named_and_the_others_counted() -> None:
    unknown = {f"t{number}": HeldTopic(number, number * 1000) for number in range(1, 7)}
    assert warning_of(unknown, 0, "the command") == (
        "the store has messages of 6 topics that the registry does not know, or not with all queues (t1: 1 queue, "
        "1,000 messages; t2: 2 queues, 2,000 messages; t3: 3 queues, 3,000 messages; t4: 4 queues, 4,000 messages; "
        "t5: 5 queues, 5,000 messages; 1 more): stop this server, and `the command` makes them known again"
    )


def test_messages_that_are_in_no_queue_yet_are_counted() -> None:
    assert warning_of({}, 0, "the command") is None
    assert warning_of({}, 1200, "the command") == (
        "the store has messages of unknown topics that wait for their time or their producer (1,200): stop this "
        "server, and `the command` makes them known again"
    )
    both = warning_of({"orders": HeldTopic(1, 1)}, 2, "the command")
    assert both is not None
    assert "(orders: 1 queue, 1 message), and of unknown topics that wait for their time or their producer (2)" in both
