"""Topics that are deleted and created again under a stream, or under offsets that somebody kept."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.source.offsets.loss import DataLoss
from pyspark_ternmq.source.offsets.splitting import RangePartition
from pyspark_ternmq.source.stream import TopicStreamReader
from ternmq.admin import topics
from ternmq.pull.offset_reader import OffsetReader
from ternmq.testing import Stack
from ternmq_command.calls.admin import AdminClient
from tests.spark.stream_support import (
    NewTopic,
    finished,
    forget_commit,
    made_anew,
    numbers,
    offsets_of,
    rewrite_offsets,
    stream,
    to_files,
    written,
)
from tests.support.spark import bodies_of, send_bodies

ALL = ReadAllAvailable()


def test_a_topic_that_was_made_anew_is_a_loss_unless_it_is_allowed(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, numbers(10))
    finished(to_files(stream(spark, stack.endpoint, topic), tmp_path))
    made_anew(stack, topic, 10, 34)
    with pytest.raises(
        PySparkException, match=rf"topic {topic} was deleted and created again since this query read it"
    ):
        to_files(stream(spark, stack.endpoint, topic), tmp_path).awaitTermination()
    assert written(spark, tmp_path) == numbers(10)
    allowed = stream(spark, stack.endpoint, topic, failOnDataLoss="false", maxOffsetsPerTrigger=10)
    assert finished(to_files(allowed, tmp_path)) == [10, 10, 4]
    send_bodies(stack.endpoint, topic, numbers(34, 40))
    assert finished(to_files(stream(spark, stack.endpoint, topic), tmp_path)) == [6]
    assert written(spark, tmp_path) == numbers(40)


def test_a_checkpoint_without_identities_goes_on_and_gets_them(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, numbers(10))
    finished(to_files(stream(spark, stack.endpoint, topic), tmp_path))
    offsets = offsets_of(tmp_path)
    identity = offsets.pop("@identities")[topic]
    rewrite_offsets(tmp_path, 0, offsets)
    assert finished(to_files(stream(spark, stack.endpoint, topic), tmp_path)) == []
    assert not (tmp_path / "checkpoint/offsets/1").exists(), "nothing new is no micro-batch"
    send_bodies(stack.endpoint, topic, numbers(10, 15))
    assert finished(to_files(stream(spark, stack.endpoint, topic), tmp_path)) == [5]
    assert offsets_of(tmp_path, 1)["@identities"] == {topic: identity}
    made_anew(stack, topic, 15, 40)
    with pytest.raises(PySparkException, match="deleted and created again"):
        to_files(stream(spark, stack.endpoint, topic), tmp_path).awaitTermination()


def test_a_micro_batch_is_not_repeated_with_messages_of_another_topic(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, other = new_topic(queues=1), new_topic(queues=1)
    for name in (topic, other):
        send_bodies(stack.endpoint, name, [f"{name}-{number}" for number in range(10)])
    both = {"subscribe": f"{topic},{other}"}
    source = spark.readStream.format("ternmq").options(endpoint=stack.endpoint, startingOffsets="earliest", **both)
    finished(to_files(source.load(), tmp_path))
    forget_commit(tmp_path)
    made_anew(stack, topic, 15)
    with pytest.raises(
        PySparkException, match=r"created again since the micro-batch was planned that is to be repeated"
    ):
        to_files(source.load(), tmp_path).awaitTermination()
    # What is still there is read again, then the new topic from its beginning.
    sizes = finished(to_files(source.option("failOnDataLoss", "false").load(), tmp_path))
    assert sizes == [10, 15]
    assert written(spark, tmp_path) == sorted([*(f"{other}-{number}" for number in range(10)), *numbers(15)])


def test_offsets_of_a_checkpoint_are_starting_offsets_of_that_topic_only(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, numbers(10))
    finished(to_files(stream(spark, stack.endpoint, topic), tmp_path / "first"))
    send_bodies(stack.endpoint, topic, numbers(10, 15))
    kept = offsets_of(tmp_path / "first")
    text, bare = json.dumps(kept), json.dumps({topic: kept[topic]})
    batch = spark.read.format("ternmq").options(endpoint=stack.endpoint)
    assert bodies_of(batch.options(startingOffsets=text).load(topic)) == numbers(10, 15)
    assert sum(finished(to_files(stream(spark, stack.endpoint, topic, startingOffsets=text), tmp_path / "second"))) == 5
    made_anew(stack, topic, 20)
    with pytest.raises(PySparkException, match=r"offsets of topic .* are of an earlier one, which was deleted"):
        batch.options(startingOffsets=text).load(topic).collect()
    with pytest.raises(PySparkException, match=r"offsets of topic .* are of an earlier one, which was deleted"):
        to_files(stream(spark, stack.endpoint, topic, startingOffsets=text), tmp_path / "third").awaitTermination()
    allowed = batch.options(startingOffsets=bare, failOnDataLoss="false").load(topic)
    assert allowed.count() == 20, "behind the messages of the old topic, whose offsets go on"


# --- the reader alone, as Spark calls it


def reader_of(stack: Stack, topic: str, **options: str) -> TopicStreamReader:
    given = {"endpoint": stack.endpoint, "subscribe": topic, "startingOffsets": "earliest", **options}
    return TopicStreamReader(given, SCHEMA)


def ranges(reader: TopicStreamReader, start: dict[str, object], end: dict[str, object]) -> list[tuple[int, int]]:
    planned = [one for one in reader.partitions(start, end) if isinstance(one, RangePartition)]
    return sorted((one.wanted.start, one.wanted.stop) for one in planned)


def test_a_topic_that_is_made_anew_while_a_query_reads_what_there_was_is_left_to_the_next_one(
    stack: Stack, new_topic: NewTopic
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, numbers(10))
    strict, lenient = reader_of(stack, topic), reader_of(stack, topic, failOnDataLoss="false")
    for reader in (strict, lenient):
        reader.prepareForTriggerAvailableNow()
    start = strict.initialOffset()
    made_anew(stack, topic, 30)
    with pytest.raises(DataLoss, match=r"created again while this query ran"):
        strict.latestOffset(start, ALL)
    assert lenient.latestOffset(start, ALL) == start
    following = reader_of(stack, topic, failOnDataLoss="false")
    following.prepareForTriggerAvailableNow()
    end = following.latestOffset(start, ALL)
    assert sum(stop - begin for begin, stop in ranges(following, start, end)) == 30
    assert following.latestOffset(end, ALL) == end
    for reader in (strict, lenient, following):
        reader.stop()


def test_queues_are_not_taken_for_lost_because_an_earlier_topic_had_them(stack: Stack, new_topic: NewTopic) -> None:
    """Offsets of a topic that is made anew go on behind those of the old one, also in queues that are added later."""
    topic = new_topic(queues=2)
    send_bodies(stack.endpoint, topic, numbers(20), together=5)
    made_anew(stack, topic, 3)
    reader = reader_of(stack, topic)
    start = reader.initialOffset()
    with AdminClient(stack.endpoint) as admin:
        admin.send_call(topics.update_topic(topic, queues=2))
    send_bodies(stack.endpoint, topic, numbers(20), together=5)
    end = reader.latestOffset(start, ALL)
    assert sum(stop - begin for begin, stop in ranges(reader, start, end)) == 23
    reader.stop()


def test_identities_are_asked_for_in_one_call_of_a_trigger(
    stack: Stack, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = new_topic(), new_topic()
    reader = reader_of(stack, f"{one},{other}")
    start = reader.initialOffset()
    asked = list[tuple[str, ...]]()
    ask = OffsetReader.topics

    def noted(self: OffsetReader, names: Iterable[str] = ()) -> dict[str, str]:
        asked.append(tuple(names))
        return ask(self, names)

    monkeypatch.setattr(OffsetReader, "topics", noted)
    assert reader.latestOffset(start, ALL) == start
    assert reader.partitions(start, start) == []
    assert asked == [(one, other)]
    reader.stop()
