"""A lake as Delta tables, one for each kind, by delta-rs: no jar, and no Java but Spark's own.

Commit      adds a batch's files and `txn` (query id, batch). Delta does not refuse a transaction that was there before,
            so the table is looked at first; that it has not changed since is delta-rs's own check: of two commits of
            one query that saw the same table, the second fails.
Partition   values of a file's folders: `date` a date, `hour` a whole number, for any form of the folder's name.
"""

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs

from pyspark_ternmq.pipelines.lake.commits import KINDS, BatchManifest, LakeBroken
from pyspark_ternmq.pipelines.lake.registration import TABLE_PARTITION, partition_values, table_uri
from pyspark_ternmq.pipelines.lake.tables.evolution import DELTA, plan_evolution
from pyspark_ternmq.pipelines.lake.tables.footers import delta_statistics

# Commits of others to the same table, a compaction's for example, are stepped over by delta-rs itself.
_COMMIT_RETRIES = 15


class DeltaTables:
    """Implements `LakeTables`. `schema` is that of the rows to come; `storage_options` are delta-rs's, as for S3."""

    def __init__(self, root: str, schema: pa.Schema, storage_options: Mapping[str, str]) -> None:
        self._root, self._schema, self._storage_options = table_uri(root), schema, dict(storage_options)

    def evolve_tables(self) -> list[str]:
        """Give tables that are there the columns and fields that are new, and say which; ValueError for other types."""
        return [text for kind in KINDS if (text := self._evolve_table(kind))]

    def _evolve_table(self, kind: str) -> str:
        try:
            if not DeltaTable.is_deltatable(self._table_uri(kind), self._storage_options):
                return ""
            table = self._open_table(kind)
            changes = plan_evolution(self._table_uri(kind), pa.schema(table.schema()), self._schema, DELTA)
            if columns := changes.columns():
                # Fields of a struct that is there are added to it.
                wanted = DeltaSchema.from_arrow(pa.schema([one for one in self._schema if one.name in columns]))
                table.alter.add_columns(wanted.fields)
        except DeltaError as error:
            raise LakeBroken(f"table {self._table_uri(kind)} can't be opened or changed: {error}") from error
        return f"table {self._table_uri(kind)}: {changes.text()}" if columns else ""

    def register_batch(self, manifest: BatchManifest) -> None:
        for kind in KINDS:
            if paths := [new.removeprefix(f"{kind}/") for _, new in manifest.moves if new.startswith(f"{kind}/")]:
                try:
                    self._add_files(kind, paths, manifest)
                except DeltaError as error:
                    raise LakeBroken(
                        f"batch {manifest.batch} is not in table {self._table_uri(kind)} yet: {error}"
                    ) from error

    def _add_files(self, kind: str, paths: Sequence[str], manifest: BatchManifest) -> None:
        table = self._make_table(kind)
        last = table.transaction_version(manifest.query)
        if last is not None and last >= manifest.batch:
            return
        files = fs.PyFileSystem(DeltaStorageHandler(self._table_uri(kind), self._storage_options))
        properties = CommitProperties(
            max_commit_retries=_COMMIT_RETRIES, app_transactions=[Transaction(manifest.query, manifest.batch)]
        )
        table.create_write_transaction(
            [_add_action(path, files) for path in paths],
            "append",
            table.schema(),
            partition_by=list(TABLE_PARTITION),
            commit_properties=properties,
        )

    def _make_table(self, kind: str) -> DeltaTable:
        uri = self._table_uri(kind)
        if not DeltaTable.is_deltatable(uri, self._storage_options):
            DeltaTable.create(
                uri,
                self._schema,
                mode="ignore",
                partition_by=list(TABLE_PARTITION),
                name=kind,
                storage_options=self._storage_options,
            )
        return self._open_table(kind)

    def _open_table(self, kind: str) -> DeltaTable:
        return DeltaTable(self._table_uri(kind), storage_options=self._storage_options)

    def _table_uri(self, kind: str) -> str:
        return f"{self._root}/{kind}"


def _add_action(path: str, files: fs.FileSystem) -> AddAction:
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
