"""What a path is, which of a table's rows are live, and whether the files of a plan are still what they were."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import DataScan, FileScanTask
from pyroaring import BitMap

from pyspark_ternmq.pipelines.lake.registration import hadoop_path
from pyspark_ternmq.pipelines.lake.tables.delta import DeltaTables
from pyspark_ternmq.pipelines.lake.tables.iceberg import IcebergTables, opened_catalog
from pyspark_ternmq.pipelines.snapshots.finding import SourcePlace, WrongSource, places_of
from pyspark_ternmq.pipelines.snapshots.folder import is_visible
from pyspark_ternmq.pipelines.snapshots.opening import FileFormat as WantedFormat
from pyspark_ternmq.pipelines.snapshots.opening import SourceChanged, SourceSnapshots
from pyspark_ternmq.pipelines.snapshots.snapshot import KeptSnapshot, SourceSnapshot, TableSettings
from tests.support.delta_deletes import delete_rows
from tests.support.local_files import LocalFiles
from tests.unit.spark.lake_folder import MemoryFiles
from tests.unit.spark.test_lake_tables import TABLE, staged

COLUMNS = ("topic", "offset", "message_id", "store_timestamp")
DELTA_LOG = "/lake/data/_delta_log/00000000000000000000.json"
PART = "topic=orders/date=2026-08-01/hour=07"


def memory(*paths: str, marker: str | None = None) -> MemoryFiles:
    files = MemoryFiles()
    for path in paths:
        files.create(path, "x")
    if marker is not None:
        files.create("/lake/_lake.json", f'{{"version": 1, "format": "{marker}"}}')
    return files


def test_a_path_in_a_table_is_a_part_of_the_table() -> None:
    files = memory(DELTA_LOG, f"/lake/data/{PART}/a.parquet", marker="delta")
    for path, values in (
        ("/lake", {}),
        ("/lake/data/", {}),
        ("/lake/data/topic=orders", {"topic": "orders"}),
        (f"/lake/data/{PART}", {"topic": "orders", "date": "2026-08-01", "hour": "07"}),
    ):
        [place] = places_of(files, path)
        assert (place.kind, place.path, place.values) == ("delta", "/lake/data", values)


def test_an_iceberg_table_is_known_by_its_metadata_or_by_the_mark_of_its_lake() -> None:
    files = memory("/lake/data/metadata/00001-a.metadata.json", f"/lake/data/{PART}/a.parquet")
    [place] = places_of(files, "/lake/data/topic=orders")
    assert (place.kind, place.path, place.values) == ("iceberg", "/lake/data", {"topic": "orders"})
    elsewhere = memory(f"/lake/data/{PART}/a.parquet", marker="iceberg")
    [place] = places_of(elsewhere, "/lake/data")
    assert (place.kind, place.path) == ("iceberg", "/lake/data")


def test_a_folder_that_happens_to_be_called_metadata_is_none_of_a_table() -> None:
    [place] = places_of(memory("/files/metadata/notes.txt", "/files/a.parquet"), "/files")
    assert place == SourcePlace(kind="folder", path="/files", requested="/files")


@pytest.mark.parametrize("path", [f"/lake/data/{PART}/a.parquet", "/lake/data/_delta_log"])
def test_a_file_of_a_table_is_refused(path: str) -> None:
    with pytest.raises(WrongSource, match="is in a Delta table, /lake/data: name the table, or a part of it"):
        places_of(memory(DELTA_LOG, f"/lake/data/{PART}/a.parquet"), path)


@pytest.mark.parametrize("inside", [DELTA_LOG, "/lake/data/metadata/00001-a.metadata.json"])
def test_a_folder_above_a_table_is_refused(inside: str) -> None:
    files = memory(inside, f"/lake/data/{PART}/a.parquet")
    with pytest.raises(WrongSource, match=r"/lake has an? \w+ table in it, /lake/data: name the table itself"):
        opening(files).take_now(["/lake"])


def test_folders_above_that_may_not_be_looked_into_have_no_table() -> None:
    class Bucket(MemoryFiles):
        def exists(self, path: str) -> bool:
            if not path.startswith("s3a://bucket/mine"):
                raise PermissionError(path)
            return super().exists(path)

    files = Bucket()
    files.create("s3a://bucket/mine/a.parquet", "x")
    [place] = places_of(files, "s3a://bucket/mine")
    assert place.kind == "folder"
    with pytest.raises(PermissionError):
        places_of(files, "s3a://bucket/yours")


def test_nothing_is_no_source() -> None:
    with pytest.raises(WrongSource, match="there is nothing at /nowhere"):
        places_of(memory("/a/b"), "/nowhere")
    with pytest.raises(WrongSource, match="there are no files at /a"):
        opening(memory("/a/_SUCCESS", "/a/.b.crc")).take_now(["/a"])


def test_patterns_stand_for_paths_and_names_with_brackets_for_themselves() -> None:
    files = memory("/a/topic=x/1", "/a/topic=y/2", "/a/[odd]/3")
    assert [place.path for place in places_of(files, "/a/topic=?")] == ["/a/topic=x", "/a/topic=y"]
    assert [place.path for place in places_of(files, "/a/[odd]")] == ["/a/[odd]"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a", True), ("_x=1/a", True), ("_SUCCESS", False), ("_staging/a", False), (".a", False), ("b/.a.crc", False)],
)
def test_files_that_spark_would_not_read_are_left_out(path: str, expected: bool) -> None:
    assert is_visible(path) is expected


def opening(
    files: Any,  # noqa: ANN401 - Files
    settings: TableSettings | None = None,
    wanted: WantedFormat | None = None,
) -> SourceSnapshots:
    return SourceSnapshots(files, settings or TableSettings(), COLUMNS, wanted)


def again(snapshots: SourceSnapshots, found: SourceSnapshot) -> SourceSnapshot:
    """A later run, which knows what a plan has."""
    [snapshot] = snapshots.take_again([KeptSnapshot.from_json(found.to_kept().as_json())])
    return snapshot


def test_files_that_came_after_the_plan_are_not_part_of_it() -> None:
    files = memory("/a/topic=x/1", "/a/topic=y/2")
    [found] = opening(files).take_now(["/a"])
    assert [(file.path, dict(file.values)) for file in found.files] == [
        ("/a/topic=x/1", {"topic": "x"}),
        ("/a/topic=y/2", {"topic": "y"}),
    ]
    files.create("/a/topic=z/3", "x")
    assert again(opening(files), found).files == found.files


@pytest.mark.parametrize("change", ["gone", "longer", "written over"])
def test_files_that_changed_end_a_plan(change: str) -> None:
    files = memory("/a/1", "/a/2")
    [found] = opening(files).take_now(["/a"])
    files.delete("/a/2")
    if change == "longer":
        files.create("/a/2", "xx")
    elif change == "written over":
        files.now_ms += 1
        files.create("/a/2", "x")
    with pytest.raises(SourceChanged, match="1 of 2 files were removed or changed, the first is /a/2"):
        again(opening(files), found)


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A lake of three batches of two rows, in the table `data`."""
    tables = DeltaTables(str(tmp_path), TABLE, {})
    for batch in range(3):
        tables.register_batch(staged(tmp_path, batch))
    return tmp_path / "data"


