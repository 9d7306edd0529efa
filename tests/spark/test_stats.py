"""Stats: the figures, each window once, and what comes too late is told."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_ternmq.pipelines import stats
from pyspark_ternmq.pipelines.connection import PipelineConnection
from tests.support.topic_contents import count, stored, without_repetitions
from tests.support.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ternmq.testing import Stack

pytestmark = [pytest.mark.spark, pytest.mark.slow]
START = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = "topic string, keys array<string>, tag string, body binary, born_timestamp timestamp, store_timestamp timestamp"


def message(second: float, *, topic: str = "orders", tag: str | None = "paid", keys: list[str] | None = None,
            body: bytes = b"12345", latency_ms: int = 10) -> tuple[object, ...]:  # fmt: skip
    stored_at = START + timedelta(seconds=second)
    return topic, keys or [], tag, body, stored_at - timedelta(milliseconds=latency_ms), stored_at


def counted(spark: "SparkSession", rows: list[tuple[object, ...]], by: list[Any]) -> list[dict[str, Any]]:
    messages = spark.createDataFrame(rows, ROWS)
    found = stats.aggregate_messages(messages, window=timedelta(minutes=1), by=by, delay=timedelta(0))
    return [row.asDict() for row in found.orderBy("window_start", *by).collect()]


def test_a_window_has_counts_bytes_and_latencies(spark: "SparkSession") -> None:
    rows = [message(number / 10, latency_ms=number, body=b"x" * 10) for number in range(1, 101)]
    [window] = counted(spark, [*rows, message(70)], ["topic", "tag"])[:1]
    assert window["window_start"].replace(tzinfo=UTC) == START
    assert (window["topic"], window["tag"], window["messages"], window["body_bytes"]) == ("orders", "paid", 100, 1000)
    assert (window["latency_min_ms"], window["latency_avg_ms"], window["latency_max_ms"]) == (1, 50.5, 100)
    assert (window["latency_p50_ms"], window["latency_p95_ms"], window["latency_p99_ms"]) == (50, 95, 99)


def test_messages_are_told_apart_by_what_is_asked_for(spark: "SparkSession") -> None:
    rows = [message(1, keys=["a", "b"]), message(2, keys=["b"], tag=None), message(3)]
    by_key = {row["key"]: row["messages"] for row in counted(spark, rows, ["key"])}
    assert by_key == {"a": 1, "b": 2, None: 1}
    by_tag = {row["tag"]: row["messages"] for row in counted(spark, rows, ["tag"])}
    assert by_tag == {"paid": 2, None: 1}


def test_a_clock_that_is_ahead_shows_as_a_negative_latency(spark: "SparkSession") -> None:
    [window] = counted(spark, [message(1, latency_ms=-500)], ["topic"])
    assert window["latency_min_ms"] == -500


def send(stack: "Stack", topic: str, count: int, **fields: object) -> None:
    from ternmq import Message
    from ternmq.blocking import Producer

    with Producer(stack.endpoint, topics=[topic]) as producer:
        producer.send_many([Message(topic, b"0123456789", tag="paid", **fields) for _ in range(count)])  # type: ignore[arg-type]


def options(stack: "Stack", topics: list[str], folder: Path, **other: object) -> stats.StatsOptions:
    wanted = {"window": timedelta(seconds=30), "delay": timedelta(0), "checkpoint": str(folder / "checkpoint")} | other
    return stats.StatsOptions(connection=PipelineConnection(endpoint=stack.endpoint), topics=topics, **wanted)  # type: ignore[arg-type]


def in_parts(clocked: "Stack", topic: str, counts: list[int]) -> None:
    """So many messages in each of as many windows."""
    for messages in counts:
        send(clocked, topic, messages)
        clocked.advance(60)


def test_windows_go_to_files_and_to_a_topic_once(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    topic, to = clocked.create_topic("orders"), clocked.create_topic("orders-stats")
    wanted = options(clocked, [topic], tmp_path, out=str(tmp_path / "out"), to=to)
    in_parts(clocked, topic, [30, 20, 10])
    first = stats.run(spark, wanted)
    # The newest window is still open.
    assert (first.messages, first.dropped, first.waiting) == (50, 0, 1)
    # The one window that is open ends within half a minute after its newest message.
    assert first.closes_at is not None
    newest = max(
        one.message.system_properties.store_timestamp.ToDatetime(UTC) for one in stored(clocked.endpoint, topic)
    )
    assert timedelta(0) < first.closes_at - newest <= wanted.window
    in_parts(clocked, topic, [5, 1])
    second = stats.run(spark, wanted)
    assert second.messages == 15
    rows = spark.read.parquet(str(tmp_path / "out" / "windows")).collect()
    assert sum(row.messages for row in rows) == 65
    # A run that finds nothing new knows what waits, too.
    idle = stats.run(spark, wanted)
    assert (idle.messages, idle.waiting, idle.closes_at) == (0, second.waiting, second.closes_at)
    assert sum(row.body_bytes for row in rows) == 650
    assert len(rows) == len({row.window_start for row in rows}) == first.windows + second.windows
    assert {row.date for row in rows} == {row.window_start.date() for row in rows}
    found = stored(clocked.endpoint, to)
    assert len(without_repetitions(found)) == len(found) == len(rows)
    told = [json.loads(one.body) for one in found]
    assert sum(one["messages"] for one in told) == 65
    assert all(one["topic"] == topic and one["tag"] == "paid" and one["window_start"].endswith("Z") for one in told)
    system = found[0].message.system_properties
    assert (list(system.keys), system.tag) == ([topic], "stats")


def test_counting_again_from_the_beginning_sends_the_same_ids(
    spark: "SparkSession", clocked: "Stack", tmp_path: Path
) -> None:
    topic, to = clocked.create_topic("orders"), clocked.create_topic("orders-stats")
    in_parts(clocked, topic, [3, 2, 1])
    stats.run(spark, options(clocked, [topic], tmp_path / "a", to=to))
    once = stored(clocked.endpoint, to)
    stats.run(spark, options(clocked, [topic], tmp_path / "b", to=to))
    twice = stored(clocked.endpoint, to)
    assert len(twice) == 2 * len(once) > 0
    assert len(without_repetitions(twice)) == len(once)


def test_messages_that_come_too_late_are_told(
    spark: "SparkSession", clocked: "Stack", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small topic is read to its end while a large one is not: its newer messages close the windows of the other."""
    large, small = clocked.create_topic("large", queues=1), clocked.create_topic("small", queues=1)
    send(clocked, large, 10)
    clocked.advance(3600)
    send(clocked, small, 1)
    wanted = options(clocked, [large, small], tmp_path, out=str(tmp_path / "out"), max_offsets_per_trigger=4)
    report = stats.run(spark, wanted)
    assert report.dropped >= 1
    assert re.search(r"WARNING: at least \d+ messages of batch \d+ are in no window", capsys.readouterr().err)
    assert report.messages + report.dropped <= 11


def test_with_a_trigger_it_goes_on_until_it_is_stopped(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    topic, to = clocked.create_topic("orders"), clocked.create_topic("orders-stats")
    wanted = options(clocked, [topic], tmp_path, to=to, trigger=timedelta(milliseconds=200))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(stats.run, spark, wanted)
        try:
            for windows in (1, 2):
                in_parts(clocked, topic, [4, 1])
                asyncio.run(_until_stored(clocked, to, windows))
        finally:
            for query in spark.streams.active:
                query.stop()
        report = running.result()
    # The batch that was under way when it was stopped may have sent its windows; it is not done, and counts later.
    assert 1 <= report.windows <= count(clocked.endpoint, to)
    assert report.messages >= 4


async def _until_stored(clocked: "Stack", topic: str, messages: int) -> None:
    await asyncio.wait_for(until(lambda: count(clocked.endpoint, topic) >= messages), 120)
