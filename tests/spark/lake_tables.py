"""A lake's tables as other programs read them, and what the options of a lake say of its format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from deltalake import DeltaTable
from pyiceberg.table import Table as IcebergTable

from pyspark_ternmq.pipelines.lake.options import Format
from pyspark_ternmq.pipelines.lake.tables.iceberg import opened_catalog

CATALOG = "tests"
TableOptions = Mapping[str, Any]


def table_options(wanted: Format, folder: Path) -> TableOptions:
    """Options of a lake; a catalog is a file in the folder."""
    if wanted != "iceberg":
        return {"format": wanted}
    settings = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": folder.as_uri()}
    return {"format": wanted, "catalog": CATALOG, "catalog_options": settings}


def arguments_of(options: TableOptions) -> list[str]:
    """The same for the command."""
    catalog = ["--catalog", options["catalog"]] if "catalog" in options else []
    settings = [f"{name}={value}" for name, value in options.get("catalog_options", {}).items()]
    return ["--format", options["format"], *catalog, *(word for one in settings for word in ("--catalog-option", one))]


def delta_table(out: Path, kind: str = "data") -> DeltaTable:
    return DeltaTable(out / kind)


def iceberg_table(options: TableOptions, kind: str = "data") -> IcebergTable:
    return opened_catalog(CATALOG, options["catalog_options"]).load_table(f"lake.{kind}")


def arrow(out: Path, options: TableOptions, kind: str = "data") -> pa.Table:
    """All rows of a kind."""
    if options["format"] == "delta":
        return delta_table(out, kind).to_pyarrow_table()
    if options["format"] == "iceberg":
        return iceberg_table(options, kind).scan().to_arrow()
    return pyarrow.dataset.dataset(out / kind, partitioning="hive").to_table()
