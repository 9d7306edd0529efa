"""Classifies rows as data or as set aside, and finds the partition of each. No state: a batch that is read
again comes out the same.

malformed   the body can't be decompressed, or is no JSON, Avro or Protobuf of the given schema; or the message was born
            more than five minutes after it was stored, so that its producer's clock is wrong
late        stored longer after its birth than `lateness`: the hour it belongs to may have been processed
data        all others

Partition   topic, and date and hour of the event time in UTC, computed from seconds since 1970, so that the session's
            time zone plays no part. The event time is that of birth (where there is none, or a wrong one, that of
            storing), or with `event_time="stored"` that of storing, by which no row can be late.
Duplicates  have the same id in the same topic; rows without an id have none. Malformed rows count separately: a copy
            that can be read is never dropped for one that can't.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from pyspark_ternmq.decoding.columns import PROBLEM, VALUE, decode_column
from pyspark_ternmq.decoding.json_problem import json_problems
from pyspark_ternmq.pipelines.sessions.session import error_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_ternmq.decoding.columns import BodyFormat
    from pyspark_ternmq.pipelines.lake.options import EventTime

WRONG_CLOCK_AFTER = timedelta(minutes=5)
HOUR_S, DAY_S = 3600, 86_400
# Columns by which staged files are parted; the first tells where they go.
PARTITION = ("kind", "topic", "date", "hour")
# Names that no column of the source has and no schema of a user is likely to have.
UNPARSED, DECODED, TAKEN, DEDUP_ID = "__unparsed", "__decoded", "__taken", "__dedup_id"
ID_WINDOW_MIN = timedelta(milliseconds=2)


def classify_messages(
    messages: "DataFrame",
    *,
    event_time: "EventTime",
    lateness: timedelta,
    json_schema: str | None,
    decoding: "BodyFormat | None" = None,
) -> "DataFrame":
    """The source's rows with `json` (if there is a schema), `avro` or `protobuf` (by `decoding`), `reason` (why it is
    aside), `kind`, `date` and `hour`."""
    if json_schema is not None:
        messages = messages.withColumn("json", _parsed_json(json_schema))
    if decoding is not None:
        messages = messages.withColumn(
            DECODED, decode_column(F.when(F.col("corrupt").isNull(), F.col("body")), decoding)
        )
    rows = messages.withColumn("reason", _malformed_reason(event_time, json_schema=json_schema, decoding=decoding))
    rows = rows.withColumn("kind", F.when(F.col("reason").isNotNull(), "malformed"))
    if json_schema is not None:
        rows = rows.withColumn("json", F.when(F.col("kind").isNull(), F.col("json").dropFields(UNPARSED)))
    if decoding is not None:
        value = F.when(F.col("kind").isNull(), F.col(f"{DECODED}.{VALUE}"))
        rows = rows.withColumn(decoding.name, value).drop(DECODED)
    if event_time == "born":
        late = F.col("kind").isNull() & (_delay_us() > _span_micros(lateness))
        rows = rows.withColumn("reason", F.when(late, _late_reason()).otherwise(F.col("reason")))
        rows = rows.withColumn("kind", F.when(late, "late").otherwise(F.col("kind")))
    rows = rows.withColumn("kind", F.coalesce("kind", F.lit("data")))
    seconds = F.unix_seconds(_event_time(event_time))
    return rows.withColumn("date", _date_column(seconds)).withColumn("hour", _hour_column(seconds))


def drop_duplicates(rows: "DataFrame", window: timedelta, *, not_before_ms: int = 0) -> "DataFrame":
    """Drop rows whose id came before, within `window` by the clock of the pipeline.

    Watermarks drop rows that are too old. They use the time at which the row was taken, so that no row is: it is the
    same for all rows of a micro-batch, and is in the checkpoint. Event times would lose rows when queues are read
    unevenly. `not_before_ms` is the time of earlier batches: on a machine whose clock is behind, rows would seem too
    old. The column TAKEN stays, so that the next run gets its time.
    """
    if window < ID_WINDOW_MIN:
        return rows
    # Spark forgets an id when the watermark, which is this delay behind, has passed its time by this delay.
    delay_ms = round(window / timedelta(milliseconds=1) / 2)
    # Without an id, a message's place is one.
    place = F.concat_ws("/", "broker", "queue_id", "offset")
    dedup_id = F.when(F.col("message_id") != "", F.concat(F.lit("="), "message_id")).otherwise(place)
    return (
        rows.withColumn(TAKEN, F.greatest(F.current_timestamp(), F.timestamp_millis(F.lit(not_before_ms))))
        .withColumn(DEDUP_ID, F.concat(F.when(F.col("kind") == "malformed", "!").otherwise(""), dedup_id))
        .withWatermark(TAKEN, f"{delay_ms} milliseconds")
        .dropDuplicatesWithinWatermark(["topic", DEDUP_ID])
        .drop(DEDUP_ID)
    )


def checked_schema(json_schema: str) -> StructType:
    """The types of `id long, amount double`; ValueError for what is no such list."""
    try:
        schema = StructType.fromDDL(json_schema)
    except PySparkException as error:
        raise ValueError(f"json_schema {json_schema!r}: {error_line(error)}") from None
    if isinstance(schema, StructType) and schema.fields:
        return StructType(schema.fields)
    raise ValueError(f"json_schema {json_schema!r}: names and types are needed, such as 'id long, amount double'")


def _parsed_json(json_schema: str) -> "Column":
    """The body as a struct; what does not fit into it is in the field UNPARSED."""
    schema = checked_schema(json_schema).add(UNPARSED, "string")
    return F.from_json(F.col("body").cast("string"), schema, {"columnNameOfCorruptRecord": UNPARSED})


def _malformed_reason(event_time: "EventTime", *, json_schema: str | None, decoding: "BodyFormat | None") -> "Column":
    """Why a row is malformed, or null."""
    reasons = [F.when(F.col("corrupt").isNotNull(), F.concat(F.lit("body: "), "corrupt"))]
    if json_schema is not None:
        unparsed = F.col("json").isNull() | F.col(f"json.{UNPARSED}").isNotNull()
        is_text = F.is_valid_utf8(F.col("body").cast("string"))
        # Of all other bodies the Python workers get none.
        problem = json_problems(F.when(unparsed & is_text, F.col("body")), checked_schema(json_schema))
        reasons += [
            F.when(~is_text, "json: the body is not UTF-8"),
            F.when(unparsed, F.concat(F.lit("json: "), F.coalesce(problem, F.lit("there is no body")))),
        ]
    if decoding is not None:
        problem = F.col(f"{DECODED}.{PROBLEM}")
        reasons.append(F.when(problem.isNotNull(), F.concat(F.lit(f"{decoding.name}: "), problem)))
    if event_time == "born":
        ahead = -_delay_us()
        ahead_s = (ahead / 1_000_000).cast("long")
        text = F.concat(F.lit("clock: born "), ahead_s.cast("string"), F.lit(" s after it was stored"))
        reasons.append(F.when(ahead > _span_micros(WRONG_CLOCK_AFTER), text))
    return F.coalesce(*reasons)


def _late_reason() -> "Column":
    seconds = (_delay_us() / 1_000_000).cast("long")
    return F.concat(F.lit("late: stored "), seconds.cast("string"), F.lit(" s after it was born"))


def _event_time(event_time: "EventTime") -> "Column":
    stored, born = F.col("store_timestamp"), F.col("born_timestamp")
    if event_time == "stored":
        return F.coalesce(stored, born, F.timestamp_seconds(F.lit(0)))
    is_wrong = F.coalesce(-_delay_us() > _span_micros(WRONG_CLOCK_AFTER), F.lit(False))
    return F.coalesce(F.when(~is_wrong, born), stored, F.timestamp_seconds(F.lit(0)))


def _delay_us() -> "Column":
    """From birth to storing; null if either is unknown."""
    return F.unix_micros("store_timestamp") - F.unix_micros("born_timestamp")


def _span_micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _date_column(seconds: "Column") -> "Column":
    return F.date_from_unix_date(F.floor(seconds / DAY_S).cast("int")).cast("string")


def _hour_column(seconds: "Column") -> "Column":
    return F.lpad(F.pmod(F.floor(seconds / HOUR_S), F.lit(24)).cast("string"), 2, "0")
