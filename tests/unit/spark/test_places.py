"""Which queues are read and where they begin, against a stack and without a Spark."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.schema import KAFKA_SCHEMA, SCHEMA
from pyspark_ternmq.source.batch import TopicReader
from pyspark_ternmq.source.offsets.splitting import RangePartition
from pyspark_ternmq.source.options import batch_options, stream_options
from pyspark_ternmq.source.pushdown import FilteringTopicReader, WantedRanges
from pyspark_ternmq.source.stream import TopicStreamReader
from ternmq import Message, blocking
from ternmq.pull.offset_reader import OffsetReader, Part
from ternmq.testing import Stack
from ternmq_protos.v2.service_pb2 import PullMessageResponse

HOUR = timedelta(hours=1)
TOPIC = "orders"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """With three messages in each of the queues 0 and 1, an hour apart, and none in queue 2."""
    with Stack() as running:
        running.create_topic(TOPIC, queues=3)
        for _ in range(3):
            for queue in ("0", "1"):
                with blocking.Producer(running.endpoint, queue=queue) as producer:
                    producer.send(Message(TOPIC, b"-"))
            running.advance(HOUR)
        yield running


@pytest.fixture(scope="module")
def times_ms(stack: Stack) -> list[int]:
    """When the messages of queue 0 were stored. But for the first one that is yet to come, by this machine's clock."""
    with OffsetReader(stack.endpoint) as reader:
        [part] = reader.read(reader.queues(TOPIC)[0], 0, 3)
    return [one.system_properties.store_timestamp.ToMilliseconds() for one in part.messages]


def read(stack: Stack, *filters: Filter, **options: str) -> dict[str, tuple[int, int]]:
    """The ranges that a batch reads of each queue."""
    given = {"endpoint": stack.endpoint, **options}
    if not {"subscribe", "assign"} & given.keys():
        given["subscribe"] = TOPIC
    reader = FilteringTopicReader(given, SCHEMA) if filters else TopicReader(given, SCHEMA)
    if isinstance(reader, FilteringTopicReader):
        assert list(reader.pushFilters(list(filters))) == list(filters), "Spark looks at times too"
    planned = [one.wanted for one in reader.partitions() if isinstance(one, RangePartition)]
    return {wanted.queue: (wanted.start, wanted.stop) for wanted in planned}


def stream(stack: Stack, **options: str) -> TopicStreamReader:
    given = {"endpoint": stack.endpoint, "startingOffsets": "earliest", **options}
    if "assign" not in given:
        given["subscribe"] = TOPIC
    if "startingOffsetsByTimestamp" in given:
        del given["startingOffsets"]
    return TopicStreamReader(given, SCHEMA)


@pytest.mark.parametrize(
    ("names", "with_bodies"),
    [(["offset", "tag"], False), (["offset", "body"], True), (["corrupt"], True), (["value"], True)],
)
def test_bodies_come_for_columns_that_are_made_of_them_alone(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, names: list[str], *, with_bodies: bool
) -> None:
    sizes: list[int] = []
    read_parts = OffsetReader.read

    def noted(self: OffsetReader, *wanted: Any, **how: Any) -> Iterator[Part]:  # noqa: ANN401 - whatever they are
        for part in read_parts(self, *wanted, **how):
            responses = part.responses if part.rows is None else part.rows.as_responses(b"", 0)
            sizes.extend(len(PullMessageResponse.FromString(each).message.body) for each in responses)
            yield part

    monkeypatch.setattr(OffsetReader, "read", noted)
    schema = StructType([field for field in (*SCHEMA, *KAFKA_SCHEMA) if field.name in names][: len(names)])
    given = {"endpoint": stack.endpoint, "subscribe": TOPIC, "columnNames": "kafka"}
    reader = TopicReader(given, schema)
    rows = [batch.num_rows for partition in reader.partitions() for batch in reader.read(partition)]
    assert sum(rows) == 6
    assert sizes == [int(with_bodies)] * 6


# --- assign


def test_assigned_queues_alone_are_read(stack: Stack) -> None:
    assert read(stack, assign=json.dumps({TOPIC: ["broker-0/1", 2]})) == {"broker-0/1": (0, 3)}
    reader = stream(stack, assign=json.dumps({TOPIC: ["1"]}))
    start = reader.initialOffset()
    assert start[TOPIC] == {"broker-0/1": 0}
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end[TOPIC] == {"broker-0/1": 3}
    [one] = reader.partitions(start, end)
    assert isinstance(one, RangePartition)
    assert one.wanted.queue == "broker-0/1"
    reported = reader.reportLatestOffset()
    assert reported is not None
    assert reported["@source"] == f"topic {TOPIC} (1)"
    reader.stop()


