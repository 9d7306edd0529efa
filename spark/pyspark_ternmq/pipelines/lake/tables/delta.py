"""A lake as Delta tables, one for each kind, by delta-rs: no jar, and no Java but Spark's own.

Commit      adds a batch's files and `txn` (query id, batch). Delta does not refuse a transaction that was there before,
            so the table is looked at first; that it has not changed since is delta-rs's own check: of two commits of
            one query that saw the same table, the second fails.
Partition   values of a file's folders: `date` a date, `hour` a whole number, whatever the folder looks like.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Field as DeltaField
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs

from pyspark_ternmq.pipelines.lake.commits import KINDS, LakeBroken, Manifest
from pyspark_ternmq.pipelines.lake.tables.footers import delta_statistics
from pyspark_ternmq.pipelines.lake.tables.registration import TABLE_PARTITION, partition_values, table_uri

if TYPE_CHECKING:
    import pyarrow as pa

# Commits of others to the same table, a compaction's for example, are stepped over by delta-rs itself.
_COMMIT_RETRIES = 15


class DeltaTables:
    """Implements `Tables`. `schema` is that of the rows to come; `storage_options` are delta-rs's, as for S3."""

    def __init__(self, root: str, schema: "pa.Schema", storage_options: Mapping[str, str]) -> None:
        self._root, self._schema, self._storage_options = table_uri(root), schema, dict(storage_options)

    def check(self) -> None:
        """Give tables that are there the columns that are new; ValueError if they have other types."""
        for kind in KINDS:
            try:
                if DeltaTable.is_deltatable(self._uri(kind), self._storage_options):
                    table = self._opened(kind)
                    if missing := self._missing(table, kind):
                        table.alter.add_columns(missing)
            except DeltaError as error:
                raise LakeBroken(f"table {self._uri(kind)} can't be opened: {error}") from error

    def register(self, manifest: Manifest) -> None:
        for kind in KINDS:
            if paths := [new.removeprefix(f"{kind}/") for _, new in manifest.moves if new.startswith(f"{kind}/")]:
                try:
                    self._add(kind, paths, manifest)
                except DeltaError as error:
                    raise LakeBroken(
                        f"batch {manifest.batch} is not in table {self._uri(kind)} yet: {error}"
                    ) from error

    def _add(self, kind: str, paths: Sequence[str], manifest: Manifest) -> None:
        table = self._made(kind)
        last = table.transaction_version(manifest.query)
        if last is not None and last >= manifest.batch:
            return
        files = fs.PyFileSystem(DeltaStorageHandler(self._uri(kind), self._storage_options))
        properties = CommitProperties(
            max_commit_retries=_COMMIT_RETRIES, app_transactions=[Transaction(manifest.query, manifest.batch)]
        )
        table.create_write_transaction(
            [_action(path, files) for path in paths],
            "append",
            table.schema(),
            partition_by=list(TABLE_PARTITION),
            commit_properties=properties,
        )

    def _made(self, kind: str) -> DeltaTable:
        uri = self._uri(kind)
        if not DeltaTable.is_deltatable(uri, self._storage_options):
            DeltaTable.create(
                uri,
                self._schema,
                mode="ignore",
                partition_by=list(TABLE_PARTITION),
                name=kind,
                storage_options=self._storage_options,
            )
        return self._opened(kind)

    def _opened(self, kind: str) -> DeltaTable:
        return DeltaTable(self._uri(kind), storage_options=self._storage_options)

    def _missing(self, table: DeltaTable, kind: str) -> "list[DeltaField]":
        wanted = {field.name: field for field in DeltaSchema.from_arrow(self._schema).fields}
        has = {field.name: field for field in table.schema().fields}
        for name in wanted.keys() & has.keys():
            if wanted[name].type != has[name].type:
                raise ValueError(
                    f"column {name} of table {self._uri(kind)} is {has[name].type}, and would be {wanted[name].type}: "
                    "write with the types it has, or into another folder"
                )
        return [wanted[name] for name in wanted if name not in has]

    def _uri(self, kind: str) -> str:
        return f"{self._root}/{kind}"


def _action(path: str, files: fs.FileSystem) -> AddAction:
    values = partition_values(path)
    return AddAction(
        path=path,
        size=files.get_file_info(path).size,
        # As a reader casts it: 07 is no whole number to all of them.
        partition_values={name: values[name] if name != "hour" else str(int(values[name])) for name in TABLE_PARTITION},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=delta_statistics(path, files),
    )
