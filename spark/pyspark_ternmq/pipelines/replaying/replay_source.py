"""The rows that a replay sends: files of a lake, or JSON lines as `ternmq dlq export` writes them.

Columns     those of the source, of which `body` and the time that orders are needed. In JSON lines, `body` is text or
            `body_base64` the bytes, `born`, `stored` and `queue` may stand for the longer names.
Left out    rows that can't be sent: without a body or a time, lines that are no JSON, and bodies that could not be
            unpacked (`corrupt`). They are counted.
Live        the rows of a table are those of one version of it; other files in its folder are ignored (`snapshots/`).
Place       (topic, broker, queue, offset, message id) names a message: of rows with one name, one is sent. The id is
            part of it, since a topic that was deleted and created again has the same offsets. Where some rows have no
            such names, ids come from what rows contain, and from a number for equal ones: which of them gets which is
            the same to everybody.
"""

from collections.abc import Sequence
from functools import reduce
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from pyspark.sql import Window
from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.sending import derived_id
from pyspark_ternmq.pipelines.snapshots.reading import file_names, parquet_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pyspark_ternmq.pipelines.snapshots.snapshot import SourceSnapshot

TIME_US = "time_us"
TIME_COLUMNS = {"born": "born_timestamp", "stored": "store_timestamp"}
Order = Literal["born", "stored"]

_JSON_SCHEMA = """
    topic string, broker string, queue_id int, queue int, offset bigint, message_id string, keys array<string>,
    tag string, message_group string, body string, body_base64 string, properties map<string,string>,
    born_timestamp timestamp, born timestamp, store_timestamp timestamp, stored timestamp, corrupt string
"""
_JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
_OTHER_NAMES = {"queue_id": "queue", "born_timestamp": "born", "store_timestamp": "stored"}
_PLACE = {"topic": "string", "broker": "string", "queue_id": "int", "offset": "bigint"}
_OPTIONAL = {
    "message_id": "string",
    "keys": "array<string>",
    "tag": "string",
    "message_group": "string",
    "properties": "map<string,string>",
    "corrupt": "string",
}


# The columns that are read from files and tables.
COLUMNS = (*_PLACE, *_OPTIONAL, "body", *TIME_COLUMNS.values())
_ALONE = "_alone"


class WrongRows(Exception):
    """The files don't hold what a replay needs, or more than it can plan; the message says what is wrong."""


def format_of(paths: Sequence[str]) -> str:
    """Return the format by the names of files; folders and all else are Parquet."""
    endings = [PurePosixPath(path.removesuffix(".gz")).suffix.lower() for path in paths]
    return "json" if endings and all(ending in _JSON_ENDINGS for ending in endings) else "parquet"


def all_rows(
    spark: "SparkSession", snapshots: "Sequence[SourceSnapshot]", file_format: str, order: Order
) -> "DataFrame":
    """Every row with the columns above and its time in microseconds; see `can_be_sent`."""
    if file_format == "json":
        paths = [name for snapshot in snapshots for name in file_names(snapshot)]
        return _as_messages(_with_json_names(spark.read.schema(_JSON_SCHEMA).json(paths)), order)
    found = [_as_messages(parquet_rows(spark, snapshot, COLUMNS), order) for snapshot in snapshots]
    return reduce(lambda left, right: left.unionByName(right), found)


def _as_messages(rows: "DataFrame", order: Order) -> "DataFrame":
    time = TIME_COLUMNS[order]
    for name in ("body", time):
        if name not in rows.columns:
            raise WrongRows(f"the files have no column {name}; they have {', '.join(rows.columns)}")
    known = {**_PLACE, **_OPTIONAL}
    missing = {name: f.lit(None).cast(kind) for name, kind in known.items() if name not in rows.columns}
    return rows.withColumns(missing).select(
        *(f.col(name).cast(kind).alias(name) for name, kind in known.items()),
        f.col("body").cast("binary").alias("body"),
        f.unix_micros(time).alias(TIME_US),
    )


def without_doubles(rows: "DataFrame") -> "DataFrame":
    """One row for each message that says where it came from; all others stay."""
    # Equal places have one time, so they are in one slice, and no step repeats what another one sent.
    alone = f.when(~has_place(), f.monotonically_increasing_id())
    return rows.withColumn(_ALONE, alone).dropDuplicates([*_PLACE, "message_id", TIME_US, _ALONE]).drop(_ALONE)


def _with_json_names(rows: "DataFrame") -> "DataFrame":
    for name, other in _OTHER_NAMES.items():
        rows = rows.withColumn(name, f.coalesce(name, other)).drop(other)
    body = f.coalesce(f.unbase64("body_base64"), f.col("body").cast("binary"))
    return rows.withColumn("body", body).drop("body_base64")


def can_be_sent() -> "Column":
    """A message without a body is refused by every broker."""
    return f.col("body").isNotNull() & (f.length("body") > 0) & f.col(TIME_US).isNotNull() & f.col("corrupt").isNull()


def filter_times(rows: "DataFrame", since_us: int | None, until_us: int | None) -> "DataFrame":
    """The rows from one time up to, not including, another; those without a time are among them."""
    bounds = [
        *([f.col(TIME_US) >= since_us] if since_us is not None else []),
        *([f.col(TIME_US) < until_us] if until_us is not None else []),
    ]
    if not bounds:
        return rows
    return rows.where(f.col(TIME_US).isNull() | reduce(lambda left, right: left & right, bounds))


def make_messages(rows: "DataFrame", replay_id: str, *, keep_ids: bool, all_have_places: bool) -> "DataFrame":
    """Build the rows for the sink, with time and place to sort by."""
    place: list[Column] = [f.col(name) for name in (*_PLACE, "message_id")]
    if not all_have_places:
        content = f.sha2(f.to_json(f.struct(*rows.columns)), 256)
        rows = rows.withColumn("_content", content)
        # All rows that are equal have one time, so they are in one slice, and the numbers don't depend on the slices.
        equal = Window.partitionBy("_content").orderBy("_content")
        rows = rows.withColumn("_number", f.row_number().over(equal))
        place = [f.col("_content"), f.col("_number")]
    new_id = derived_id("replay", f.lit(replay_id), *place)
    return rows.withColumn("message_id", f.coalesce("message_id", new_id) if keep_ids else new_id)


def has_place() -> "Column":
    """Whether a row says where it came from."""
    return reduce(lambda left, right: left & right, (f.col(name).isNotNull() for name in _PLACE))
