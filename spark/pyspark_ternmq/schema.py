"""The columns of a message. A schema of the user selects some of them by name, and only these are built.

With `columnNames=kafka` they are those of Spark's source for Kafka, with its types, so that a query moves as it is; a
schema may take some of ours beside them.
"""

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("broker", StringType(), nullable=False),
        StructField("queue_id", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("message_id", StringType(), nullable=False),
        StructField("keys", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("tag", StringType()),
        StructField("message_group", StringType()),
        StructField("body", BinaryType(), nullable=False),
        StructField("properties", MapType(StringType(), StringType(), valueContainsNull=False), nullable=False),
        StructField("born_timestamp", TimestampType()),
        StructField("store_timestamp", TimestampType()),
        StructField("delivery_attempt", IntegerType(), nullable=False),
        # Why the body could not be unpacked; it is as it was stored then.
        StructField("corrupt", StringType()),
        StructField("delivery_timestamp", TimestampType()),
        StructField("priority", IntegerType()),
    ]
)


KAFKA_SCHEMA = StructType(
    [
        # The message group, or the first key.
        StructField("key", BinaryType()),
        StructField("value", BinaryType(), nullable=False),
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("timestamp", TimestampType()),
        # 1: the time is the broker's, as `timestamp` is.
        StructField("timestampType", IntegerType(), nullable=False),
    ]
)
HEADERS = StructField(
    "headers",
    ArrayType(
        StructType(
            [StructField("key", StringType(), nullable=False), StructField("value", BinaryType(), nullable=False)]
        ),
        containsNull=False,
    ),
    nullable=False,
)


def schema_of(options: Mapping[str, str]) -> StructType:
    """The columns of a read that names none. Errors of options are raised when the options are read."""
    values = {name.lower(): value.strip().lower() for name, value in options.items()}
    if values.get("columnnames") != "kafka":
        return SCHEMA
    has_headers = values.get("includeheaders") in ("true", "1", "yes")
    return StructType([*KAFKA_SCHEMA, HEADERS]) if has_headers else KAFKA_SCHEMA


def checked_columns(schema: StructType, *, kafka_names: bool = False) -> tuple[str, ...]:
    """Return the requested columns. Raises WrongOption for an unknown column, or another type."""
    # Imports the client library, which is not needed for the schema alone.
    from pyspark_ternmq.options import WrongOption, nearest_name

    known = {field.name: field for field in SCHEMA}
    if kafka_names:
        known |= {field.name: field for field in (*KAFKA_SCHEMA, HEADERS)}
    if not schema:  # rows without columns come to nothing on their way to Spark, and count() would be 0
        raise WrongOption('the schema names no column; to count rows, take one: .schema("offset long")')
    for field in schema:
        ours = known.get(field.name)
        if ours is None:
            raise WrongOption(f"a message has no column {field.name!r}{nearest_name(field.name, known)}")
        if field.dataType.simpleString() != ours.dataType.simpleString():
            raise WrongOption(
                f"column {field.name} is {ours.dataType.simpleString()}, not {field.dataType.simpleString()}: "
                "leave the schema out, or name a part of the columns with their own types"
            )
    return tuple(field.name for field in schema)
