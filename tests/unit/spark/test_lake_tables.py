"""Batches that become part of Delta and Iceberg tables: once, whoever registers them, and how often."""

import json
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from pyspark_ternmq.pipelines.lake.commits import BatchManifest, LakeBroken
from pyspark_ternmq.pipelines.lake.options import CompactionOptions
from pyspark_ternmq.pipelines.lake.registration import partition_values, table_uri
from pyspark_ternmq.pipelines.lake.tables.delta import DeltaTables
from pyspark_ternmq.pipelines.lake.tables.delta_compaction import TablePartition, partitions_to_merge
from pyspark_ternmq.pipelines.lake.tables.footers import delta_statistics
from pyspark_ternmq.pipelines.lake.tables.iceberg import IcebergTables, last_batch, opened_catalog
from pyspark_ternmq.pipelines.lake.tables.marker import MARKER, WrongFormat, format_of, settle_format
from tests.unit.spark.lake_folder import NOW, ROOT, MemoryFiles

QUERY = "query-1"
SCHEMA = pa.schema(
    [("offset", pa.int64()), ("message_id", pa.string()), ("store_timestamp", pa.timestamp("us", "UTC"))]
)
PARTED = pa.schema([("topic", pa.string()), ("date", pa.date32()), ("hour", pa.int32())])
TABLE = pa.schema([*SCHEMA, *PARTED])
STORED = datetime(2026, 8, 1, 7, 59, 59, 999_900, tzinfo=UTC)
FOLDER = "topic=orders/date=2026-08-01/hour=07"


def staged(
    root: Path, batch: int, *, query: str = QUERY, has_parted: bool = False, topic: str = "orders"
) -> BatchManifest:
    """A batch of two rows whose files are at their places, but in no table."""
    name = f"data/topic={topic.replace('%', '%25')}/date=2026-08-01/hour=07/{query}-{batch}-00001.zstd.parquet"
    rows: dict[str, list[Any]] = {
        "offset": [2 * batch, 2 * batch + 1],
        "message_id": [f"{query}/{2 * batch}", f"{query}/{2 * batch + 1}"],
        "store_timestamp": [STORED, None],
    }
    if has_parted:
        rows |= {"topic": [topic] * 2, "date": [date(2026, 8, 1)] * 2, "hour": [7] * 2}
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows, TABLE if has_parted else SCHEMA), root / name)
    return BatchManifest(
        query=query, batch=batch, staging=f"{query}-{batch}.try", moves=[(f"_staging/{name}", name)], rows={"data": 2}
    )


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": tmp_path.as_uri()}


def iceberg(root: Path, catalog: dict[str, str], schema: pa.Schema = TABLE) -> IcebergTables:
    return IcebergTables(root.as_uri(), schema, catalog="tests", options=catalog, namespace="lake")


def delta_ids(root: Path) -> Counter[str]:
    return Counter(DeltaTable(root / "data").to_pyarrow_table()["message_id"].to_pylist())


def iceberg_ids(catalog: dict[str, str]) -> Counter[str]:
    return Counter(opened_catalog("tests", catalog).load_table("lake.data").scan().to_arrow()["message_id"].to_pylist())


def expected(*batches: int, query: str = QUERY) -> Counter[str]:
    return Counter(f"{query}/{number}" for batch in batches for number in (2 * batch, 2 * batch + 1))


def test_a_batch_that_is_registered_again_is_there_once(tmp_path: Path, catalog: dict[str, str]) -> None:
    delta, root = DeltaTables(str(tmp_path / "d"), TABLE, {}), tmp_path / "i"
    for batch in (0, 1):
        of_delta, of_iceberg = staged(tmp_path / "d", batch), staged(root, batch, has_parted=True)
        for _ in range(2):
            delta.register_batch(of_delta)
            iceberg(root, catalog).register_batch(of_iceberg)
    delta.register_batch(staged(tmp_path / "d", 0))
    assert delta_ids(tmp_path / "d") == iceberg_ids(catalog) == expected(0, 1)


