"""A lake of plain Parquet as other engines read it: the types that docs/spark.md promises, and what lets them skip."""

import shutil
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.sessions.settings import session_settings
from ternmq.testing import Stack
from tests.spark.lake_files import ago, numbered, options, send

pytestmark = pytest.mark.timeout(600)
NewTopic = Callable[..., str]
SEVEN = datetime(2026, 8, 1, 7, 30, tzinfo=UTC)
LONG_AGO = {"lateness": timedelta(days=100_000)}


@pytest.fixture(scope="module")
def written_once(spark: SparkSession, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with an hour of one digit, which tests copy."""
    topic, out = f"topic-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("lake")
    stack.create_topic(topic)
    seven = (datetime.now(UTC) - timedelta(days=1)).replace(hour=7)
    send(stack, topic, *numbered(topic, range(10), born_timestamp=ago(datetime.now(UTC) - seven)))
    lake.run(spark, options(stack, out, topic, **LONG_AGO))
    return out


@pytest.fixture
def plain(written_once: Path, tmp_path: Path) -> Path:
    """That lake, for one test."""
    return Path(shutil.copytree(written_once, tmp_path, dirs_exist_ok=True))


def footers(out: Path) -> list[pq.FileMetaData]:
    return [pq.read_metadata(path) for path in sorted(out.glob("data/**/*.parquet"))]


def assert_times_are_micros(footer: pq.FileMetaData) -> None:
    arrow = footer.schema.to_arrow_schema()
    for name in ("born_timestamp", "store_timestamp"):
        assert arrow.field(name).type == pa.timestamp("us", tz="UTC")
        [column] = [number for number in range(footer.num_columns) if footer.schema.column(number).path == name]
        bounds = footer.row_group(0).column(column).statistics
        assert bounds.has_min_max
        assert bounds.min.tzinfo is not None
        assert abs(datetime.now(UTC) - bounds.max) < timedelta(days=10)


def test_times_are_microseconds_of_utc_with_bounds(plain: Path) -> None:
    assert footers(plain)
    for footer in footers(plain):
        assert_times_are_micros(footer)


def test_files_of_before_are_read_beside_new_ones_and_compacted_into_them(
    spark: SparkSession, stack: Stack, plain: Path
) -> None:
    new, *_ = plain.glob("data/**/*.parquet")
    with session_settings(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        spark.read.parquet(str(new)).write.parquet(str(plain / "old"))
    [written] = (plain / "old").glob("*.parquet")
    assert pq.read_schema(written).field("store_timestamp").type == pa.timestamp("ns")
    written.rename(new.with_name("query-0-00001.zstd.parquet"))
    both = spark.read.parquet(str(plain / "data"))
    before = sorted(row.store_timestamp for row in both.select("store_timestamp").collect())
    assert len(before) > 10
    files = len(footers(plain))
    assert lake.compact(spark, str(plain), lake.CompactionOptions(min_files=2)).removed == files
    [footer] = footers(plain)
    assert_times_are_micros(footer)
    after = spark.read.parquet(str(plain / "data")).select("store_timestamp").collect()
    assert sorted(row.store_timestamp for row in after) == before


def test_spark_has_a_whole_number_for_the_hour(spark: SparkSession, plain: Path) -> None:
    found = spark.read.parquet(str(plain / "data"))
    assert {name: kind for name, kind in found.dtypes if name in ("date", "hour")} == {"date": "date", "hour": "int"}
    assert found.where("hour = 7").count() == 10


def test_pyarrow_is_told_the_types(plain: Path) -> None:
    types = pa.schema([("topic", pa.string()), ("date", pa.date32()), ("hour", pa.int32())])
    found = ds.dataset(plain / "data", partitioning=ds.partitioning(types, flavor="hive"))
    assert found.to_table(filter=ds.field("hour") == 7).num_rows == 10
    assert found.schema.field("date").type == pa.date32()


def test_duckdb_is_told_the_types(plain: Path) -> None:
    found = duckdb.sql(
        f"SELECT * FROM read_parquet('{plain}/data/**/*.parquet', "
        "hive_types = {'topic': VARCHAR, 'date': DATE, 'hour': INTEGER})"
    )
    assert found is not None
    kinds = dict(zip(found.columns, map(str, found.types), strict=True))
    assert (kinds["date"], kinds["hour"], kinds["store_timestamp"]) == ("DATE", "INTEGER", "TIMESTAMP WITH TIME ZONE")
    assert found.filter("hour = 7").aggregate("count(*)").fetchall() == [(10,)]


def test_polars_is_told_the_types(plain: Path) -> None:
    types = {"topic": polars.String, "date": polars.Date, "hour": polars.Int32}
    found = polars.scan_parquet(plain / "data/**/*.parquet", hive_partitioning=True, hive_schema=types)
    kinds = found.collect_schema()
    wanted = {"date": polars.Date(), "hour": polars.Int32(), "store_timestamp": polars.Datetime("us", "UTC")}
    assert {name: kinds[name] for name in wanted} == wanted
    rows = found.filter(polars.col("hour") == 7).select("date").collect()
    assert rows["date"].unique().to_list() == [(datetime.now(UTC) - timedelta(days=1)).date()]
    assert isinstance(rows["date"][0], date)
