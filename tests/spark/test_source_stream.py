"""`spark.readStream.format("ternmq")`: offsets in the checkpoint, triggers, limits, and topics that change."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ternmq.admin import topics
from ternmq.blocking import Producer
from ternmq.offset_reader import OffsetReader
from ternmq.testing import Stack
from ternmq_command.calls.admin import AdminClient
from tests.support.spark import bodies_of, send_bodies
from tests.support.stack import Stack as StackProcess

NewTopic = Callable[..., str]


def stream(spark: SparkSession, endpoint: str, topic: str, **options: str | int) -> DataFrame:
    given: dict[str, str | int] = {"endpoint": endpoint, "startingOffsets": "earliest", **options}
    return spark.readStream.format("ternmq").options(**given).load(topic)


def to_files(frame: DataFrame, folder: Path, *, available_now: bool = True) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if available_now else writer).start(str(folder / "rows"))


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def finished(query: StreamingQuery) -> list[int]:
    """Wait for the end; how many rows each micro-batch had."""
    assert query.awaitTermination(100)
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def written(spark: SparkSession, folder: Path) -> list[str]:
    return bodies_of(spark.read.parquet(str(folder / "rows")))


def numbers(*bounds: int) -> list[str]:
    return sorted(str(number) for number in range(*bounds))


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
    for log in ("checkpoint/commits", "rows/_spark_metadata"):
        (tmp_path / log / "0").unlink()
        (tmp_path / log / ".0.crc").unlink()
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


def test_queues_that_are_added_are_read_from_their_beginning(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, numbers(10))
    with running(to_files(stream(spark, stack.endpoint, topic), tmp_path, available_now=False)) as query:
        query.processAllAvailable()
        with AdminClient(stack.endpoint) as admin:
            admin.ask(topics.update(topic, queues=4))
        send_bodies(stack.endpoint, topic, numbers(10, 50), together=5)
        query.processAllAvailable()
        assert query.lastProgress is not None
        end = json.loads(query.lastProgress["sources"][0]["endOffset"])
    assert written(spark, tmp_path) == numbers(50)
    assert sum(end[topic].values()) == 50
    assert len(end[topic]) == 4
    assert all(end[topic].values())


def test_a_topic_that_was_made_anew_goes_on_behind_the_old_one(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, numbers(10))
    finished(to_files(stream(spark, stack.endpoint, topic), tmp_path))
    with AdminClient(stack.endpoint) as admin:
        admin.delete_topic(topic)
    stack.create_topic(topic, queues=1)
    send_bodies(stack.endpoint, topic, numbers(10, 14))
    assert finished(to_files(stream(spark, stack.endpoint, topic), tmp_path)) == [4]
    assert written(spark, tmp_path) == numbers(14)


def test_a_broker_without_its_disk_is_a_loss_unless_it_is_allowed(spark: SparkSession, tmp_path: Path) -> None:
    with StackProcess(tmp_path / "broker") as process:
        send_bodies(process.grpc, "orders", numbers(10))
        finished(to_files(stream(spark, process.grpc, "orders"), tmp_path))
        process.kill9()
        shutil.rmtree(process.data_dir)
        process.start()
        send_bodies(process.grpc, "orders", numbers(10, 14))
        with pytest.raises(PySparkException, match=r"ends at offset [0-4], and this query has read up to 10"):
            to_files(stream(spark, process.grpc, "orders"), tmp_path).awaitTermination()
        allowed = stream(spark, process.grpc, "orders", failOnDataLoss="false")
        assert finished(to_files(allowed, tmp_path)) == [4]
    assert written(spark, tmp_path) == numbers(14)


def test_a_group_is_told_the_progress(spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, group = new_topic(queues=2), stack.create_group(stack.fresh_name())
    send_bodies(stack.endpoint, topic, numbers(40))
    finished(to_files(stream(spark, stack.endpoint, topic, group=group), tmp_path))
    with OffsetReader(stack.endpoint) as reader:
        committed = [reader.committed(group, queue) for queue in reader.queues(topic)]
        ends = [reader.offset(queue, "latest") for queue in reader.queues(topic)]
    # Spark tells of a micro-batch when it begins the next one, so the last is told when there is one more.
    assert all(ends)
    send_bodies(stack.endpoint, topic, ["more"])
    finished(to_files(stream(spark, stack.endpoint, topic, group=group), tmp_path))
    with OffsetReader(stack.endpoint) as reader:
        told = [reader.committed(group, queue) for queue in reader.queues(topic)]
    assert committed != told
    assert told == ends


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
