"""A record of the commit log: a fixed header, then the topic's name and the message as it came over the wire.

    at  size  field
    0   u16   magic 0x4D54 ("TM")
    2   u8    version of this layout, 1
    3   u8    kind: 1 message, 2 half message, 3 operation, 4 timer, 5 tombstone
    4   u32   size of the whole record, this header included
    8   u32   crc32 of all other bytes of the record
    12  u32   hash of the tag; 0 when there is none
    16  u64   queue offset; of a timer when it is due, in milliseconds since the epoch; 0 of others that are in no queue
    24  u64   store timestamp, milliseconds since the epoch
    32  u32   queue id
    36  u16   length of the topic's name
    38  u16   flags: 1 it has an origin, 2 its sender is known
    40  u32   length of the system properties
    44        topic's name, UTF-8
              with flag 1: u64 log offset of the earlier record that this one is about, u64 when that is due, or 0
              with flag 2: u16 length and name of the client that sent it, UTF-8
              serialized SystemProperties | serialized rest of the Message

A timer or half message is settled by the first record whose origin it is: the message that it became, a tombstone (the
timer was recalled), a copy of itself further on in the log, or an operation; except by an operation that only says that
a producer was asked (`half_index`). All integers are little-endian. A record never spans two segments.
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
_ORIGIN = struct.Struct("<QQ")
_LENGTH = struct.Struct("<H")
_FLAG_ORIGIN = 1
_FLAG_SENDER = 2
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


@dataclass(frozen=True, slots=True)
class Origin:
    """Which earlier record a record is about; `due_ms` is that timer's time, 0 of a half message."""

    log_offset: int
    due_ms: int = 0


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
    origin: Origin | None = None
    sender: str = ""


def encode(record: Record) -> tuple[bytes, bytes, bytes]:
    """The record as pieces to be written one after the other; the message's own bytes are not copied."""
    topic = record.topic.encode()
    flags, extras = (0, b"") if record.origin is None and not record.sender else _extras(record)
    identity = _IDENTITY.pack(
        _MAGIC, _VERSION, record.kind, HEADER_BYTES + len(topic) + len(extras) + len(record.system) + len(record.rest)
    )
    fields = (
        _FIELDS.pack(
            record.tag_hash,
            record.queue_offset,
            record.stored_ms,
            record.queue_id,
            len(topic),
            flags,
            len(record.system),
        )
        + topic
        + extras
    )
    check = crc32(record.rest, crc32(record.system, crc32(fields, crc32(identity))))
    return identity + _CHECK.pack(check) + fields, record.system, record.rest


def _extras(record: Record) -> tuple[int, bytes]:
    flags, extras = 0, b""
    if record.origin is not None:
        flags, extras = _FLAG_ORIGIN, _ORIGIN.pack(record.origin.log_offset, record.origin.due_ms)
    if record.sender:
        sender = record.sender.encode()
        flags, extras = flags | _FLAG_SENDER, extras + _LENGTH.pack(len(sender)) + sender
    return flags, extras


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
    tag_hash, queue_offset, stored_ms, queue_id, topic_bytes, flags, system_bytes = _FIELDS.unpack_from(
        data, _FIELDS_START
    )
    system_start = topic_end = HEADER_BYTES + topic_bytes
    origin, sender = None, ""
    if flags:
        origin, sender, system_start = _decode_extras(data, topic_end, flags)
    rest_start = system_start + system_bytes
    return Record(
        _KINDS[kind],
        data[HEADER_BYTES:topic_end].decode(),
        queue_id,
        queue_offset,
        stored_ms,
        tag_hash,
        data[system_start:rest_start],
        data[rest_start:],
        origin,
        sender,
    )


def _decode_extras(data: bytes, position: int, flags: int) -> tuple[Origin | None, str, int]:
    """The record's origin, its sender, and where its system properties begin."""
    origin, sender = None, ""
    if flags & _FLAG_ORIGIN:
        origin = Origin(*_ORIGIN.unpack_from(data, position))
        position += _ORIGIN.size
    if flags & _FLAG_SENDER:
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        sender = data[position : position + length].decode()
        position += length
    return origin, sender, position


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
