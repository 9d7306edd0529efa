"""The stored form of messages, which is protobuf's: what a consumer gets, without what delivery adds.

This module converts a producer's message to that form and back. `sent_messages` of the gRPC front writes the same form
from the bytes of an ordinary request.
"""

from binascii import b2a_hex
from hashlib import sha1
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet
from librt.strings import BytesWriter

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.dead_letters import DEAD_LETTER_PROPERTIES
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.printable import find_name_problem
from ternmq_common.shard.hidden_fields import hidden_of, replace_hidden
from ternmq_common.shard.model import NewMessage
from ternmq_common.wire import encode_field, encode_varint, write_field
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Message, SystemProperties
from ternmq_proxy.processors.sending.producer_message import ProducerMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.limits import MessageLimits
    from ternmq_common.shard.model import StoredMessage
    from ternmq_protos.pool import Timestamp

LAST_SECOND: Final = 253_402_300_799
"""The last second of the year 9999."""
SECOND_NS: Final = 1_000_000_000
MILLISECOND_NS: Final = 1_000_000
DIGEST_HEAD: Final = b"\x22\x2c\x08" + bytes((definition_pb2.SHA1,)) + b"\x12\x28"
"""The field body_digest without its 40 digits, which are the `body_checksum`."""
# body_encoding IDENTITY and message_type NORMAL.
_IDENTITY_NORMAL: Final = bytes((0x28, definition_pb2.IDENTITY, 0x30, MessageType.NORMAL))
_TAG: Final = 0x0A
_KEYS: Final = 0x12
_MESSAGE_ID: Final = 0x1A
_OF_RETRIES: Final = frozenset({"ORIGIN_MESSAGE_ID", "DELAY", "WAIT", "REAL_TOPIC", "REAL_QID"})


def is_calendar_time(time_ns: int) -> bool:
    """Return whether a time is between 1970 and 9999; consumers fail on others, and with them on their whole batch."""
    return 0 <= time_ns < (LAST_SECOND + 1) * SECOND_NS


def body_checksum(body: bytes) -> bytes:
    """Return the SHA-1 of a body as consumers compare it, in upper-case hexadecimal.

    All official clients accept SHA-1 and MD5. SHA-1 takes half the time where the processor has SHA instructions.
    """
    return b2a_hex(sha1(body, usedforsecurity=False).digest()).upper()


def to_stored_form(
    message: "ProducerMessage", kind: MessageType, checksum: bytes, peer: str, now_ms: int, limits: "MessageLimits"
) -> NewMessage:
    """Return a checked message of this type in stored form. `checksum` is the `body_checksum` of its body; `peer`, as
    `host:port`, and `now_ms` are where and when it was born if its producer does not say, or sends values that
    consumers can't read.

    Raises MESSAGE_PROPERTIES_TOO_LARGE for properties that are too large only together with those that have no limit of
    their own, such as the trace context.
    """
    system = _serialize_system_properties(message, kind, checksum, peer, now_ms)
    rest = _serialize_rest(message)
    around_body = len(system) + len(rest) - len(message.body)
    if around_body > limits.stored_properties_bytes_max:
        raise MessagingError(
            ErrorCode.MESSAGE_PROPERTIES_TOO_LARGE,
            f"all properties, the system's included, have {around_body} bytes as stored; "
            f"{limits.stored_properties_bytes_max} are allowed",
        )
    tag = message.tag
    return NewMessage(tag_hash(tag), system, rest, (message.message_id, *message.keys))


def _serialize_rest(message: "ProducerMessage") -> bytes:
    """Return all fields but topic and system properties, as protobuf writes them."""
    pieces: list[bytes] = []
    for key, value in message.properties.items():
        pieces.append(write_property(key, value))
    body = message.body
    if body:
        pieces += (b"\x22", encode_varint(len(body)), body)
    return b"".join(pieces) + message.unknown


