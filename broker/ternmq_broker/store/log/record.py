"""A record of the commit log: a header of fixed size, then the topic's name and the message as it came over the wire.

    at  size  field
    0   u16   magic 0x4D54 ("TM")
    2   u8    version of this layout, 2
    3   u8    kind: 1 message, 2 half message, 3 operation, 4 timer, 5 tombstone
    4   u32   size of the whole record, this header included
    8   u64   log offset at which the record begins
    16  u64   log offset below which the log was durable when the record was written
    24  u64   queue offset; of a timer when it is due, in milliseconds since the epoch; 0 of others that are in no queue
    32  u64   store timestamp, milliseconds since the epoch
    40  u32   queue id
    44  u32   hash of the tag; 0 when there is none
    48  u16   length of the topic's name
    50  u16   flags: 1 it has an origin, 2 its sender is known, 4 its rest is that of another record
    52  u32   length of the system properties
    56  u32   crc32 of all bytes behind the header
    60  u32   crc32 of the header's bytes before, xor the key of the log
    64        topic's name, UTF-8
              with flag 1: u64 log offset of the earlier record that this one is about, u64 when that is due, or 0
              with flag 2: u16 length and name of the client that sent it, UTF-8
              with flag 4: u64 log offset and u32 size of the record whose rest is this one's too; none follows here
              serialized SystemProperties | serialized rest of the Message

The header has its own log offset, and its checksum includes the log's own key: other bytes, such as a client's in a
body, are never mistaken for a record. Since it says how far the log was durable, a later whole record vouches for all
that lies below: broken bytes there are damage, and no torn tail (`log_recovery`).

A timer or half message is settled by the first record whose origin it is: the message that it became, a tombstone (the
timer was recalled), a copy of itself further on in the log, or an operation. An operation that only counts a
transaction check does not settle it (`half_index`). All integers are little-endian. A record never spans two segments.
Layout 1, with which older stores may begin, is in `record_layout_1`.
"""

import enum
import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from librt.strings import BytesWriter

from ternmq_common.binary.checksum import crc32
from ternmq_common.binary.numbers import (
    read_u16_le,
    read_u32_le,
    read_u64_le,
    write_u16_le,
    write_u32_le,
    write_u64_le,
)

MAGIC: Final = 0x4D54
VERSION: Final = 2
_HEAD: Final = struct.Struct("<HBBIQQQQIIHHII")
_CHECK: Final = struct.Struct("<I")
_HEAD_BYTES: Final = 60
_ORIGIN: Final = struct.Struct("<QQ")
_LENGTH: Final = struct.Struct("<H")
_REFERENCE: Final = struct.Struct("<QI")
_FLAG_ORIGIN: Final = 1
_FLAG_SENDER: Final = 2
_FLAG_REFERENCE: Final = 4
_FLAGS: Final = _FLAG_ORIGIN | _FLAG_SENDER | _FLAG_REFERENCE
_SIZE_AT: Final = 4
LOG_OFFSET_AT: Final = 8
"""The position of the log offset in a header."""
_QUEUE_OFFSET_AT: Final = 24
_STORED_MS_AT: Final = 32
_QUEUE_ID_AT: Final = 40
_TAG_HASH_AT: Final = 44
_TOPIC_BYTES_AT: Final = 48
_FLAGS_AT: Final = 50
_SYSTEM_BYTES_AT: Final = 52
_CONTENT_CHECK_AT: Final = 56
HEADER_BYTES: Final = 64
assert (_HEAD.size, _CHECK.size) == (_HEAD_BYTES, HEADER_BYTES - _HEAD_BYTES)
MAGIC_BYTES: Final = struct.pack("<HB", MAGIC, VERSION)
_MAGIC_NUMBER: Final = VERSION << 16 | MAGIC
_MAGIC_BITS: Final = 24


class RecordKind(enum.IntEnum):
    """The kinds of records, by their numbers in the header."""

    MESSAGE = 1
    HALF_MESSAGE = 2
    OPERATION = 3
    TIMER = 4
    TOMBSTONE = 5


