"""`spark.readStream.format("ternmq")`: offsets in the checkpoint, triggers, limits, and topics that change."""

import json
import queue
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_ternmq.lag import Lag, LagListener
from ternmq.admin import topics
from ternmq.blocking import Admin, Producer
from ternmq.pull.offset_reader import OffsetReader
from ternmq.testing import Stack
from ternmq_command.calls.admin import AdminClient
from tests.spark.stream_support import (
    NewTopic,
    finished,
    forget_commit,
    numbers,
    running,
    stream,
    to_files,
    written,
)
from tests.support.spark import send_bodies
from tests.support.stack import Stack as StackProcess


def test_what_is_there_now_in_batches_of_a_limit(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=3)
    send_bodies(stack.endpoint, topic, numbers(100))
    sizes = finished(to_files(stream(spark, stack.endpoint, topic, maxOffsetsPerTrigger=30), tmp_path))
    assert sizes == [30, 30, 30, 10]
    assert written(spark, tmp_path) == numbers(100)


def test_a_restart_goes_on_where_the_checkpoint_is(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=2)
    send_bodies(stack.endpoint, topic, numbers(20))
    assert sum(finished(to_files(stream(spark, stack.endpoint, topic), tmp_path))) == 20
    assert finished(to_files(stream(spark, stack.endpoint, topic), tmp_path)) == []
    send_bodies(stack.endpoint, topic, numbers(20, 35))
    assert sum(finished(to_files(stream(spark, stack.endpoint, topic), tmp_path))) == 15
    assert written(spark, tmp_path) == numbers(35)


