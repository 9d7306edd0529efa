"""The files of one moment that rows are read from, and what became of them since. Pure.

Mark        what tells a file from another one of the same name: its etag or the time of its last change, and in a
            table which of its rows are deleted
Kept        paths, sizes and marks go into a plan. A run that goes on reads the files of the plan and no others; new
            ones are not part of it, and one that is gone or has another mark ends it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# A plan names them all, in one file and in memory.
FILES_MAX = 1_000_000
DELETED_MAX = 50_000_000
"""Positions of deleted rows are in the driver's memory, eight bytes each and their file's path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How tables are opened: `storage_options` are delta-rs's, the catalog is PyIceberg's, as for the lake pipeline."""

    storage_options: Mapping[str, str] = field(default_factory=dict)
    catalog: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "lake"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A file to read, by its path as Hadoop has it; `values` are columns that are not in the file, as text."""

    path: str
    size_bytes: int
    mark: str
    values: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A table at a moment: `table_id` stays when its name is another table's, `version` is that of Delta's log, or the
    id of Iceberg's snapshot (-1: it has none yet)."""

    kind: str
    name: str
    table_id: str
    version: int

    def text(self) -> str:
        what = "Delta table" if self.kind == "delta" else "Iceberg table"
        word = "version" if self.kind == "delta" else "snapshot"
        return f"{what} {self.name} at {word} {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSnapshot:
    """A snapshot to read: `schema` is a table's, `where` the values that columns of its rows must have.

    `deleted` are rows that are not live, by the path of their file (`path`) and their number in it (`row`).
    """

    path: str
    files: Sequence[LiveFile]
    table: TableVersion | None = None
    schema: "StructType | None" = None
    where: Mapping[str, str] = field(default_factory=dict)
    deleted: "pa.Table | None" = None

    def to_kept(self) -> "KeptSnapshot":
        return KeptSnapshot(
            path=self.path, table=self.table, files={file.path: (file.size_bytes, file.mark) for file in self.files}
        )

    def only_kept(self, kept: "KeptSnapshot") -> "SourceSnapshot":
        """Return the snapshot without files that are not in a plan."""
        return replace(self, files=[file for file in self.files if file.path in kept.files], table=kept.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """The part of a snapshot that a plan keeps: size and mark of each file."""

    path: str
    table: TableVersion | None
    files: Mapping[str, tuple[int, str]]

    def as_json(self) -> dict[str, Any]:
        table = self.table and [self.table.kind, self.table.name, self.table.table_id, self.table.version]
        return {"path": self.path, "table": table, "files": [[path, *found] for path, found in self.files.items()]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        table = value["table"]
        if table is not None:
            kind, name, table_id, version = table
            table = TableVersion(kind=kind, name=name, table_id=table_id, version=version)
        files = {path: (size_bytes, mark) for path, size_bytes, mark in value["files"]}
        return cls(path=value["path"], table=table, files=files)

    def find_lost(self, now: SourceSnapshot) -> list[str]:
        """Files of the plan that were removed or changed."""
        there = {file.path: (file.size_bytes, file.mark) for file in now.files}
        return [path for path, found in self.files.items() if there.get(path) != found]


class SnapshotSource(Protocol):
    """A source of snapshots. Raises WrongSource if it can't be read."""

    def take_snapshot(self, version: int | None = None) -> SourceSnapshot:
        """Take a snapshot of the source now, or of a table at an older version."""

    def changes_since(self, version: int) -> list[str]:
        """Return the operations after a version that may have changed a table's rows, the oldest first."""