# To copy so much costs less than two calls more of crc32, or a piece more.
_COPIED_BYTES_MAX: Final = 8 << 10
_PIECE_BYTES: Final = 32 << 10
_MISFIT: Final = "has bytes that do not fit its checksum"
KINDS: Final = {kind.value: kind for kind in RecordKind}
_MESSAGE: Final = RecordKind.MESSAGE
_MESSAGE_NUMBER: Final = 1
assert _MESSAGE.value == _MESSAGE_NUMBER


class BadRecord(Exception):
    """The bytes are no whole record: torn, damaged, or of another place."""


class NewerRecord(BadRecord):
    """The bytes may be a record of a layout that this program does not know."""


class BadContent(BadRecord):
    """The header is whole, so the record's `size` is known, but what follows it is not."""

    def __init__(self, reason: str, size: int) -> None:
        self.size = size
        super().__init__(reason)


@dataclass(slots=True, init=False)
class RecordOrigin:
    """The earlier record that a record is about; `due_ms` is that timer's due time, 0 for a half message.

    It never changes; see `Record` for why it is not frozen.
    """

    log_offset: int
    due_ms: int

    def __init__(self, log_offset: int, due_ms: int = 0) -> None:
        self.log_offset = log_offset
        self.due_ms = due_ms


@dataclass(frozen=True, slots=True)
class RestReference:
    """The record whose rest another one shares: its log offset and size in bytes."""

    log_offset: int
    size: int


@dataclass(slots=True, init=False)
class Record:
    """One record in memory; the module docstring has the meaning and unit of each field.

    With a `reference` its own `rest` is empty until that was read; `rest_stored_ms` is when the record that has the
    rest was stored. `log_offset` is where it was read, -1 if it is not in the log yet.
    """

    kind: RecordKind
    topic: str
    queue_id: int
    queue_offset: int
    stored_ms: int
    tag_hash: int
    system: bytes
    rest: bytes
    origin: RecordOrigin | None
    sender: str
    reference: RestReference | None
    rest_stored_ms: int
    log_offset: int = field(compare=False)

    # Written out, since the one that a dataclass generates is not compiled.
    def __init__(
        self,
        kind: RecordKind,
        topic: str,
        queue_id: int,
        queue_offset: int,
        stored_ms: int,
        tag_hash: int,
        system: bytes,
        rest: bytes,
        origin: RecordOrigin | None = None,
        sender: str = "",
        reference: RestReference | None = None,
        rest_stored_ms: int = 0,
        log_offset: int = -1,
    ) -> None:
        self.kind = kind
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.stored_ms = stored_ms
        self.tag_hash = tag_hash
        self.system = system
        self.rest = rest
        self.origin = origin
        self.sender = sender
        self.reference = reference
        self.rest_stored_ms = rest_stored_ms
        self.log_offset = log_offset

    @property
    def due_ms(self) -> int:
        """When a TIMER is due. It is stored in the field of the queue offset, since a timer is in no queue."""
        assert self.kind is RecordKind.TIMER
        return self.queue_offset


UnplacedRecord = tuple[int, int, int, int, int, int, int, bytes, bytes, bytes]
"""A record that has no log offset yet: kind, queue id, queue offset, store timestamp, hash of the tag, length of the
topic's name and flags, as the header has them; then the bytes that follow it, in three parts: the topic's name with the
fields of the flags, the system properties, the rest. A plain tuple, since one is created for each stored message."""


class RecordHead(NamedTuple):
    """The fields of a whole header; see the module docstring."""

    kind: int
    size: int
    durable_to: int
    queue_offset: int
    stored_ms: int
    queue_id: int
    tag_hash: int
    topic_bytes: int
    flags: int
    system_bytes: int
    content_check: int


def to_unplaced(record: Record) -> UnplacedRecord:
    """Return the record as a tuple, to be appended."""
    begin = topic = record.topic.encode()
    flags = 0
    if record.origin is not None or record.sender or record.reference is not None:
        flags, extras = _encode_extras(record)
        begin = topic + extras
    return (
        record.kind,
        record.queue_id,
        record.queue_offset,
        record.stored_ms,
        record.tag_hash,
        len(topic),
        flags,
        begin,
        record.system,
        record.rest,
    )


