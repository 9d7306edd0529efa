"""Records in layout 1, of versions before the store had a layout of its own: read, never written.

    at  size  field
    0   u16   magic 0x4D54 ("TM")
    2   u8    version of this layout, 1
    3   u8    kind, as in `record`
    4   u32   size of the whole record, this header included
    8   u32   crc32 of all other bytes of the record
    12  u32   hash of the tag
    16  u64   queue offset, or a timer's due time
    24  u64   store timestamp
    32  u32   queue id
    36  u16   length of the topic's name
    38  u16   flags: 1 it has an origin, 2 its sender is known
    40  u32   length of the system properties
    44        as behind the header of `record`, without references

Such records do not contain their log offsets and vouch for nothing. The file `format` says where in the log they end;
they were durable when it was written.
"""

import struct

from ternmq_broker.store.log.record import KINDS, MAGIC, BadRecord, Record, RecordHead, RecordOrigin
from ternmq_common.binary.checksum import crc32

VERSION = 1
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
MAGIC_BYTES = struct.pack("<HB", MAGIC, VERSION)


def decode_head(data: bytes) -> RecordHead:
    """Decode the header, of which only magic, version and size are checked; BadRecord if no record begins so."""
    if len(data) < HEADER_BYTES:
        raise BadRecord(f"{len(data)} bytes are less than a header")
    magic, version, kind, size = _IDENTITY.unpack_from(data)
    if magic != MAGIC or version != VERSION or size < HEADER_BYTES:
        raise BadRecord(f"begins with {data[:8].hex()}, which no record of layout 1 does")
    tag_hash, queue_offset, stored_ms, queue_id, topic_bytes, flags, system_bytes = _FIELDS.unpack_from(
        data, _FIELDS_START
    )
    return RecordHead(kind, size, 0, queue_offset, stored_ms, queue_id, tag_hash, topic_bytes, flags, system_bytes, 0)


def decode_record(data: bytes) -> Record:
    """Decode `data`, exactly one record; BadRecord otherwise."""
    head = decode_head(data)
    if head.size != len(data):
        raise BadRecord(f"is {head.size} bytes by its header, {len(data)} are there")
    (check,) = _CHECK.unpack_from(data, _IDENTITY.size)
    if check != crc32(memoryview(data)[_FIELDS_START:], crc32(data[: _IDENTITY.size])):
        raise BadRecord("has bytes that do not fit its checksum")
    if head.kind not in KINDS:
        raise BadRecord(f"is of kind {head.kind}, which no record of layout 1 is")
    system_start = topic_end = HEADER_BYTES + head.topic_bytes
    origin, sender = None, ""
    if head.flags & _FLAG_ORIGIN:
        origin = RecordOrigin(*_ORIGIN.unpack_from(data, system_start))
        system_start += _ORIGIN.size
    if head.flags & _FLAG_SENDER:
        (length,) = _LENGTH.unpack_from(data, system_start)
        sender_start = system_start + _LENGTH.size
        system_start = sender_start + length
        sender = data[sender_start:system_start].decode()
    rest_start = system_start + head.system_bytes
    return Record(
        KINDS[head.kind],
        data[HEADER_BYTES:topic_end].decode(),
        head.queue_id,
        head.queue_offset,
        head.stored_ms,
        head.tag_hash,
        data[system_start:rest_start],
        data[rest_start:],
        origin,
        sender,
    )
