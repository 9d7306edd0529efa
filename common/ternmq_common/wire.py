"""Writes delivered messages as protobuf by hand: the one path where a message passes without being parsed.

The store keeps a message's `system_properties` apart from the rest, both serialized, and its topic not at all: a
consumer gets the topic as in its request. A delivered message is

  topic | rest | tag and new length of system_properties | stored system_properties | the fields that delivery adds

which to every decoder is one ordinary `Message`. The added fields stand inside the one sub-message, since decoders in
JavaScript keep only the last of a sub-message that appears twice.
"""

import struct
from typing import Final

from librt.strings import BytesWriter

TOPIC_TAG: Final = b"\x0a"  # Message.topic = 1
SYSTEM_PROPERTIES_TAG: Final = b"\x1a"  # Message.system_properties = 3
RECEIVED_MESSAGE_TAG: Final = b"\x12"  # ReceiveMessageResponse.message = 2, PullMessageResponse.message = 2
_USER_PROPERTIES: Final = 0x12  # Message.user_properties = 2
_BODY: Final = 0x22  # Message.body = 4
_STORE_TIMESTAMP_TAG: Final = b"\x4a"  # SystemProperties.store_timestamp = 9
_STORE_HOST_TAG: Final = b"\x52"  # SystemProperties.store_host = 10
_RECEIPT_HANDLE_TAG: Final = b"\x62"  # SystemProperties.receipt_handle = 12
_QUEUE_ID_TAG: Final = b"\x68"  # SystemProperties.queue_id = 13
_QUEUE_OFFSET_TAG: Final = b"\x70"  # SystemProperties.queue_offset = 14
_DELIVERY_ATTEMPT_TAG: Final = b"\x80\x01"  # SystemProperties.delivery_attempt = 16
_SECONDS_TAG: Final = b"\x08"  # Timestamp.seconds = 1
_NANOS_TAG: Final = b"\x10"  # Timestamp.nanos = 2


def encode_varint(value: int) -> bytes:
    """Encode a non-negative number as protobuf does."""
    if value < 0x80:
        return _ONE_BYTE[value]
    if value < 0x4000:
        return _TWO_BYTES(value & 0x7F | 0x80 | (value & 0x3F80) << 1)
    if value < 0x8_0000_0000:
        size = (value.bit_length() + 6) // 7
        sevens = (
            value & 0x7F
            | (value & 0x3F80) << 1
            | (value & 0x1F_C000) << 2
            | (value & 0xFE0_0000) << 3
            | (value & 0x7_F000_0000) << 4
        )
        return (sevens | _MORE[size]).to_bytes(size, "little")
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


# The bit that says that a byte follows, in all bytes but the last one of so many.
_MORE: Final = [0, 0, 0x80, 0x8080, 0x80_8080, 0x8080_8080]
_ONE_BYTE: Final = [bytes((value,)) for value in range(0x80)]
_TWO_BYTES: Final = struct.Struct("<H").pack


def encode_field(tag: bytes, content: bytes) -> bytes:
    """Encode a length-delimited field."""
    return tag + encode_varint(len(content)) + content


def write_varint(writer: BytesWriter, value: int) -> None:
    """Write a non-negative number as protobuf does."""
    while value >= 0x80:
        writer.append(value & 0x7F | 0x80)
        value >>= 7
    writer.append(value)


def write_field(writer: BytesWriter, tag: int, content: bytes) -> None:
    """Write a length-delimited field, whose tag has one byte."""
    writer.append(tag)
    write_varint(writer, len(content))
    writer.write(content)


def encode_timestamp(milliseconds: int) -> bytes:
    """A serialized `google.protobuf.Timestamp`; `milliseconds` since the epoch, not negative."""
    seconds, rest = divmod(milliseconds, 1000)
    return _SECONDS_TAG + encode_varint(seconds) + (_NANOS_TAG + encode_varint(rest * 1_000_000) if rest else b"")


def without_body(rest: bytes) -> bytes:
    """The part of a stored message before its body, which is its user properties; all of it if it looks otherwise.

    Encoders write fields in the order of their numbers, and the body is the last.
    """
    at = 0
    while at < len(rest) and rest[at] == _USER_PROPERTIES:
        size, shift, byte = 0, 0, 0x80
        while byte & 0x80:
            at += 1
            if at == len(rest):
                return rest
            byte = rest[at]
            size |= (byte & 0x7F) << shift
            shift += 7
        at += 1 + size
    return rest[:at] if at < len(rest) and rest[at] == _BODY else rest


class DeliveredFrames:
    """Encodes the messages of one answer: `ReceiveMessageResponse`s (or `PullMessageResponse`s) that hold one each.

    `topic` is a serialized `Resource`, `store_host` is `host:port`. Parts that a message shares with the one before
    are reused.
    """

    __slots__ = ("_attempt", "_common", "_queue_id", "_store_host", "_stored_ms", "_topic")

    def __init__(self, *, topic: bytes, store_host: bytes) -> None:
        self._topic = encode_field(TOPIC_TAG, topic)
        self._store_host = encode_field(_STORE_HOST_TAG, store_host)
        self._stored_ms = self._queue_id = self._attempt = -1
        self._common = b""

    def encode_message(
        self,
        *,
        rest: bytes,
        system: bytes,
        stored_ms: int,
        queue_id: int,
        queue_offset: int,
        attempt: int,
        handle: bytes | None,
    ) -> bytes:
        """Encode the message that is stored in these two parts, with what its delivery adds; `handle` None for a
        pull."""
        if stored_ms != self._stored_ms or queue_id != self._queue_id or attempt != self._attempt:
            self._stored_ms, self._queue_id, self._attempt = stored_ms, queue_id, attempt
            self._common = b"".join(
                (
                    encode_field(_STORE_TIMESTAMP_TAG, encode_timestamp(stored_ms)),
                    self._store_host,
                    _QUEUE_ID_TAG,
                    encode_varint(queue_id),
                    _DELIVERY_ATTEMPT_TAG,
                    encode_varint(attempt),
                    _QUEUE_OFFSET_TAG,
                )
            )
        topic, common, offset = self._topic, self._common, encode_varint(queue_offset)
        right = b"" if handle is None else encode_field(_RECEIPT_HANDLE_TAG, handle)
        system_size = len(system) + len(common) + len(offset) + len(right)
        system_length = encode_varint(system_size)
        size = len(topic) + len(rest) + 1 + len(system_length) + system_size
        return b"".join(
            (
                RECEIVED_MESSAGE_TAG,
                encode_varint(size),
                topic,
                rest,
                SYSTEM_PROPERTIES_TAG,
                system_length,
                system,
                common,
                offset,
                right,
            )
        )
