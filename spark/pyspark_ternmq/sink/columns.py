"""Which column of the rows holds which part of a message; checked on the driver, before anything is sent.

Names are compared without case, as Spark does. Columns that only the source can know, such as the offset, are passed
over, so that what was read from a topic can be written to another as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_ternmq.options import WrongOption, nearest

_ALLOWED = {
    "topic": "string",
    "body": "binary or string",
    "keys": "array<string> or string",
    "tag": "string",
    "message_group": "string",
    "delivery_timestamp": "timestamp",
    "properties": "map<string,string>",
    "message_id": "string",
}
_OF_THE_SOURCE = frozenset(
    {"broker", "queue_id", "offset", "born_timestamp", "store_timestamp", "delivery_attempt", "corrupt"}
)


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the parts of a message are in a row; `places` has only those that rows have."""

    places: Mapping[str, int]


def checked_columns(schema: StructType, *, topic: str | None) -> Columns:
    """The columns of a write; WrongOption for one that is missing, unknown or of another type.

    `topic` is the option, which counts more than the column. A column of type void, as `lit(None)` makes it, is as good
    as none.
    """
    places: dict[str, int] = {}
    for place, field in enumerate(schema):
        name = field.name.lower()
        if name in places:
            raise WrongOption(f"two columns have the name {name}")
        if name not in _ALLOWED:
            if name not in _OF_THE_SOURCE:
                raise WrongOption(f"a message has no column {field.name!r}{nearest(name, _ALLOWED)}")
            continue
        if name == "topic" and topic is not None:
            continue
        if isinstance(field.dataType, NullType):
            continue
        if not _is_allowed(name, field.dataType):
            raise WrongOption(f"column {field.name} is {field.dataType.simpleString()}; it must be {_ALLOWED[name]}")
        places[name] = place
    if "body" not in places:
        raise WrongOption(f"the rows have no column body ({_ALLOWED['body']})")
    if topic is None and "topic" not in places:
        raise WrongOption("which topic? Set option topic, or give the rows a column topic (string)")
    return Columns(places)


def _is_allowed(name: str, kind: DataType) -> bool:
    if name == "body":
        return isinstance(kind, BinaryType | StringType)
    if name == "delivery_timestamp":
        return isinstance(kind, TimestampType)
    if name == "properties":
        return (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if name == "keys" and isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType)
    return isinstance(kind, StringType)
