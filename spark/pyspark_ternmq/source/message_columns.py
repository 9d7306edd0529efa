"""The columns of a batch of messages, built by Arrow without a Python object for each message.

`wire_fields` finds where each field of each message lies in the bytes of the answers, and Arrow copies the contents of
one field of all messages into one column. Only requested columns are built.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_ternmq.source.wire_fields import PADDING_BYTES, Bytes, Found, Ints, NotScannable, find_fields, scannable
from ternmq.messages.message_view import decompress_body
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from ternmq_common.pulled_rows import PulledRows

_MICROS = 1_000_000
_MICROS_PER_MILLI = 1000
_NANOS_PER_MICRO = 1000
_GZIP = int(pb.GZIP)

# Tags (field number * 8 + wire type): of PullMessageResponse, Message, an entry of a map, Timestamp, SystemProperties.
_MESSAGE = 2 << 3 | 2
_USER_PROPERTIES, _SYSTEM_PROPERTIES, _BODY = (number << 3 | 2 for number in (2, 3, 4))
_ENTRY_KEY, _ENTRY_VALUE = (number << 3 | 2 for number in (1, 2))
_SECONDS, _NANOS = (number << 3 for number in (1, 2))
_TAG, _KEYS, _MESSAGE_ID, _BORN, _STORED, _DUE, _GROUP = (number << 3 | 2 for number in (1, 2, 3, 7, 9, 11, 17))
_ENCODING, _OFFSET, _ATTEMPT, _PRIORITY = (number << 3 for number in (5, 14, 16, 22))

Mask = npt.NDArray[np.bool_]


class _FieldPlaces:
    """The places of the fields of some messages, by tag."""

    def __init__(self, data: Bytes, starts: Ints, stops: Ints) -> None:
        self._count = len(starts)
        self._found: dict[int, list[Found]] = {}
        for found in find_fields(data, starts, stops):
            self._found.setdefault(found.tag, []).append(found)

    def last(self, tag: int) -> tuple[Ints, Ints, Mask]:
        """Values and sizes of a field that a message has at most once, and which messages have it; 0 for the others.
        The last one counts if it is there more often, as protobuf has it."""
        found = self._found.get(tag, [])
        if len(found) == 1 and len(found[0].rows) == self._count:
            return found[0].values, found[0].sizes, np.ones(self._count, np.bool_)
        values, sizes = np.zeros(self._count, np.int64), np.zeros(self._count, np.int64)
        present = np.zeros(self._count, np.bool_)
        for one in found:
            values[one.rows], sizes[one.rows], present[one.rows] = one.values, one.sizes, True
        return values, sizes, present

    def nested(self, tag: int) -> tuple[Ints, Ints, Mask]:
        """The same for a nested message. Protobuf would merge two of them, so that is `NotScannable`."""
        if sum(len(one.rows) for one in self._found.get(tag, [])) > self._count:
            raise NotScannable("a nested message is there twice")
        values, sizes, present = self.last(tag)
        if sum(len(one.rows) for one in self._found.get(tag, [])) > int(present.sum()):
            raise NotScannable("a nested message is there twice")
        return values, sizes, present

    def repeated(self, tag: int) -> tuple[Ints, Ints, Ints]:
        """All of a field: the numbers of their messages, where they begin and their sizes; in order."""
        found = self._found.get(tag, [])
        if not found:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        rows, starts, sizes = (
            np.concatenate([getattr(one, name) for one in found]) for name in ("rows", "values", "sizes")
        )
        if len(found) > 1:
            # Messages lie one behind the other, so this is the order of messages and within them.
            order = np.argsort(starts, kind="stable")
            rows, starts, sizes = rows[order], starts[order], sizes[order]
        return rows, starts, sizes


class MessageColumns:
    """The messages of one batch: their bytes, and where their fields are. Its methods build a column of that Arrow type
    each; NotScannable, ArrowInvalid: these are messages for another decoder."""

    def __init__(self, data: bytes, starts: Ints, stops: Ints) -> None:
        """The messages are `data[start:stop]`, and `PADDING_BYTES` follow the last one."""
        self.count = len(starts)
        self._buffer = pa.py_buffer(data)
        self._data: Bytes = scannable(data)
        self._fields = _FieldPlaces(self._data, starts, stops)

    @classmethod
    def of_responses(cls, responses: Sequence[bytes]) -> "MessageColumns":
        """Columns of serialized `PullMessageResponse`s, each with one message."""
        data = b"".join((*responses, bytes(PADDING_BYTES)))
        lengths = np.fromiter(map(len, responses), np.int64, len(responses))
        stops = np.cumsum(lengths)
        starts, sizes, present = _FieldPlaces(scannable(data), stops - lengths, stops).nested(_MESSAGE)
        if not present.all():
            raise NotScannable("a response has no message")
        return cls(data, starts, starts + sizes)

    @cached_property
    def _system_fields(self) -> _FieldPlaces:
        starts, sizes, _ = self._fields.nested(_SYSTEM_PROPERTIES)
        return _FieldPlaces(self._data, starts, starts + sizes)

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        """Build the column of that name."""
        return _COLUMNS[name](self, kind)

    # --- columns of numbers

    def offsets(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._system_fields.last(_OFFSET)[0]).cast(kind)

    def attempts(self, kind: pa.DataType) -> pa.Array:
        """The first one is left out by some servers."""
        return pa.array(np.maximum(_as_int32(self._system_fields.last(_ATTEMPT)[0]), 1)).cast(kind)

    def priorities(self, kind: pa.DataType) -> pa.Array:
        values, _, present = self._system_fields.last(_PRIORITY)
        return pa.array(_as_int32(values), mask=~present).cast(kind)

    def times(self, tag: int, kind: pa.DataType) -> pa.Array:
        """A Timestamp in microseconds."""
        starts, sizes, present = self._system_fields.nested(tag)
        fields = _FieldPlaces(self._data, starts, starts + sizes)
        micros = fields.last(_SECONDS)[0] * _MICROS + fields.last(_NANOS)[0] // _NANOS_PER_MICRO
        return pa.array(micros, mask=~present).cast(kind)

    # --- columns of text and bytes

    def texts(self, tag: int, kind: pa.DataType) -> pa.Array:
        """Empty where a message has none."""
        return self._copy_column(*self._system_fields.last(tag), kind)

    def filled_texts(self, tag: int, kind: pa.DataType) -> pa.Array:
        """Null where a message has none, or an empty one."""
        starts, sizes, _ = self._system_fields.last(tag)
        return self._copy_column(starts, sizes, sizes > 0, kind, absent_is_null=True)

    def kafka_keys(self, kind: pa.DataType) -> pa.Array:
        """The message group, which orders messages; the first key where there is none."""
        starts, sizes, _ = self._system_fields.last(_GROUP)
        has_group = sizes > 0
        rows, key_starts, key_sizes = self._system_fields.repeated(_KEYS)
        first = np.searchsorted(rows, np.arange(self.count))
        has_key = np.bincount(rows, minlength=self.count) > 0
        keyed = has_key & ~has_group
        starts, sizes = starts.copy(), sizes.copy()
        starts[keyed], sizes[keyed] = key_starts[first[keyed]], key_sizes[first[keyed]]
        return self._copy_column(starts, sizes, has_group | has_key, kind, absent_is_null=True)

    def bodies(self, kind: pa.DataType) -> pa.Array:
        """Bodies as producers gave them; as they were stored if they can't be unpacked."""
        if not self._unpacked:
            return self._copy_column(*self._fields.last(_BODY), kind)
        bodies = self._copy_column(*self._fields.last(_BODY), pa.binary()).to_pylist()
        for row, (body, problem) in self._unpacked.items():
            if problem is None:
                bodies[row] = body
        return pa.array(bodies, kind)

    def problems(self, kind: pa.DataType) -> pa.Array:
        """Why bodies could not be unpacked."""
        if not self._unpacked:
            return pa.nulls(self.count, kind)
        return pa.array([self._unpacked.get(row, (b"", None))[1] for row in range(self.count)], kind)

    @cached_property
    def _unpacked(self) -> dict[int, tuple[bytes, str | None]]:
        """Bodies that were compressed, by row, and what is wrong with them."""
        unpacked: dict[int, tuple[bytes, str | None]] = {}
        starts, sizes, _ = self._fields.last(_BODY)
        for row in np.flatnonzero(self._system_fields.last(_ENCODING)[0] == _GZIP).tolist():
            stored = self._data[starts[row] : starts[row] + sizes[row]].tobytes()
            try:
                unpacked[row] = decompress_body(stored), None
            except zlib.error as error:
                unpacked[row] = b"", f"the body says gzip and can't be read: {error}"
        return unpacked

    # --- columns of lists and maps

    def keys(self, kind: pa.ListType) -> pa.ListArray:
        rows, starts, sizes = self._system_fields.repeated(_KEYS)
        texts = self._copy_column(starts, sizes, None, kind.value_type)
        return pa.ListArray.from_arrays(self._list_ends(rows), texts, kind)

    def properties(self, kind: pa.MapType) -> pa.MapArray:
        names, values = self._property_columns(kind.key_type, kind.item_type)
        return pa.MapArray.from_arrays(self._entry_ends, names, values, kind)

    def headers(self, kind: pa.ListType) -> pa.ListArray:
        """The properties as Kafka's source has headers."""
        pair = kind.value_type
        names, values = self._property_columns(pair.field("key").type, pair.field("value").type)
        pairs = pa.StructArray.from_arrays([names, values], fields=[pair.field("key"), pair.field("value")])
        return pa.ListArray.from_arrays(self._entry_ends, pairs, kind)

    @cached_property
    def _entry_ends(self) -> pa.Array:
        return self._list_ends(self._fields.repeated(_USER_PROPERTIES)[0])

    def _property_columns(self, name_kind: pa.DataType, value_kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
        """Names and values of all properties. A name twice in a message is `NotScannable`: only the last one counts."""
        rows, starts, sizes = self._fields.repeated(_USER_PROPERTIES)
        fields = _FieldPlaces(self._data, starts, starts + sizes)
        names = self._copy_column(*fields.last(_ENTRY_KEY), name_kind)
        # Invalid text is refused also where the column has bytes.
        values = self._copy_column(*fields.last(_ENTRY_VALUE), pa.string()).cast(value_kind)
        if len(rows) and int(np.bincount(rows).max()) > 1:
            numbers = names.dictionary_encode().indices.to_numpy().astype(np.int64)
            if len(np.unique(rows * len(names) + numbers)) < len(names):
                raise NotScannable("a message has a property twice")
        return names, values

    def _list_ends(self, rows: Ints) -> pa.Array:
        """The offsets of a list array whose elements belong to these rows."""
        ends = np.zeros(self.count + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=self.count), out=ends[1:])
        return pa.array(ends)

    def _copy_column(
        self, starts: Ints, sizes: Ints, present: Mask | None, kind: pa.DataType, *, absent_is_null: bool = False
    ) -> pa.Array:
        """These parts of the messages' bytes as one array; `present` None means all. ArrowInvalid for text that is no
        UTF-8."""
        count = len(starts)
        every = present is None or np.count_nonzero(present) == count
        if present is not None and not every:
            starts, sizes = starts[present], sizes[present]
        # The bytes as an array in which every second element is a part, those between are what lies between parts, and
        # the last one is empty. Parts are in the order of the bytes.
        ends = np.zeros(2 * len(starts) + 2, np.int32)
        ends[1:-1:2], ends[2:-1:2] = starts, starts + sizes
        ends[-1] = ends[-2]
        pieces = pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), self._buffer])
        places = np.arange(1, len(ends) - 1, 2, dtype=np.int32)
        if present is None or every:
            return pieces.take(pa.array(places)).cast(kind)
        chosen = np.full(count, len(ends) - 2, np.int32)
        chosen[present] = places
        return pieces.take(pa.array(chosen, mask=~present if absent_is_null else None)).cast(kind)


