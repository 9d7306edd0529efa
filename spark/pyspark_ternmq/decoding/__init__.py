"""Bodies in Avro and Protobuf as columns, without a jar: for queries of your own.

    decoded = avro("body", Path("order.avsc").read_text())
    orders = messages.select(decoded.alias("order")).where("order.problem IS NULL").select("order.value.*")

Each gives a struct of `value`, a struct of the schema's fields, and `problem`, which says why a body has no value.
The pipeline of the lake does the same by `--avro-schema` and `--protobuf-descriptor`. Avro needs the extra `avro`.
"""

from typing import TYPE_CHECKING

from pyspark_ternmq.decoding.limits import WrongSchema

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["WrongSchema", "avro", "protobuf"]


def avro(column: "Column | str", schema: str) -> "Column":
    """Decode bodies in Avro, each without a header; `schema` is its JSON, of a record.

    WrongSchema, a ValueError, for a schema that is none or can't be columns.
    """
    from pyspark_ternmq.decoding.avro_format import AvroFormat
    from pyspark_ternmq.decoding.avro_schema import AvroSchema
    from pyspark_ternmq.decoding.columns import decode_column

    return decode_column(_as_column(column), AvroFormat(AvroSchema(schema)))


def protobuf(column: "Column | str", descriptor_set: bytes, message: str) -> "Column":
    """Decode bodies in Protobuf: messages of the full name `message`, described by what
    `protoc --include_imports --descriptor_set_out` writes.

    Raises WrongSchema, a ValueError, if the descriptor set is invalid, lacks the message, or can't be columns.
    """
    from pyspark_ternmq.decoding.columns import decode_column
    from pyspark_ternmq.decoding.protobuf_body import ProtobufFormat
    from pyspark_ternmq.decoding.protobuf_schema import ProtobufSchema

    return decode_column(_as_column(column), ProtobufFormat(ProtobufSchema(descriptor_set, message)))


def _as_column(column: "Column | str") -> "Column":
    from pyspark.sql import functions

    return functions.col(column) if isinstance(column, str) else column