def test_a_micro_batch_that_was_not_committed_is_read_again(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    """What Spark does after a crash between the sink's work and its own note of it."""
    topic = new_topic(queues=2)
    send_bodies(stack.endpoint, topic, numbers(20))
    finished(to_files(stream(spark, stack.endpoint, topic), tmp_path))
    forget_commit(tmp_path)
    send_bodies(stack.endpoint, topic, numbers(20, 25))
    assert finished(to_files(stream(spark, stack.endpoint, topic), tmp_path)) == [20, 5]
    assert written(spark, tmp_path) == numbers(25)


def test_a_stream_begins_with_what_is_new_unless_it_is_told_otherwise(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, ["old"])
    frame = spark.readStream.format("ternmq").options(endpoint=stack.endpoint).load(topic)
    with running(to_files(frame, tmp_path, available_now=False)) as query:
        query.processAllAvailable()
        send_bodies(stack.endpoint, topic, ["new"])
        query.processAllAvailable()
    assert written(spark, tmp_path) == ["new"]


def test_a_first_micro_batch_that_is_repeated_reads_nothing_from_before_and_misses_nothing_since(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Spark asks for its start again, which is a later one then."""
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, ["old"])
    frame = stream(spark, stack.endpoint, topic, startingOffsets="latest")
    assert finished(to_files(frame, tmp_path)) == []
    (tmp_path / "checkpoint/commits/0").unlink()
    (tmp_path / "checkpoint/commits/.0.crc").unlink()
    send_bodies(stack.endpoint, topic, ["new"])
    assert finished(to_files(frame, tmp_path)) == [1]
    assert written(spark, tmp_path) == ["new"]


def test_a_stream_begins_where_each_queue_is_told_to(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=3)
    for turn in range(3):
        send_bodies(stack.endpoint, topic, [f"{turn}-{number}" for number in range(5)])
    rows = spark.read.format("ternmq").options(endpoint=stack.endpoint).load(topic).collect()
    sent = {(row.queue_id, row.offset): bytes(row.body).decode() for row in rows}
    starts = json.dumps({topic: {"broker-0/0": 3, "broker-0/1": -2, "broker-0/2": -1}})
    assert sum(finished(to_files(stream(spark, stack.endpoint, topic, startingOffsets=starts), tmp_path))) == 7
    wanted = [body for (number, offset), body in sent.items() if number == 1 or (number == 0 and offset >= 3)]
    assert written(spark, tmp_path) == sorted(wanted)
    beyond = json.dumps({topic: {"broker-0/0": 6, "broker-0/1": 0, "broker-0/2": 0}})
    query = to_files(stream(spark, stack.endpoint, topic, startingOffsets=beyond), tmp_path / "beyond")
    with pytest.raises(
        PySparkException, match=r"startingOffsets: offset 6 is not there, .* queue broker-0/0 ends at 5"
    ):
        query.awaitTermination()


def test_a_stream_that_reads_what_is_there_now_reads_nothing_that_comes_meanwhile(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Nor does it wait for more than there is, or put more into a micro-batch than its limit."""
    topic = new_topic(queues=3)
    send_bodies(stack.endpoint, topic, numbers(100))
    sizes = list[int]()

    def more(rows: DataFrame, _: int) -> None:
        sizes.append(rows.count())
        send_bodies(stack.endpoint, topic, numbers(100, 110))

    limits = {"minOffsetsPerTrigger": 40, "maxOffsetsPerTrigger": 40}
    writer = stream(spark, stack.endpoint, topic, **limits).writeStream.foreachBatch(more).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(200)
    assert sizes == [40, 40, 20]


def test_a_micro_batch_waits_until_there_is_enough(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=2)
    send_bodies(stack.endpoint, topic, numbers(3))
    frame = stream(spark, stack.endpoint, topic, minOffsetsPerTrigger=10)
    with running(to_files(frame, tmp_path, available_now=False)) as query:
        query.processAllAvailable()
        assert written(spark, tmp_path) == numbers(3), "the first trigger takes what there is"
        send_bodies(stack.endpoint, topic, numbers(3, 9))
        query.processAllAvailable()
        assert written(spark, tmp_path) == numbers(3)
        send_bodies(stack.endpoint, topic, numbers(9, 15))
        query.processAllAvailable()
        assert written(spark, tmp_path) == numbers(15)
    # Started again, it takes what is left.
    send_bodies(stack.endpoint, topic, numbers(15, 16))
    assert finished(to_files(frame, tmp_path)) == [1]


def test_a_micro_batch_waits_no_longer_than_the_delay(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=2)
    frame = stream(spark, stack.endpoint, topic, minOffsetsPerTrigger=1000, maxTriggerDelay="2s")
    with running(to_files(frame, tmp_path, available_now=False)) as query:
        query.processAllAvailable()
        send_bodies(stack.endpoint, topic, numbers(3))
        while written(spark, tmp_path) != numbers(3):
            assert query.isActive


def test_retention_under_a_stream_is_a_loss_unless_it_is_allowed(spark: SparkSession, tmp_path: Path) -> None:
    with Stack(
        segment_bytes=1 << 20, body_bytes_max=1 << 19, retention_ms="1m", retention_check_interval_ms=100
    ) as stack:
        stack.create_topic("orders", queues=1)
        send_bodies(stack.endpoint, "orders", numbers(10))
        finished(to_files(stream(spark, stack.endpoint, "orders"), tmp_path))
        send_bodies(stack.endpoint, "orders", [f"{n:050000}" for n in range(100)])
        stack.advance(timedelta(minutes=2))
        send_bodies(stack.endpoint, "orders", ["new"])
        with OffsetReader(stack.endpoint) as reader:
            [only] = reader.queues("orders")
            while (first := reader.offset(only, "earliest")) <= 10:
                pass  # files are removed in the background of the broker
        with pytest.raises(
            PySparkException, match=rf"{first - 10} messages were lost .* from offset 10 on \(retention\)"
        ):
            to_files(stream(spark, stack.endpoint, "orders"), tmp_path).awaitTermination()
        allowed = stream(spark, stack.endpoint, "orders", failOnDataLoss="false")
        assert finished(to_files(allowed, tmp_path)) == [111 - first]
    assert "new" in written(spark, tmp_path)


def test_a_condition_that_can_not_be_read_ends_the_query_before_there_is_anything_to_read(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    query = to_files(stream(spark, stack.endpoint, new_topic(), filter="n >"), tmp_path)
    with pytest.raises(PySparkException, match=r"ILLEGAL_FILTER_EXPRESSION"):
        query.awaitTermination()


def test_queues_that_are_added_are_read_from_their_beginning(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, numbers(10))
    with running(to_files(stream(spark, stack.endpoint, topic), tmp_path, available_now=False)) as query:
        query.processAllAvailable()
        with AdminClient(stack.endpoint) as admin:
            admin.send_call(topics.update_topic(topic, queues=4))
        send_bodies(stack.endpoint, topic, numbers(10, 50), together=5)
        query.processAllAvailable()
        assert query.lastProgress is not None
        end = json.loads(query.lastProgress["sources"][0]["endOffset"])
    assert written(spark, tmp_path) == numbers(50)
    assert sum(end[topic].values()) == 50
    assert end["@identities"][topic]
    assert len(end[topic]) == 4
    assert all(end[topic].values())


@pytest.mark.parametrize("count", [4, 14])
def test_a_broker_without_its_data_is_a_loss_unless_it_is_allowed(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
    """However many messages it has got since."""
    with StackProcess(tmp_path / "broker") as process:
        send_bodies(process.grpc, "orders", numbers(10))
        finished(to_files(stream(spark, process.grpc, "orders"), tmp_path))
        process.kill9()
        shutil.rmtree(process.data_dir)
        process.start()
        send_bodies(process.grpc, "orders", numbers(10, 10 + count))
        with pytest.raises(PySparkException, match=r"topic orders was deleted and created again"):
            to_files(stream(spark, process.grpc, "orders"), tmp_path).awaitTermination()
        allowed = stream(spark, process.grpc, "orders", failOnDataLoss="false")
        assert finished(to_files(allowed, tmp_path)) == [count]
    assert written(spark, tmp_path) == numbers(10 + count)


def test_a_queue_that_lost_its_end_is_a_loss_unless_it_is_allowed(spark: SparkSession, tmp_path: Path) -> None:
    with StackProcess(tmp_path / "broker") as process:
        send_bodies(process.grpc, "orders", numbers(10))
        finished(to_files(stream(spark, process.grpc, "orders"), tmp_path))
        process.kill9()
        shutil.rmtree(process.data_dir / "store")
        process.start()
        send_bodies(process.grpc, "orders", numbers(10, 14))
        with pytest.raises(
            PySparkException, match=r"ends at offset [0-4], and this query has read up to 10: its broker"
        ):
            to_files(stream(spark, process.grpc, "orders"), tmp_path).awaitTermination()
        allowed = stream(spark, process.grpc, "orders", failOnDataLoss="false")
        assert finished(to_files(allowed, tmp_path)) == [4]
    assert written(spark, tmp_path) == numbers(14)


def test_a_group_is_told_the_progress(spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path) -> None:
    """One that isn't there is made, and knows who reads; at the end it has no lag."""
    topic, group = new_topic(queues=2), stack.fresh_name()
    send_bodies(stack.endpoint, topic, numbers(40))
    frame = stream(spark, stack.endpoint, topic, group=group, maxOffsetsPerTrigger=30)
    with running(to_files(frame, tmp_path, available_now=False)) as query:
        query.processAllAvailable()
        with Admin(stack.endpoint) as admin:
            described = admin.describe_group(group)
    assert sorted((each.committed, each.max_offset) for each in described.progress) == [(20, 20), (20, 20)]
    [member] = described.members
    assert (member.client_id.split("@")[0], member.client_type) == ("spark", "pull_consumer")
    send_bodies(stack.endpoint, topic, ["more"])
    finished(to_files(frame, tmp_path))
    with Admin(stack.endpoint) as admin:
        assert sum(each.committed for each in admin.describe_group(group).progress) == 41


def test_a_listener_hears_of_the_lag_after_each_micro_batch(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=2)
    send_bodies(stack.endpoint, topic, numbers(50))
    told = queue.Queue[Lag]()
    listener = LagListener(told.put)
    spark.streams.addListener(listener)
    try:
        finished(to_files(stream(spark, stack.endpoint, topic, maxOffsetsPerTrigger=30), tmp_path))
        assert [told.get(timeout=60).by_topic for _ in range(2)] == [{topic: 20}, {topic: 0}]
    finally:
        spark.streams.removeListener(listener)


def test_a_group_that_can_not_be_made_ends_the_stream_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with Stack(auto_create=False) as stack:
        stack.create_topic("orders")
        query = to_files(stream(spark, stack.endpoint, "orders", group="reports"), tmp_path)
        with pytest.raises(PySparkException, match=r"CONSUMER_GROUP_NOT_FOUND: .*reports"):
            query.awaitTermination()


def test_a_broker_that_is_started_again_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with StackProcess(tmp_path / "broker") as process:
        send_bodies(process.grpc, "orders", numbers(100))
        frame = stream(spark, process.grpc, "orders", maxOffsetsPerTrigger=10)
        with running(to_files(frame, tmp_path, available_now=False)) as query:
            while not query.recentProgress:
                assert query.isActive
            process.kill9()
            process.start()
            send_bodies(process.grpc, "orders", numbers(100, 150))
            query.processAllAvailable()
    assert written(spark, tmp_path) == numbers(150)


def test_a_stream_has_no_end_and_says_so(spark: SparkSession, stack: Stack, tmp_path: Path) -> None:
    query = to_files(stream(spark, stack.endpoint, "orders", endingOffsets="latest"), tmp_path)
    with pytest.raises(PySparkException, match="a stream has no end") as refused:
        query.awaitTermination()
    assert "UnboundLocalError" not in str(refused.value)


def test_the_queue_of_a_broker_that_is_away_keeps_its_offset() -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from pyspark_ternmq.schema import SCHEMA
    from pyspark_ternmq.source.stream import TopicStreamReader

    with Stack() as stack:
        stack.create_topic("orders", queues=1)
        with Producer(stack.endpoint, ["orders"]):
            pass
        reader = TopicStreamReader({"endpoint": stack.endpoint, "subscribe": "orders"}, SCHEMA)
        start = {"orders": {"broker-0/0": 0, "broker-1/0": 17}}
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end == start
        assert reader.partitions(start, end) == []
        reader.stop()