def live(snapshot: SourceSnapshot) -> set[int]:
    """The offsets of rows that a reader of the snapshot sees."""
    deleted = set() if snapshot.deleted is None else {tuple(row.values()) for row in snapshot.deleted.to_pylist()}
    return {
        offset
        for file in snapshot.files
        for row, offset in enumerate(pq.read_table(file.path.removeprefix("file:"))["offset"].to_pylist())
        if (file.path, row) not in deleted
    }


def test_of_a_delta_table_the_files_of_its_version_are_read(delta: Path) -> None:
    files = LocalFiles()
    [found] = opening(files).take_now([str(delta)])
    assert live(found) == set(range(6))
    assert found.table is not None
    assert found.schema is not None
    assert set(found.schema.names) == set(COLUMNS)
    DeltaTable(delta).delete("offset = 1")
    DeltaTable(delta).optimize.compact()
    [now] = opening(files).take_now([str(delta / "topic=orders")])
    assert live(now) == {0, 2, 3, 4, 5}
    assert [dict(file.values) for file in now.files] == [{"topic": "orders", "date": "2026-08-01", "hour": "7"}]
    with pytest.raises(WrongSource, match="has no rows of topic=other"):
        opening(files).take_now([str(delta / "topic=other")])


def test_files_whose_names_need_escapes_are_found(tmp_path: Path) -> None:
    root = tmp_path / "a b%c"
    DeltaTables(str(root), TABLE, {}).register_batch(staged(root, 0, topic="%DLQ%g"))
    [found] = opening(LocalFiles()).take_now([str(root / "data" / "topic=%25DLQ%25g")])
    assert live(found) == {0, 1}
    delete_rows(root / "data", {0: [1]})
    [found] = opening(LocalFiles()).take_now([str(root / "data")])
    assert live(found) == {0}
    # As another writer has it, which puts its files elsewhere.
    write_deltalake(tmp_path / "other", pa.table({"topic": ["%a b"], "offset": [7]}), partition_by=["topic"])
    [found] = opening(LocalFiles()).take_now([str(tmp_path / "other")])
    assert live(found) == {7}
    assert [dict(file.values) for file in found.files] == [{"topic": "%a b"}]


