"""Encodes rows as SendMessage requests by Arrow and numpy, without a Python object for each row: the sink's fast path.

Plain rows   messages of type NORMAL whose queue the server chooses: body, tag, keys and properties, nothing else. Tags
             and keys are printable ASCII. All other rows, and rows that are no messages, take the path of `rows.py`,
             which names the row that is wrong
Encoding     the bytes are those that `ternmq.connections.send_request` writes for the same messages
Failures     messages of a request that were not stored are sent again by the other path, which is given their rows
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_ternmq.sink.rows import RowReader, RowRequest
from ternmq.connections.identity import host_name
from ternmq.messages.message import LIMITS
from ternmq_common.wire import encode_field, encode_varint
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb

Ints = npt.NDArray[np.int64]

# Tags of fields: of SendMessageRequest, of Message, of an entry of its properties, and of its system properties.
_MESSAGES = b"\x0a"
_TOPIC, _TOPIC_NAME, _PROPERTIES, _SYSTEM_PROPERTIES, _BODY = b"\x0a", b"\x12", b"\x12", b"\x1a", b"\x22"
_NAME, _VALUE = b"\x0a", b"\x12"
_TAG, _KEYS, _MESSAGE_ID, _BORN, _HOST, _QUEUE_ID = b"\x0a", b"\x12", b"\x1a", b"\x3a", b"\x42", b"\x68"
_ENCODING_AND_TYPE = b"\x28" + encode_varint(pb.IDENTITY) + b"\x30" + encode_varint(pb.NORMAL)

# The bytes of ids, times and framing in a request for each message, generously; as `ternmq.producing.send_batches`
# counts.
_OVERHEAD_BYTES = 512
_NANOS_PER_SECOND = 1_000_000_000
_EMPTY = pa.scalar(b"", pa.binary())
# A row with a value in one of these columns is not plain.
_OF_OTHERS = ("key", "headers", "message_group", "delivery_timestamp", "priority", "message_id", "queue_id", "broker")


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """Rows that can be encoded as one request. `rows` are their numbers in the partition."""

    topic: str
    rows: range
    reader: RowReader
    columns: "PlainColumns"

    def encode_request(self, *, queue_id: int, born_ns: int) -> bytes:
        """The serialized SendMessageRequest for a queue; `born_ns` is the time since 1970."""
        ids = self.reader.ids.encode_ids(self.rows.start, len(self.rows))
        return self.columns.encode_request(self.topic, ids, queue_id=queue_id, born_ns=born_ns)

    def as_messages(self) -> RowRequest:
        """The same request with a message for each row."""
        [request] = self.reader.read_requests(self.columns.batch, self.rows.start)
        return request


def plain_requests(reader: RowReader, batch: pa.RecordBatch, first_row: int) -> Iterator[PlainRequest] | None:
    """The requests for one batch, or None if some of its rows are not plain ones."""
    if reader.topic is None or not batch.num_rows:
        return None
    for name in _OF_OTHERS:
        place = reader.columns.places.get(name)
        if place is not None and batch.column(place).null_count < batch.num_rows:
            return None
    found = PlainColumns.of_batch(reader, batch)
    return None if found is None else _cut_requests(reader, found, first_row)


def _cut_requests(reader: RowReader, columns: "PlainColumns", first_row: int) -> Iterator[PlainRequest]:
    """Requests with as many rows as one may have, and not more bytes than one message may have alone."""
    assert reader.topic is not None
    ends = np.cumsum(columns.sizes + _OVERHEAD_BYTES)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + LIMITS.body_bytes_max, side="right"))
        stop = min(max(fitting, start + 1), start + reader.request_rows)
        yield PlainRequest(
            reader.topic, range(first_row + start, first_row + stop), reader, columns.slice_rows(start, stop)
        )
        start = stop


@dataclass(frozen=True, slots=True)
class PlainColumns:
    """Columns of plain rows that were checked; `sizes` are the bytes that the contents of each row have."""

    batch: pa.RecordBatch
    body: pa.Array
    tag: pa.Array | None
    keys: "_EncodedLists | None"
    properties: "_EncodedLists | None"
    sizes: Ints

    @classmethod
    def of_batch(cls, reader: RowReader, batch: pa.RecordBatch) -> "PlainColumns | None":
        """Read the rows of a batch; None if some are not plain, or no messages."""
        places = reader.columns.places
        columns = {name: batch.column(places[name]) for name in ("body", "tag", "keys", "properties") if name in places}
        try:
            body = _as_binary(columns["body"])
            tag = None if "tag" not in columns else _as_binary(columns["tag"])
            keys = None if "keys" not in columns else _EncodedLists.of_keys(columns["keys"])
            properties = None if "properties" not in columns else _EncodedLists.of_properties(columns["properties"])
        except (_NotPlain, pa.ArrowInvalid):
            return None
        body_sizes = _element_sizes(body)
        if body.null_count or not 0 < body_sizes.min() <= body_sizes.max() <= LIMITS.body_bytes_max:
            return None
        if tag is not None and not _is_plain_text(tag, forbidden=b"|"):
            return None
        sizes = body_sizes
        for part in (tag, keys, properties):
            if part is not None:
                sizes = sizes + (_element_sizes(part) if not isinstance(part, _EncodedLists) else part.sizes)
        return cls(batch, body, tag, keys, properties, sizes)

    def slice_rows(self, start: int, stop: int) -> "PlainColumns":
        """Some of the rows, without a copy."""
        return PlainColumns(
            self.batch.slice(start, stop - start),
            self.body.slice(start, stop - start),
            None if self.tag is None else self.tag.slice(start, stop - start),
            None if self.keys is None else self.keys.slice_rows(start, stop),
            None if self.properties is None else self.properties.slice_rows(start, stop),
            self.sizes[start:stop],
        )

    def encode_request(self, topic: str, ids: pa.Array, *, queue_id: int, born_ns: int) -> bytes:
        """The serialized SendMessageRequest; `ids` are the message ids."""
        seconds, nanos = divmod(born_ns, _NANOS_PER_SECOND)
        born = Timestamp(seconds=seconds, nanos=nanos).SerializeToString()
        same = _ENCODING_AND_TYPE + encode_field(_BORN, born) + encode_field(_HOST, host_name().encode())
        if queue_id:
            same += _QUEUE_ID + encode_varint(queue_id)
        system = _FieldPieces(len(self.body))
        if self.tag is not None:
            system.add_field(_TAG, self.tag)
        if self.keys is not None:
            system.add_encoded(self.keys.encoded, self.keys.sizes)
        system.add_field(_MESSAGE_ID, ids)
        system.add_constant(same)
        message = _FieldPieces(len(self.body))
        message.add_constant(encode_field(_TOPIC, encode_field(_TOPIC_NAME, topic.encode())))
        if self.properties is not None:
            message.add_encoded(self.properties.encoded, self.properties.sizes)
        message.add_nested(_SYSTEM_PROPERTIES, system)
        message.add_field(_BODY, self.body)
        request = _FieldPieces(len(self.body))
        request.add_nested(_MESSAGES, message)
        return request.joined_bytes()


class _NotPlain(Exception):
    """Some rows have to take the other path."""


@dataclass(frozen=True, slots=True)
class _EncodedLists:
    """A repeated field of each row, encoded: one array element for a row, and the elements' sizes."""

    encoded: pa.Array
    sizes: Ints

    @classmethod
    def of_keys(cls, column: Any) -> "_EncodedLists":  # noqa: ANN401 - pyarrow's arrays have no types
        """The field `keys` of system properties."""
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts = _as_binary(column)
            if not _is_plain_text(texts):
                raise _NotPlain
            pieces = _FieldPieces(len(texts))
            pieces.add_field(_KEYS, texts)
            joined = pieces.join_pieces()
            return cls(joined, _element_sizes(joined))
        ends = _list_ends(column)
        texts = _as_binary(column.values.slice(int(ends[0]), int(ends[-1] - ends[0])))
        if texts.null_count or not _is_plain_text(texts):
            raise _NotPlain
        pieces = _FieldPieces(len(texts))
        pieces.add_field(_KEYS, texts)
        return cls._gather_lists(pieces, ends)

    @classmethod
    def of_properties(cls, column: Any) -> "_EncodedLists":  # noqa: ANN401
        """The field `user_properties` of messages."""
        ends = _list_ends(column)
        if len(ends) > 1 and int(np.diff(ends).max()) > LIMITS.properties_max:
            raise _NotPlain
        first, count = int(ends[0]), int(ends[-1] - ends[0])
        names, values = _as_binary(column.keys.slice(first, count)), _as_binary(column.items.slice(first, count))
        if values.null_count or not _is_text(names) or not _is_text(values):
            raise _NotPlain
        entry = _FieldPieces(count)
        entry.add_field(_NAME, names)
        entry.add_field(_VALUE, values)
        pieces = _FieldPieces(count)
        pieces.add_nested(_PROPERTIES, entry)
        return cls._gather_lists(pieces, ends)

    def slice_rows(self, start: int, stop: int) -> "_EncodedLists":
        """Some of the rows, without a copy."""
        return _EncodedLists(self.encoded.slice(start, stop - start), self.sizes[start:stop])

    @classmethod
    def _gather_lists(cls, pieces: "_FieldPieces", list_ends: Ints) -> "_EncodedLists":
        """The elements of each list as one: they lie one behind the other already."""
        joined = pieces.join_pieces()
        ends = _element_ends(joined)[list_ends - list_ends[0]]
        buffers = [None, pa.py_buffer(np.ascontiguousarray(ends, np.int32)), joined.buffers()[2]]
        return cls(pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers), np.diff(ends).astype(np.int64))