def test_a_queue_that_is_not_there_can_not_be_assigned(stack: Stack) -> None:
    for name in ("3", "broker-0/3", "elsewhere/0"):
        assign = json.dumps({TOPIC: [name]})
        with pytest.raises(WrongOption, match=r"option assign: topic orders has no queue .*; there are broker-0/0, "):
            read(stack, assign=assign)
        with pytest.raises(WrongOption, match="option assign: topic orders has no queue"):
            stream(stack, assign=assign).initialOffset()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "is not an object of topics"),
        ("{}", "is not an object of topics"),
        ('{"orders": []}', "is not a list of queues"),
        ('{"orders": [true]}', "is not a list of queues"),
        ('{"or ders": [0]}', "option assign: "),
    ],
)
def test_what_is_no_assignment_is_refused(text: str, words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        batch_options({"endpoint": "h:1", "assign": text}, SCHEMA)


# --- offsets by numbers of queues, and by time


def test_queues_on_one_broker_may_be_named_by_their_numbers(stack: Stack) -> None:
    each = json.dumps({TOPIC: {"0": 1, "broker-0/1": 2, "2": -2}})
    assert read(stack, startingOffsets=each) == {"broker-0/0": (1, 3), "broker-0/1": (2, 3)}


def test_each_queue_begins_and_ends_at_its_own_time(stack: Stack, times_ms: list[int]) -> None:
    first = times_ms[0]
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    with pytest.raises(WrongOption, match=r"queue broker-0/2 has no message at or after \d+; .*Strategy to latest"):
        read(stack, startingOffsetsByTimestamp=json.dumps({TOPIC: {"0": first, "1": first, "2": first}}))
    past = json.dumps({TOPIC: {"0": 0, "1": first, "2": 0}})
    assert read(stack, startingOffsetsByTimestamp=past, **latest) == {"broker-0/0": (0, 3), "broker-0/1": (0, 3)}
    ended = read(stack, endingOffsetsByTimestamp=past)
    assert ended in ({}, {"broker-0/1": (0, 1)}), "the second queue got its message a moment later, or not"
    reader = stream(stack, startingOffsetsByTimestamp=past, **latest)
    assert reader.initialOffset()[TOPIC] == {"broker-0/0": 0, "broker-0/1": 0, "broker-0/2": 0}
    reader.stop()
    with pytest.raises(WrongOption, match="has not come yet"):
        read(stack, startingOffsetsByTimestamp=json.dumps({TOPIC: {"0": times_ms[2], "1": 0, "2": 0}}), **latest)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsetsByTimestamp": "{}", "startingOffsets": "earliest"}, "exclude each other"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "means nothing without"),
        ({"startingOffsetsByTimestamp": "[]"}, "is not an object"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "is no time in milliseconds"),
        (
            {"startingOffsetsByTimestamp": "{}", "startingOffsetsByTimestampStrategy": "earliest"},
            "is not error or latest",
        ),
        ({"includeHeaders": "true"}, "set columnNames to kafka"),
        ({"columnNames": "rocketmq"}, "is not ternmq or kafka"),
    ],
)
def test_what_can_not_be_together_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        stream_options({"endpoint": "h:1", "subscribe": TOPIC, **options}, SCHEMA)


# --- times of storing as offsets


@pytest.mark.parametrize("column", ["store_timestamp", "timestamp"])
def test_a_condition_on_the_time_of_storing_is_a_range_of_offsets(
    stack: Stack, times_ms: list[int], column: str
) -> None:
    second = datetime.fromtimestamp(times_ms[1] / 1000, UTC)
    micro = timedelta(microseconds=1)
    path = (column,)
    for condition, expected in (
        (GreaterThanOrEqual(path, second), (1, 3)),
        (GreaterThanOrEqual(path, second + micro), (2, 3)),
        (GreaterThan(path, second), (2, 3)),
        (GreaterThan(path, second - micro), (1, 3)),
        (LessThan(path, second), (0, 1)),
        (LessThan(path, second + micro), (0, 2)),
        (LessThanOrEqual(path, second), (0, 2)),
        (LessThanOrEqual(path, second - micro), (0, 1)),
        (EqualTo(path, second), (1, 2)),
    ):
        assert read(stack, condition)["broker-0/0"] == expected, condition
    both = read(stack, GreaterThan(path, second - HOUR), LessThan(path, second + HOUR))
    assert both["broker-0/0"] == (1, 2)
    assert "broker-0/0" not in read(stack, EqualTo(path, second + micro))


def test_a_time_without_a_zone_is_left_to_spark() -> None:
    assert WantedRanges().with_time(GreaterThan(("store_timestamp",), datetime(2026, 1, 1))) == WantedRanges()  # noqa: DTZ001
