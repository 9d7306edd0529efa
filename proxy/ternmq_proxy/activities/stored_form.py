"""A checked message in the form that is stored: what a consumer will get, less what the server adds on delivery."""

import zlib
from hashlib import md5
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.model import NewMessage
from ternmq_common.printable import problem_of_name
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_common.limits import MessageLimits
    from ternmq_protos.pool import Timestamp
    from ternmq_protos.v2.definition_pb2 import Message, SystemProperties

_SERVERS_OWN = (
    "store_timestamp",
    "store_host",
    "receipt_handle",
    "queue_id",
    "queue_offset",
    "invisible_duration",
    "delivery_attempt",
    "dead_letter_queue",
)
_LAST_SECOND = 253_402_300_799
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


def stored_form(message: "Message", *, peer: str, now_ms: int, limits: "MessageLimits") -> NewMessage:
    """Take the message apart for the store; `message` is used up.

    Sets what consumers need and producers leave out: digest, encoding, type, where and when it was born. Raises
    MESSAGE_CORRUPTED for a body that is not GZIP though it says so, and MESSAGE_PROPERTIES_TOO_LARGE for properties
    that are too much only together with those that have no limit of their own, such as the trace context.
    """
    properties = message.system_properties
    for field in _SERVERS_OWN:
        properties.ClearField(field)
    if properties.body_encoding == definition_pb2.GZIP:
        _inflate(message, limits.body_bytes_max)
    else:
        properties.body_encoding = definition_pb2.IDENTITY
    digest = properties.body_digest
    digest.type = definition_pb2.MD5
    digest.checksum = md5(message.body, usedforsecurity=False).hexdigest().upper()
    if not properties.born_host or problem_of_name(properties.born_host):
        properties.born_host = peer  # tools print it
    if not properties.HasField("born_timestamp") or not is_time(properties.born_timestamp):
        properties.born_timestamp.FromMilliseconds(now_ms)
    return _split(message, properties, limits)


def is_time(stamp: "Timestamp") -> bool:
    """Whether it is a time between 1970 and 9999; consumers fail on others, and with them on their whole batch."""
    return 0 <= stamp.seconds <= _LAST_SECOND and 0 <= stamp.nanos < 1_000_000_000


def _split(message: "Message", properties: "SystemProperties", limits: "MessageLimits") -> NewMessage:
    message_id, keys, tag = properties.message_id, tuple(properties.keys), properties.tag
    body_bytes = len(message.body)
    system = properties.SerializeToString()
    message.ClearField("system_properties")
    message.ClearField("topic")
    rest = message.SerializeToString()
    around_body = len(system) + len(rest) - body_bytes
    if around_body > limits.stored_properties_bytes_max:
        raise MessagingError(
            definition_pb2.MESSAGE_PROPERTIES_TOO_LARGE,
            f"all properties, the system's included, have {around_body} bytes as stored; "
            f"{limits.stored_properties_bytes_max} are allowed",
        )
    return NewMessage(system, rest, message_id, keys, tag)


def _inflate(message: "Message", body_bytes_max: int) -> None:
    """Store a compressed body as it was before, so that clients that can't inflate (C++, Rust) can read it.

    A body that would pass the limit, or that goes on after the end of its first part, stays compressed. One that is not
    compressed at all would break its consumers.
    """
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        body = inflater.decompress(message.body, body_bytes_max + 1)
    except zlib.error as error:
        raise MessagingError(
            definition_pb2.MESSAGE_CORRUPTED, f"the body is said to be GZIP but can't be inflated: {error}"
        ) from error
    if len(body) > body_bytes_max or inflater.unused_data:
        return
    if not inflater.eof:
        raise MessagingError(definition_pb2.MESSAGE_CORRUPTED, "the body is said to be GZIP but ends too early")
    if not body:
        raise MessagingError(definition_pb2.MESSAGE_BODY_EMPTY, "the body is empty once it is inflated")
    message.body = body
    message.system_properties.body_encoding = definition_pb2.IDENTITY
