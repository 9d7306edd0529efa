"""The tables that a run of the lake pipeline writes to, checked before it begins."""

import importlib.util
from typing import TYPE_CHECKING

from pyspark_ternmq.pipelines.lake.registration import LakeTables, PlainFiles
from pyspark_ternmq.pipelines.lake.tables.marker import settle_format
from pyspark_ternmq.pipelines.lake.tables.schema import table_schema
from ternmq_common.installing import install_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame

    from pyspark_ternmq.pipelines.files import FileSystem
    from pyspark_ternmq.pipelines.lake.options import Format, LakeOptions

_PACKAGES: "dict[Format, tuple[str, str]]" = {"delta": ("deltalake", "delta"), "iceberg": ("pyiceberg", "iceberg")}


def opened_tables(
    files: "FileSystem", root: str, options: "LakeOptions", rows: "DataFrame", say: "Callable[[str], None]"
) -> LakeTables:
    """Open the tables that register batches of these rows. Raises ValueError if the folder, a table or a catalog does
    not fit.

    `say` gets a line for each table whose columns changed.
    """
    check_installed(options.format)
    settle_format(files, root, options.format)
    if options.format == "delta":
        from pyspark_ternmq.pipelines.lake.tables.delta import DeltaTables

        delta = DeltaTables(root, table_schema(rows), options.storage_options)
        _print_all(delta.evolve_tables(), say)
        return delta
    if options.format == "iceberg":
        from pyspark_ternmq.pipelines.lake.tables.iceberg import IcebergTables

        assert options.catalog is not None
        iceberg = IcebergTables(
            root,
            table_schema(rows),
            catalog=options.catalog,
            options=options.catalog_options,
            namespace=options.namespace,
        )
        _print_all(iceberg.evolve_tables(), say)
        return iceberg
    return PlainFiles()


def _print_all(changes: "Iterable[str]", say: "Callable[[str], None]") -> None:
    for change in changes:
        say(change)


def check_installed(wanted: "Format") -> None:
    """ValueError unless the format's library is there."""
    if wanted in _PACKAGES:
        package, extra = _PACKAGES[wanted]
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"{package} is not installed: {install_hint(extra)}")