def _serialize_system_properties(
    message: "ProducerMessage", kind: MessageType, checksum: bytes, peer: str, now_ms: int
) -> bytes:
    born_host, born_ns = message.born_host, message.born_ns
    if born_host != peer and (not born_host or find_name_problem(born_host)):
        born_host = peer  # tools print it
    if born_ns is None or not is_calendar_time(born_ns):
        born_ns = now_ms * MILLISECOND_NS
    if kind == MessageType.NORMAL and not message.is_compressed:
        ordinary = write_ordinary(
            message.tag, (message.message_id, *message.keys), checksum, write_birth(born_ns, born_host)
        )
        trace = message.trace_context
        if trace is not None:
            ordinary += encode_field(b"\x92\x01", trace.encode())
        return ordinary + message.unknown_system
    properties = SystemProperties(
        keys=message.keys,
        message_id=message.message_id,
        body_encoding=definition_pb2.GZIP if message.is_compressed else definition_pb2.IDENTITY,
        born_host=born_host,
    )
    properties.message_type = kind  # type: ignore[assignment] # the protocol's enum has the same numbers
    digest = properties.body_digest
    digest.type = definition_pb2.SHA1
    digest.checksum = checksum.decode()
    _set_time(properties.born_timestamp, born_ns)
    if message.tag:
        properties.tag = message.tag
    if message.trace_context is not None:
        properties.trace_context = message.trace_context
    if kind != MessageType.NORMAL:
        _set_special(properties, message)
    return properties.SerializeToString() + message.unknown_system


def write_property(key: str, value: str) -> bytes:
    """Return a user property as protobuf writes it."""
    pair = encode_field(b"\x0a", key.encode()) + encode_field(b"\x12", value.encode())
    return encode_field(b"\x12", pair)


def write_birth(born_ns: int, born_host: str) -> bytes:
    """Return when and where a message was born, as protobuf writes it; `born_ns` is a calendar time."""
    seconds, nanos = divmod(born_ns, SECOND_NS)
    born = b"\x08" + encode_varint(seconds) if seconds else b""
    if nanos:
        born += b"\x10" + encode_varint(nanos)
    return encode_field(b"\x3a", born) + encode_field(b"\x42", born_host.encode())


def write_ordinary(tag: str, names: "Sequence[str]", checksum: bytes, birth: bytes) -> bytes:
    """Return the system properties of a NORMAL message as protobuf writes them, at a third of the cost; `names` are its
    id and its keys, `birth` is from `write_birth`. A trace context may follow."""
    writer = BytesWriter()
    if tag:
        write_field(writer, _TAG, tag.encode())
    for number in range(1, len(names)):
        write_field(writer, _KEYS, names[number].encode())
    write_field(writer, _MESSAGE_ID, names[0].encode())
    writer.write(DIGEST_HEAD)
    writer.write(checksum)
    writer.write(_IDENTITY_NORMAL)
    writer.write(birth)
    return writer.getvalue()


def _set_special(properties: "SystemProperties", message: "ProducerMessage") -> None:
    if message.delivery_ns is not None:
        _set_time(properties.delivery_timestamp, message.delivery_ns)
    if message.message_group:
        properties.message_group = message.message_group
    if message.lite_topic is not None:
        properties.lite_topic = message.lite_topic
    if message.priority is not None:
        properties.priority = message.priority
    if message.recovery_ms > 0:
        properties.orphaned_transaction_recovery_duration.FromMilliseconds(message.recovery_ms)


def _set_time(stamp: "Timestamp", time_ns: int) -> None:
    stamp.seconds, stamp.nanos = divmod(time_ns, SECOND_NS)


