"""A checked message in the form that is stored: what a consumer will get, less what the server adds on delivery."""

from hashlib import md5
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.model import NewMessage
from ternmq_common.printable import problem_of_name
from ternmq_common.tag_filter import tag_hash
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_common.limits import MessageLimits
    from ternmq_protos.pool import Timestamp
    from ternmq_protos.v2.definition_pb2 import Message, SystemProperties
    from ternmq_proxy.processors.inflation import Inflation

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
LAST_SECOND = 253_402_300_799


def stored_form(
    message: "Message",
    properties: "SystemProperties",
    body: bytes,
    checksum: str,
    peer: str,
    now_ms: int,
    limits: "MessageLimits",
) -> NewMessage:
    """Take the message apart for the store; `message` is used up. `properties` and `body` are its own, `checksum` is
    `md5_of` the body; `peer` is who sent it, as `host:port`.

    Sets what consumers need and producers leave out: digest, encoding, type, where and when it was born. Raises
    MESSAGE_PROPERTIES_TOO_LARGE for properties that are too much only together with those that have no limit of their
    own, such as the trace context.
    """
    clear = properties.ClearField
    for field in _SERVERS_OWN:
        clear(field)
    if properties.body_encoding != definition_pb2.GZIP:
        properties.body_encoding = definition_pb2.IDENTITY
    digest = properties.body_digest
    digest.type = definition_pb2.MD5
    digest.checksum = checksum
    born_host = properties.born_host
    if not born_host or problem_of_name(born_host):
        properties.born_host = peer  # tools print it
    if not properties.HasField("born_timestamp") or not is_time(properties.born_timestamp):
        properties.born_timestamp.FromMilliseconds(now_ms)
    keys = (properties.message_id, *properties.keys)
    tag = properties.tag
    system = properties.SerializeToString()
    message.ClearField("system_properties")
    message.ClearField("topic")
    rest = message.SerializeToString()
    around_body = len(system) + len(rest) - len(body)
    if around_body > limits.stored_properties_bytes_max:
        raise MessagingError(
            ErrorCode.MESSAGE_PROPERTIES_TOO_LARGE,
            f"all properties, the system's included, have {around_body} bytes as stored; "
            f"{limits.stored_properties_bytes_max} are allowed",
        )
    return NewMessage(tag_hash(tag) if tag else 0, system, rest, keys)


async def inflate(message: "Message", inflation: "Inflation", limits: "MessageLimits") -> None:
    """Have a compressed body stored as it was before, so that clients that can't inflate (C++, Rust) can read it; see
    `Inflation.inflated`."""
    body = await inflation.inflated(message.body, limits.body_bytes_max)
    if body is not None:
        message.body = body
        message.system_properties.body_encoding = definition_pb2.IDENTITY


def md5_of(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest().upper()


def is_time(stamp: "Timestamp") -> bool:
    """Whether it is a time between 1970 and 9999; consumers fail on others, and with them on their whole batch."""
    return 0 <= stamp.seconds <= LAST_SECOND and 0 <= stamp.nanos < 1_000_000_000
