"""Protobuf framed by hand, for the one path where a message passes without being parsed: delivery.

The store keeps a message's `system_properties` apart from the rest, both serialized, and its topic not at all: a
consumer sees the topic as it asked for it. What a consumer gets is

    topic | rest | tag and new length of system_properties | stored system_properties | the fields that delivery adds

which to every decoder is one ordinary `Message`. The added fields stand inside the one sub-message, since decoders in
JavaScript keep only the last of a sub-message that appears twice.
"""

TOPIC_TAG = b"\x0a"  # Message.topic = 1
SYSTEM_PROPERTIES_TAG = b"\x1a"  # Message.system_properties = 3
RECEIVED_MESSAGE_TAG = b"\x12"  # ReceiveMessageResponse.message = 2, PullMessageResponse.message = 2
_STORE_TIMESTAMP_TAG = b"\x4a"  # SystemProperties.store_timestamp = 9
_STORE_HOST_TAG = b"\x52"  # SystemProperties.store_host = 10
_RECEIPT_HANDLE_TAG = b"\x62"  # SystemProperties.receipt_handle = 12
_QUEUE_ID_TAG = b"\x68"  # SystemProperties.queue_id = 13
_QUEUE_OFFSET_TAG = b"\x70"  # SystemProperties.queue_offset = 14
_DELIVERY_ATTEMPT_TAG = b"\x80\x01"  # SystemProperties.delivery_attempt = 16
_SECONDS_TAG = b"\x08"  # Timestamp.seconds = 1
_NANOS_TAG = b"\x10"  # Timestamp.nanos = 2


def varint(value: int) -> bytes:
    """A non-negative number as protobuf writes it."""
    if value < 0x80:
        return _ONE_BYTE[value]
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


def framed(tag: bytes, content: bytes) -> bytes:
    """A length-delimited field."""
    return tag + varint(len(content)) + content


def timestamp(milliseconds: int) -> bytes:
    """A serialized `google.protobuf.Timestamp`; `milliseconds` since the epoch, not negative."""
    seconds, rest = divmod(milliseconds, 1000)
    return _SECONDS_TAG + varint(seconds) + (_NANOS_TAG + varint(rest * 1_000_000) if rest else b"")


def delivered_fields(
    *, stored_ms: int, store_host: bytes, queue_id: int, queue_offset: int, attempt: int, handle: str | None
) -> bytes:
    """The fields of `SystemProperties` that delivery adds; `store_host` is `host:port`, `handle` None for a pull."""
    fields = (
        framed(_STORE_TIMESTAMP_TAG, timestamp(stored_ms))
        + framed(_STORE_HOST_TAG, store_host)
        + _QUEUE_ID_TAG
        + varint(queue_id)
        + _QUEUE_OFFSET_TAG
        + varint(queue_offset)
        + _DELIVERY_ATTEMPT_TAG
        + varint(attempt)
    )
    return fields if handle is None else fields + framed(_RECEIPT_HANDLE_TAG, handle.encode())


def response_with_message(*, topic: bytes, rest: bytes, system: bytes, added: bytes) -> bytes:
    """A serialized `ReceiveMessageResponse` (or `PullMessageResponse`) that holds the message; `topic` is a serialized
    `Resource`."""
    topic_field = framed(TOPIC_TAG, topic)
    properties_head = SYSTEM_PROPERTIES_TAG + varint(len(system) + len(added))
    size = len(topic_field) + len(rest) + len(properties_head) + len(system) + len(added)
    return b"".join((RECEIVED_MESSAGE_TAG, varint(size), topic_field, rest, properties_head, system, added))
