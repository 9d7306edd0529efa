"""Dead letters: what is told of them, and what becomes of each."""

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_ternmq.pipelines import journal_stores
from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.pipelines.dead_letters import dlq
from pyspark_ternmq.pipelines.dead_letters.dlq_repair import Letter
from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq_common.names import dead_letter_topic
from tests.support.topic_contents import bodies, count, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ternmq.testing import Stack

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def letters(stack: "Stack", topic: str, sent: list[bytes], *, group: str = "billing", kind: str = "normal") -> None:
    """Lets messages become dead letters of the group, after one attempt."""
    stack.create_topic(topic, kind)
    stack.create_group(group, max_attempts=1, fifo=kind == "fifo", consume_from="earliest")
    with Producer(stack.endpoint, topics=[topic]) as producer:
        lane = "one" if kind == "fifo" else None
        producer.send_many([Message(topic, body, "paid", ["k"], {"region": "eu"}, message_group=lane) for body in sent])
    with SimpleConsumer(stack.endpoint, group, {topic: "*"}, await_duration=timedelta(milliseconds=100)) as consumer:
        while count_of(stack, group) < len(sent):
            consumer.receive(32, timedelta(seconds=10))
            stack.advance(11)


def count_of(stack: "Stack", group: str) -> int:
    from ternmq import NotFound

    try:
        return count(stack.endpoint, dead_letter_topic(group))
    except NotFound:
        return 0


def options(stack: "Stack", folder: Path, **other: object) -> dlq.DlqOptions:
    wanted = {"group": "billing", "report": str(folder / "report"), "checkpoint": str(folder / "checkpoint")} | other
    return dlq.DlqOptions(connection=PipelineConnection(endpoint=stack.endpoint), **wanted)  # type: ignore[arg-type]


def repair(letter: Letter) -> Message | None:
    """Repairs what begins with `good`, leaves what begins with `odd`, and fails for all else."""
    if letter.body.startswith(b"good"):
        return letter.message(body=b"repaired " + letter.body)
    if letter.body.startswith(b"odd"):
        return None
    raise ValueError(f"can't be repaired: {letter.body.decode()}")


BODIES = [b"good 1", b"good 2", b"odd 1", b"bad 1", b"good 3"]


