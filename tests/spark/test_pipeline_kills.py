"""Pipelines whose driver is killed, again and again: an account of every message at the end."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyspark_ternmq.pipelines.administration import PipelineAdministrator
from ternmq import Message, NotFound
from ternmq.blocking import Producer, SimpleConsumer
from ternmq.testing import Stack
from ternmq_common.names import dead_letter_topic
from tests.support.pipeline_process import killed_and_ended
from tests.support.topic_contents import Stored, order_of, stored, without_repetitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(1200)]
START = datetime(2026, 3, 1, tzinfo=UTC)
KILLS = 2
MESSAGES, STEP = 1200, 150


@pytest.fixture
def stack() -> "Iterator[Stack]":
    """A broker of its own, whose time goes on when a test says so."""
    with Stack() as running:
        yield running


@pytest.fixture
def admin(stack: Stack) -> "Iterator[PipelineAdministrator]":
    with PipelineAdministrator(stack.endpoint) as opened:
        yield opened


def at_counts(admin: PipelineAdministrator, topic: str, counts: "Iterable[int]") -> "list[Callable[[], bool]]":
    """Marks: so many messages have come. Each kill repeats something, so the counts run ahead of what is done."""
    return [partial(_has, admin, topic, count) for count in counts]


def _has(admin: PipelineAdministrator, topic: str, count: int) -> bool:
    try:
        return sum(state.max_offset for state in admin.describe_topic(topic).queues) >= count
    except NotFound:
        return False


def mid_flight(total: int) -> list[int]:
    rng = random.Random(7)
    return sorted(rng.randrange(total // 10, total * 9 // 10) for _ in range(KILLS))


def once_each(found: list[Stored], wanted: list[bytes]) -> list[Stored]:
    """Nothing is lost, and what came more often has the id that it had."""
    unique = without_repetitions(found)
    assert sorted(one.body for one in unique) == sorted(wanted)
    return unique


def test_a_replay_that_dies_loses_nothing_and_repeats_with_equal_ids(
    stack: Stack, admin: PipelineAdministrator, tmp_path: Path
) -> None:
    topic = stack.create_topic("orders-again", "fifo", queues=4)
    wanted = [f"body-{number:06}".encode() for number in range(MESSAGES)]
    times = [START + timedelta(milliseconds=number) for number in range(MESSAGES)]
    table = pa.table(
        {
            "body": wanted,
            "message_id": [f"id-{number}" for number in range(MESSAGES)],
            "message_group": [f"group-{number % 50}" for number in range(MESSAGES)],
            "store_timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )
    pq.write_table(table, tmp_path / "orders.parquet")
    arguments = ["replay", "--from", "orders.parquet", "--to", topic, "--endpoint", stack.endpoint]
    arguments += ["--checkpoint", "checkpoint", "--step", str(STEP), "--rate", "1500"]
    killed_and_ended(tmp_path, arguments, at_counts(admin, topic, mid_flight(MESSAGES)))
    found = stored(stack.endpoint, topic)
    unique = once_each(found, wanted)
    assert len(found) <= MESSAGES + KILLS * 2 * STEP
    # The first of each message comes in the order of its message group.
    groups = order_of(unique, lambda one: one.message.system_properties.message_group)
    assert all(bodies == sorted(bodies) for bodies in groups.values())


def test_a_backlog_that_dies_on_its_way_arrives(stack: Stack, admin: PipelineAdministrator, tmp_path: Path) -> None:
    topic = stack.create_topic("orders", "fifo", queues=4)
    stack.create_group("billing", fifo=True, consume_from="earliest")
    wanted = [f"body-{number:06}".encode() for number in range(MESSAGES)]
    with Producer(stack.endpoint, topics=[topic]) as producer:
        messages = [Message(topic, body, message_group=f"group-{n % 50}") for n, body in enumerate(wanted)]
        producer.send_many(messages)
    arguments = ["backlog", "--group", "billing", "--topic", topic, "--to", "orders-wide", "--queues", "16"]
    arguments += ["--endpoint", stack.endpoint, "--checkpoint", "checkpoint", "--step", str(STEP), "--yes"]
    killed_and_ended(tmp_path, arguments, at_counts(admin, "orders-wide", mid_flight(MESSAGES)))
    found = stored(stack.endpoint, "orders-wide")
    unique = once_each(found, wanted)
    assert {one.message_id for one in unique} == {one.message_id for one in stored(stack.endpoint, topic)}
    groups = order_of(unique, lambda one: one.message.system_properties.message_group)
    assert all(bodies == sorted(bodies) for bodies in groups.values())


REPAIRS = """
def repair(letter):
    number = int(letter.body.decode().removeprefix("bad "))
    if number % 10 == 0:
        return None
    if number % 10 == 1:
        raise ValueError(f"number {number} can't be repaired")
    return letter.message(body=b"repaired %d" % number)