def with_reference(record: UnplacedRecord, reference: RestReference | None) -> UnplacedRecord:
    """Return the record of a message without flags, with the rest of the record at the reference if there is one."""
    if reference is None:
        return record
    *fields, _, begin, system, rest = record
    assert not rest
    begin += _REFERENCE.pack(reference.log_offset, reference.size)
    return (*fields, _FLAG_REFERENCE, begin, system, rest)  # type: ignore[return-value]  # as many as there were


def record_size(record: UnplacedRecord) -> int:
    """Return how many bytes the record takes in the log."""
    return HEADER_BYTES + len(record[7]) + len(record[8]) + len(record[9])


class RecordPieces:
    """Encodes records that are written to the log together. `durable_to` is up to where the log is known to be durable,
    `key` the log's."""

    __slots__ = ("_begin", "_begin_check", "_durable_to", "_key", "_pieces", "_writer")

    def __init__(self, durable_to: int, key: int) -> None:
        self._durable_to = durable_to
        self._key = key
        self._pieces: list[bytes] = []
        self._writer = BytesWriter()
        # Of the last record, which mostly has the next one's topic.
        self._begin = b""
        self._begin_check = 0

    def add_record(self, record: UnplacedRecord, log_offset: int) -> None:
        """Add the record that will be at that log offset."""
        kind, queue_id, queue_offset, stored_ms, tag_hash, topic_bytes, flags, begin, system, rest = record
        if begin != self._begin:
            self._begin, self._begin_check = begin, crc32(begin)
        head = BytesWriter()
        write_u32_le(head, kind << _MAGIC_BITS | _MAGIC_NUMBER)
        write_u32_le(head, HEADER_BYTES + len(begin) + len(system) + len(rest))
        write_u64_le(head, log_offset)
        write_u64_le(head, self._durable_to)
        write_u64_le(head, queue_offset)
        write_u64_le(head, stored_ms)
        write_u32_le(head, queue_id)
        write_u32_le(head, tag_hash)
        write_u16_le(head, topic_bytes)
        write_u16_le(head, flags)
        write_u32_le(head, len(system))
        write_u32_le(head, crc32(rest, crc32(system, self._begin_check)))
        checked, writer = head.getvalue(), self._writer
        writer.write(checked)
        write_u32_le(writer, crc32(checked) ^ self._key)
        writer.write(begin)
        writer.write(system)
        if len(rest) > _COPIED_BYTES_MAX:
            self._end_piece()
            self._pieces.append(rest)
        else:
            writer.write(rest)
            if len(writer) > _PIECE_BYTES:
                self._end_piece()

    def _end_piece(self) -> None:
        self._pieces.append(self._writer.getvalue())
        self._writer = BytesWriter()

    def take_pieces(self) -> list[bytes]:
        """Return the bytes of the records in pieces, and forget them; large content is not copied."""
        if len(self._writer):
            self._end_piece()
        pieces, self._pieces = self._pieces, []
        return pieces


def _encode_extras(record: Record) -> tuple[int, bytes]:
    flags, extras = 0, b""
    if record.origin is not None:
        flags, extras = _FLAG_ORIGIN, _ORIGIN.pack(record.origin.log_offset, record.origin.due_ms)
    if record.sender:
        sender = record.sender.encode()
        flags, extras = flags | _FLAG_SENDER, extras + _LENGTH.pack(len(sender)) + sender
    if record.reference is not None:
        assert not record.rest
        flags |= _FLAG_REFERENCE
        extras += _REFERENCE.pack(record.reference.log_offset, record.reference.size)
    return flags, extras


def decode_head(data: bytes, log_offset: int, key: int, at: int = 0) -> RecordHead:
    """Decode the header at `at` in `data`, which is at `log_offset` in the log; BadRecord if it is not whole."""
    if len(data) - at < HEADER_BYTES:
        raise BadRecord(f"{len(data) - at} bytes are less than a header")
    magic, version, kind, size, place, *rest = _HEAD.unpack_from(data, at)
    if magic != MAGIC:
        raise BadRecord(f"begins with {data[at : at + 2].hex()} instead of {MAGIC_BYTES[:2].hex()}")
    if version > VERSION:
        raise NewerRecord(f"has layout {version}, and this program knows layouts up to {VERSION}")
    (check,) = _CHECK.unpack_from(data, at + _HEAD.size)
    if version != VERSION or check != crc32(data[at : at + _HEAD.size]) ^ key:
        raise BadRecord("has a header whose checksum does not fit")
    if place != log_offset:
        raise BadRecord(f"was written at log offset {place}, and stands at {log_offset}")
    head = RecordHead(kind, size, *rest)
    if kind not in KINDS or head.flags & ~_FLAGS:
        raise NewerRecord(f"is of kind {kind} with flags {head.flags}, which this program does not know")
    return head