def test_rows_of_a_deletion_vector_are_not_live(delta: Path) -> None:
    delete_rows(delta, {1: [0]})
    [found] = opening(LocalFiles()).take_now([str(delta)])
    assert live(found) == {0, 1, 3, 4, 5}


def test_a_plan_goes_on_at_its_version_beside_new_batches_and_compactions(delta: Path) -> None:
    snapshots = opening(LocalFiles())
    [found] = snapshots.take_now([str(delta)])
    DeltaTables(str(delta.parent), TABLE, {}).register_batch(staged(delta.parent, 3))
    assert live(again(snapshots, found)) == set(range(6))
    DeltaTable(delta).optimize.compact()
    assert live(again(snapshots, found)) == set(range(6))
    DeltaTable(delta).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(SourceChanged, match=r"files of Delta table \S+ at version \d were removed since"):
        again(snapshots, found)


def _delete(table: Path) -> None:
    DeltaTable(table).delete("offset = 1")


def _mark_deleted(table: Path) -> None:
    delete_rows(table, {1: [0]})


@pytest.mark.parametrize("change", [_delete, _mark_deleted])
def test_a_plan_ends_when_rows_of_its_table_were_deleted(delta: Path, change: Callable[[Path], None]) -> None:
    snapshots = opening(LocalFiles())
    [found] = snapshots.take_now([str(delta)])
    change(delta)
    words = r"at version \d had other rows: DELETE came after; 1 of 3 files were removed or changed"
    with pytest.raises(SourceChanged, match=words):
        again(snapshots, found)


def test_a_table_of_which_readers_need_more_is_refused(delta: Path) -> None:
    DeltaTable(delta).alter.add_feature(TableFeatures.VariantType, allow_protocol_versions_increase=True)
    with pytest.raises(WrongSource, match="needs variantType of its readers"):
        opening(LocalFiles()).take_now([str(delta)])


def test_tables_are_not_read_as_files_nor_files_as_tables(delta: Path) -> None:
    with pytest.raises(WrongSource, match="is a Delta table, and its files are not read as parquet"):
        opening(LocalFiles(), wanted="parquet").take_now([str(delta)])
    with pytest.raises(WrongSource, match="/a is not a Delta table"):
        opening(memory("/a/1"), wanted="delta").take_now(["/a"])


@pytest.fixture
def settings(tmp_path: Path) -> TableSettings:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": tmp_path.as_uri()}
    return TableSettings(catalog="tests", catalog_options=MappingProxyType(catalog))


@pytest.fixture
def iceberg(tmp_path: Path, settings: TableSettings) -> Path:
    root = tmp_path / "lake"
    tables = IcebergTables(root.as_uri(), TABLE, catalog="tests", options=settings.catalog_options, namespace="lake")
    for batch in range(3):
        tables.register_batch(staged(root, batch, has_parted=True))
    return root / "data"


def test_an_iceberg_table_is_read_by_its_catalog(iceberg: Path, settings: TableSettings) -> None:
    files = LocalFiles()
    with pytest.raises(
        WrongSource, match="is an Iceberg table, whose live rows its catalog knows: name it by --catalog"
    ):
        opening(files).take_now([str(iceberg)])
    snapshots = opening(files, settings)
    [found] = snapshots.take_now([str(iceberg)])
    assert live(found) == set(range(6))
    opened_catalog("tests", settings.catalog_options).load_table("lake.data").delete("offset = 1")
    [now] = snapshots.take_now([str(iceberg / PART)])
    assert live(now) == {0, 2, 3, 4, 5}
    assert now.where == {"topic": "orders", "date": "2026-08-01", "hour": "07"}
    with pytest.raises(WrongSource, match="has no rows of topic=other"):
        snapshots.take_now([str(iceberg / "topic=other")])
    with pytest.raises(SourceChanged, match=r"had other rows: (overwrite|delete)"):
        again(snapshots, found)


def test_a_plan_goes_on_beside_new_batches_of_an_iceberg_table(iceberg: Path, settings: TableSettings) -> None:
    snapshots = opening(LocalFiles(), settings)
    [found] = snapshots.take_now([str(iceberg)])
    tables = IcebergTables(
        iceberg.parent.as_uri(), TABLE, catalog="tests", options=settings.catalog_options, namespace="lake"
    )
    tables.register_batch(staged(iceberg.parent, 3, has_parted=True))
    assert live(again(snapshots, found)) == set(range(6))


