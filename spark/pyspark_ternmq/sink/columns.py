"""Maps columns of rows to parts of a message; checked on the driver, before anything is sent.

Names are compared without case, as Spark does. Nothing is passed over without a word: columns that only a broker gives,
such as the offset, are refused, unless an option says that rows are as the source reads them.

Kafka's names   with `columnNames=kafka` rows may have what Spark's sink for Kafka takes: `key`, `value`, `headers`,
                `partition` and `topic`. They become the parts here under our names; `key` and `headers` stay what they
                are, since their values have another form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_ternmq.options import WrongOption, nearest_name

_ALLOWED = {
    "topic": "string",
    "body": "binary or string",
    "keys": "array<string> or string",
    "tag": "string",
    "message_group": "string",
    "delivery_timestamp": "timestamp",
    "priority": "int",
    "properties": "map<string,string>",
    "message_id": "string",
    "queue_id": "int",
    "broker": "string",
}
_ALLOWED_OF_KAFKA = {"key": "binary or string", "headers": "array<struct<key:string,value:binary>>"}
_OF_THE_SOURCE = frozenset({"offset", "born_timestamp", "store_timestamp", "delivery_attempt", "corrupt"})
# Where rows that were read came from; in rows that are written it is where they go.
_PLACE = frozenset({"broker", "queue_id"})
_OF_KAFKA_S_SOURCE = frozenset({"offset", "timestamp", "timestamptype"})
_KAFKA_NAMES = {"value": "body", "partition": "queue_id"}
# Parts that two columns can't both have.
_SAME = {"headers": "properties", "key": "keys"}


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The places of a message's parts in a row; `places` has only those that rows have."""

    places: Mapping[str, int]


def checked_columns(
    schema: StructType, *, topic: str | None, kafka_names: bool = False, ignores_source: bool = False
) -> RowColumns:
    """Return the columns of a write. Raises WrongOption if one is missing, unknown or of another type.

    `topic` is the option, which counts more than the column. A column of type void, as `lit(None)` makes it, is as good
    as none. `ignores_source` leaves out what only the source knows, and where its rows were.
    """
    places: dict[str, int] = {}
    allowed = {**_ALLOWED, **(_ALLOWED_OF_KAFKA if kafka_names else {})}
    names = {part: name for name, part in _KAFKA_NAMES.items()} if kafka_names else {}
    for place, field in enumerate(schema):
        part = _message_part(field.name, kafka_names=kafka_names)
        if part in places:
            raise WrongOption(f"two columns have the name {names.get(part, part)}")
        if _is_left_out(part, field.name, kafka_names=kafka_names, ignores_source=ignores_source):
            continue
        if part not in allowed:
            raise WrongOption(f"a message has no column {field.name!r}{nearest_name(field.name.lower(), allowed)}")
        if (part == "topic" and topic is not None) or isinstance(field.dataType, NullType):
            continue
        if not _TYPES[part](field.dataType):
            raise WrongOption(f"column {field.name} is {field.dataType.simpleString()}; it must be {allowed[part]}")
        places[part] = place
    _check_together(places, topic, names)
    return RowColumns(places)


def _message_part(name: str, *, kafka_names: bool) -> str:
    lower = name.lower()
    return _KAFKA_NAMES.get(lower, lower) if kafka_names else lower


def _is_left_out(part: str, name: str, *, kafka_names: bool, ignores_source: bool) -> bool:
    """Whether the column is one of the source, which an option leaves out; WrongOption without that option."""
    of_source = _OF_THE_SOURCE | (_OF_KAFKA_S_SOURCE if kafka_names else frozenset())
    if ignores_source:
        return part in of_source | _PLACE
    if part in of_source:
        raise WrongOption(
            f"column {name} can't be written, as a broker gives it: drop it, or set the option ignoreSourceColumns to "
            "true, which leaves out all that the source reads and a producer does not say"
        )
    return False


def _check_together(places: Mapping[str, int], topic: str | None, names: Mapping[str, str]) -> None:
    for part, other in _SAME.items():
        if part in places and other in places:
            raise WrongOption(f"columns {part} and {other} say the same: leave one of them out")
    if "body" not in places:
        raise WrongOption(f"the rows have no column {names.get('body', 'body')} ({_ALLOWED['body']})")
    if topic is None and "topic" not in places:
        raise WrongOption("which topic? Set option topic, or give the rows a column topic (string)")
    if "broker" in places and "queue_id" not in places:
        raise WrongOption("column broker means nothing without queue_id, the queue on it")


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, ByteType | ShortType | IntegerType | LongType)


def _is_keys(kind: DataType) -> bool:
    return _is_text(kind.elementType if isinstance(kind, ArrayType) else kind)


def _is_properties(kind: DataType) -> bool:
    return isinstance(kind, MapType) and _is_text(kind.keyType) and _is_text(kind.valueType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType}
    return fields.keys() == {"key", "value"} and _is_text(fields["key"]) and _is_bytes(fields["value"])


_TYPES: dict[str, Callable[[DataType], bool]] = {
    "topic": _is_text,
    "body": _is_bytes,
    "keys": _is_keys,
    "key": _is_bytes,
    "tag": _is_text,
    "message_group": _is_text,
    "delivery_timestamp": lambda kind: isinstance(kind, TimestampType),
    "priority": _is_number,
    "properties": _is_properties,
    "headers": _is_headers,
    "message_id": _is_text,
    "queue_id": _is_number,
    "broker": _is_text,
}
