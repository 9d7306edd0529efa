"""A record of the commit log: a fixed header, then the topic's name and the message as it came over the wire.

    at  size  field
    0   u16   magic 0x4D54 ("TM")
    2   u8    version of this layout, 1
    3   u8    kind: 1 message, 2 half message, 3 operation, 4 timer, 5 tombstone
    4   u32   size of the whole record, this header included
    8   u32   crc32 of all other bytes of the record
    12  u32   hash of the tag; 0 when there is none
    16  u64   queue offset
    24  u64   store timestamp, milliseconds since the epoch
    32  u32   queue id
    36  u16   length of the topic's name
    38  u16   flags, 0
    40  u32   length of the system properties
    44        topic's name, UTF-8 | serialized SystemProperties | serialized rest of the Message

All integers are little-endian. A record never spans two segments.
"""

import enum
import struct
from dataclasses import dataclass
from zlib import crc32

_MAGIC = 0x4D54
_VERSION = 1
_IDENTITY = struct.Struct("<HBBI")
_CHECK = struct.Struct("<I")
_FIELDS = struct.Struct("<IQQIHHI")
_FIELDS_START = _IDENTITY.size + _CHECK.size
HEADER_BYTES = _FIELDS_START + _FIELDS.size
assert HEADER_BYTES == 44
MAGIC_BYTES = struct.pack("<HB", _MAGIC, _VERSION)


class Kind(enum.IntEnum):
    MESSAGE = 1
    HALF_MESSAGE = 2
    OPERATION = 3
    TIMER = 4
    TOMBSTONE = 5


_KINDS = {kind.value: kind for kind in Kind}


class BadRecord(Exception):
    """The bytes are no whole record: torn, garbled, or of another format."""


@dataclass(slots=True)
class Record:
    """One record in memory; the module has the meaning and unit of each field."""

    kind: Kind
    topic: str
    queue_id: int
    queue_offset: int
    stored_ms: int
    tag_hash: int
    system: bytes
    rest: bytes

    @property
    def size(self) -> int:
        return HEADER_BYTES + len(self.topic.encode()) + len(self.system) + len(self.rest)


def encode(record: Record) -> tuple[bytes, bytes, bytes]:
    """The record as pieces to be written one after the other; the message's own bytes are not copied."""
    topic = record.topic.encode()
    identity = _IDENTITY.pack(
        _MAGIC, _VERSION, record.kind, HEADER_BYTES + len(topic) + len(record.system) + len(record.rest)
    )
    fields = (
        _FIELDS.pack(
            record.tag_hash,
            record.queue_offset,
            record.stored_ms,
            record.queue_id,
            len(topic),
            0,
            len(record.system),
        )
        + topic
    )
    check = crc32(record.rest, crc32(record.system, crc32(fields, crc32(identity))))
    return identity + _CHECK.pack(check) + fields, record.system, record.rest


def decode(data: bytes) -> Record:
    """The record that `data` is, no byte more or less; BadRecord otherwise."""
    if len(data) < HEADER_BYTES:
        raise BadRecord(f"{len(data)} bytes are less than a header")
    magic, version, kind, size = _IDENTITY.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise BadRecord(f"begins with {data[:3].hex()} instead of {MAGIC_BYTES.hex()}")
    if size != len(data):
        raise BadRecord(f"is {size} bytes by its header, {len(data)} are there")
    (check,) = _CHECK.unpack_from(data, _IDENTITY.size)
    if check != crc32(memoryview(data)[_FIELDS_START:], crc32(data[: _IDENTITY.size])):
        raise BadRecord("the check sum does not fit the bytes")
    if kind not in _KINDS:
        raise BadRecord(f"is of kind {kind}, which this version does not know")
    tag_hash, queue_offset, stored_ms, queue_id, topic_bytes, _, system_bytes = _FIELDS.unpack_from(data, _FIELDS_START)
    system_start = HEADER_BYTES + topic_bytes
    rest_start = system_start + system_bytes
    return Record(
        _KINDS[kind],
        data[HEADER_BYTES:system_start].decode(),
        queue_id,
        queue_offset,
        stored_ms,
        tag_hash,
        data[system_start:rest_start],
        data[rest_start:],
    )


def announced_size(head: bytes) -> int:
    """How many bytes the record has that begins with `head`; BadRecord if none can begin so."""
    if len(head) < HEADER_BYTES:
        raise BadRecord(f"{len(head)} bytes are less than a header")
    magic, version, _, size = _IDENTITY.unpack_from(head)
    if magic != _MAGIC or version != _VERSION or size < HEADER_BYTES:
        raise BadRecord(f"begins with {head[:8].hex()}, which no record does")
    assert isinstance(size, int)
    return size


def stored_ms_of(head: bytes) -> int:
    """The store timestamp in a record's first HEADER_BYTES, unchecked: for searching, where a record is read later."""
    value = _FIELDS.unpack_from(head, _FIELDS_START)[2]
    assert isinstance(value, int)
    return value
