"""Why a write failed, in words that name the row."""

from ternmq import ClientError
from ternmq_protos.v2 import definition_pb2 as pb

# The codes of a broker about one message, and the column of each; other codes are about a whole request.
COLUMN_OF_CODE: dict[int, str] = {
    pb.ILLEGAL_TOPIC: "topic",
    pb.MESSAGE_BODY_EMPTY: "body",
    pb.MESSAGE_BODY_TOO_LARGE: "body",
    pb.MESSAGE_CORRUPTED: "body",
    pb.PAYLOAD_TOO_LARGE: "body",
    pb.ILLEGAL_MESSAGE_TAG: "tag",
    pb.ILLEGAL_MESSAGE_KEY: "keys",
    pb.ILLEGAL_MESSAGE_GROUP: "message_group",
    pb.ILLEGAL_MESSAGE_ID: "message_id",
    pb.ILLEGAL_DELIVERY_TIME: "delivery_timestamp",
    pb.ILLEGAL_MESSAGE_PROPERTY_KEY: "properties",
    pb.MESSAGE_PROPERTIES_TOO_LARGE: "properties, keys, tag",
    pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: "message_group, delivery_timestamp, priority",
}


class WriteFailed(Exception):
    """A row was not stored, or it isn't known that it was; Spark may run the task again."""


def row_failed(error: ClientError, *, topic: str | None, row: int, partition: int) -> WriteFailed:
    """The error of one row: the error of the broker or client library, then the row's place."""
    column = COLUMN_OF_CODE.get(error.code)
    place = f"row {row} of partition {partition}" + (f", column {column}" if column else "")
    return WriteFailed(f"{error} ({f'topic {topic}, ' if topic is not None else ''}{place})")


def null_row(column: str, *, row: int, partition: int, why: str = "every message needs one") -> WriteFailed:
    hint = ", or set option topic" if column == "topic" else ""
    return WriteFailed(f"column {column} is null in row {row} of partition {partition}: {why}{hint}")


def not_text(column: str, *, row: int, partition: int) -> WriteFailed:
    """Keys and properties of messages are text, where Kafka has bytes."""
    return WriteFailed(
        f"column {column} is no UTF-8 text in row {row} of partition {partition}; messages have text there"
    )