def test_letters_are_counted_by_what_they_are(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    letters(clocked, "orders", BODIES)
    report = dlq.run(spark, options(clocked, tmp_path))
    assert (report.letters, report.sent, report.missing) == (5, 0, 0)
    assert sum(report.analysis.values()) == 5
    assert {(kind.reason, kind.origin_topic, kind.tag, kind.attempts) for kind in report.analysis} == {
        ("attempts", "orders", "paid", 1)
    }
    rows = spark.read.parquet(str(tmp_path / "report" / "letters")).collect()
    assert len(rows) == 5
    assert {row.outcome for row in rows} == {None}
    assert "new_body" not in rows[0].asDict()
    kinds = spark.read.parquet(str(tmp_path / "report" / "analysis")).collect()
    assert sum(row.letters for row in kinds) == 5


def test_a_rehearsal_sends_nothing(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    letters(clocked, "orders", BODIES)
    report = dlq.run(spark, options(clocked, tmp_path, repair=repair))
    assert (report.ready, report.sent, report.left, report.failed) == (3, 0, 1, 1)
    assert count(clocked.endpoint, "orders") == 5
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("is_local", [True, False])
def test_repaired_letters_go_back_to_their_topic_once(
    spark: "SparkSession", clocked: "Stack", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    if not is_local:
        # A folder of this machine, by the way to those of HDFS and of object stores.
        monkeypatch.setattr(journal_stores, "local_folder", lambda path: None)
    letters(clocked, "orders", BODIES)
    told = options(clocked, tmp_path, repair=repair, send=True, step_rows=2)
    report = dlq.run(spark, told)
    assert (report.letters, report.sent, report.left, report.failed, report.missing) == (5, 3, 1, 1, 0)
    found = [one for one in stored(clocked.endpoint, "orders") if one.body.startswith(b"repaired")]
    assert sorted(one.body for one in found) == [b"repaired good 1", b"repaired good 2", b"repaired good 3"]
    message = found[0].message
    assert dict(message.user_properties) == {"region": "eu"}
    assert (message.system_properties.tag, list(message.system_properties.keys)) == ("paid", ["k"])
    rows = spark.read.parquet(str(tmp_path / "report" / "letters")).collect()
    assert sorted(row.outcome for row in rows) == ["failed", "left", "sent", "sent", "sent"]
    [failed] = [row for row in rows if row.outcome == "failed"]
    assert failed.why == "ValueError: can't be repaired: bad 1"
    [failure] = report.failures
    assert (failure.offset, failure.message_id, failure.why) == (failed.offset, failed.message_id, failed.why)
    assert {row.new_message_id for row in rows if row.outcome == "sent"} == {one.message_id for one in found}
    # Everything was handled: the same words do nothing more, and new letters are found.
    assert dlq.run(spark, told).letters == 0
    letters_before = count(clocked.endpoint, "orders")
    assert letters_before == 8


def test_new_letters_are_handled_by_the_next_run(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    letters(clocked, "orders", [b"good 1"])
    told = options(clocked, tmp_path, repair=repair, send=True, limit=1)
    assert dlq.run(spark, told).sent == 1
    # What was sent died again, as the group still gives everything up.
    with SimpleConsumer(clocked.endpoint, "billing", {"orders": "*"}) as consumer:
        while count_of(clocked, "billing") < 2:
            consumer.receive(32, timedelta(seconds=10))
            clocked.advance(11)
    report = dlq.run(spark, told)
    assert (report.letters, report.failed) == (1, 1)


def test_a_limit_takes_a_part(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    letters(clocked, "orders", BODIES)
    told = options(clocked, tmp_path, repair=repair, send=True, limit=2)
    assert [dlq.run(spark, told).letters for _ in range(4)] == [2, 2, 1, 0]


def test_a_step_that_was_killed_sends_what_it_had_decided(
    spark: "SparkSession", clocked: "Stack", tmp_path: Path
) -> None:
    """The function has another opinion the second time; the letters don't get to know."""
    letters(clocked, "orders", [b"good 1", b"good 2"])
    told = options(clocked, tmp_path, repair=repair, send=True)

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dlq, "write_report", die)
        with pytest.raises(Killed):
            dlq.run(spark, told)

    other = options(clocked, tmp_path, repair=lambda letter: letter.message(body=b"other"), send=True)
    assert dlq.run(spark, other).sent == 2
    found = [one for one in stored(clocked.endpoint, "orders") if one.body.startswith(b"repaired")]
    assert len(found) == 4
    assert len({one.message_id for one in found}) == 2
    assert b"other" not in bodies(clocked.endpoint, "orders")


def test_letters_that_their_topic_would_refuse_fail_alone(
    spark: "SparkSession", clocked: "Stack", tmp_path: Path
) -> None:
    letters(clocked, "orders", [b"to nowhere", b"to fifo", b"to delay", b"to dlq", b"wrong type", b"not a message"])
    clocked.create_topic("ordered", "fifo")
    clocked.create_topic("later", "delay")

    def elsewhere(letter: Letter) -> Message | None:
        topics = {b"to nowhere": "nowhere", b"to fifo": "ordered", b"to delay": "later", b"to dlq": "%DLQ%billing"}
        if letter.body == b"wrong type":
            return letter.message(message_group="group")
        if letter.body == b"not a message":
            return letter  # type: ignore[return-value]
        return letter.message(topic=topics[letter.body])

    report = dlq.run(spark, options(clocked, tmp_path, repair=elsewhere, send=True))
    assert (report.sent, report.failed) == (1, 5)
    rows = spark.read.parquet(str(tmp_path / "report" / "letters")).collect()
    why = sorted(row.why for row in rows if row.outcome == "failed")
    assert [line[:40] for line in why] == sorted(
        [
            "TypeError: repair returned a Letter; a t",
            "topic %DLQ%billing is written by the bro",
            "topic ordered takes fifo messages, and t",
            "topic orders takes normal messages, and ",
            next(line for line in why if "nowhere" in line)[:40],
        ]
    )
    with SimpleConsumer(clocked.endpoint, "reader", {"later": "*"}) as consumer:
        assert [view.body for view in consumer.receive()] == [b"to delay"]


def test_letters_of_a_message_group_go_back_in_order(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    sent = [f"good {number:02}".encode() for number in range(12)]
    letters(clocked, "ordered", sent, kind="fifo")
    assert dlq.run(spark, options(clocked, tmp_path, repair=repair, send=True)).sent == 12
    found = [one.body for one in stored(clocked.endpoint, "ordered") if one.body.startswith(b"repaired")]
    assert found == [b"repaired " + body for body in sent]


def test_a_group_without_letters_has_none(spark: "SparkSession", clocked: "Stack", tmp_path: Path) -> None:
    clocked.create_group("billing")
    assert dlq.run(spark, options(clocked, tmp_path)).letters == 0
    assert dlq.run(spark, options(clocked, tmp_path, send=True)).letters == 0


def test_a_function_is_named_by_its_module(
    spark: "SparkSession", clocked: "Stack", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters(clocked, "orders", [json.dumps({"amount": 1}).encode()])
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "repairs_of_test.py").write_text(
        "import json\n"
        "EURO = 'EUR'\n"
        "def add_currency(letter):\n"
        "    return letter.message(body=json.dumps({**json.loads(letter.body), 'currency': EURO}).encode())\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    report = dlq.run(spark, options(clocked, tmp_path, repair="repairs_of_test:add_currency", send=True))
    assert report.sent == 1
    assert b'{"amount": 1, "currency": "EUR"}' in bodies(clocked.endpoint, "orders")