class _FieldPieces:
    """Encoded fields of some messages, to be joined for each of them; `sizes` are the bytes of all pieces together."""

    def __init__(self, count: int) -> None:
        self.sizes: Ints = np.zeros(count, np.int64)
        self.pieces: list[Any] = []

    def add_constant(self, encoded: bytes) -> None:
        """The same bytes in all messages."""
        self.pieces.append(pa.scalar(encoded, pa.binary()))
        self.sizes = self.sizes + len(encoded)

    def add_encoded(self, encoded: pa.Array, sizes: Ints) -> None:
        self.pieces.append(encoded)
        self.sizes = self.sizes + sizes

    def add_field(self, tag: bytes, contents: pa.Array) -> None:
        """A field with a length; it is left out where the contents are null."""
        sizes = _element_sizes(contents)
        absent = contents.is_null().to_numpy(zero_copy_only=False) if contents.null_count else None
        self._add_header(tag, sizes, absent)
        self.add_encoded(contents, sizes)

    def add_nested(self, tag: bytes, message: "_FieldPieces") -> None:
        """A field that consists of other pieces."""
        self._add_header(tag, message.sizes, None)
        self.pieces += message.pieces
        self.sizes = self.sizes + message.sizes

    def join_pieces(self) -> pa.Array:
        if not len(self.sizes):
            return pa.array([], pa.binary())
        return pc.binary_join_element_wise(*self.pieces, _EMPTY, null_handling="replace", null_replacement=b"")

    def joined_bytes(self) -> bytes:
        """All messages one behind the other."""
        joined = self.join_pieces()
        ends = _element_ends(joined)
        return joined.buffers()[2][int(ends[0]) : int(ends[-1])].to_pybytes()  # type: ignore[no-any-return]

    def _add_header(self, tag: bytes, lengths: Ints, absent: Any) -> None:  # noqa: ANN401
        """Tag and length of a field."""
        widths = np.ones(len(lengths), np.int64)
        longest = int(lengths.max()) if len(lengths) else 0
        for bits in range(7, longest.bit_length() + 1, 7):
            widths += lengths >> bits > 0
        sizes = widths + len(tag)
        if absent is not None:
            sizes[absent] = 0
        ends = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(sizes, out=ends[1:])
        encoded = np.zeros(int(ends[-1]) + 1, np.uint8)
        # Bytes of an absent field are overwritten by the next one, or are after the last one.
        places = ends[:-1]
        if absent is not None:
            places, lengths, widths = places[~absent], lengths[~absent], widths[~absent]
        for number, byte in enumerate(tag):
            encoded[places + number] = byte
        for number in range(int(widths.max()) if len(widths) else 0):
            chosen = widths > number
            more = np.where(widths[chosen] > number + 1, 0x80, 0)
            encoded[places[chosen] + len(tag) + number] = (lengths[chosen] >> 7 * number & 0x7F) | more
        self.add_encoded(
            pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(encoded)]), sizes
        )


