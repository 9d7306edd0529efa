"""The lake as Delta and Iceberg tables, read back by engines that know nothing of ours."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_ternmq.pipelines import lake
from ternmq.testing import Stack
from tests.spark.lake_files import ago, numbered, options, send
from tests.spark.lake_tables import TableOptions, arrow, delta_table, iceberg_table, table_options
from tests.support.embedded import message

pytestmark = pytest.mark.timeout(600)
NewTopic = Callable[..., str]
DELTA: TableOptions = {"format": "delta"}


@pytest.fixture(params=["delta", "iceberg"])
def table_format(request: pytest.FixtureRequest, tmp_path: Path) -> TableOptions:
    """What the options of a lake say of its format."""
    return table_options(request.param, tmp_path)


def ids(out: Path, formats: TableOptions, kind: str = "data") -> Counter[str]:
    return Counter(arrow(out, formats, kind)["message_id"].to_pylist())


def files_of(out: Path, formats: TableOptions) -> list[str]:
    """The files that a table names, for who has no jar for its format."""
    if formats["format"] == "delta":
        return delta_table(out).file_uris()
    return [task.file.file_path for task in iceberg_table(formats).scan().plan_files()]


def numbers(*spans: range) -> Counter[str]:
    return Counter(f"id-{number}" for span in spans for number in span)


def test_other_engines_read_the_same_rows(
    spark: SparkSession,
    stack: Stack,
    new_topic: NewTopic,
    tmp_path: Path,
    table_format: TableOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    topic, out = new_topic(), tmp_path / "lake"
    send(stack, topic, *numbered(topic, range(20)))
    send(stack, topic, *numbered(topic, range(20, 25), born_timestamp=ago(timedelta(hours=3))))
    send(stack, topic, message(topic, b"no JSON", message_id="broken"))
    report = lake.run(spark, options(stack, out, topic, json_schema="id long", **table_format))
    assert (report.rows, report.late, report.malformed) == (20, 5, 1)
    assert ids(out, table_format) == numbers(range(20))
    assert ids(out, table_format, "late") == numbers(range(20, 25))
    assert ids(out, table_format, "malformed") == Counter(["broken"])
    rows = arrow(out, table_format)
    assert rows.schema.field("date").type == pa.date32()
    assert rows.schema.field("hour").type == pa.int32()
    assert rows.schema.field("store_timestamp").type == pa.timestamp("us", tz="UTC")
    assert sorted(row["id"] for row in rows["json"].to_pylist()) == list(range(20))
    named = spark.read.parquet(*files_of(out, table_format))
    assert Counter(row.message_id for row in named.select("message_id").collect()) == numbers(range(20))
    is_delta = table_format["format"] == "delta"
    frame = polars.scan_delta(out / "data") if is_delta else polars.scan_iceberg(iceberg_table(table_format))
    by_polars = frame.filter(polars.col("topic") == topic).select(polars.col("json").struct.field("id")).collect()
    assert sorted(by_polars["id"].to_list()) == list(range(20))
    found = duckdb.from_arrow(delta_table(out).to_pyarrow_dataset() if is_delta else rows).aggregate(
        "topic, min(json.id) AS low, max(json.id) AS high, count(*) AS rows"
    )
    assert found.fetchall() == [(topic, 0, 19, 20)]


def test_the_next_run_adds_what_is_new_and_columns_and_fields_that_are(
    spark: SparkSession,
    stack: Stack,
    new_topic: NewTopic,
    tmp_path: Path,
    table_format: TableOptions,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, out = new_topic(), tmp_path / "lake"
    send(stack, topic, *numbered(topic, range(10)))
    lake.run(spark, options(stack, out, topic, **table_format))
    send(stack, topic, *numbered(topic, range(5, 15)))
    lake.run(spark, options(stack, out, topic, json_schema="id long", **table_format))
    assert ids(out, table_format) == numbers(range(15))
    of_json = arrow(out, table_format)["json"].to_pylist()
    assert sorted(row["id"] for row in of_json if row is not None) == list(range(10, 15))
    send(stack, topic, *numbered(topic, range(15, 20)))
    lake.run(spark, options(stack, out, topic, json_schema="id long, lines array<struct<a: int>>", **table_format))
    of_json = arrow(out, table_format)["json"].to_pylist()
    # PyIceberg reads a list that is null in a struct as an empty one.
    assert sorted((row["id"], row["lines"] or None) for row in of_json if row is not None) == [
        (number, None) for number in range(10, 20)
    ]
    assert "new json.lines" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"field json\.id of table .* is bigint, and would be string"):
        lake.run(spark, options(stack, out, topic, json_schema="id string", **table_format))
    assert ids(out, table_format) == numbers(range(20))


def test_names_that_need_escapes_are_values_like_others(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path, table_format: TableOptions
) -> None:
    topic, out = "a%b|" + new_topic(), tmp_path / "lake"
    stack.create_topic(topic)
    send(stack, topic, *numbered(topic, range(3)))
    lake.run(spark, options(stack, out, topic, **table_format))
    assert set(arrow(out, table_format)["topic"].to_pylist()) == {topic}


def test_a_lake_keeps_its_format(spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, out = new_topic(), tmp_path / "lake"
    send(stack, topic, *numbered(topic, range(3)))
    lake.run(spark, options(stack, out, topic))
    with pytest.raises(lake.WrongFormat, match="format parquet, not delta"):
        lake.run(spark, options(stack, out, topic, format="delta"))


def test_each_batch_is_named_with_its_files(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path, table_format: TableOptions
) -> None:
    topic, out = new_topic(), tmp_path / "lake"
    send(stack, topic, *numbered(topic, range(40)))
    lake.run(spark, options(stack, out, topic, max_offsets_per_trigger=20, **table_format))
    [manifest] = (out / "_commits").glob("*.json")
    query = manifest.name.rpartition("-")[0]
    if table_format["format"] == "delta":
        assert delta_table(out).transaction_version(query) == 1
    else:
        table = iceberg_table(table_format)
        summaries = [snapshot.summary for snapshot in table.snapshots()]
        assert [summary and summary["ternmq.batch"] for summary in summaries] == ["0", "1"]
        assert table.properties[f"ternmq.batch.{query}"] == "1"


def test_delta_tables_are_compacted_without_a_moment_of_doubles(
    spark: SparkSession, stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, out = "a%b" + new_topic(), tmp_path / "lake"
    stack.create_topic(topic)
    send(stack, topic, *numbered(topic, range(50), born_timestamp=ago(timedelta(hours=5))))
    for start in range(50, 80, 10):
        send(stack, topic, *numbered(topic, range(start, start + 10), born_timestamp=ago(timedelta(hours=5))))
    more = {**DELTA, "lateness": timedelta(days=1), "max_offsets_per_trigger": 16}
    lake.run(spark, options(stack, out, topic, **more))
    before = delta_table(out).file_uris()
    assert len(before) >= 5
    found = lake.compact(spark, str(out), lake.CompactionOptions(min_files=2, retention=timedelta(0)))
    assert (found.partitions, found.removed, found.added) == (1, len(before), 1)
    assert ids(out, DELTA) == numbers(range(80))
    assert len(list(out.glob("data/**/*.parquet"))) == 1
    later = datetime.now(UTC) + timedelta(days=1)
    again = lake.compact(spark, str(out), lake.CompactionOptions(min_files=2), now=later)
    assert again.removed == 0
    send(stack, topic, *numbered(topic, range(80, 90)))
    lake.run(spark, options(stack, out, topic, **more))
    assert ids(out, DELTA) == numbers(range(90))
