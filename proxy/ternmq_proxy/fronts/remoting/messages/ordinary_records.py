"""Makes the records of ordinary messages from their stored bytes, without parsing them: pulls are mostly of these.

Ordinary   are NORMAL messages, uncompressed, with nothing hidden and without trace context, in the form in which fronts
           write them, whose user properties have each name once. Of any other, `delivered_messages.py` reads the
           stored form by protobuf; the record is the same but for the order of user properties.
"""

from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from ternmq_common.binary.checksum import crc32
from ternmq_common.binary.numbers import (
    read_u32_le,
    replace_u16_be,
    replace_u32_be,
    write_u16_be,
    write_u32_be,
    write_u64_be,
)
from ternmq_common.catalog.message_type import MessageType
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.messages.places import OFFSET_MASK, first_number
from ternmq_proxy.fronts.wire_fields import NotOrdinary, content_span, read_number
from ternmq_rpc.remoting.message_ids import Host, parse_host
from ternmq_rpc.remoting.message_records import (
    BORN_HOST_IPV6,
    MAGIC_1,
    PROPERTIES_BYTES_MAX,
    STORE_HOST_IPV6,
    TOPIC_BYTES_MAX_1,
)

if TYPE_CHECKING:
    from librt.strings import BytesWriter

    from ternmq_common.shard.model import QueueRef, StoredMessage

_CRC_MASK: Final = 0x7FFF_FFFF
_LENGTH_BYTES: Final = 2
# Fields of a record that are the same in all ordinary ones; the size is replaced later.
_NO_SIZE_AND_MAGIC: Final = bytes(4) + MAGIC_1.to_bytes(4, "big")
_NO_FLAG: Final = bytes(4)
_NO_TIMES_AND_HALF: Final = bytes(4 + 8)
_HOSTS_MAX: Final = 1000
# The stored form, in the order of its fields (`stored_form.py`).
_USER_PROPERTIES: Final = 0x12
_BODY: Final = 0x22
_KEY: Final = 0x0A
_VALUE: Final = 0x12
_TAG: Final = 0x0A
_KEYS: Final = 0x12
_MESSAGE_ID: Final = 0x1A
_DIGEST: Final = 0x22
_BORN: Final = 0x3A
_HOST: Final = 0x42
_SECONDS: Final = 0x08  # of a Timestamp
_NANOS: Final = 0x10
_IDENTITY_NORMAL: Final = int.from_bytes((0x28, definition_pb2.IDENTITY, 0x30, MessageType.NORMAL), "little")
_MILLISECOND_NS: Final = 1_000_000
_RESERVED: Final = frozenset([name.encode() for name in names.RESERVED])
_TO_ID: Final = f"{names.UNIQUE_KEY}\x01".encode()
_TO_KEYS: Final = f"\x02{names.KEYS}\x01".encode()
_TO_TAG: Final = f"\x02{names.TAGS}\x01".encode()


class _PackedHost:
    """Address and port as a record has them."""

    __slots__ = ("data", "is_ipv6")

    def __init__(self, host: Host) -> None:
        self.data: bytes = host.address + host.port.to_bytes(4, "big")
        self.is_ipv6: bool = host.is_ipv6