def test_a_folder_that_the_catalog_knows_under_no_such_name_is_refused(iceberg: Path, settings: TableSettings) -> None:
    other = TableSettings(catalog="tests", catalog_options=settings.catalog_options, namespace="shop")
    with pytest.raises(WrongSource, match=r"catalog tests has no table shop\.data"):
        opening(LocalFiles(), other).take_now([str(iceberg)])


def test_a_catalog_that_nobody_knows_is_refused(iceberg: Path) -> None:
    with pytest.raises(WrongSource, match="the Iceberg catalog 'nowhere' can't be opened"):
        opening(LocalFiles(), TableSettings(catalog="nowhere")).take_now([str(iceberg)])


def test_a_delta_table_whose_log_is_damaged_is_refused(delta: Path) -> None:
    snapshots = opening(LocalFiles())
    [found] = snapshots.take_now([str(delta)])
    for file in (delta / "_delta_log").glob("*.json"):
        file.write_text("{")
    with pytest.raises(WrongSource, match="data can't be read: "):
        snapshots.take_now([str(delta)])
    with pytest.raises(SourceChanged, match="data can't be read: "):
        again(snapshots, found)


def test_columns_that_got_other_names_are_refused(iceberg: Path, settings: TableSettings) -> None:
    table = opened_catalog("tests", settings.catalog_options).load_table("lake.data")
    with table.update_schema() as update:
        update.rename_column("message_id", "id")
    with table.update_schema() as update:
        update.rename_column("id", "message_id")
    with pytest.raises(WrongSource, match=r"column message_id of table lake.data was renamed.*\(it was id\)"):
        opening(LocalFiles(), settings).take_now([str(iceberg)])


def _position_deletes(folder: Path, data_file: str, rows: list[int]) -> DataFile:
    pq.write_table(pa.table({"file_path": [data_file] * len(rows), "pos": rows}), folder / "deletes.parquet")
    return _delete_file(folder / "deletes.parquet", FileFormat.PARQUET)


def _puffin(folder: Path, data_file: str, rows: list[int]) -> DataFile:
    """A deletion vector as version 3 of the format has it."""
    vector = struct.pack("<Q", 1) + struct.pack("<I", 0) + BitMap(rows).serialize()
    blob = struct.pack(">I", len(vector) + 4) + b"\xd1\xd3\x39\x64" + vector + bytes(4)
    entry = {
        "type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4,
        "length": len(blob), "properties": {"referenced-data-file": data_file, "cardinality": str(len(rows))},
    }  # fmt: skip
    footer = json.dumps({"blobs": [entry], "properties": {}}).encode()
    end = struct.pack("<I", len(footer)) + bytes(4) + b"PFA1"
    (folder / "deletes.puffin").write_bytes(b"PFA1" + blob + b"PFA1" + footer + end)
    return _delete_file(folder / "deletes.puffin", FileFormat.PUFFIN)


def _delete_file(path: Path, file_format: FileFormat) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path.as_uri(),
        file_format=file_format,
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
    )


@pytest.mark.parametrize("write", [_position_deletes, _puffin])
def test_rows_of_position_deletes_are_not_live(
    iceberg: Path,
    settings: TableSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, str, list[int]], DataFile],
) -> None:
    """PyIceberg writes none, so that the plan of a scan gets them here."""
    planned = DataScan.plan_files

    def plan_files(scan: DataScan) -> list[FileScanTask]:
        tasks = sorted(planned(scan), key=lambda task: task.file.file_path)
        tasks[1].delete_files.add(write(tmp_path, tasks[1].file.file_path, [1]))
        return tasks

    snapshots = opening(LocalFiles(), settings)
    [before] = snapshots.take_now([str(iceberg)])
    monkeypatch.setattr(DataScan, "plan_files", plan_files)
    [found] = snapshots.take_now([str(iceberg)])
    assert live(found) == {0, 1, 2, 4, 5}
    assert before.to_kept().find_lost(found) == [before.files[1].path]


@pytest.mark.parametrize(
    ("uri", "root", "expected"),
    [
        ("s3://bucket/lake/a", "s3a://bucket/lake", "s3a://bucket/lake/a"),
        ("s3://bucket/lake/a", "s3://bucket/lake", "s3://bucket/lake/a"),
        ("file:///data/a", "file:/data", "file:/data/a"),
        ("/data/a", "file:/data", "file:/data/a"),
        ("gs://bucket/a", "gs://bucket", "gs://bucket/a"),
    ],
)
def test_files_that_libraries_name_are_found_by_spark(uri: str, root: str, expected: str) -> None:
    assert hadoop_path(uri, root) == expected
