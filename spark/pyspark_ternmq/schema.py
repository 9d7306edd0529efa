"""The columns of a message. A schema that the user gives takes some of them, by name, and only these are made."""

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
    ]
)


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """The columns that are wanted; WrongOption for one that no message has, or that has another type."""
    # Brings the client library, which who asks for the schema alone does not need.
    from pyspark_ternmq.options import WrongOption, nearest

    known = {field.name: field for field in SCHEMA}
    if not schema:  # rows without columns come to nothing on their way to Spark, and count() would be 0
        raise WrongOption('the schema names no column; to count rows, take one: .schema("offset long")')
    for field in schema:
        ours = known.get(field.name)
        if ours is None:
            raise WrongOption(f"a message has no column {field.name!r}{nearest(field.name, known)}")
        if field.dataType.simpleString() != ours.dataType.simpleString():
            raise WrongOption(
                f"column {field.name} is {ours.dataType.simpleString()}, not {field.dataType.simpleString()}: "
                "leave the schema out, or name a part of the columns with their own types"
            )
    return tuple(field.name for field in schema)