class RowColumns(MessageColumns):
    """The messages of one batch that came by column: their offsets and times are numbers already."""

    def __init__(self, parts: "Sequence[PulledRows]") -> None:
        offsets, stored_ms, rest_sizes, system_sizes = zip(*map(_read_numbers, parts), strict=True)
        # The parts lie behind each other, each with all its `rest`s before all its `system`s.
        rests: list[Ints] = []
        systems: list[Ints] = []
        end = 0
        for rest, system in zip(rest_sizes, system_sizes, strict=True):
            edges = end + np.concatenate([[0], np.cumsum(np.concatenate([rest, system]))])
            rests.append(edges[: len(rest)])
            systems.append(edges[len(rest) : -1])
            end = int(edges[-1])
        data = b"".join((*(part.data[part.contents_at :] for part in parts), bytes(PADDING_BYTES)))
        starts = np.concatenate(rests)
        super().__init__(data, starts, starts + np.concatenate(rest_sizes))
        self._offsets, self._stored_ms = np.concatenate(offsets), np.concatenate(stored_ms)
        self._system_starts = np.concatenate(systems)
        self._system_stops = self._system_starts + np.concatenate(system_sizes)

    @cached_property
    def _system_fields(self) -> _FieldPlaces:
        return _FieldPlaces(self._data, self._system_starts, self._system_stops)

    def offsets(self, kind: pa.DataType) -> pa.Array:
        return pa.array(self._offsets).cast(kind)

    def attempts(self, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(1, kind), self.count)

    def times(self, tag: int, kind: pa.DataType) -> pa.Array:
        if tag != _STORED:
            return super().times(tag, kind)
        return pa.array(self._stored_ms * _MICROS_PER_MILLI).cast(kind)