def test_two_queries_of_one_lake_count_for_themselves(tmp_path: Path, catalog: dict[str, str]) -> None:
    for query in ("query-1", "query-2"):
        DeltaTables(str(tmp_path / "d"), TABLE, {}).register_batch(staged(tmp_path / "d", 0, query=query))
        iceberg(tmp_path / "i", catalog).register_batch(staged(tmp_path / "i", 0, query=query, has_parted=True))
    both = expected(0, query="query-1") + expected(0, query="query-2")
    assert delta_ids(tmp_path / "d") == iceberg_ids(catalog) == both


def test_of_two_processes_that_saw_the_same_delta_table_one_registers_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (DeltaTables(str(tmp_path), TABLE, {}) for _ in range(2))
    first.register_batch(staged(tmp_path, 0))
    stale = DeltaTable(tmp_path / "data")
    first.register_batch(staged(tmp_path, 1))
    monkeypatch.setattr(second, "_make_table", lambda kind: stale)
    with pytest.raises(LakeBroken) as refused:
        second.register_batch(staged(tmp_path, 1))
    assert isinstance(refused.value.__cause__, CommitFailedError)
    assert delta_ids(tmp_path) == expected(0, 1)


def test_of_two_processes_that_saw_the_same_iceberg_table_one_registers_a_batch(
    tmp_path: Path, catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (iceberg(tmp_path / "i", catalog) for _ in range(2))
    first.register_batch(staged(tmp_path / "i", 0, has_parted=True))
    seen = [opened_catalog("tests", catalog).load_table("lake.data")]
    made = second._make_table
    monkeypatch.setattr(second, "_make_table", lambda kind: seen.pop() if seen else made(kind))
    first.register_batch(staged(tmp_path / "i", 1, has_parted=True))
    second.register_batch(staged(tmp_path / "i", 1, has_parted=True))
    assert seen == []
    assert iceberg_ids(catalog) == expected(0, 1)


def test_commits_of_others_are_stepped_over(tmp_path: Path, catalog: dict[str, str]) -> None:
    """A compaction's, for example, or another query's."""
    root = tmp_path / "i"
    iceberg(root, catalog).register_batch(staged(root, 0, has_parted=True))
    table = opened_catalog("tests", catalog).load_table("lake.data")
    assert last_batch(table, QUERY) == 0
    with table.transaction() as change:
        change.set_properties({"owner": "somebody"})
    iceberg(root, catalog).register_batch(staged(root, 1, has_parted=True))
    again = opened_catalog("tests", catalog).load_table("lake.data")
    assert again.properties["owner"] == "somebody"
    assert "commit.retry.num-retries" not in again.properties
    assert iceberg_ids(catalog) == expected(0, 1)


def test_columns_that_are_new_are_added_and_other_types_refused(tmp_path: Path, catalog: dict[str, str]) -> None:
    DeltaTables(str(tmp_path / "d"), TABLE, {}).register_batch(staged(tmp_path / "d", 0))
    iceberg(tmp_path / "i", catalog).register_batch(staged(tmp_path / "i", 0, has_parted=True))
    more = pa.schema([*TABLE, pa.field("json", pa.struct([("id", pa.int64())]))])
    DeltaTables(str(tmp_path / "d"), more, {}).evolve_tables()
    iceberg(tmp_path / "i", catalog, more).evolve_tables()
    assert "json" in DeltaTable(tmp_path / "d" / "data").to_pyarrow_table().column_names
    assert "json" in opened_catalog("tests", catalog).load_table("lake.data").schema().column_names
    other = pa.schema([pa.field("offset", pa.string()), *list(TABLE)[1:]])
    with pytest.raises(ValueError, match="offset"):
        DeltaTables(str(tmp_path / "d"), other, {}).evolve_tables()
    with pytest.raises(ValueError, match="offset"):
        iceberg(tmp_path / "i", catalog, other).evolve_tables()


def test_tables_of_another_lake_are_refused(tmp_path: Path, catalog: dict[str, str]) -> None:
    iceberg(tmp_path / "one", catalog).register_batch(staged(tmp_path / "one", 0, has_parted=True))
    with pytest.raises(ValueError, match="namespace of its own"):
        iceberg(tmp_path / "two", catalog).evolve_tables()


def test_a_catalog_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        opened_catalog("nowhere", {})


def test_a_topic_with_a_percent_sign_is_itself(tmp_path: Path, catalog: dict[str, str]) -> None:
    DeltaTables(str(tmp_path / "d"), TABLE, {}).register_batch(staged(tmp_path / "d", 0, topic="%DLQ%g"))
    iceberg(tmp_path / "i", catalog).register_batch(staged(tmp_path / "i", 0, topic="%DLQ%g", has_parted=True))
    assert DeltaTable(tmp_path / "d" / "data").to_pyarrow_table()["topic"].to_pylist() == ["%DLQ%g"] * 2
    by_topic = opened_catalog("tests", catalog).load_table("lake.data").scan(row_filter="topic = '%DLQ%g'")
    assert by_topic.to_arrow().num_rows == 2


def test_bounds_hold_what_is_between_them(tmp_path: Path) -> None:
    """Delta's times have milliseconds, ours microseconds: the upper bound is rounded up."""
    staged(tmp_path, 3)
    [path] = (tmp_path / "data").glob("**/*.parquet")
    found = json.loads(delta_statistics(str(path), fs.LocalFileSystem()))
    assert found["numRecords"] == 2
    assert found["minValues"] == {"offset": 6, "store_timestamp": "2026-08-01T07:59:59.999Z"}
    assert found["maxValues"] == {"offset": 7, "store_timestamp": "2026-08-01T08:00:00.000Z"}
    assert found["nullCount"] == {"offset": 0, "store_timestamp": 1}


def test_a_format_is_settled_once() -> None:
    files = MemoryFiles()
    assert format_of(files, ROOT) is None
    settle_format(files, ROOT, "delta")
    settle_format(files, ROOT, "delta")
    with pytest.raises(WrongFormat, match="is a lake of format delta, not parquet"):
        settle_format(files, ROOT, "parquet")


def test_a_lake_of_before_formats_is_plain() -> None:
    files = MemoryFiles()
    files.create(f"{ROOT}/data/{FOLDER}/a.parquet", "row")
    assert format_of(files, ROOT) == "parquet"
    with pytest.raises(WrongFormat):
        settle_format(files, ROOT, "iceberg")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2, "format": "delta"}', '{"version": 1, "format": "orc"}']
)
def test_a_marker_that_is_damaged_is_told(text: str) -> None:
    files = MemoryFiles()
    files.create(f"{ROOT}/{MARKER}", text)
    with pytest.raises(LakeBroken, match=MARKER):
        format_of(files, ROOT)


