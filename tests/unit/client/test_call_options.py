"""What clients may want otherwise than usual: a queue of their own choice, messages without bodies, or by column."""

from collections.abc import Iterator

import pytest

from ternmq import BadRequest, Message, TagFilter, blocking
from ternmq.pull.offset_reader import OffsetReader, Part
from ternmq.testing import Stack
from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.limits import PULL_ROWS_MAX
from ternmq_common.shard.model import QueueRef, Topic, TopicRoute
from ternmq_common.wire import without_body
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.processors.sending.placement import QueuePlacement


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(test_clock=False) as running:
        yield running


@pytest.mark.parametrize("queue", ["2", "broker-0/2"])
def test_a_producer_chooses_the_queue_of_its_messages(stack: Stack, queue: str) -> None:
    topic = stack.fresh_name()
    stack.create_topic(topic, queues=4)
    with blocking.Producer(stack.endpoint, queue=queue) as producer:
        for _ in range(3):
            producer.send(Message(topic, b"1"))
        producer.send_many([Message(topic, b"2"), Message(topic, b"3", properties={"a": "b"})])
        # Too many for the short way of sends.
        producer.send_many([Message(topic, b"-")] * 100)
    with OffsetReader(stack.endpoint) as reader:
        assert reader.offsets(reader.queues(topic), "latest") == [0, 0, 105, 0]


@pytest.mark.parametrize("queue", ["4", "broker-0/4", "elsewhere/0", "-1", "broker-0/", "x", "9" * 30])
def test_a_queue_that_is_not_there_is_refused(stack: Stack, queue: str) -> None:
    topic = stack.fresh_name()
    stack.create_topic(topic, queues=4)
    with blocking.Producer(stack.endpoint, queue=queue) as producer, pytest.raises(BadRequest, match="BAD_REQUEST"):
        producer.send(Message(topic, b"1"))


def test_ordered_messages_have_their_own_queue(stack: Stack) -> None:
    topic = stack.fresh_name()
    stack.create_topic(topic, type="fifo", queues=4)
    with (
        blocking.Producer(stack.endpoint, queue="1") as producer,
        pytest.raises(BadRequest, match=r"can't be chosen .* that is for NORMAL messages, and these are FIFO"),
    ):
        producer.send(Message(topic, b"1", message_group="g"))


def test_a_queue_that_no_call_can_name_is_no_queue() -> None:
    with pytest.raises(ValueError, match="is not BROKER/NUMBER"):
        blocking.Producer("127.0.0.1:1", queue="bröker/1")


def test_the_broker_of_a_number_is_the_same_each_time_and_a_named_one_that_is_away_is_said() -> None:
    topic = Topic(name="t", type=MessageType.NORMAL, queues=8, permission=QueuePermission.READ_WRITE)
    names = ("a", "b", "c")
    route, without_c = TopicRoute(topic, names, names, names, names), TopicRoute(topic, names, names, names[:2], names)
    placement = QueuePlacement()
    placed = [placement.queue_for(route, str(number)) for number in range(8)]
    assert placed == [placement.queue_for(route, str(number)) for number in range(8)]
    assert [queue.queue_id for queue in placed] == list(range(8))
    assert {queue.broker for queue in placed} == set(names)
    assert placement.queue_for(route, "c/7") == QueueRef("t", "c", 7)
    with pytest.raises(MessagingError, match="broker c of topic 't' is away"):
        placement.queue_for(without_c, "c/7")


def test_messages_come_without_their_bodies_and_with_all_else(stack: Stack) -> None:
    topic = stack.fresh_name()
    stack.create_topic(topic, queues=1)
    sent = Message(topic, b"x" * 1000, tag="t", keys=["k"], properties={"a": "b" * 200, "c": ""})
    with blocking.Producer(stack.endpoint) as producer:
        producer.send_many([sent, Message(topic, b"short")])
    with OffsetReader(stack.endpoint) as whole, OffsetReader(stack.endpoint, bodies=False) as bare:
        [queue] = whole.queues(topic)
        [complete] = whole.read(queue, 0, 2)
        [part] = bare.read(queue, 0, 2)
    assert [one.body for one in part.messages] == [b"", b""]
    expected = complete.messages
    for one in expected:
        one.ClearField("body")
    assert part.messages == expected


@pytest.mark.parametrize("bodies", [True, False])
def test_messages_come_by_column(stack: Stack, bodies: bool) -> None:
    topic = stack.fresh_name()
    stack.create_topic(topic, queues=1)
    sent = [Message(topic, f"body {number}".encode(), tag=f"t{number % 2}", keys=["k"]) for number in range(1500)]
    with blocking.Producer(stack.endpoint) as producer:
        for start in range(0, 1500, 500):
            producer.send_many(sent[start : start + 500])
    with (
        OffsetReader(stack.endpoint, bodies=bodies) as usual,
        OffsetReader(stack.endpoint, bodies=bodies, rows=True) as reader,
    ):
        [queue] = reader.queues(topic)
        name = queue.proto.topic.SerializeToString()
        for passing in (None, TagFilter("t1"), TagFilter("nothing")):
            expected = [one for part in usual.read(queue, 10, 1490, passing=passing) for one in part.messages]
            parts = list(reader.read(queue, 10, 1490, passing=passing))
            assert len(parts) == 3
            assert parts[0].next_offset == 10 + PULL_ROWS_MAX
            for one in expected:
                one.system_properties.ClearField("store_host")
            found = []
            for part in parts:
                responses = list(part.rows.as_responses(name, 0)) if part.rows is not None else part.responses
                assert len(part) == len(responses)
                found += Part(responses, part.next_offset).messages
            for one in found:
                one.system_properties.ClearField("store_host")
            assert found == expected


@pytest.mark.parametrize("properties", [{}, {"a": "b"}, {"a": "b" * 300, "c": "d"}])
@pytest.mark.parametrize("body", [b"", b"1", b"x" * 500])
def test_what_is_in_front_of_the_body_is_kept(properties: dict[str, str], body: bytes) -> None:
    rest = pb.Message(user_properties=properties, body=body).SerializeToString()
    assert without_body(rest) == pb.Message(user_properties=properties).SerializeToString()


@pytest.mark.parametrize("rest", [b"\x12", b"\x12\xff\xff", b"\x1a\x00\x22\x01x"])
def test_what_looks_otherwise_stays_as_it_is(rest: bytes) -> None:
    assert without_body(rest) == rest
