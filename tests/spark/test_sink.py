"""The sink with a real Spark and a real broker: what arrives, in which order, under which ids, and what is refused."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

from pyspark_ternmq.sink.ids import DerivedIds
from pyspark_ternmq.sink.pace import pace_file
from ternmq.blocking import SimpleConsumer
from ternmq.testing import Stack
from tests.spark.sink_support import bodies, numbered, save, stored, stored_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]
ALL = (
    "topic string, body binary, keys array<string>, tag string, message_group string, delivery_timestamp timestamp, "
    "properties map<string,string>, message_id string"
)
NewTopic = Callable[..., str]


# What arrives.


@pytest.mark.parametrize("large", ["false", "true"])
def test_every_column_arrives_in_its_message(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, large: str
) -> None:
    topic = new_topic()
    rows = [
        (topic, b"full", ["k1", "k2"], "paid", None, None, {"region": "eu", "n": "1"}, "mine"),
        (topic, b"\x00\xff", [], None, None, None, {}, None),
        (topic, b"bare", None, None, None, None, None, None),
    ]
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        save(spark.createDataFrame(rows, ALL).coalesce(1), stack.endpoint, idSeed="s")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    ids = DerivedIds("s", partition=0, epoch=0).of_rows(0, 3)
    arrived = {
        view.body: (view.keys, view.tag, view.properties, view.message_id) for view in stored(stack.endpoint, topic)
    }
    assert arrived == {
        b"full": (("k1", "k2"), "paid", {"region": "eu", "n": "1"}, "mine"),
        b"\x00\xff": ((), None, {}, ids[1]),
        b"bare": ((), None, {}, ids[2]),
    }


def test_text_becomes_utf8_and_a_single_key_is_enough(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic()
    save(spark.createDataFrame([("zażółć 🦆", "k")], "body string, keys string"), stack.endpoint, topic=topic)
    [view] = stored(stack.endpoint, topic)
    assert (view.body.decode(), view.keys) == ("zażółć 🦆", ("k",))


def test_rows_choose_their_topics(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topics = [new_topic() for _ in range(3)]
    names = f.array(*map(f.lit, topics))
    save(
        spark.range(300).select(names[f.col("id") % 3].alias("topic"), f.col("id").cast("string").alias("body")),
        stack.endpoint,
    )
    for place, topic in enumerate(topics):
        assert bodies(stored(stack.endpoint, topic)) == sorted(b"%d" % number for number in range(place, 300, 3))


def test_the_option_counts_more_than_the_column(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic()
    rows = spark.createDataFrame([("elsewhere", b"a"), (None, b"b")], "topic string, body binary")
    save(rows, stack.endpoint, topic=topic)
    assert bodies(stored(stack.endpoint, topic)) == [b"a", b"b"]


def test_the_argument_of_save_is_the_topic(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic()
    numbered(spark, 3).write.format("ternmq").mode("append").option("endpoint", stack.endpoint).save(topic)
    assert bodies(stored(stack.endpoint, topic)) == [b"0", b"1", b"2"]


def test_what_the_source_reads_can_be_written_again(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    origin, copy = new_topic(), new_topic()
    save(numbered(spark, 100).withColumn("tag", f.lit("t")), stack.endpoint, topic=origin)
    save(
        spark.read.format("ternmq").options(endpoint=stack.endpoint, subscribe=origin).load(),
        stack.endpoint,
        topic=copy,
        ignoreSourceColumns=True,
    )
    before, after = stored(stack.endpoint, origin), stored(stack.endpoint, copy)
    assert {(view.message_id, view.body, view.tag) for view in before} == {
        (view.message_id, view.body, view.tag) for view in after
    }


def test_a_job_for_kafka_moves_by_its_format_and_options(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic
) -> None:
    """Rows choose their queues, and come back as they were."""
    topic = new_topic(queues=3)
    rows = spark.range(60, numPartitions=2).selectExpr(
        "CAST(concat('k', id) AS BINARY) AS key",
        "CAST(CAST(id AS STRING) AS BINARY) AS value",
        "array(named_struct('key', 'n', 'value', CAST(CAST(id AS STRING) AS BINARY))) AS headers",
        "CAST(id % 3 AS INT) AS partition",
    )
    save(rows, stack.endpoint, topic=topic, columnNames="kafka")
    source = spark.read.format("ternmq").options(endpoint=stack.endpoint, columnNames="kafka", includeHeaders=True)
    found = source.load(topic)
    assert found.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert sorted(rows.collect()) == sorted(found.select(*rows.columns).collect())
    counted = found.groupBy("partition").count().collect()
    assert {row["partition"]: row["count"] for row in counted} == {0: 20, 1: 20, 2: 20}
    for row in found.where("partition = 1").collect():
        assert row.topic == topic
        assert row.timestampType == 1


def test_priorities_and_delivery_times_come_back(spark: "SparkSession") -> None:
    with Stack() as stack:
        stack.create_topic("urgent", type="priority", queues=8)
        stack.create_topic("later", type="delay", queues=1)
        save(spark.createDataFrame([("a", 5), ("b", 0)], "body string, priority int"), stack.endpoint, topic="urgent")
        due = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
        timed = spark.createDataFrame([("a", due)], "body string, delivery_timestamp timestamp")
        save(timed, stack.endpoint, topic="later")
        stack.advance(timedelta(minutes=6))
        source = spark.read.format("ternmq").options(endpoint=stack.endpoint)
        found = {bytes(row.body): row.priority for row in source.load("urgent").collect()}
        assert found == {b"a": 5, b"b": 0}
        while not (rows := source.load("later").collect()):
            pass  # it is moved into its queue in the background of the broker
        assert [row.delivery_timestamp.astimezone(UTC) for row in rows] == [due]


def test_more_rows_than_a_batch_or_a_request_holds(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(queues=3)
    save(numbered(spark, 25_000, partitions=3), stack.endpoint, topic=topic, batchSize=700, maxInFlight=2)
    views = stored(stack.endpoint, topic)
    assert bodies(views) == sorted(b"%d" % number for number in range(25_000))
    assert len({view.message_id for view in views}) == 25_000


def test_an_empty_write_sends_nothing(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic()
    save(numbered(spark, 10).where("false"), stack.endpoint, topic=topic)
    assert stored_count(stack.endpoint, topic) == 0


def test_message_groups_keep_their_order(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(type="fifo", queues=4)
    group = f.concat(f.lit("group-"), (f.col("id") % 13).cast("string"))
    rows = spark.range(0, 3000, 1, 1).select(f.col("id").cast("string").alias("body"), group.alias("message_group"))
    save(rows, stack.endpoint, topic=topic, batchSize=20, maxInFlight=4)
    by_group: dict[str | None, list[int]] = {}
    for view in stored(stack.endpoint, topic):
        by_group.setdefault(view.message_group, []).append(int(view.body))
    assert by_group == {f"group-{first}": list(range(first, 3000, 13)) for first in range(13)}


def test_messages_wait_for_their_delivery_time(spark: "SparkSession") -> None:
    with Stack() as stack:
        stack.create_topic("later", type="delay")
        stack.create_group("g")
        due = stack.now() + timedelta(hours=1)
        rows = [("soon", due), ("past", datetime(2020, 1, 1, tzinfo=UTC))]
        save(spark.createDataFrame(rows, "body string, delivery_timestamp timestamp"), stack.endpoint, topic="later")
        with SimpleConsumer(stack.endpoint, "g", {"later": "*"}) as consumer:
            [past] = consumer.receive(10)
            consumer.ack(past)  # else it would come again, too
            stack.advance(timedelta(hours=1, seconds=1))
            [soon] = consumer.receive(10)
    assert (past.body, soon.body) == (b"past", b"soon")
    assert soon.delivery_timestamp is not None
    assert abs(soon.delivery_timestamp - due) < timedelta(milliseconds=1)


def test_a_paced_write_takes_its_time(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic()
    shared = pace_file(f"seed {topic}", Path(tempfile.gettempdir()))
    begun_s = time.monotonic()
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(appears, shared)
        save(numbered(spark, 200, partitions=2), stack.endpoint, topic=topic, rowsPerSecond=100, idSeed="seed")
        # Two tasks share the rate; 20 requests, of which the first need not wait.
        assert time.monotonic() - begun_s >= 1.9
        seen.result()
    assert stored_count(stack.endpoint, topic) == 200
    assert not shared.exists(), "the end of the write removes it"


def appears(path: Path) -> None:
    """Return once there is such a file."""
    deadline_s = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline_s, "no task made the file that tasks share"
        threading.Event().wait(0.01)


# What is refused.


def refused(rows: "DataFrame", endpoint: str, **options: str) -> str:
    with pytest.raises(PySparkException) as raised:
        save(rows, endpoint, **options)
    return str(raised.value)


@pytest.mark.parametrize(
    ("schema", "options", "mode", "words"),
    [
        ("value string", {}, "append", "a message has no column 'value'"),
        ("body string", {}, "append", "which topic?"),
        ("body int", {"topic": "t"}, "append", "column body is int; it must be binary or string"),
        ("body string, keys map<string,string>", {"topic": "t"}, "append", "column keys is map<string,string>"),
        ("body string, tags string", {"topic": "t"}, "append", "did you mean 'tag'?"),
        ("body string", {"topic": "t", "batchsiz": "1"}, "append", "did you mean 'batchSize'?"),
        (
            "body string",
            {"topic": "t"},
            "overwrite",
            "messages can't be overwritten, only appended: use mode('append')",
        ),
    ],
)
def test_a_write_that_makes_no_sense_is_refused_before_it_begins(
    spark: "SparkSession", stack: Stack, schema: str, options: dict[str, str], mode: str, words: str
) -> None:
    empty = spark.createDataFrame([], schema)
    with pytest.raises(AnalysisException) as raised:
        empty.write.format("ternmq").mode(mode).options(endpoint=stack.endpoint, **options).save()
    assert words in str(raised.value)


@pytest.mark.parametrize("mode", [None, "error", "errorifexists", "ignore"])
def test_spark_itself_refuses_all_modes_but_append_and_overwrite(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, mode: str | None
) -> None:
    """The documentation says so, since the advice with it, to overwrite, is none."""
    topic = new_topic()
    writer = numbered(spark, 3).write.format("ternmq").options(endpoint=stack.endpoint, topic=topic)
    with pytest.raises(AnalysisException, match=r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        (writer if mode is None else writer.mode(mode)).save()
    assert stored_count(stack.endpoint, topic) == 0


@pytest.fixture(scope="module")
def strict() -> Iterator[Stack]:
    """A broker that makes no topic by itself."""
    with Stack(auto_create=False) as running:
        yield running


def test_a_topic_that_is_not_there_is_named(spark: "SparkSession", strict: Stack) -> None:
    text = refused(numbered(spark, 10, partitions=1), strict.endpoint, topic="nowhere")
    assert "TOPIC_NOT_FOUND" in text
    assert "(topic nowhere, row 0 of partition 0)" in text


@pytest.mark.parametrize(
    ("column", "bad", "words"),
    [
        ("body", "repeat('x', 5000000)", ["MESSAGE_BODY_TOO_LARGE", "5000000 bytes", "column body"]),
        ("body", "null", ["column body is null"]),
        ("body", "''", ["MESSAGE_BODY_EMPTY", "column body"]),
        ("tag", "'a|b'", ["ILLEGAL_MESSAGE_TAG", "column tag"]),
        ("properties", "map('KEYS', 'v')", ["property key 'KEYS' is reserved", "column properties"]),
        (
            "properties",
            "map('k', repeat('x', 20000))",
            ["MESSAGE_PROPERTIES_TOO_LARGE", "column properties, keys, tag"],
        ),
        ("topic", "null", ["column topic is null"]),
        ("message_id", "' '", ["ILLEGAL_MESSAGE_ID", "column message_id"]),
    ],
)
def test_a_row_that_is_refused_is_named(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, column: str, bad: str, words: list[str]
) -> None:
    usual = {
        "topic": f"'{new_topic()}'",
        "body": "'body'",
        "tag": "'t'",
        "properties": "map('k', 'v')",
        "message_id": "null",
    }
    parts = {
        name: f"if(id = 321, {bad}, {value}) as {name}" if name == column else f"{value} as {name}"
        for name, value in usual.items()
    }
    text = refused(spark.range(0, 1000, 1, 1).selectExpr(*parts.values()), stack.endpoint)
    for word in [*words, "row 321 of partition 0"]:
        assert word in text


@pytest.mark.parametrize(
    ("type_", "columns", "words"),
    [
        ("delay", ["'g' as message_group", "now() as delivery_timestamp"], "exclude each other"),
        ("normal", ["'g' as message_group"], "takes NORMAL messages, this one is FIFO"),
        ("fifo", ["'t' as tag"], "takes FIFO messages, this one is NORMAL"),
        ("delay", ["now() + interval 9 days as delivery_timestamp"], "ILLEGAL_DELIVERY_TIME"),
    ],
)
def test_rows_of_another_kind_than_the_topic_are_refused(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, type_: str, columns: list[str], words: str
) -> None:
    text = refused(spark.range(1).selectExpr("'b' as body", *columns), stack.endpoint, topic=new_topic(type=type_))
    assert words in text


def test_secrets_are_in_no_plan_and_no_error(
    spark: "SparkSession", strict: Stack, capfd: pytest.CaptureFixture[str]
) -> None:
    secrets = {"accessKey": "who", "secretKey": "s3cret-s3cret", "sessionToken": "t0ken-t0ken"}
    text = refused(numbered(spark, 1), strict.endpoint, topic="nowhere", **secrets)
    shown = text + "".join(capfd.readouterr())
    assert "TOPIC_NOT_FOUND" in shown
    assert "s3cret-s3cret" not in shown
    assert "t0ken-t0ken" not in shown
