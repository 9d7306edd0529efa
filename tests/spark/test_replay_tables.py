"""Replays of lakes: what is sent is what the table has, whatever files lie in its folder, and each message once."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.pipelines.journal import JournalError
from pyspark_ternmq.pipelines.replaying import replay
from pyspark_ternmq.pipelines.snapshots.snapshot import TableSettings
from tests.spark.lake_files import ago, numbered, options, send
from tests.spark.lake_tables import CATALOG, TableOptions, delta_table, iceberg_table, table_options
from tests.support.delta_deletes import delete_rows
from tests.support.topic_contents import bodies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ternmq.testing import Stack

pytestmark = [pytest.mark.spark, pytest.mark.slow]
OLD = {"lateness": timedelta(days=1)}
NewTopic = Callable[..., str]


def filled(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, out: Path, formats: TableOptions, *, topics: int = 1
) -> list[str]:
    """A lake with 20 messages of each topic, five hours old."""
    names = [new_topic() for _ in range(topics)]
    for number, topic in enumerate(names):
        old = ago(timedelta(hours=5))
        send(stack, topic, *numbered(topic, range(20 * number, 20 * number + 20), born_timestamp=old), together=5)
    lake.run(spark, options(stack, out, *names, **OLD, **formats))
    return names


def replayed(
    spark: "SparkSession", stack: "Stack", path: Path, to: str, formats: TableOptions, **more: object
) -> replay.ReplayReport:
    catalog = {"catalog": CATALOG, "catalog_options": formats["catalog_options"]} if "catalog" in formats else {}
    wanted = replay.ReplayOptions(
        paths=[str(path)],
        to=to,
        connection=PipelineConnection(endpoint=stack.endpoint),
        tables=TableSettings(**catalog),
        **more,  # type: ignore[arg-type]
    )
    return replay.run(spark, wanted)


def numbers(stack: "Stack", topic: str) -> list[int]:
    return sorted(json.loads(body)["id"] for body in bodies(stack.endpoint, topic))


def test_rows_of_a_delta_table_that_are_not_live_are_not_sent(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    out, formats, to = tmp_path / "lake", table_options("delta", tmp_path), new_topic()
    filled(spark, stack, new_topic, out, formats, topics=2)
    found = lake.compact(spark, str(out), lake.CompactionOptions(min_files=2))
    assert found.removed > found.added == 2
    delta_table(out).delete("message_id = 'id-3'")
    delete_rows(out / "data", {0: [0, 5], 1: [1]})
    rows = pa.table(delta_table(out).scan(columns=["message_id"]))["message_id"].to_pylist()
    assert len(rows) == 36
    report = replayed(spark, stack, out, to, formats)
    assert (report.sent, report.skipped, report.doubles) == (36, 0, 0)
    assert numbers(stack, to) == sorted(int(name.removeprefix("id-")) for name in rows)


def test_rows_of_an_iceberg_table_that_are_not_live_are_not_sent(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    # A name that would be a pattern, if it were taken for one.
    out, formats, to = tmp_path / "lake[1]", table_options("iceberg", tmp_path), new_topic()
    topic, _ = filled(spark, stack, new_topic, out, formats, topics=2)
    iceberg_table(formats).delete("message_id in ('id-3', 'id-4')")
    report = replayed(spark, stack, out / "data" / f"topic={topic}", to, formats)
    assert (report.sent, report.skipped, report.doubles) == (18, 0, 0)
    assert numbers(stack, to) == sorted({*range(20)} - {3, 4})


def test_a_replay_goes_on_at_its_version_and_ends_when_rows_were_deleted(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, formats, to = tmp_path / "lake", table_options("delta", tmp_path), new_topic()
    [topic] = filled(spark, stack, new_topic, out, formats)
    wanted = {"checkpoint": str(tmp_path / "checkpoint"), "step_rows": 15}
    first = replayed(spark, stack, out, to, formats, **wanted)
    assert (first.sent, first.steps >= 2) == (20, True)
    assert "replay: from Delta table" in capsys.readouterr().err
    send(stack, topic, *numbered(topic, range(20, 30), born_timestamp=ago(timedelta(hours=5))))
    lake.run(spark, options(stack, out, topic, **OLD, **formats))
    lake.compact(spark, str(out), lake.CompactionOptions(min_files=2))
    # As if it had been killed in its last step.
    done = tmp_path / "checkpoint" / "done.json"
    done.write_text(json.dumps({"steps": first.steps - 1}))
    again = replayed(spark, stack, out, to, formats, **wanted)
    assert 0 < again.sent < 20
    assert set(numbers(stack, to)) == set(range(20))
    done.write_text(json.dumps({"steps": first.steps - 1}))
    delta_table(out).delete("message_id = 'id-19'")
    with pytest.raises(JournalError, match=r"had other rows: DELETE came after.*with a new checkpoint, and since 20"):
        replayed(spark, stack, out, to, formats, **wanted)
    assert len(numbers(stack, to)) == 20 + again.sent
    done.write_text(json.dumps({"steps": first.steps}))
    assert replayed(spark, stack, out, to, formats, **wanted).sent == 0


def test_messages_that_plain_files_have_twice_are_sent_once(
    spark: "SparkSession", stack: "Stack", new_topic: NewTopic, tmp_path: Path
) -> None:
    out, to = tmp_path / "lake", new_topic()
    [topic] = filled(spark, stack, new_topic, out, {})
    [folder] = (out / "data" / f"topic={topic}").glob("*/*")
    # As a compaction has it for a moment: the merged file beside those that it is of.
    original = next(folder.glob("*.parquet"))
    (folder / "copy.parquet").write_bytes(original.read_bytes())
    wanted = {"checkpoint": str(tmp_path / "checkpoint")}
    report = replayed(spark, stack, out / "data" / f"topic={topic}", to, {}, **wanted)
    assert (report.sent, report.doubles) == (20, pq.read_metadata(original).num_rows)
    assert numbers(stack, to) == list(range(20))
    (tmp_path / "checkpoint" / "done.json").write_text('{"steps": 0}')
    original.unlink()
    with pytest.raises(
        JournalError, match=r"files were removed or changed, the first is \S+; replay what is there now"
    ):
        replayed(spark, stack, out / "data" / f"topic={topic}", to, {}, **wanted)
