"""A Delta table at one version, by delta-rs: which files are live, and which of their rows are deleted.

Columns     a part of the table is found by its partition's columns, whose values are in the log and not in the files.
Features    of the table's protocol, those are known here that change which rows are live or how wide their numbers are;
            with any other the table is refused.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_ternmq.pipelines.lake.registration import hadoop_path, table_uri
from pyspark_ternmq.pipelines.snapshots.deleted import deleted_rows, mark_of
from pyspark_ternmq.pipelines.snapshots.finding import SourcePlace, WrongSource
from pyspark_ternmq.pipelines.snapshots.snapshot import DELETED_MAX, LiveFile, SourceSnapshot, TableVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

FEATURES = frozenset(
    {"deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"}
)
# Operations that leave every row where a reader of an older version finds it, until its files are removed.
HARMLESS = frozenset(
    {"WRITE", "OPTIMIZE", "ADD COLUMN", "ADD COLUMNS", "SET TBLPROPERTIES", "ADD FEATURE", "VACUUM START", "VACUUM END"}
)


class DeltaSource:
    """Implements `SnapshotSource`; `columns` are those that will be read."""

    def __init__(self, place: SourcePlace, columns: "Sequence[str]", options: Mapping[str, str]) -> None:
        self._place, self._columns, self._options = place, {*columns, *place.values}, dict(options)
        self._name = table_uri(place.path)

    def take_snapshot(self, version: int | None = None) -> SourceSnapshot:
        try:
            table = DeltaTable(self._name, version=version, storage_options=self._options)
            return self._snapshot_of(table)
        except DeltaError as error:
            raise self._unreadable_error(error) from None

    def changes_since(self, version: int) -> list[str]:
        try:
            history = DeltaTable(self._name, storage_options=self._options).history()
        except DeltaError as error:
            raise self._unreadable_error(error) from None
        since = [commit for commit in history if commit["version"] > version]
        return [str(commit.get("operation")) for commit in reversed(since) if not _is_harmless(commit)]

    def _unreadable_error(self, error: DeltaError) -> WrongSource:
        return WrongSource(f"table {self._name} can't be read: {' '.join(str(error).split())}")

    def _snapshot_of(self, table: DeltaTable) -> SourceSnapshot:
        self._check_features(table)
        schema = [field for field in pa.schema(table.schema()) if field.name in self._columns]
        deleted = self._deleted_rows(table)
        return SourceSnapshot(
            path=self._place.requested,
            files=[self._live_file(added, deleted) for added in _list_added(table) if self._is_wanted(added)],
            table=TableVersion(
                kind="delta", name=self._name, table_id=str(table.metadata().id), version=table.version()
            ),
            schema=from_arrow_schema(pa.schema(schema)),
            deleted=deleted_rows(deleted),
        )

    def _check_features(self, table: DeltaTable) -> None:
        unknown = sorted({*(table.protocol().reader_features or ())} - FEATURES)
        mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        if mode != "none" and "columnMapping" not in unknown:
            unknown.append("columnMapping")
        if unknown:
            raise WrongSource(
                f"table {self._name} needs {', '.join(unknown)} of its readers, which is not known here: replay a copy "
                "of it without that"
            )

    def _deleted_rows(self, table: DeltaTable) -> dict[str, pa.Array]:
        """Sorted numbers of deleted rows, by the path of their file."""
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return {}
        found, rows = dict[str, pa.Array](), 0
        for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
            for uri, vector in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
                # Rows behind its end are live.
                numbers = np.flatnonzero(~vector.values.to_numpy(zero_copy_only=False))
                found[self._hadoop_path(uri)] = pa.array(numbers, pa.int64())
                rows += len(numbers)
                if rows > DELETED_MAX:
                    raise WrongSource(
                        f"table {self._name} has more than {DELETED_MAX:,} deleted rows in files that are live: purge "
                        "them first (REORG TABLE ... APPLY (PURGE))"
                    )
        return found

    def _live_file(self, added: Mapping[str, Any], deleted: Mapping[str, pa.Array]) -> LiveFile:
        path = self._hadoop_path(added["path"])
        values = {name: None if value is None else str(value) for name, value in added["partition"].items()}
        return LiveFile(path=path, size_bytes=added["size_bytes"], mark=mark_of(deleted.get(path)), values=values)

    def _hadoop_path(self, named: str) -> str:
        """A file as Hadoop has it. The log has paths as addresses, below the table's folder unless they are whole."""
        path = unquote(named)
        return hadoop_path(path, self._place.path) if ":" in named or path[:1] == "/" else f"{self._place.path}/{path}"

    def _is_wanted(self, added: Mapping[str, Any]) -> bool:
        for name, value in self._place.values.items():
            if name not in added["partition"]:
                raise WrongSource(f"table {self._name} is not partitioned by {name}")
            if not _is_value(added["partition"][name], value):
                return False
        return True


def _list_added(table: DeltaTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(table.get_add_actions()).to_pylist()
    return [{**added, "partition": added.get("partition") or {}} for added in found]


def _is_value(found: object, wanted: str) -> bool:
    """Whether a partition has a value that is written so in a folder's name: 07 is 7 where it is a number."""
    if isinstance(found, int):
        return wanted.isascii() and wanted.isdigit() and int(wanted) == found
    return str(found) == wanted


def _is_harmless(commit: Mapping[str, Any]) -> bool:
    parameters = commit.get("operationParameters") or {}
    return commit.get("operation") in HARMLESS and parameters.get("mode") != "Overwrite"