def _as_binary(column: Any) -> pa.Array:  # noqa: ANN401
    """Text or bytes with 32-bit offsets; ArrowInvalid if they are too long for that."""
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def _element_ends(array: pa.Array) -> Any:  # noqa: ANN401
    """The offsets of an array of bytes: one more than it has elements."""
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def _element_sizes(array: pa.Array) -> Ints:
    """The bytes of each element; 0 for a null."""
    sizes = np.diff(_element_ends(array)).astype(np.int64) if len(array) else np.zeros(0, np.int64)
    if array.null_count:
        sizes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return sizes


def _list_ends(column: Any) -> Ints:  # noqa: ANN401
    """The offsets of lists or maps; a null has to be empty."""
    ends: Ints = column.offsets.to_numpy().astype(np.int64)
    if column.null_count and np.diff(ends)[column.is_null().to_numpy(zero_copy_only=False)].any():
        raise _NotPlain
    return ends


def _joined_contents(array: pa.Array) -> Any:  # noqa: ANN401
    """The bytes of all elements, one behind the other."""
    ends = _element_ends(array)
    data = array.buffers()[2]
    if not len(array) or data is None:
        return np.zeros(0, np.uint8)
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _is_plain_text(array: pa.Array, *, forbidden: bytes = b"") -> bool:
    """Whether all elements that are not null are printable ASCII, not empty, without a space at the beginning."""
    contents = _joined_contents(array)
    if len(contents) and not 0x20 <= contents.min() <= contents.max() <= 0x7E:
        return False
    if any((contents == byte).any() for byte in forbidden):
        return False
    sizes, ends = _element_sizes(array), _element_ends(array)
    filled = sizes > 0
    if int(filled.sum()) < len(array) - array.null_count:
        return False
    return not (contents[ends[:-1][filled] - ends[0]] == 0x20).any()


def _is_text(array: pa.Array) -> bool:
    """Whether all elements are UTF-8; ArrowInvalid if one is not."""
    contents = _joined_contents(array)
    if len(contents) and contents.max() > 0x7F:
        array.cast(pa.string())
    return True
