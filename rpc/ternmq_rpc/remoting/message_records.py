"""Messages as bytes of the remoting protocol: what a pull answers, and the parts of a batch that is sent.

Record      size i32 | magic i32 | body's CRC-32 i32 | queue id i32 | flag i32 | queue offset i64 | log offset i64 |
            system flag i32 | born i64 | born host | stored i64 | store host | times reconsumed i32 |
            offset of the half message i64 | body length i32 | body | topic length | topic |
            properties length i16 | properties; big-endian, times in milliseconds since the epoch.
Host        address of 4 bytes, or of 16 where the system flag says so | port i32.
Topic       its length is a u8, or in records of the second magic number an u16: clients of 4.x know the first only.
Batch       size i32 | magic i32 | CRC-32 i32 | flag i32 | body length i32 | body | properties length i16 | properties,
            for each message. Clients leave magic and CRC-32 at 0.
"""

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from librt.strings import read_i32_be

from ternmq_common.binary.checksum import crc32
from ternmq_common.binary.numbers import read_u16_be, read_u32_be
from ternmq_rpc.remoting.message_ids import IPV4_BYTES, IPV6_BYTES, UNKNOWN_HOST, Host

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC_1: Final = 0xDAA320A7
MAGIC_2: Final = 0xDAA320AB
BORN_HOST_IPV6: Final = 0x10
STORE_HOST_IPV6: Final = 0x20
TOPIC_BYTES_MAX_1: Final = 127
PROPERTIES_BYTES_MAX: Final = 2**15 - 1

_HEAD: Final = struct.Struct(">iIiiiqqiq")
_TIME: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_AFTER_HOSTS: Final = struct.Struct(">iqi")
_SHORT: Final = struct.Struct(">H")
_SHORT_BYTES: Final = 2
_PART_HEAD: Final = struct.Struct(">iiiii")
_PART_HEAD_BYTES: Final = 20
_PART_FLAG_AT: Final = 12
_PART_LENGTH_AT: Final = 16
assert _PART_HEAD.size == _PART_HEAD_BYTES
_CRC_MASK: Final = 0x7FFF_FFFF


class InvalidRecord(ValueError):
    """Bytes of a message are not as they must be."""


class MessageRecord(NamedTuple):
    """A message as clients of the remoting protocol see it.

    `properties` is their text form. `reconsume_times` is how often a consumer group failed on it. `half_offset` is the
    log offset of its half message, 0 if it had none. The bits of hosts in `system_flag` are set by the hosts.
    """

    topic: str
    body: bytes
    properties: str
    queue_id: int
    queue_offset: int
    log_offset: int
    flag: int = 0
    system_flag: int = 0
    born_ms: int = 0
    born_host: Host = UNKNOWN_HOST
    stored_ms: int = 0
    store_host: Host = UNKNOWN_HOST
    reconsume_times: int = 0
    half_offset: int = 0


class BatchPart(NamedTuple):
    """A message of a batch; all have the topic that the request names."""

    flag: int
    body: bytes
    properties: str


def encode_record(record: MessageRecord) -> bytes:
    """Return the bytes of a message. InvalidRecord if its topic or its properties are longer than the form allows."""
    topic, properties, body = record.topic.encode(), record.properties.encode(), record.body
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise InvalidRecord(f"properties of {len(properties)} bytes; {PROPERTIES_BYTES_MAX} fit")
    is_short = len(topic) <= TOPIC_BYTES_MAX_1
    topic_length = bytes((len(topic),)) if is_short else _SHORT.pack(len(topic))
    born, store = record.born_host, record.store_host
    system_flag = record.system_flag & ~(BORN_HOST_IPV6 | STORE_HOST_IPV6)
    system_flag |= (BORN_HOST_IPV6 if born.is_ipv6 else 0) | (STORE_HOST_IPV6 if store.is_ipv6 else 0)
    size = _HEAD.size + len(born.address) + 4 + _TIME.size + len(store.address) + 4 + _AFTER_HOSTS.size
    size += len(body) + len(topic_length) + len(topic) + _SHORT.size + len(properties)
    return b"".join(
        (
            _HEAD.pack(
                size,
                MAGIC_1 if is_short else MAGIC_2,
                crc32(body) & _CRC_MASK,
                record.queue_id,
                record.flag,
                record.queue_offset,
                record.log_offset,
                system_flag,
                record.born_ms,
            ),
            born.address,
            _LENGTH.pack(born.port),
            _TIME.pack(record.stored_ms),
            store.address,
            _LENGTH.pack(store.port),
            _AFTER_HOSTS.pack(record.reconsume_times, record.half_offset, len(body)),
            body,
            topic_length,
            topic,
            _SHORT.pack(len(properties)),
            properties,
        )
    )


