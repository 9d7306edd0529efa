"""A lake as Iceberg tables, `<namespace>.<kind>` in a catalog, by PyIceberg: no jar, and no Java but Spark's own.

Commit      adds a batch's files, and sets the table's property `ternmq.batch.<query>`, in one transaction: snapshots
            are expired some day, properties stay. The snapshot's summary has query and batch as well.
Twice       PyIceberg repeats a commit that another one overtook, without a look at what that was. So that is turned
            off, and the property is checked before each try.
Partition   Iceberg takes a file's values from the file itself, so topic, date and hour are columns of its files.
"""

import logging
import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    ValidationError,
)
from pyiceberg.table import Table, TableProperties

from pyspark_ternmq.pipelines.lake.commits import KINDS, BatchManifest, LakeBroken
from pyspark_ternmq.pipelines.lake.registration import TABLE_PARTITION, table_uri
from pyspark_ternmq.pipelines.lake.tables.evolution import ICEBERG, plan_evolution

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
BATCH_PROPERTY = "ternmq.batch."
_TRIES, _WAIT_S = 10, 0.1


class IcebergTables:
    """Implements `LakeTables`. `schema` is that of the rows to come; PyIceberg's configuration has the catalog."""

    def __init__(
        self, root: str, schema: "pa.Schema", *, catalog: str, options: Mapping[str, str], namespace: str
    ) -> None:
        self._root, self._schema, self._namespace = table_uri(root), schema, namespace
        self._catalog = opened_catalog(catalog, options)

    def evolve_tables(self) -> list[str]:
        """Give tables that are there the columns and fields that are new, and wider types, and say which.

        ValueError for other types.
        """
        return [text for kind in KINDS if (text := self._evolve_table(kind))]

    def _evolve_table(self, kind: str) -> str:
        name = self._table_name(kind)
        try:
            table = self._catalog.load_table(name)
        except NoSuchTableError:
            return ""
        except RESTError as error:
            raise LakeBroken(f"the catalog does not answer for table {name}: {error}") from error
        if not table.location().startswith(f"{self._root}/"):
            raise ValueError(
                f"table {name} is at {table.location()}, not in {self._root}: each lake needs a namespace of its own"
            )
        # By rules of our own: PyIceberg takes decimals of another scale, whose older values would be read wrong.
        changes = plan_evolution(name, table.schema().as_arrow(), self._schema, ICEBERG)
        if not changes.columns():
            return ""
        try:
            with table.update_schema() as update:
                update.union_by_name(self._schema)
        except (CommitFailedException, RESTError, ValidationError, ValueError) as error:
            raise LakeBroken(f"the columns of table {name} could not be changed ({changes.text()}): {error}") from error
        return f"table {name}: {changes.text()}"

    def register_batch(self, manifest: BatchManifest) -> None:
        for kind in KINDS:
            if paths := [f"{self._root}/{new}" for _, new in manifest.moves if new.startswith(f"{kind}/")]:
                try:
                    self._add_files(kind, paths, manifest)
                except (RESTError, ValidationError) as error:
                    name = self._table_name(kind)
                    raise LakeBroken(f"batch {manifest.batch} is not in table {name} yet: {error}") from error

    def _add_files(self, kind: str, paths: Sequence[str], manifest: BatchManifest) -> None:
        for number in range(_TRIES):
            table = self._make_table(kind)
            if last_batch(table, manifest.query) >= manifest.batch:
                return
            try:
                with _without_retries(table).transaction() as transaction:
                    transaction.add_files(
                        list(paths),
                        snapshot_properties={"ternmq.query": manifest.query, "ternmq.batch": str(manifest.batch)},
                    )
                    transaction.set_properties({f"{BATCH_PROPERTY}{manifest.query}": str(manifest.batch)})
            except CommitFailedException as error:
                _log.info("table %s: a commit was overtaken by another: %s", self._table_name(kind), error)
                time.sleep(_WAIT_S * 2**number * random.uniform(0.5, 1))  # noqa: S311 - only so that two part
            else:
                return
        raise LakeBroken(
            f"batch {manifest.batch} is not in table {self._table_name(kind)} yet: others were faster {_TRIES} times"
        )

    def _make_table(self, kind: str) -> Table:
        try:
            return self._catalog.load_table(self._table_name(kind))
        except NoSuchTableError:
            self._catalog.create_namespace_if_not_exists(self._namespace)
        making = self._catalog.create_table_transaction(
            self._table_name(kind), self._schema, location=f"{self._root}/{kind}"
        )
        with making, making.update_spec() as spec:
            for name in TABLE_PARTITION:
                spec.add_identity(name)
        return self._catalog.load_table(self._table_name(kind))

    def _table_name(self, kind: str) -> str:
        return f"{self._namespace}.{kind}"


def opened_catalog(name: str, options: Mapping[str, str]) -> Catalog:
    """Open a catalog of PyIceberg's configuration, or of the options. Raises ValueError if there is neither."""
    try:
        return load_catalog(name, **options)
    except (NotInstalledError, ValueError) as error:
        raise ValueError(
            f"the Iceberg catalog {name!r} can't be opened ({error}): describe it in PyIceberg's configuration, or by "
            "--catalog-option"
        ) from None


def last_batch(table: Table, query: str) -> int:
    """The last batch of a query that is in a table; -1 if none is."""
    return int(table.properties.get(f"{BATCH_PROPERTY}{query}", -1))


def _without_retries(table: Table) -> Table:
    """The same table, to this process only, with another setting."""
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table
