"""Moving a backlog: all of it, in order, once; and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_ternmq.pipelines import backlog
from pyspark_ternmq.pipelines.administration import PipelineAdministrator
from pyspark_ternmq.pipelines.backlog_plan import BacklogRefused
from pyspark_ternmq.pipelines.connection import PipelineConnection
from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.support.topic_contents import bodies, count, order_of, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ternmq.testing import Stack

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NewTopic = Callable[..., str]


def options(stack: "Stack", topic: str, folder: Path, **other: object) -> backlog.BacklogOptions:
    wanted: dict[str, object] = {
        "group": f"{topic}-group", "to": f"{topic}-wide", "queues": 8, "checkpoint": str(folder / "checkpoint")
    } | other  # fmt: skip
    return backlog.BacklogOptions(connection=PipelineConnection(endpoint=stack.endpoint), topic=topic, **wanted)  # type: ignore[arg-type]


def send(stack: "Stack", topic: str, numbers: range, *, groups: int = 0) -> None:
    messages = [
        Message(
            topic,
            f"{number:06}".encode(),
            keys=[f"key-{number}"],
            properties={"number": str(number)},
            tag=None if groups else "paid",
            message_group=f"group-{number % groups}" if groups else None,
        )
        for number in numbers
    ]
    with Producer(stack.endpoint, topics=[topic]) as producer:
        producer.send_many(messages)


def lag(stack: "Stack", group: str, topic: str) -> int:
    """What the group has still to consume, by its offsets."""
    with PipelineAdministrator(stack.endpoint) as admin:
        queues = admin.queues(topic)
        ends = admin.offsets(queues, "latest")
        return sum(end - (admin.committed(group, queue) or 0) for queue, end in zip(queues, ends, strict=True))


def consume(stack: "Stack", group: str, topic: str, wanted: int) -> list[bytes]:
    found: list[bytes] = []
    with SimpleConsumer(stack.endpoint, group, {topic: "*"}) as consumer:
        while len(found) < wanted:
            views = consumer.receive()
            consumer.ack(views)
            found += [view.body for view in views]
    return found


def test_what_a_group_has_not_consumed_moves_with_all_that_belongs_to_it(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=2)
    told = options(stack, topic, tmp_path, step_rows=40)
    stack.create_group(told.group, consume_from="earliest")
    send(stack, topic, range(100))
    done = consume(stack, told.group, topic, 30)
    before = {one.message_id for one in stored(stack.endpoint, topic) if one.body not in done}
    report = backlog.run(spark, told)
    found = stored(stack.endpoint, told.to)
    assert sorted([*done, *(one.body for one in found)]) == [f"{number:06}".encode() for number in range(100)]
    assert (report.moved, report.planned, report.missing, report.steps) == (len(found), len(found), 0, 2)
    assert {one.message_id for one in found} == before
    system = found[0].message.system_properties
    number = int(found[0].body)
    assert (list(system.keys), system.tag) == ([f"key-{number}"], "paid")
    assert dict(found[0].message.user_properties) == {"number": str(number)}
    # Nothing is left in the old topic, and the group finds the moved ones.
    assert lag(stack, told.group, topic) == 0
    assert sorted(consume(stack, told.group, told.to, len(found))) == sorted(one.body for one in found)
    with PipelineAdministrator(stack.endpoint) as admin:
        assert len(admin.queues(told.to)) == report.queues == 8


def test_message_groups_keep_their_order(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(type="fifo", queues=2)
    told = options(stack, topic, tmp_path, step_rows=70)
    stack.create_group(told.group, fifo=True, consume_from="earliest")
    send(stack, topic, range(300), groups=11)
    assert backlog.run(spark, told).moved == 300
    groups = order_of(stored(stack.endpoint, told.to), lambda one: one.message.system_properties.message_group)
    assert sum(map(len, groups.values())) == 300
    assert all(found == sorted(found) for found in groups.values())


def test_what_is_sent_after_the_plan_stays(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    told = options(stack, topic, tmp_path)
    stack.create_group(told.group, consume_from="earliest")
    send(stack, topic, range(10))

    def send_more(left: int) -> None:
        assert left == 10
        send(stack, topic, range(10, 15))

    assert backlog.run(spark, told, confirm=send_more).moved == 10
    assert bodies(stack.endpoint, told.to) == [f"{number:06}".encode() for number in range(10)]
    assert lag(stack, told.group, topic) == 5
    # The plan is kept: the same words move nothing more.
    assert backlog.run(spark, told).moved == 0
    assert count(stack.endpoint, told.to) == 10


def test_who_says_no_changes_nothing(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    told = options(stack, topic, tmp_path)
    stack.create_group(told.group, consume_from="earliest")
    send(stack, topic, range(3))

    def refuse(left: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backlog.run(spark, told, confirm=refuse)
    with PipelineAdministrator(stack.endpoint) as admin:
        assert told.to not in admin.topics()
    assert backlog.run(spark, told).moved == 3


def test_a_group_at_work_is_left_alone_unless_told_otherwise(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    told = options(stack, topic, tmp_path)
    stack.create_group(told.group, consume_from="earliest")
    send(stack, topic, range(5))
    with SimpleConsumer(stack.endpoint, told.group, {topic: "*"}) as consumer:
        held = consumer.receive()
        with pytest.raises(BacklogRefused, match="connected members"):
            backlog.run(spark, told)
    assert held
    report = backlog.run(spark, options(stack, topic, tmp_path, include_in_flight=True))
    assert report.moved == 5


def test_topics_whose_messages_cannot_be_sent_again_are_refused(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(type="delay")
    told = options(stack, topic, tmp_path)
    stack.create_group(told.group)
    with pytest.raises(BacklogRefused, match="is a delay topic"):
        backlog.run(spark, told)


def test_a_target_of_another_type_is_refused(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, other = new_topic(), new_topic(type="fifo")
    told = options(stack, topic, tmp_path, to=other)
    stack.create_group(told.group, consume_from="earliest")
    send(stack, topic, range(2))
    with pytest.raises(BacklogRefused, match="takes fifo messages"):
        backlog.run(spark, told)


def test_a_move_goes_on_where_the_group_is(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    told = options(stack, topic, tmp_path, step_rows=20)
    stack.create_group(told.group, consume_from="earliest")
    send(stack, topic, range(60))
    backlog.run(spark, told)
    # As if it had been killed when the last step was stored and not passed over.
    with PipelineAdministrator(stack.endpoint) as admin:
        admin.commit(told.group, [(admin.queues(topic)[0], 40)])
    assert backlog.run(spark, told).moved == 20
    found = stored(stack.endpoint, told.to)
    assert len(found) == 80
    assert len({one.message_id for one in found}) == 60
