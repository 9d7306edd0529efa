"""A checked message in the form that is stored: what a consumer will get, less what the server adds on delivery."""

import zlib
from hashlib import md5
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.model import NewMessage
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
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
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


def stored_form(message: "Message", *, peer: str, now_ms: int, body_bytes_max: int) -> NewMessage:
    """Take the message apart for the store; `message` is used up.

    Sets what consumers need and producers leave out: digest, encoding, type, where and when it was born.
    """
    properties = message.system_properties
    for field in _SERVERS_OWN:
        properties.ClearField(field)
    if properties.body_encoding == definition_pb2.GZIP:
        _inflate(message, body_bytes_max)
    else:
        properties.body_encoding = definition_pb2.IDENTITY
    digest = properties.body_digest
    digest.type = definition_pb2.MD5
    digest.checksum = md5(message.body, usedforsecurity=False).hexdigest().upper()
    if not properties.born_host:
        properties.born_host = peer
    if not properties.HasField("born_timestamp"):
        properties.born_timestamp.FromMilliseconds(now_ms)
    return _split(message, properties)


def _split(message: "Message", properties: "SystemProperties") -> NewMessage:
    message_id, keys, tag = properties.message_id, tuple(properties.keys), properties.tag
    system = properties.SerializeToString()
    message.ClearField("system_properties")
    return NewMessage(system, message.SerializeToString(), message_id, keys, tag)


def _inflate(message: "Message", body_bytes_max: int) -> None:
    """Store a compressed body as it was before, so that clients that can't inflate (C++, Rust) can read it.

    A body that would pass the limit stays compressed. One that is not compressed at all would break its consumers.
    """
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        body = inflater.decompress(message.body, body_bytes_max)
    except zlib.error as error:
        raise MessagingError(
            definition_pb2.MESSAGE_CORRUPTED, f"the body is said to be GZIP but can't be inflated: {error}"
        ) from error
    if inflater.eof and body:
        message.body = body
        message.system_properties.body_encoding = definition_pb2.IDENTITY
    elif not inflater.unconsumed_tail:
        raise MessagingError(definition_pb2.MESSAGE_CORRUPTED, "the body is said to be GZIP but ends too early")