def _read_numbers(rows: "PulledRows") -> tuple[Ints, Ints, Ints, Ints]:
    """Offsets, store times, and the sizes of both parts of each message."""
    count = rows.count
    numbers = np.frombuffer(rows.data, "<i8", 2 * count, rows.numbers_at)
    sizes = np.frombuffer(rows.data, "<u4", 2 * count, rows.numbers_at + numbers.nbytes).astype(np.int64)
    return numbers[:count], numbers[count:], sizes[:count], sizes[count:]


def _as_int32(values: Ints) -> Ints:
    """Numbers of fields that have 32 bits: what is above them is dropped, as decoders do."""
    return values.astype(np.int32).astype(np.int64)


_COLUMNS: dict[str, Callable[[MessageColumns, Any], pa.Array]] = {
    "offset": lambda messages, kind: messages.offsets(kind),
    "message_id": lambda messages, kind: messages.texts(_MESSAGE_ID, kind),
    "keys": MessageColumns.keys,
    "tag": lambda messages, kind: messages.filled_texts(_TAG, kind),
    "message_group": lambda messages, kind: messages.filled_texts(_GROUP, kind),
    "body": MessageColumns.bodies,
    "properties": MessageColumns.properties,
    "born_timestamp": lambda messages, kind: messages.times(_BORN, kind),
    "store_timestamp": lambda messages, kind: messages.times(_STORED, kind),
    "delivery_attempt": lambda messages, kind: messages.attempts(kind),
    "corrupt": MessageColumns.problems,
    "delivery_timestamp": lambda messages, kind: messages.times(_DUE, kind),
    "priority": MessageColumns.priorities,
    "key": MessageColumns.kafka_keys,
    "value": MessageColumns.bodies,
    "headers": MessageColumns.headers,
    "timestamp": lambda messages, kind: messages.times(_STORED, kind),
}