class OrdinaryRecords:
    """Writes records for the connections of one address: `store_host`. What a message has in common with the one
    before, mostly of the same queue and producer, is reused."""

    __slots__ = (
        "_birth",
        "_born_host",
        "_born_host_text",
        "_born_ms",
        "_end",
        "_first_number",
        "_hosts",
        "_queue",
        "_queue_id",
        "_store_host",
        "_topic_bytes",
    )

    def __init__(self, store_host: Host, cluster: str) -> None:
        self._store_host = _PackedHost(store_host)
        self._end = (
            f"\x02{names.MESSAGE_REGION}\x01{names.REGION}\x02{names.TRACE_ON}\x01true\x02{names.CLUSTER}\x01{cluster}\x02"
        ).encode()
        self._birth = b""
        self._born_ms = 0
        self._born_host_text = b""
        self._hosts: dict[bytes, _PackedHost] = {}
        self._born_host = self._pack_born_host(b"")
        self._queue: QueueRef | None = None
        self._queue_id = 0
        self._first_number = 0
        self._topic_bytes = b""

    def write_message(self, writer: "BytesWriter", stored: "StoredMessage") -> bool:
        """Write the record of a stored message; False, and nothing is written, if the message is not ordinary."""
        start = len(writer)
        try:
            self._write_ordinary(writer, stored)
        except (NotOrdinary, IndexError, UnicodeDecodeError):
            writer.truncate(start)
            return False
        return True

    def _write_ordinary(self, writer: "BytesWriter", stored: "StoredMessage") -> None:
        queue: QueueRef
        queue_offset: int
        stored_ms: int
        system: bytes
        rest: bytes
        log_offset: int
        # One call for all fields: each costs as much by itself.
        queue, queue_offset, stored_ms, system, rest, log_offset, _ = astuple(stored)
        if queue is not self._queue:
            self._note_queue(queue)
        end = len(system)
        user_properties: list[bytes] = []
        body = rest[_read_user_properties(rest, user_properties) :]
        at, tag = 0, b""
        if system[0] == _TAG:
            begin, at = content_span(system, 1, end)
            tag = system[begin:at]
        keys: list[bytes] = []
        while system[at] == _KEYS:
            begin, at = content_span(system, at + 1, end)
            keys.append(system[begin:at])
        if system[at] != _MESSAGE_ID:
            raise NotOrdinary
        begin, at = content_span(system, at + 1, end)
        message_id = system[begin:at]
        if system[at] != _DIGEST:
            raise NotOrdinary
        _, at = content_span(system, at + 1, end)
        if read_u32_le(system, at) != _IDENTITY_NORMAL or system[at + 4] != _BORN:
            raise NotOrdinary
        begin, at = content_span(system, at + 5, end)
        birth = system[begin:at]
        if birth != self._birth:
            self._born_ms = _read_milliseconds(birth)
            self._birth = birth
        if system[at] != _HOST:
            raise NotOrdinary
        begin, at = content_span(system, at + 1, end)
        if at != end:
            raise NotOrdinary
        start = len(writer)
        self._note_born_host(system[begin:at])
        self._write_fields(writer, queue_offset, log_offset, stored_ms, body)
        self._write_properties(writer, user_properties, message_id, keys, tag)
        replace_u32_be(writer, start, len(writer) - start)

    def _write_fields(
        self, writer: "BytesWriter", queue_offset: int, log_offset: int, stored_ms: int, body: bytes
    ) -> None:
        """Write the parts before the properties (`message_records.py`)."""
        born, store = self._born_host, self._store_host
        writer.write(_NO_SIZE_AND_MAGIC)
        write_u32_be(writer, crc32(body) & _CRC_MASK)
        write_u32_be(writer, self._queue_id)
        writer.write(_NO_FLAG)
        write_u64_be(writer, queue_offset)
        write_u64_be(writer, self._first_number | log_offset & OFFSET_MASK)
        write_u32_be(writer, (BORN_HOST_IPV6 if born.is_ipv6 else 0) | (STORE_HOST_IPV6 if store.is_ipv6 else 0))
        write_u64_be(writer, self._born_ms)
        writer.write(born.data)
        write_u64_be(writer, stored_ms)
        writer.write(store.data)
        writer.write(_NO_TIMES_AND_HALF)
        write_u32_be(writer, len(body))
        writer.write(body)
        writer.write(self._topic_bytes)

    def _write_properties(
        self, writer: "BytesWriter", user_properties: list[bytes], message_id: bytes, keys: list[bytes], tag: bytes
    ) -> None:
        start = len(writer)
        write_u16_be(writer, 0)
        for piece in user_properties:
            writer.write(piece)
        writer.write(_TO_ID)
        writer.write(message_id)
        if keys:
            writer.write(_TO_KEYS)
            writer.write(b" ".join(keys))
        if tag:
            writer.write(_TO_TAG)
            writer.write(tag)
        writer.write(self._end)
        length = len(writer) - start - _LENGTH_BYTES
        if length > PROPERTIES_BYTES_MAX:
            raise NotOrdinary
        replace_u16_be(writer, start, length)

    def _note_queue(self, queue: "QueueRef") -> None:
        topic = queue.topic.encode()
        if len(topic) > TOPIC_BYTES_MAX_1:
            raise NotOrdinary
        self._topic_bytes = bytes((len(topic),)) + topic
        self._first_number = first_number(queue.broker)
        self._queue_id = queue.queue_id
        self._queue = queue

    def _note_born_host(self, text: bytes) -> None:
        if text != self._born_host_text:
            self._born_host = self._pack_born_host(text)
            self._born_host_text = text

    def _pack_born_host(self, text: bytes) -> _PackedHost:
        host = self._hosts.get(text)
        if host is None:
            if len(self._hosts) >= _HOSTS_MAX:
                self._hosts.clear()
            host = self._hosts[text] = _PackedHost(parse_host(text.decode()))
        return host


def _read_user_properties(rest: bytes, pieces: list[bytes]) -> int:
    """Add the user properties to the pieces of the text; return where the body begins."""
    at, end = 0, len(rest)
    known: list[bytes] = []
    while rest[at] == _USER_PROPERTIES:
        at, stop = content_span(rest, at + 1, end)
        if rest[at] != _KEY:
            raise NotOrdinary
        begin, at = content_span(rest, at + 1, stop)
        key = rest[begin:at]
        if rest[at] != _VALUE or key in known or key in _RESERVED:
            raise NotOrdinary
        begin, at = content_span(rest, at + 1, stop)
        if at != stop:
            raise NotOrdinary
        known.append(key)
        if begin < at:
            pieces += (key, b"\x01", rest[begin:at], b"\x02")
    if rest[at] != _BODY:
        raise NotOrdinary
    begin, at = content_span(rest, at + 1, end)
    if at != end:
        raise NotOrdinary
    return begin


def _read_milliseconds(data: bytes) -> int:
    """Return the time of a Timestamp in milliseconds."""
    at, end = 0, len(data)
    seconds = nanos = 0
    if at < end and data[at] == _SECONDS:
        seconds, at = read_number(data, at + 1)
    if at < end and data[at] == _NANOS:
        nanos, at = read_number(data, at + 1)
    if at != end:
        raise NotOrdinary
    return seconds * 1000 + nanos // _MILLISECOND_NS
