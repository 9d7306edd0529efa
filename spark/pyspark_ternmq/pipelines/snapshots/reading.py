"""The rows of a snapshot as a DataFrame: its files by name, read by Spark, without rows that are not live.

Names       Spark is given each file, never a folder or a pattern: what else lies beside it is not read. Characters that
            would make a name a pattern are escaped (its own option against patterns reads each of several files as
            often as there are files).
Deleted     rows go by the number that Spark's reader gives each row of a file (`_metadata.row_index`).
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_ternmq.pipelines.snapshots.snapshot import SourceSnapshot

_FILE, _ROW = "__file", "__row"
_LOCAL, _LOCAL_BEGIN = "^file:/+", "file:/"
_PATTERN = re.compile(r"[\\{}\[\]*?]")


def file_names(snapshot: "SourceSnapshot") -> list[str]:
    """The files of a snapshot, as Spark is to be given them."""
    return [_PATTERN.sub(r"\\\g<0>", file.path) for file in snapshot.files]


def parquet_rows(spark: "SparkSession", snapshot: "SourceSnapshot", columns: Sequence[str]) -> "DataFrame":
    """The live rows: those of `columns` that a table has, or all that files have, and what their folders' names say."""
    schema = None if snapshot.schema is None else _wanted_schema(snapshot.schema, [*columns, *snapshot.where])
    if not snapshot.files:
        assert schema is not None, "a folder has files"
        return spark.createDataFrame([], schema)
    valued = _valued_columns(snapshot, columns)
    reader = spark.read
    if schema is not None:
        reader = reader.schema(StructType([field for field in schema if field.name not in valued]))
    rows = reader.parquet(*file_names(snapshot))
    absent = [name for name in valued if name not in rows.columns]
    if absent or snapshot.deleted is not None:
        files = {_local_path(unquote(uri)): _local_path(uri) for uri in rows.inputFiles()}
        # The same file has one slash here, and three there.
        file = f.regexp_replace("_metadata.file_path", _LOCAL, _LOCAL_BEGIN)
        rows = rows.withColumns({_FILE: file, _ROW: f.col("_metadata.row_index")})
        rows = _without_deleted(rows, snapshot.deleted, files)
        rows = _with_values(rows, snapshot, absent, files, schema).drop(_FILE, _ROW)
    for name, value in snapshot.where.items():
        rows = rows.where(f.col(name) == f.lit(value).cast(rows.schema[name].dataType))
    return rows


def _wanted_schema(schema: StructType, columns: Sequence[str]) -> StructType:
    kept = [field for field in schema if field.name in columns]
    return StructType([StructField(field.name, field.dataType) for field in kept])


def _valued_columns(snapshot: "SourceSnapshot", columns: Sequence[str]) -> list[str]:
    """Columns that no file may have, for their values stand elsewhere."""
    names = {name for file in snapshot.files for name in file.values}
    return [name for name in (*columns, *snapshot.where) if name in names]


def _without_deleted(rows: "DataFrame", deleted: "pa.Table | None", files: "dict[str, str]") -> "DataFrame":
    if deleted is None:
        return rows
    paths = deleted["path"].unique().to_pylist()
    # Files that a plan leaves out, or that are of another part of the table, are not among them.
    known = [(path, files[_local_path(path)]) for path in paths if _local_path(path) in files]
    if not known:
        return rows
    spark = rows.sparkSession
    of_files = f.broadcast(spark.createDataFrame(known, f"path string, {_FILE} string"))
    gone = spark.createDataFrame(deleted).join(of_files, "path").select(_FILE, f.col("row").alias(_ROW))
    return rows.join(gone, [_FILE, _ROW], "left_anti")


def _with_values(
    rows: "DataFrame",
    snapshot: "SourceSnapshot",
    absent: Sequence[str],
    files: "dict[str, str]",
    schema: StructType | None,
) -> "DataFrame":
    """Add columns whose values are not in the files."""
    if not absent:
        return rows
    kinds = {name: "string" if schema is None else schema[name].dataType.simpleString() for name in absent}
    found = {tuple(file.values.get(name) for name in absent) for file in snapshot.files}
    if len(found) == 1:
        pairs = zip(absent, found.pop(), strict=True)
        return rows.withColumns({name: f.lit(value).cast(kinds[name]) for name, value in pairs})
    table = [(files[_local_path(one.path)], *(one.values.get(name) for name in absent)) for one in snapshot.files]
    texts = ", ".join(f"`{name}` string" for name in absent)
    values = rows.sparkSession.createDataFrame(table, f"{_FILE} string, {texts}")
    values = values.withColumns({name: f.col(name).cast(kinds[name]) for name in absent})
    return rows.join(f.broadcast(values), _FILE)


def _local_path(path: str) -> str:
    """Return a path of this machine in one of its possible forms."""
    return re.sub(_LOCAL, _LOCAL_BEGIN, path)
