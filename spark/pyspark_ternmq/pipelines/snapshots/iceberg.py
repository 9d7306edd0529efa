"""An Iceberg table at one snapshot, by PyIceberg: which files are live, and which of their rows are deleted.

Catalog     only it knows which of the files in `metadata` is the table's: a commit that lost leaves one too.
Deletes     position deletes and deletion vectors are read here; equality deletes PyIceberg does not know, and the table
            is refused.
Names       files are read by the names of their columns. So a column that was renamed, or dropped and added again, is
            refused until its files are rewritten.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_ternmq.pipelines.lake.registration import hadoop_path, table_uri
from pyspark_ternmq.pipelines.lake.tables.iceberg import opened_catalog
from pyspark_ternmq.pipelines.snapshots.deleted import deleted_rows, mark_of
from pyspark_ternmq.pipelines.snapshots.finding import SourcePlace, WrongSource
from pyspark_ternmq.pipelines.snapshots.snapshot import DELETED_MAX, LiveFile, SourceSnapshot, TableVersion

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import FileScanTask, Table

    from pyspark_ternmq.pipelines.snapshots.snapshot import TableSettings

# Operations of snapshots that leave every row where a reader of an older one finds it.
HARMLESS = ("append", "replace")
NO_SNAPSHOT = -1


class IcebergSource:
    """Implements `SnapshotSource`; `columns` are those that will be read."""

    def __init__(self, place: SourcePlace, columns: Sequence[str], settings: "TableSettings") -> None:
        self._place, self._columns = place, [*columns, *place.values]
        self._table = _open_table(place, settings)
        self._name = ".".join(self._table.name())

    def take_snapshot(self, version: int | None = None) -> SourceSnapshot:
        _check_names(self._table, self._name, self._columns)
        current = self._table.current_snapshot()
        if version is None:
            version = NO_SNAPSHOT if current is None else current.snapshot_id
        tasks = self._scan_tasks(version)
        deleted = _deleted_rows(tasks, self._table.io, self._name)
        root = self._place.path
        schema = [field for field in self._table.schema().as_arrow() if field.name in self._columns]
        return SourceSnapshot(
            path=self._place.requested,
            files=[_live_file(task.file, root, self._name, deleted.get(task.file.file_path)) for task in tasks],
            table=TableVersion(
                kind="iceberg", name=self._name, table_id=str(self._table.metadata.table_uuid), version=version
            ),
            schema=from_arrow_schema(pa.schema(schema)),
            where=self._place.values,
            deleted=deleted_rows({hadoop_path(path, root): rows for path, rows in deleted.items()}),
        )

    def changes_since(self, version: int) -> list[str]:
        """`unknown` where the history does not reach so far."""
        found = list[str]()
        snapshot = self._table.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != version:
            found.append("unknown" if snapshot.summary is None else str(snapshot.summary.operation.value))
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        if snapshot is None and version != NO_SNAPSHOT:
            # The snapshot was expired, or the table was rolled back behind it.
            found.append("unknown")
        return [name for name in reversed(found) if name not in HARMLESS]

    def _scan_tasks(self, version: int) -> "Sequence[FileScanTask]":
        if version == NO_SNAPSHOT:
            return []
        try:
            scan = self._table.scan(row_filter=_partition_filter(self._place.values), snapshot_id=version)
            return list(scan.plan_files())
        except ValueError as error:
            raise WrongSource(f"table {self._name} can't be read at snapshot {version}: {error}") from None


def _open_table(place: SourcePlace, settings: "TableSettings") -> "Table":
    """The table of a folder, by the name that the lake pipeline gives it."""
    if settings.catalog is None:
        raise WrongSource(
            f"{place.path} is an Iceberg table, whose live rows its catalog knows: name it by --catalog (and "
            "--namespace), as for `ternmq pipeline lake`"
        )
    name = f"{settings.namespace}.{place.path.rpartition('/')[2]}"
    try:
        table = opened_catalog(settings.catalog, settings.catalog_options).load_table(name)
    except ValueError as error:
        raise WrongSource(str(error)) from None
    except NoSuchTableError:
        raise WrongSource(
            f"catalog {settings.catalog} has no table {name}, which {place.path} would be: see --namespace"
        ) from None
    except RESTError as error:
        raise WrongSource(f"the catalog does not answer for table {name}: {error}") from error
    if table.location().rstrip("/") != table_uri(place.path):
        raise WrongSource(f"table {name} of catalog {settings.catalog} is at {table.location()}, not at {place.path}")
    return table


def _check_names(table: "Table", name: str, wanted: Iterable[str]) -> None:
    now = {field.name: field.field_id for field in table.schema().fields}
    for schema in table.metadata.schemas:
        for field in schema.fields:
            for column in wanted:
                is_same = now.get(column) == field.field_id
                if column in now and is_same != (field.name == column):
                    raise WrongSource(
                        f"column {column} of table {name} was renamed, or dropped and added again (it was "
                        f"{field.name}): its files can't be read by the names of their columns; rewrite them first"
                    )


def _partition_filter(values: Mapping[str, str]) -> BooleanExpression:
    result: BooleanExpression = AlwaysTrue()
    for name, value in values.items():
        result = And(result, EqualTo(term=Reference(name), value=literal(value), type="eq"))
    return result


def _deleted_rows(tasks: "Sequence[FileScanTask]", io: "FileIO", name: str) -> dict[str, pa.Array]:
    """Sorted numbers of deleted rows, by the path of their data file."""
    found: defaultdict[str, list[pa.Array]] = defaultdict(list)
    wanted = {task.file.file_path for task in tasks}
    rows = 0
    for path, file in {file.file_path: file for task in tasks for file in task.delete_files}.items():
        for data_path, positions in _read_positions(path, file, io):
            if data_path in wanted:
                found[data_path].append(positions)
                rows += len(positions)
                if rows > DELETED_MAX:
                    raise WrongSource(
                        f"table {name} has more than {DELETED_MAX:,} deleted rows in files that are live: rewrite its "
                        "data files first"
                    )
    return {path: pa.concat_arrays(parts).unique().sort() for path, parts in found.items()}


def _read_positions(path: str, file: DataFile, io: "FileIO") -> Iterable[tuple[str, pa.Array]]:
    with io.new_input(path).open() as stream:
        if file.file_format == FileFormat.PUFFIN:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
            return [(one.referenced_data_file, _as_int64(one.to_vector())) for one in vectors]
        # Of many data files, in groups of rows, so that no more than their numbers are kept.
        rows = pq.read_table(stream, columns=["file_path", "pos"])
    grouped = rows.group_by("file_path").aggregate([("pos", "list")])
    return [(row["file_path"], pa.array(row["pos_list"], pa.int64())) for row in grouped.to_pylist()]


def _as_int64(positions: pa.ChunkedArray) -> pa.Array:
    return pa.array(positions.to_pylist(), pa.int64())


def _live_file(file: DataFile, root: str, name: str, deleted: pa.Array | None) -> LiveFile:
    if file.file_format != FileFormat.PARQUET:
        raise WrongSource(f"table {name} has files of {file.file_format.value}, of which only Parquet is read here")
    path = hadoop_path(file.file_path, root)
    return LiveFile(path=path, size_bytes=file.file_size_in_bytes, mark=mark_of(deleted))
