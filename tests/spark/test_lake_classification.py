"""Which rows of the source are data, late or malformed, and which hour each belongs to."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.pipelines.lake.classification import classify_messages
from pyspark_ternmq.schema import SCHEMA
from tests.spark.lake_files import HOUR, STORED, source_row


def sorted_out(
    spark: SparkSession,
    *rows: Mapping[str, object],
    **settings: Any,  # noqa: ANN401
) -> list[tuple[str | None, ...]]:
    """Kind, date, hour and reason of rows with these values, in order, whatever the session's time zone is."""
    frame = spark.createDataFrame([source_row(offset=i, **row) for i, row in enumerate(rows)], SCHEMA)
    wanted: dict[str, Any] = {"event_time": "born", "lateness": HOUR, "json_schema": None, **settings}
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        found = classify_messages(frame, **wanted).orderBy("offset").select("kind", "date", "hour", "reason").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    return [tuple(row) for row in found]


def test_a_row_belongs_to_the_hour_of_its_birth_in_utc(spark: SparkSession) -> None:
    before_1970 = {"born_timestamp": datetime(1969, 12, 31, 23, 30, tzinfo=UTC)}
    found = sorted_out(spark, {}, {"born_timestamp": STORED - HOUR}, {"born_timestamp": None}, before_1970)
    assert [row[:3] for row in found] == [
        ("data", "2026-08-01", "07"),
        ("data", "2026-08-01", "06"),
        ("data", "2026-08-01", "07"),
        ("late", "1969-12-31", "23"),
    ]


def test_what_was_stored_long_after_its_birth_is_late(spark: SparkSession) -> None:
    late = {"born_timestamp": STORED - HOUR - timedelta(microseconds=1)}
    assert sorted_out(spark, late) == [("late", "2026-08-01", "06", "late: stored 3600 s after it was born")]
    assert sorted_out(spark, late, event_time="stored") == [("data", "2026-08-01", "07", None)]


def test_a_producer_with_a_wrong_clock_is_malformed_and_belongs_to_the_hour_of_storing(spark: SparkSession) -> None:
    ahead, fair = timedelta(minutes=5, seconds=1), timedelta(minutes=5)
    found = sorted_out(spark, {"born_timestamp": STORED + ahead}, {"born_timestamp": STORED + fair})
    assert found == [
        ("malformed", "2026-08-01", "07", "clock: born 301 s after it was stored"),
        ("data", "2026-08-01", "08", None),
    ]


def test_a_body_that_can_not_be_unpacked_is_malformed(spark: SparkSession) -> None:
    found = sorted_out(spark, {"corrupt": "no gzip", "body": b"\x1f"}, json_schema="id long")
    assert found == [("malformed", "2026-08-01", "07", "body: no gzip")]


def test_a_body_that_is_not_json_of_the_schema_is_malformed(spark: SparkSession) -> None:
    bodies = {
        b'{"id": 1, "more": 2}': None,
        b"{}": None,
        b'{"id": "x"}': "json: field id is a string, not bigint",
        b'{"lines": [{"price": 1}, {"price": "x"}]}': "json: field lines[1].price is a string, not decimal(4,2)",
        b'{"at": "soon"}': "json: field at is a string, not timestamp",
        b'{"id": 1': "json: the body is not JSON: Expecting ',' delimiter at character 9",
        b"17": "json: the body is an integer, not an object",
        b"null": "json: the body is null, not an object",
        b" ": "json: the body is not JSON: Expecting value at character 2",
        b'{"id": 1, "text": "\xff"}': "json: the body is not UTF-8",
    }
    schema = "id long, text string, at timestamp, lines array<struct<price: decimal(4,2)>>"
    found = sorted_out(spark, *({"body": body} for body in bodies), json_schema=schema)
    assert dict(zip(bodies, (row[3] for row in found), strict=True)) == bodies


@pytest.mark.parametrize("schema", ["id lon", "array<int>", ""])
def test_a_schema_that_is_none_is_refused(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    connection = PipelineConnection(endpoint="127.0.0.1:1")
    wanted = lake.LakeOptions(connection=connection, topics=["a"], out=str(tmp_path), json_schema=schema)
    with pytest.raises(ValueError, match="json_schema"):
        lake.run(spark, wanted)