def decode_records(data: bytes) -> list[MessageRecord]:
    """Return the messages in the bytes. InvalidRecord if a length passes the end, or a checksum is wrong."""
    records: list[MessageRecord] = []
    at = 0
    try:
        while at < len(data):
            record, size = _decode_record(data, at)
            records.append(record)
            at += size
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise InvalidRecord(f"a message at byte {at} is cut off or no text: {error}") from error
    return records


def _decode_record(data: bytes, start: int) -> tuple[MessageRecord, int]:
    size, magic, crc, queue_id, flag, queue_offset, log_offset, system_flag, born_ms = _HEAD.unpack_from(data, start)
    if magic not in (MAGIC_1, MAGIC_2):
        raise InvalidRecord(f"a message at byte {start} has magic number {magic:#x}")
    at = start + _HEAD.size
    born_host, at = _read_host(data, at, is_ipv6=bool(system_flag & BORN_HOST_IPV6))
    [stored_ms] = _TIME.unpack_from(data, at)
    store_host, at = _read_host(data, at + _TIME.size, is_ipv6=bool(system_flag & STORE_HOST_IPV6))
    reconsume_times, half_offset, body_length = _AFTER_HOSTS.unpack_from(data, at)
    body, at = _read_bytes(data, at + _AFTER_HOSTS.size, body_length)
    if crc32(body) & _CRC_MASK != crc:
        raise InvalidRecord(f"the body of the message at byte {start} is damaged")
    if magic == MAGIC_1:
        topic, at = _read_bytes(data, at + 1, data[at])
    else:
        topic, at = _read_bytes(data, at + _SHORT.size, _SHORT.unpack_from(data, at)[0])
    properties, at = _read_bytes(data, at + _SHORT.size, _SHORT.unpack_from(data, at)[0])
    if at != start + size:
        raise InvalidRecord(f"the message at byte {start} has {at - start} bytes, and says {size}")
    record = MessageRecord(
        topic.decode(),
        body,
        properties.decode(),
        queue_id,
        queue_offset,
        log_offset,
        flag,
        system_flag & ~(BORN_HOST_IPV6 | STORE_HOST_IPV6),
        born_ms,
        born_host,
        stored_ms,
        store_host,
        reconsume_times,
        half_offset,
    )
    return record, size


def decode_batch(data: bytes, *, parts_max: int) -> list[tuple[int, bytes, str]]:
    """Return the messages of a batch, at most so many, as plain tuples with the fields of `BatchPart`, since there are
    many. InvalidRecord if its bytes are not as they must be."""
    parts: list[tuple[int, bytes, str]] = []
    at = 0
    try:
        while at < len(data):
            if len(parts) == parts_max:
                raise InvalidRecord(f"the batch has more than {parts_max} messages")
            start = at
            size = read_u32_be(data, at)
            flag: int = read_i32_be(data, at + _PART_FLAG_AT)
            body, at = _read_bytes(data, at + _PART_HEAD_BYTES, read_u32_be(data, at + _PART_LENGTH_AT))
            properties, at = _read_bytes(data, at + _SHORT_BYTES, read_u16_be(data, at))
            if at != start + size:
                raise InvalidRecord(f"message {len(parts)} of the batch has {at - start} bytes, and says {size}")
            parts.append((flag, body, properties.decode()))
    except (IndexError, UnicodeDecodeError) as error:
        raise InvalidRecord(f"message {len(parts)} of the batch is cut off or no text: {error}") from error
    return parts


def encode_batch(parts: "Sequence[tuple[int, bytes, str]]") -> bytes:
    """Return the bytes of a batch, as clients send it."""
    pieces: list[bytes] = []
    for flag, body, text in parts:
        properties = text.encode()
        size = _PART_HEAD.size + len(body) + _SHORT.size + len(properties)
        pieces += (_PART_HEAD.pack(size, 0, 0, flag, len(body)), body, _SHORT.pack(len(properties)), properties)
    return b"".join(pieces)


def _read_host(data: bytes, at: int, *, is_ipv6: bool) -> tuple[Host, int]:
    address, at = _read_bytes(data, at, IPV6_BYTES if is_ipv6 else IPV4_BYTES)
    return Host(address, _LENGTH.unpack_from(data, at)[0]), at + _LENGTH.size


def _read_bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    stop = at + length
    if length < 0 or stop > len(data):
        raise InvalidRecord(f"{length} bytes at byte {at} pass the end at {len(data)}")
    return data[at:stop], stop