def test_folders_say_the_values() -> None:
    path = "topic=%25DLQ%25g/date=2026-08-01/hour=07/a.parquet"
    assert partition_values(path) == {"topic": "%DLQ%g", "date": "2026-08-01", "hour": "07"}


@pytest.mark.parametrize(
    ("hadoop", "others"),
    [
        ("file:/data/lake", "file:///data/lake"),
        ("file:///data/lake", "file:///data/lake"),
        ("s3a://bucket/lake", "s3://bucket/lake"),
        ("gs://bucket/lake", "gs://bucket/lake"),
        ("/data/lake", "/data/lake"),
    ],
)
def test_paths_are_written_as_other_libraries_do(hadoop: str, others: str) -> None:
    assert table_uri(hadoop) == others


def test_partitions_with_enough_small_files_are_merged_once_their_hour_is_over() -> None:
    def file(hour: int, size_bytes: int) -> dict[str, object]:
        values = {"topic": "orders", "date": NOW.date(), "hour": hour}
        return {"size_bytes": size_bytes, **{f"partition.{name}": value for name, value in values.items()}}

    now = NOW.replace(hour=4, minute=30)
    options = CompactionOptions(target_bytes=1000, min_files=2)
    files = [file(1, 10), file(1, 499), file(2, 10), file(2, 500), file(3, 1), file(3, 1), file(4, 1), file(4, 1)]
    assert partitions_to_merge(files, now=now, options=options) == [TablePartition("orders", NOW.date(), 1)]
