"""From messages to Arrow columns, column by column: only those that are wanted, without an object for each row.

Values are taken out of a part of messages as it comes, while it is in the processor's caches, and no message is kept.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from ternmq.message_view import decoded_body
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ternmq_protos.pool import Timestamp

_MICROS = 1_000_000
_LOG_APPEND_TIME = 1  # as Kafka numbers the types of its timestamps
_GZIP = int(pb.GZIP)


class ColumnBuilder:
    """Collects messages of one queue and makes a batch of them. `rows` and `bytes` (of bodies) wait for it."""

    def __init__(self, schema: "StructType", topic: str, queue: str) -> None:
        # As Spark makes it, for it compares.
        self._schema = to_arrow_schema(schema, timezone="UTC")
        broker, _, queue_id = queue.rpartition("/")
        self._same: dict[str, object] = {
            "topic": topic,
            "broker": broker,
            "queue_id": int(queue_id),
            "partition": int(queue_id),
            "timestampType": _LOG_APPEND_TIME,
        }
        self._begin()

    def _begin(self) -> None:
        self.rows = 0
        self.bytes = 0
        self._columns = [self._column(field.name) for field in self._schema]

    def _column(self, name: str) -> "_Column":
        if name in self._same:
            return _Same(self._same[name])
        if name == "keys":
            return _Lists()
        if name == "headers":
            return _Headers()
        return _Maps() if name == "properties" else _Plain(_VALUES[name])

    def add(self, messages: Sequence[pb.Message]) -> None:
        part = _Part(messages)
        for column in self._columns:
            column.add(part)
        self.rows += len(messages)
        self.bytes += sum(map(len, part.stored))

    def batch(self) -> pa.RecordBatch:
        """All that was collected; nothing waits afterwards."""
        arrays = [column.array(field.type) for column, field in zip(self._columns, self._schema, strict=True)]
        self._begin()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Part:
    """Messages that came together, and what several columns ask of them."""

    def __init__(self, messages: Sequence[pb.Message]) -> None:
        self.messages = messages
        self.systems = [message.system_properties for message in messages]
        self.stored = [message.body for message in messages]  # once: each look at one copies it

    @cached_property
    def _unpacked(self) -> "_Unpacked":
        unpacked = _Unpacked(self.stored.copy(), {})
        for row, system in enumerate(self.systems):
            if system.body_encoding == _GZIP:
                try:
                    unpacked.bodies[row] = decoded_body(self.stored[row])
                except zlib.error as error:
                    unpacked.problems[row] = f"the body says gzip and can't be read: {error}"
        return unpacked

    def bodies(self) -> list[bytes]:
        """As their producers gave them, if they can be unpacked."""
        return self._unpacked.bodies

    def problems(self) -> list[str | None]:
        """Why some can't be."""
        problems = self._unpacked.problems
        if not problems:
            return [None] * len(self.messages)
        return [problems.get(row) for row in range(len(self.messages))]


@dataclass(frozen=True, slots=True)
class _Unpacked:
    bodies: list[bytes]
    problems: dict[int, str]


class _Column(Protocol):
    """The values of one column, for one batch."""

    def add(self, part: _Part) -> None: ...

    def array(self, kind: pa.DataType) -> pa.Array: ...


class _Same:
    """The same value in all rows."""

    def __init__(self, value: object) -> None:
        self._value = value
        self._rows = 0

    def add(self, part: _Part) -> None:
        self._rows += len(part.messages)

    def array(self, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(self._value, kind), self._rows)


class _Plain:
    """What `take` finds, a value for each message."""

    def __init__(self, take: "Callable[[_Part], list[Any]]") -> None:
        self._take = take
        self._values: list[Any] = []

    def add(self, part: _Part) -> None:
        self._values += self._take(part)

    def array(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._values, kind)


# Arrow's nested arrays are built of flat ones: a list, or a list of pairs, for each row takes four times as long.


class _Lists:
    """The keys of messages."""

    def __init__(self) -> None:
        self._ends = [0]
        self._keys: list[str] = []

    def add(self, part: _Part) -> None:
        ends, keys = self._ends, self._keys
        for system in part.systems:
            keys += system.keys
            ends.append(len(keys))

    def array(self, kind: pa.ListType) -> pa.ListArray:
        return pa.ListArray.from_arrays(pa.array(self._ends, pa.int32()), pa.array(self._keys, kind.value_type), kind)


class _Maps:
    """The properties of messages."""

    def __init__(self) -> None:
        self._ends = [0]
        self._names: list[str] = []
        self._values: list[str] = []

    def add(self, part: _Part) -> None:
        ends, names, values = self._ends, self._names, self._values
        for message in part.messages:
            properties = message.user_properties
            for name in properties:  # its items() and values() are slow
                names.append(name)
                values.append(properties[name])
            ends.append(len(names))

    def array(self, kind: pa.MapType) -> pa.MapArray:
        names, values = pa.array(self._names, kind.key_type), pa.array(self._values, kind.item_type)
        return pa.MapArray.from_arrays(pa.array(self._ends, pa.int32()), names, values, kind)


class _Headers(_Maps):
    """The same as Kafka's headers."""

    def array(self, kind: pa.ListType) -> pa.ListArray:
        pair = kind.value_type
        names = pa.array(self._names, pair.field("key").type)
        values = pa.array([value.encode() for value in self._values], pair.field("value").type)
        pairs = pa.StructArray.from_arrays([names, values], fields=[pair.field("key"), pair.field("value")])
        return pa.ListArray.from_arrays(pa.array(self._ends, pa.int32()), pairs, kind)


def _born(part: _Part) -> list[int | None]:
    return _micros([one.born_timestamp if one.HasField("born_timestamp") else None for one in part.systems])


def _stored(part: _Part) -> list[int | None]:
    return _micros([one.store_timestamp if one.HasField("store_timestamp") else None for one in part.systems])


def _due(part: _Part) -> list[int | None]:
    return _micros([one.delivery_timestamp if one.HasField("delivery_timestamp") else None for one in part.systems])


def _kafka_keys(part: _Part) -> list[bytes | None]:
    """What orders a message, or what it is searched by first."""
    return [
        one.message_group.encode() if one.message_group else one.keys[0].encode() if one.keys else None
        for one in part.systems
    ]


def _micros(times: "Sequence[Timestamp | None]") -> list[int | None]:
    return [None if time is None else time.seconds * _MICROS + time.nanos // 1000 for time in times]


_VALUES: dict[str, Callable[[_Part], list[Any]]] = {
    "offset": lambda part: [one.queue_offset for one in part.systems],
    "message_id": lambda part: [one.message_id for one in part.systems],
    "tag": lambda part: [one.tag or None for one in part.systems],
    "message_group": lambda part: [one.message_group or None for one in part.systems],
    "body": lambda part: part.bodies(),
    "born_timestamp": _born,
    "store_timestamp": _stored,
    "delivery_attempt": lambda part: [one.delivery_attempt or 1 for one in part.systems],
    "corrupt": lambda part: part.problems(),
    "key": _kafka_keys,
    "value": lambda part: part.bodies(),
    "timestamp": _stored,
    "delivery_timestamp": _due,
    "priority": lambda part: [one.priority if one.HasField("priority") else None for one in part.systems],
}
