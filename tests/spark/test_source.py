"""`spark.read.format("ternmq")`: every option, every column, every refusal."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ternmq import Message
from ternmq.blocking import Producer
from ternmq.pull.offset_reader import OffsetReader
from ternmq.testing import Stack
from ternmq_protos.v2 import definition_pb2 as pb
from tests.spark.lake_files import send
from tests.support.embedded import message
from tests.support.spark import bodies_of, send_bodies

NewTopic = Callable[..., str]


def read(spark: SparkSession, stack: Stack, topic: str, schema: str | None = None, **options: str | int) -> DataFrame:
    reader = spark.read.format("ternmq").option("endpoint", stack.endpoint).options(**options)
    return (reader if schema is None else reader.schema(schema)).load(topic)


def test_a_row_has_all_of_its_message(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(type="fifo", queues=1)
    before = datetime.now(UTC) - timedelta(seconds=1)
    with Producer(stack.endpoint, [topic]) as producer:
        receipt = producer.send(
            Message(
                topic, b"\x00\xff", tag="paid", keys=("k1", "k2"), message_group="g", properties={"n": "1", "ü": ""}
            )
        )
        producer.send(Message(topic, b"-", message_group="h"))
    full, bare = read(spark, stack, topic).orderBy("offset").collect()
    found = full.asDict(recursive=True)
    for name in ("born_timestamp", "store_timestamp"):
        time = found.pop(name).replace(tzinfo=UTC)
        assert before < time < datetime.now(UTC) + timedelta(seconds=1)
    assert found == {
        "topic": topic,
        "broker": "broker-0",
        "queue_id": 0,
        "offset": 0,
        "message_id": receipt.message_id,
        "keys": ["k1", "k2"],
        "tag": "paid",
        "message_group": "g",
        "body": bytearray(b"\x00\xff"),
        "properties": {"n": "1", "ü": ""},
        "delivery_attempt": 1,
        "corrupt": None,
        "delivery_timestamp": None,
        "priority": None,
    }
    assert (bare.tag, bare["keys"], bare.properties, bare.offset) == (None, [], {}, 1)


def test_a_body_that_can_not_be_unpacked_is_a_row_that_says_why(
    spark: SparkSession, stack: Stack, new_topic: NewTopic
) -> None:
    topic = new_topic(queues=1)
    # The server unpacks what it can; a body that would be larger than it allows it leaves to who reads.
    broken = gzip.compress(bytes(5 * 1024 * 1024))[:-8]
    send(stack, topic, message(topic, broken, body_encoding=pb.GZIP), message(topic, b"plain"))
    bad, good = read(spark, stack, topic).orderBy("offset").collect()
    assert (bytes(bad.body), bytes(good.body)) == (broken, b"plain")
    assert "can't be read" in bad.corrupt
    assert good.corrupt is None


def test_an_empty_topic_has_no_rows(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    assert read(spark, stack, new_topic()).collect() == []


def test_several_topics_by_name_and_by_pattern(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topics = [new_topic(), new_topic()]
    for topic in topics:
        send_bodies(stack.endpoint, topic, [topic])
    named = spark.read.format("ternmq").option("endpoint", stack.endpoint).option("subscribe", ",".join(topics))
    assert bodies_of(named.load()) == sorted(topics)
    fitting = spark.read.format("ternmq").option("endpoint", stack.endpoint)
    assert bodies_of(fitting.option("subscribePattern", "|".join(topics)).load()) == sorted(topics)
    with pytest.raises(PySparkException, match=r"no topic fits the pattern 'never-.*'"):
        fitting.option("subscribePattern", "never-.*").load().collect()


def test_offsets_say_where_to_begin_and_end(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(queues=2)
    for queue in range(2):  # one request after the other goes to one queue after the other
        send_bodies(stack.endpoint, topic, [f"{queue}-{number}" for number in range(5)])
    in_queue = {row.queue_id: bytes(row.body)[:1].decode() for row in read(spark, stack, topic).collect()}
    assert sorted(in_queue) == [0, 1]

    def offsets(first: int, second: int) -> str:
        return json.dumps({topic: {"broker-0/0": first, "broker-0/1": second}})

    found = bodies_of(read(spark, stack, topic, startingOffsets=offsets(3, -2), endingOffsets=offsets(-1, 2)))
    assert found == sorted([f"{in_queue[0]}-3", f"{in_queue[0]}-4", f"{in_queue[1]}-0", f"{in_queue[1]}-1"])
    with pytest.raises(PySparkException, match=r"'broker-0/1' of topic .* is missing"):
        read(spark, stack, topic, startingOffsets=json.dumps({topic: {"broker-0/0": 0}})).collect()


def test_times_say_where_to_begin_and_end(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(queues=1)
    with Producer(stack.endpoint, [topic]) as producer:
        for body in (b"a", b"b", b"c"):
            stored = datetime.now(UTC)
            while datetime.now(UTC) - stored < timedelta(milliseconds=2):
                pass  # two messages of one millisecond have one time
            producer.send(Message(topic, body))
    times = {bytes(row.body).decode(): row.store_timestamp for row in read(spark, stack, topic).collect()}
    begin = str(int(times["b"].replace(tzinfo=UTC).timestamp() * 1000))
    assert bodies_of(read(spark, stack, topic, startingTimestamp=begin)) == ["b", "c"]
    assert bodies_of(read(spark, stack, topic, endingTimestamp=begin)) == ["a"]


def test_tags_and_conditions_are_the_brokers_work(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(queues=1)
    with Producer(stack.endpoint, [topic]) as producer:
        producer.send_many(
            [
                Message(topic, str(n).encode(), tag="even" if n % 2 == 0 else "odd", properties={"n": str(n)})
                for n in range(600)
            ]
        )
    assert bodies_of(read(spark, stack, topic, tag="even||none")) == sorted(str(n) for n in range(0, 600, 2))
    assert bodies_of(read(spark, stack, topic, filter="n BETWEEN 598 AND 700")) == ["598", "599"]


@pytest.mark.parametrize(
    ("option", "value"), [("filter", "n >"), ("filter", "n IN (1, 'a')"), ("tag", "a||" + "b" * 65_536)]
)
def test_a_condition_that_the_broker_can_not_read_is_refused_by_the_driver(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, option: str, value: str
) -> None:
    frame = read(spark, stack, new_topic(), None, **{option: value})
    with pytest.raises(PySparkException, match=r"ILLEGAL_FILTER_EXPRESSION"):
        frame.rdd.getNumPartitions()  # plans, and runs no task


def test_a_range_that_is_not_there_is_refused_by_the_driver(
    spark: SparkSession, stack: Stack, new_topic: NewTopic
) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, [str(n) for n in range(10)])

    def at(offset: int) -> str:
        return json.dumps({topic: {"broker-0/0": offset}})

    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for options, words in (
        ({"startingOffsets": at(11)}, r"startingOffsets: offset 11 is not there, .* ends at 10"),
        ({"endingOffsets": at(11)}, r"endingOffsets: offset 11 is not there, .* ends at 10"),
        ({"startingOffsets": at(7), "endingOffsets": at(6)}, r"endingOffsets: .* is to be read up to 6, and from 7 on"),
        ({"startingTimestamp": ahead}, r"startingTimestamp=.* has not come yet: it is"),
    ):
        frame = read(spark, stack, topic, None, **options)
        with pytest.raises(PySparkException, match=words):
            frame.rdd.getNumPartitions()  # plans, and runs no task
    legal: tuple[dict[str, str], ...] = (
        {"startingOffsets": at(10)},
        {"startingOffsets": at(-1)},
        {"startingOffsets": at(4), "endingOffsets": at(4)},
        {"startingTimestamp": datetime.now(UTC).isoformat()},
        {"startingOffsets": at(11), "failOnDataLoss": "false"},
    )
    for options in legal:
        assert read(spark, stack, topic, None, **options).collect() == []
    assert read(spark, stack, topic, None, endingTimestamp=ahead).count() == 10
    assert read(spark, stack, topic, None, endingOffsets=at(11), failOnDataLoss="false").count() == 10


def test_conditions_of_a_query_reach_the_broker(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(queues=2)
    with Producer(stack.endpoint, [topic]) as producer:
        for _ in range(2):
            producer.send_many([Message(topic, str(n).encode(), tag=f"t{n % 3}") for n in range(9)])
    frame = read(spark, stack, topic, pushFilters="true")
    with pytest.raises(PySparkException, match=r"filterPushdown.enabled"):
        frame.collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        wanted = frame.where("tag = 't1' AND queue_id = 1 AND offset >= 2 AND message_id IS NOT NULL")
        assert [row.offset for row in wanted.orderBy("offset").collect()] == [4, 7]
        plan = wanted._jdf.queryExecution().executedPlan().toString()
        assert "(tag#" not in plan.split("BatchScan")[0].replace("isnotnull(tag#", "")
        assert wanted.rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_schema_prunes_columns(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic()
    send_bodies(stack.endpoint, topic, ["a"])
    [row] = read(spark, stack, topic, schema="body binary, topic string").collect()
    assert row.asDict() == {"body": bytearray(b"a"), "topic": topic}


def test_a_backlog_is_split_further(spark: SparkSession, stack: Stack, new_topic: NewTopic) -> None:
    topic = new_topic(queues=1)
    send_bodies(stack.endpoint, topic, [str(n) for n in range(100)])
    options: dict[str, int]
    for options, count in (({}, 1), ({"minPartitions": 4}, 4), ({"maxRecordsPerPartition": 30}, 4)):
        frame = read(spark, stack, topic, None, **options)
        assert frame.rdd.getNumPartitions() == count
        assert bodies_of(frame) == sorted(str(n) for n in range(100))


def test_what_the_broker_refuses_is_an_error_of_spark(spark: SparkSession, stack: Stack) -> None:
    for _ in range(2):  # asking must not make it
        with pytest.raises(PySparkException, match=r"TOPIC_NOT_FOUND: there is no topic 'nowhere'"):
            read(spark, stack, "nowhere").collect()
    with pytest.raises(PySparkException, match=r"no option 'subscrib'; did you mean 'subscribe'"):
        read(spark, stack, "orders", subscrib="orders").collect()


def test_nobody_at_the_endpoint_is_an_error_that_names_it(spark: SparkSession) -> None:
    reader = spark.read.format("ternmq").option("endpoint", "127.0.0.1:1").option("retryTimeoutMs", "100")
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1: \w+: UNAVAILABLE"):
        reader.load("orders").collect()


def test_retention_is_a_loss_unless_it_is_allowed(spark: SparkSession) -> None:
    with Stack(
        segment_bytes=1 << 20, body_bytes_max=1 << 19, retention_ms="1m", retention_check_interval_ms=100
    ) as stack:
        stack.create_topic("orders", queues=1)
        send_bodies(stack.endpoint, "orders", [f"{n:050000}" for n in range(100)])
        stack.advance(timedelta(minutes=2))
        send_bodies(stack.endpoint, "orders", ["new"])
        with OffsetReader(stack.endpoint) as reader:
            [queue] = reader.queues("orders")
            while (first := reader.offset(queue, "earliest")) == 0:
                pass  # files are removed in the background of the broker
        assert next(row.offset for row in read(spark, stack, "orders").orderBy("offset").collect()) >= first
        explicit = json.dumps({"orders": {"broker-0/0": 0}})
        with pytest.raises(PySparkException, match=r"messages were lost .* from offset 0 on"):
            read(spark, stack, "orders", startingOffsets=explicit).collect()
        allowed = read(spark, stack, "orders", startingOffsets=explicit, failOnDataLoss="false")
        assert min(row.offset for row in allowed.collect()) >= first
        with pytest.raises(PySparkException, match=r"messages were lost .* from offset 0 on"):
            read(spark, stack, "orders", startingOffsets=explicit, filter="no = 'such'").collect()


def test_secrets_are_in_no_plan(spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    frame = read(spark, stack, topic, accessKey="me", secretKey="hush-hush", sessionToken="just-once")
    assert frame.collect() == []
    plan = frame._jdf.queryExecution().toString() + frame._jdf.queryExecution().logical().toString()
    with pytest.raises(PySparkException) as refused:
        read(spark, stack, topic, secretKey="hush-hush").collect()
    for text in (plan, str(refused.value)):
        assert "hush-hush" not in text
        assert "just-once" not in text
