"""From messages to Arrow columns, column by column: only those that are wanted, without an object for each row."""

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from ternmq.message_view import decoded_body
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ternmq_protos.pool import Timestamp

Systems = Sequence[pb.SystemProperties]
_MICROS = 1_000_000


class ColumnBuilder:
    """Collects messages of one queue and makes a batch of them. `rows` and `bytes` (of bodies) wait for it."""

    def __init__(self, schema: "StructType", topic: str, queue: str) -> None:
        # As Spark makes it, for it compares.
        self._schema = to_arrow_schema(schema, timezone="UTC")
        broker, _, queue_id = queue.rpartition("/")
        self._same: dict[str, object] = {"topic": topic, "broker": broker, "queue_id": int(queue_id)}
        self._messages: list[pb.Message] = []
        self.bytes = 0

    @property
    def rows(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[pb.Message]) -> None:
        self._messages += messages
        self.bytes += sum(len(message.body) for message in messages)

    def batch(self) -> pa.RecordBatch:
        """All that was collected; nothing waits afterwards."""
        messages, self._messages, self.bytes = self._messages, [], 0
        systems = [message.system_properties for message in messages]
        bodies = _Bodies(messages, systems)
        arrays = []
        for field in self._schema:
            if field.name in self._same:
                arrays.append(pa.repeat(pa.scalar(self._same[field.name], field.type), len(messages)))
            elif field.name == "properties":
                arrays.append(_maps(messages, field.type))
            elif field.name in _BODY_COLUMNS:
                arrays.append(pa.array(_BODY_COLUMNS[field.name](bodies), field.type))
            else:
                arrays.append(pa.array(_COLUMNS[field.name](systems), field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class _Bodies:
    """Bodies as their producers gave them, and why some can't be; unpacked at the first question for either."""

    def __init__(self, messages: Sequence[pb.Message], systems: Systems) -> None:
        self._messages = messages
        self._systems = systems
        self._bodies: list[bytes] | None = None
        self._problems: dict[int, str] = {}

    def bodies(self) -> list[bytes]:
        if self._bodies is None:
            self._bodies = [message.body for message in self._messages]
            for row, system in enumerate(self._systems):
                if system.body_encoding == pb.GZIP:
                    self._unpack(row, self._bodies)
        return self._bodies

    def problems(self) -> list[str | None]:
        bodies = self.bodies()
        if not self._problems:
            return [None] * len(bodies)
        return [self._problems.get(row) for row in range(len(bodies))]

    def _unpack(self, row: int, bodies: list[bytes]) -> None:
        try:
            bodies[row] = decoded_body(bodies[row])
        except zlib.error as error:
            self._problems[row] = f"the body says gzip and can't be read: {error}"


def _maps(messages: Sequence[pb.Message], kind: pa.MapType) -> pa.MapArray:
    """Properties as Arrow's maps. Built of three flat arrays: a list of pairs for each row takes four times as long."""
    ends = [0]
    names: list[str] = []
    values: list[str] = []
    for message in messages:
        properties = message.user_properties
        if properties:
            names += properties
            values += properties.values()
        ends.append(len(names))
    offsets = pa.array(ends, pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.array(names, kind.key_type), pa.array(values, kind.item_type), kind)


def _micros(time: "Timestamp") -> int:
    return time.seconds * _MICROS + time.nanos // 1000


def _born(systems: Systems) -> list[int | None]:
    return [_micros(one.born_timestamp) if one.HasField("born_timestamp") else None for one in systems]


def _stored(systems: Systems) -> list[int | None]:
    return [_micros(one.store_timestamp) if one.HasField("store_timestamp") else None for one in systems]


_COLUMNS: dict[str, Callable[[Systems], list[Any]]] = {
    "offset": lambda systems: [one.queue_offset for one in systems],
    "message_id": lambda systems: [one.message_id for one in systems],
    "keys": lambda systems: [list(one.keys) for one in systems],
    "tag": lambda systems: [one.tag or None for one in systems],
    "message_group": lambda systems: [one.message_group or None for one in systems],
    "born_timestamp": _born,
    "store_timestamp": _stored,
    "delivery_attempt": lambda systems: [one.delivery_attempt or 1 for one in systems],
}
_BODY_COLUMNS: dict[str, Callable[[_Bodies], list[Any]]] = {
    "body": lambda bodies: bodies.bodies(),
    "corrupt": lambda bodies: bodies.problems(),
}