def decode_record(data: bytes, log_offset: int, key: int) -> Record:
    """Decode `data`, exactly one record that is at that log offset; BadRecord otherwise."""
    if len(data) < HEADER_BYTES:
        raise BadRecord(f"{len(data)} bytes are less than a header")
    # The hot path: one test covers everything, and a second, slower look finds out what is wrong.
    begin, flags = read_u32_le(data, 0), read_u16_le(data, _FLAGS_AT)
    kind = begin >> _MAGIC_BITS
    if (
        begin & 0xFF_FFFF != _MAGIC_NUMBER
        or read_u32_le(data, _HEAD_BYTES) != crc32(data[:_HEAD_BYTES]) ^ key
        or read_u64_le(data, LOG_OFFSET_AT) != log_offset
        or flags & ~_FLAGS
        or (kind != _MESSAGE_NUMBER and kind not in KINDS)
    ):
        decode_head(data, log_offset, key)
        raise AssertionError("the header is whole")
    size = read_u32_le(data, _SIZE_AT)
    if size != len(data):
        raise BadContent(f"is {size} bytes by its header, {len(data)} are there", size)
    if flags:
        return _decode_flagged(data, decode_head(data, log_offset, key), log_offset)
    topic_end = HEADER_BYTES + read_u16_le(data, _TOPIC_BYTES_AT)
    rest_start = topic_end + read_u32_le(data, _SYSTEM_BYTES_AT)
    topic, system, rest = data[HEADER_BYTES:topic_end], data[topic_end:rest_start], data[rest_start:]
    is_small = len(rest) <= _COPIED_BYTES_MAX
    check = crc32(data[HEADER_BYTES:]) if is_small else crc32(rest, crc32(system, crc32(topic)))
    if read_u32_le(data, _CONTENT_CHECK_AT) != check:
        raise BadContent(_MISFIT, size)
    record = Record(
        _MESSAGE if kind == _MESSAGE_NUMBER else KINDS[kind],
        topic.decode(),
        read_u32_le(data, _QUEUE_ID_AT),
        read_u64_le(data, _QUEUE_OFFSET_AT),
        read_u64_le(data, _STORED_MS_AT),
        read_u32_le(data, _TAG_HASH_AT),
        system,
        rest,
    )
    record.log_offset = log_offset
    return record


def _decode_flagged(data: bytes, head: RecordHead, log_offset: int) -> Record:
    if head.content_check != crc32(memoryview(data)[HEADER_BYTES:]):
        raise BadContent(_MISFIT, head.size)
    topic_end = HEADER_BYTES + head.topic_bytes
    topic = data[HEADER_BYTES:topic_end].decode()
    record = Record(KINDS[head.kind], topic, head.queue_id, head.queue_offset, head.stored_ms, head.tag_hash, b"", b"")
    record.log_offset = log_offset
    system_start = _decode_extras(record, data, topic_end, head.flags)
    rest_start = system_start + head.system_bytes
    record.system = data[system_start:rest_start]
    record.rest = data[rest_start:]
    return record


def _decode_extras(record: Record, data: bytes, position: int, flags: int) -> int:
    """Fill in the fields of the flags; return where the system properties begin."""
    if flags & _FLAG_ORIGIN:
        record.origin = RecordOrigin(*_ORIGIN.unpack_from(data, position))
        position += _ORIGIN.size
    if flags & _FLAG_SENDER:
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        record.sender = data[position : position + length].decode()
        position += length
    if flags & _FLAG_REFERENCE:
        record.reference = RestReference(*_REFERENCE.unpack_from(data, position))
        position += _REFERENCE.size
    return position
