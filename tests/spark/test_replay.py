"""Replay: files become messages again; order, ids, pace, and what a replay that goes on does."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.pipelines.journal import JournalError
from pyspark_ternmq.pipelines.replaying import replay
from pyspark_ternmq.pipelines.replaying.replay_source import WrongRows
from tests.support.topic_contents import bodies, order_of, stored, without_repetitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ternmq.testing import Stack

pytestmark = [pytest.mark.spark, pytest.mark.slow]
START = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = (
    "topic string, broker string, queue_id int, offset bigint, message_id string, keys array<string>, tag string, "
    "message_group string, body binary, properties map<string,string>, born_timestamp timestamp, "
    "store_timestamp timestamp, delivery_attempt int, corrupt string"
)
NewTopic = Callable[..., str]


def row(number: int, *, group: str | None = None, seconds: float | None = None, **other: object) -> tuple[object, ...]:
    """A row as the lake has it, one a second unless it says otherwise."""
    stored_at = START + timedelta(seconds=number if seconds is None else seconds)
    values: dict[str, object] = {
        "topic": "orders", "broker": "b", "queue_id": number % 2, "offset": number // 2, "message_id": f"id-{number}",
        "keys": [f"key-{number}"], "tag": "paid", "message_group": group, "body": f"body-{number:05}".encode(),
        "properties": {"region": "eu"}, "born_timestamp": stored_at - timedelta(seconds=1),
        "store_timestamp": stored_at, "delivery_attempt": 1, "corrupt": None,
    } | other  # fmt: skip
    return tuple(values.values())


@pytest.fixture
def files(spark: "SparkSession", tmp_path: Path) -> Callable[[list[tuple[object, ...]]], str]:
    def write(rows: list[tuple[object, ...]]) -> str:
        folder = str(tmp_path / "files")
        spark.createDataFrame(rows, SCHEMA).repartition(3).write.parquet(folder)
        return folder

    return write


def options(stack: "Stack", folder: str, to: str, **other: object) -> replay.ReplayOptions:
    return replay.ReplayOptions(paths=[folder], to=to, connection=PipelineConnection(endpoint=stack.endpoint), **other)  # type: ignore[arg-type]


def test_every_row_is_sent_once_with_all_that_belongs_to_it(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str]
) -> None:
    topic = new_topic()
    folder = files([row(number) for number in range(50)])
    report = replay.run(spark, options(stack, folder, topic, step_rows=15))
    found = stored(stack.endpoint, topic)
    assert sorted(one.body for one in found) == [f"body-{number:05}".encode() for number in range(50)]
    [first] = [one.message for one in found if one.body == b"body-00000"]
    system = first.system_properties
    assert (system.tag, list(system.keys), dict(first.user_properties)) == ("paid", ["key-0"], {"region": "eu"})
    assert (report.sent, report.skipped, report.steps_before) == (50, 0, 0)
    assert report.steps >= 4
    # New ids, of RocketMQ's form, none of them twice.
    ids = {one.message_id for one in found}
    assert len(ids) == 50
    assert all(len(one) == 34 and one.startswith("01") and one == one.upper() for one in ids)


def test_a_message_group_keeps_its_order_over_all_steps(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str]
) -> None:
    topic = new_topic(type="fifo")
    rows = [row(number, group=f"group-{number % 7}") for number in range(210)]
    replay.run(spark, options(stack, files(rows), topic, step_rows=40))
    groups = order_of(stored(stack.endpoint, topic), lambda one: one.message.system_properties.message_group)
    assert len(groups) == 7
    assert all(found == sorted(found) and len(found) == 30 for found in groups.values())


def test_own_ids_are_kept_if_asked_for(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str]
) -> None:
    topic = new_topic()
    replay.run(spark, options(stack, files([row(1), row(2)]), topic, keep_ids=True))
    assert {one.message_id for one in stored(stack.endpoint, topic)} == {"id-1", "id-2"}


def test_a_span_of_time_is_chosen_by_the_time_that_orders(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str]
) -> None:
    topic = new_topic()
    span = {"since": START + timedelta(seconds=10), "until": START + timedelta(seconds=13)}
    folder = files([row(number) for number in range(20)])
    replay.run(spark, options(stack, folder, topic, order="stored", **span))
    assert bodies(stack.endpoint, topic) == [b"body-00010", b"body-00011", b"body-00012"]
    other = new_topic()
    replay.run(spark, options(stack, folder, other, order="born", **span))
    assert bodies(stack.endpoint, other) == [b"body-00011", b"body-00012", b"body-00013"]


def test_rows_that_are_no_messages_are_counted_and_left_out(
    spark: "SparkSession",
    stack: "Stack",
    new_topic: NewTopic,
    files: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic()
    rows = [row(1), row(2, body=b""), row(3, corrupt="no gzip"), row(4, body=None), row(5, store_timestamp=None)]
    report = replay.run(spark, options(stack, files(rows), topic))
    assert (report.sent, report.skipped) == (1, 4)
    assert bodies(stack.endpoint, topic) == [b"body-00001"]
    assert "4 rows can't be sent" in capsys.readouterr().err


def test_rows_that_are_equal_are_all_sent_with_ids_of_their_own(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str]
) -> None:
    topic = new_topic()
    without_place = [row(number, offset=None) for number in (1, 1, 1, 1, 1, 2)]
    replay.run(spark, options(stack, files(without_place), topic))
    found = stored(stack.endpoint, topic)
    assert sorted(one.body for one in found) == [b"body-00001"] * 5 + [b"body-00002"]
    assert len({one.message_id for one in found}) == 6


def test_a_message_that_the_files_have_twice_is_sent_once(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str]
) -> None:
    topic = new_topic()
    # The last is of a topic that was deleted and created again: another message at the same offset.
    report = replay.run(spark, options(stack, files([row(1), row(1), row(2), row(1, message_id="later")]), topic))
    assert (report.sent, report.doubles) == (3, 1)
    assert len(without_repetitions(stored(stack.endpoint, topic))) == 3


def test_json_lines_as_the_command_exports_them_are_replayed(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    lines = [
        {"offset": 0, "message_id": "A", "keys": ["k"], "tag": "t", "message_group": None, "properties": {"a": "b"},
         "born": "2026-03-01T00:00:00.000Z", "stored": "2026-03-01T00:00:01.000Z", "body": "text"},
        {"offset": 1, "message_id": "B", "stored": "2026-03-01T00:00:02.000Z", "body_base64": "AAEC"},
    ]  # fmt: skip
    file = tmp_path / "letters.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no JSON\n")
    report = replay.run(spark, options(stack, str(file), topic))
    assert (report.sent, report.skipped) == (2, 1)
    assert bodies(stack.endpoint, topic) == [b"\x00\x01\x02", b"text"]


def test_the_original_pace_sends_nothing_before_its_time(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str]
) -> None:
    topic = new_topic()
    folder = files([row(number, seconds=number * 10) for number in range(4)])
    now, sent_at = [1000.0], list[tuple[float, int]]()

    def wait(seconds: float) -> None:
        sent_at.append((now[0] + seconds - 1000.0, len(stored(stack.endpoint, topic))))
        now[0] += seconds

    report = replay.run(spark, options(stack, folder, topic, speed=2.0), now_s=lambda: now[0], wait_s=wait)
    # Twice as fast: a message every five seconds, each after its tick of one second, which has two of the original.
    assert [count for _, count in sent_at] == [0, 1, 2, 3]
    assert [moment for moment, _ in sent_at] == pytest.approx([1.0, 6.0, 11.0, 15.0], abs=1e-3)
    assert (report.sent, report.latest_s) == (4, 0.0)


def test_a_replay_goes_on_behind_the_steps_that_are_done(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str], tmp_path: Path
) -> None:
    topic, checkpoint = new_topic(), str(tmp_path / "checkpoint")
    told = options(stack, files([row(n) for n in range(40)]), topic, step_rows=10, checkpoint=checkpoint)
    first = replay.run(spark, told)
    before = len(stored(stack.endpoint, topic))
    assert replay.run(spark, told).sent == 0
    assert len(stored(stack.endpoint, topic)) == before == 40
    # As if it had been killed between the last write and the word that it is done: the same ids again.
    (tmp_path / "checkpoint" / "done.json").write_text(json.dumps({"steps": first.steps - 1}))
    again = replay.run(spark, told)
    assert 0 < again.sent <= 10
    found = stored(stack.endpoint, topic)
    assert len(found) == 40 + again.sent
    assert len(without_repetitions(found)) == 40


def test_a_checkpoint_of_another_replay_is_refused(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, files: Callable[..., str], tmp_path: Path
) -> None:
    folder, checkpoint = files([row(1)]), str(tmp_path / "checkpoint")
    replay.run(spark, options(stack, folder, new_topic(), checkpoint=checkpoint))
    with pytest.raises(JournalError, match="belongs to another job: its to is"):
        replay.run(spark, options(stack, folder, new_topic(), checkpoint=checkpoint))


def test_files_without_bodies_or_times_are_refused(spark: "SparkSession", stack: "Stack", tmp_path: Path) -> None:
    folder = str(tmp_path / "files")
    spark.createDataFrame([(b"a",)], "body binary").write.parquet(folder)
    with pytest.raises(WrongRows, match="no column store_timestamp; they have body"):
        replay.run(spark, options(stack, folder, "anywhere"))
