"""Makes the records of ordinary messages from their stored bytes, without parsing them: pulls are mostly of these.

Ordinary   are NORMAL messages, uncompressed, with nothing hidden and without trace context, in the form in which fronts
           write them, whose user properties have each name once. Of any other, `delivered_messages.py` reads the
           stored form by protobuf; the record is the same but for the order of user properties.
"""

import struct
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from ternmq_common.catalog.message_type import MessageType
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.remoting.messages import property_names as names
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
    from collections.abc import Callable

    from ternmq_common.shard.model import StoredMessage

# The parts of a record (`message_records.py`).
_HEAD: Final = struct.Struct(">iIiiiqqiq")
_PORT: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">q")
_AFTER_HOSTS: Final = struct.Struct(">iqi")
_SHORT: Final = struct.Struct(">H")
# All of these at once, with hosts of IPv4.
_IPV4_START: Final = struct.Struct(">iIiiiqqiq8sq8siqi")
_FIXED_BYTES: Final = _HEAD.size + _TIME.size + _AFTER_HOSTS.size + _SHORT.size
_CRC_MASK: Final = 0x7FFF_FFFF
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
_IDENTITY_NORMAL: Final = bytes((0x28, definition_pb2.IDENTITY, 0x30, MessageType.NORMAL))
_MILLISECOND_NS: Final = 1_000_000
_RESERVED: Final = frozenset([name.encode() for name in names.RESERVED])
_TO_ID: Final = f"{names.UNIQUE_KEY}\x01".encode()
_TO_KEYS: Final = f"{names.KEYS}\x01".encode()
_TO_TAG: Final = f"{names.TAGS}\x01".encode()


class _PackedHost(NamedTuple):
    """Address and port as a record has them."""

    data: bytes
    is_ipv6: bool


def _pack_host(host: Host) -> _PackedHost:
    return _PackedHost(host.address + _PORT.pack(host.port), host.is_ipv6)


class OrdinaryRecords:
    """Makes records for the connections of one address: `store_host`. `find_number` returns the number of a place in a
    broker's log."""

    __slots__ = ("_end", "_find_number", "_hosts", "_store_host", "_topic", "_topic_bytes")

    def __init__(self, store_host: Host, cluster: str, find_number: "Callable[[str, int], int]") -> None:
        self._store_host = _pack_host(store_host)
        self._end = (
            f"\x02{names.MESSAGE_REGION}\x01{names.REGION}\x02{names.TRACE_ON}\x01true\x02{names.CLUSTER}\x01{cluster}\x02"
        ).encode()
        self._find_number = find_number
        self._hosts: dict[bytes, _PackedHost] = {}
        self._topic = ""
        self._topic_bytes = b""

    def encode_message(self, stored: "StoredMessage") -> bytes | None:
        """Return the record of a stored message, None if it is not ordinary."""
        try:
            return self._encode_ordinary(stored)
        except (NotOrdinary, IndexError, UnicodeDecodeError):
            return None

    def _encode_ordinary(self, stored: "StoredMessage") -> bytes:
        system: bytes = stored.system
        rest: bytes = stored.rest
        end = len(system)
        pieces: list[bytes] = []
        body = rest[_read_user_properties(rest, pieces) :]
        at = tag_at = tag_end = 0
        if system[0] == _TAG:
            tag_at, at = content_span(system, 1, end)
            tag_end = at
        keys: list[bytes] = []
        while system[at] == _KEYS:
            begin, at = content_span(system, at + 1, end)
            keys.append(system[begin:at])
        if system[at] != _MESSAGE_ID:
            raise NotOrdinary
        begin, at = content_span(system, at + 1, end)
        pieces += (_TO_ID, system[begin:at])
        if keys:
            pieces += (b"\x02", _TO_KEYS, b" ".join(keys))
        if tag_at < tag_end:
            pieces += (b"\x02", _TO_TAG, system[tag_at:tag_end])
        pieces.append(self._end)
        if system[at] != _DIGEST:
            raise NotOrdinary
        _, at = content_span(system, at + 1, end)
        if system[at : at + 4] != _IDENTITY_NORMAL or system[at + 4] != _BORN:
            raise NotOrdinary
        begin, at = content_span(system, at + 5, end)
        born_ms = _read_milliseconds(system, begin, at)
        if system[at] != _HOST:
            raise NotOrdinary
        begin, at = content_span(system, at + 1, end)
        if at != end:
            raise NotOrdinary
        return self._join_record(stored, body, b"".join(pieces), born_ms, self._pack_born_host(system[begin:at]))

    def _join_record(
        self, stored: "StoredMessage", body: bytes, properties: bytes, born_ms: int, born: _PackedHost
    ) -> bytes:
        queue, store, body_size = stored.queue, self._store_host, len(body)
        if queue.topic != self._topic:
            self._note_topic(queue.topic)
        topic = self._topic_bytes
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise NotOrdinary
        size = _FIXED_BYTES + len(born.data) + len(store.data) + body_size + len(topic) + len(properties)
        system_flag = (BORN_HOST_IPV6 if born.is_ipv6 else 0) | (STORE_HOST_IPV6 if store.is_ipv6 else 0)
        number = self._find_number(queue.broker, stored.log_offset)
        crc = crc32(body) & _CRC_MASK
        head = (size, MAGIC_1, crc, queue.queue_id, 0, stored.queue_offset, number, system_flag, born_ms)
        after = (0, 0, body_size)
        if not system_flag:
            start = _IPV4_START.pack(*head, born.data, stored.stored_ms, store.data, *after)
        else:
            parts = (_HEAD.pack(*head), born.data, _TIME.pack(stored.stored_ms), store.data, _AFTER_HOSTS.pack(*after))
            start = b"".join(parts)
        return b"".join((start, body, topic, _SHORT.pack(len(properties)), properties))

    def _note_topic(self, name: str) -> None:
        topic = name.encode()
        if len(topic) > TOPIC_BYTES_MAX_1:
            raise NotOrdinary
        self._topic, self._topic_bytes = name, bytes((len(topic),)) + topic

    def _pack_born_host(self, text: bytes) -> _PackedHost:
        host = self._hosts.get(text)
        if host is None:
            if len(self._hosts) >= _HOSTS_MAX:
                self._hosts.clear()
            host = self._hosts[text] = _pack_host(parse_host(text.decode()))
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


def _read_milliseconds(data: bytes, at: int, end: int) -> int:
    """Return the time of a Timestamp in milliseconds."""
    seconds = nanos = 0
    if at < end and data[at] == _SECONDS:
        seconds, at = read_number(data, at + 1)
    if at < end and data[at] == _NANOS:
        nanos, at = read_number(data, at + 1)
    if at != end:
        raise NotOrdinary
    return seconds * 1000 + nanos // _MILLISECOND_NS