"""


def test_dead_letters_are_sent_back_once_however_often_it_dies(
    stack: Stack, admin: PipelineAdministrator, tmp_path: Path
) -> None:
    letters = 200
    topic = stack.create_topic("orders")
    stack.create_group("billing", max_attempts=1, consume_from="earliest")
    with Producer(stack.endpoint, topics=[topic]) as producer:
        producer.send_many([Message(topic, b"bad %d" % number) for number in range(letters)])

    with SimpleConsumer(stack.endpoint, "billing", {topic: "*"}, await_duration=timedelta(seconds=0.1)) as consumer:
        while not _has(admin, dead_letter_topic("billing"), letters):
            consumer.receive(32, timedelta(seconds=10))
            stack.advance(11)
    (tmp_path / "repairs.py").write_text(REPAIRS)
    arguments = ["dlq", "--group", "billing", "--repair", "repairs:repair", "--send", "--step", "40"]
    arguments += ["--endpoint", stack.endpoint, "--checkpoint", "checkpoint", "--report", "report"]
    marks = at_counts(admin, topic, [letters + 30, letters + 70, letters + 110])
    killed_and_ended(tmp_path, arguments, marks, codes=[1])  # some could not be repaired
    found = [one for one in stored(stack.endpoint, topic) if one.body.startswith(b"repaired")]
    once_each(found, [b"repaired %d" % number for number in range(letters) if number % 10 > 1])
    rows = pq.read_table(tmp_path / "report" / "letters").to_pylist()
    assert len(rows) == len({(row["broker"], row["offset"]) for row in rows}) == letters
    outcomes = [row["outcome"] for row in rows]
    assert (outcomes.count("sent"), outcomes.count("left"), outcomes.count("failed")) == (160, 20, 20)
    assert {row["new_message_id"] for row in rows if row["outcome"] == "sent"} == {one.message_id for one in found}


def test_stats_that_die_count_every_window_once(stack: Stack, admin: PipelineAdministrator, tmp_path: Path) -> None:
    topic, to = stack.create_topic("orders", queues=1), stack.create_topic("orders-stats")
    windows, messages = 24, 20
    with Producer(stack.endpoint, topics=[topic]) as producer:
        for _ in range(windows):
            producer.send_many([Message(topic, b"0123456789", tag="paid") for _ in range(messages)])
            stack.advance(60)
        producer.send_many([Message(topic, b"the last", tag="paid")])
    arguments = ["stats", "--topics", topic, "--window", "1m", "--delay", "0s", "--out", "out", "--to", to]
    arguments += ["--endpoint", stack.endpoint, "--max-offsets-per-trigger", "60", "--by", "topic,tag"]
    out = tmp_path / "out"

    def staged() -> bool:
        return any((out / "_staging").glob("*/kind=windows"))

    killed_and_ended(tmp_path, arguments, [staged, *at_counts(admin, to, [8, 14])])
    rows = pq.read_table(out / "windows").to_pylist()
    assert len(rows) == len({row["window_start"] for row in rows}) == windows
    assert [row["messages"] for row in rows] == [messages] * windows
    assert [row["body_bytes"] for row in rows] == [messages * 10] * windows
    assert len(without_repetitions(stored(stack.endpoint, to))) == windows