def read_message(message: "Message", properties: "SystemProperties") -> "ProducerMessage":
    """Return the plain values of a message in protobuf's form, as a client sends it or as it is stored; `properties`
    are its system properties, which are stored separately. Fields that the server owns are left out."""
    has, topic = properties.HasField, message.topic
    pairs, keys = message.user_properties, properties.keys
    return ProducerMessage(
        topic=topic.name,
        namespace=topic.resource_namespace,
        body=message.body,
        message_id=properties.message_id,
        tag=properties.tag,
        keys=tuple(keys[:]) if keys else (),
        properties=dict(pairs.items()) if pairs else {},
        is_transaction=int(properties.message_type) == MessageType.TRANSACTION,
        delivery_ns=_delivery_ns(properties.delivery_timestamp) if has("delivery_timestamp") else None,
        message_group=properties.message_group,
        priority=properties.priority if has("priority") else None,
        lite_topic=properties.lite_topic if has("lite_topic") else None,
        recovery_ms=_recovery_ms(properties) if has("orphaned_transaction_recovery_duration") else 0,
        trace_context=properties.trace_context if has("trace_context") else None,
        born_ns=_born_ns(properties.born_timestamp) if has("born_timestamp") else None,
        born_host=properties.born_host,
        is_compressed=int(properties.body_encoding) == definition_pb2.GZIP,
        unknown=_unknown_fields(message),
        unknown_system=_unknown_fields(properties),
    )


def _unknown_fields(message: "Message | SystemProperties") -> bytes:
    """Return the fields that this server does not know, serialized."""
    if not len(UnknownFieldSet(message)):
        return b""
    rest = type(message).FromString(message.SerializeToString())
    for field in message.DESCRIPTOR.fields:
        rest.ClearField(field.name)
    return rest.SerializeToString()


def _to_nanoseconds(stamp: "Timestamp") -> int:
    return stamp.seconds * SECOND_NS + stamp.nanos


def _is_normal(stamp: "Timestamp") -> bool:
    """Return whether its nanoseconds are part of a second, as encoders write them."""
    return 0 <= stamp.nanos < SECOND_NS


def _delivery_ns(stamp: "Timestamp") -> int:
    """Return the delivery timestamp in nanoseconds. Any two numbers count; those that no encoder writes are rounded up
    to a millisecond."""
    time_ns = _to_nanoseconds(stamp)
    return time_ns if _is_normal(stamp) else -(-time_ns // MILLISECOND_NS) * MILLISECOND_NS


def _born_ns(stamp: "Timestamp") -> int | None:
    """Return the time of birth in nanoseconds, None for two numbers that no encoder writes."""
    return _to_nanoseconds(stamp) if _is_normal(stamp) else None


def _recovery_ms(properties: "SystemProperties") -> int:
    return properties.orphaned_transaction_recovery_duration.ToMilliseconds()


class RevivedLetter(NamedTuple):
    """A dead letter as it was before: its original topic, its values, and its stored form."""

    topic: str
    message: ProducerMessage
    stored: NewMessage


def revive_letter(letter: "StoredMessage") -> RevivedLetter:
    """Return a stored dead letter without what made it one."""
    properties = SystemProperties.FromString(letter.system)
    message = Message.FromString(letter.rest)
    topic = properties.dead_letter_queue.topic
    properties.ClearField("dead_letter_queue")
    for name in DEAD_LETTER_PROPERTIES:
        message.user_properties.pop(name, None)
    system = properties.SerializeToString()
    if not (hidden := hidden_of(system)).is_empty:  # or the group's next failure would be its last again
        kept = {name: value for name, value in hidden.properties.items() if name not in _OF_RETRIES}
        system = replace_hidden(system, hidden._replace(reconsume_times=0, properties=kept))
        properties = SystemProperties.FromString(system)
    values = read_message(message, properties)
    stored = NewMessage(
        tag_hash(values.tag),
        system,
        message.SerializeToString(),
        (values.message_id, *values.keys),
    )
    return RevivedLetter(topic, values, stored)


class MessageNames(NamedTuple):
    """The names by which a stored message can be found: its id, tag and keys."""

    message_id: str
    tag: str
    keys: tuple[str, ...]


def read_names(system: bytes) -> MessageNames:
    """Return id, tag and keys of stored system properties."""
    properties = SystemProperties.FromString(system)
    return MessageNames(properties.message_id, properties.tag, tuple(properties.keys))


def drop_body(rest: bytes) -> bytes:
    """Return the stored `rest` of a message without its body, for any order of its fields."""
    message = Message.FromString(rest)
    message.ClearField("body")
    return bytes(message.SerializeToString())
