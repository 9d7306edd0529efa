"""Reads the messages of an ordinary send from the bytes of its request. The stored form is nearly what was received,
and protobuf's objects would cost more than everything else.

Ordinary   are NORMAL messages, FIFO messages of one message group, messages of one lite topic, and a half message by
           itself, uncompressed, with nothing wrong, whose fields stand in the order of their numbers, as every encoder
           writes them, each known and each once. Anything else is no error here: protobuf reads it, and
           `operations/send.py` says what is wrong.
Stored     user properties, tag, keys, message id, times, host and trace context as they came; digest, encoding and type
           by the server, and also where and when the message was born, if its producer did not say.
"""

from typing import Final

from google.protobuf.message import DecodeError

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import MessageLimits
from ternmq_common.names import is_legal_lite
from ternmq_common.printable import NAME_BYTES_MAX
from ternmq_common.shard.model import NewMessage
from ternmq_common.wire import SYSTEM_PROPERTIES_TAG, TOPIC_TAG, encode_field, encode_timestamp
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.grpc.activities.request_bytes import resource_name
from ternmq_proxy.fronts.wire_fields import NotOrdinary, content_span, read_number
from ternmq_proxy.operations.message_checks import RESERVED_PROPERTY_KEYS
from ternmq_proxy.operations.send_ordinary import OrderKey
from ternmq_proxy.processors.sending.stored_form import DIGEST_HEAD, LAST_SECOND, body_checksum

MESSAGES_TAG: Final = 0x0A
"""SendMessageRequest.messages = 1."""
_TOPIC: Final = TOPIC_TAG[0]
_USER_PROPERTIES: Final = 0x12  # Message.user_properties = 2, of key = 1 and value = 2
_SYSTEM_PROPERTIES: Final = SYSTEM_PROPERTIES_TAG[0]
_BODY: Final = 0x22  # Message.body = 4
_KEY: Final = 0x0A
_VALUE: Final = 0x12
# SystemProperties, by number.
_TAG: Final = 0x0A
_KEYS: Final = 0x12
_MESSAGE_ID: Final = 0x1A
_DIGEST: Final = 0x22
_ENCODING: Final = 0x28
_TYPE: Final = 0x30
_BORN: Final = 0x3A
_HOST: Final = 0x42
_QUEUE_ID: Final = 0x68  # 13
_MESSAGE_GROUP: Final = b"\x8a\x01"  # 17
_TRACE_CONTEXT: Final = b"\x92\x01"  # 18
_LITE_TOPIC: Final = b"\xaa\x01"  # 21
_SECONDS: Final = 0x08  # of a Timestamp
_NANOS: Final = 0x10
_DIGEST_TYPE: Final = 0x08  # of a Digest
_CHECKSUM: Final = 0x12
_BORN_TAG: Final = b"\x3a"
_HOST_TAG: Final = b"\x42"
_IDENTITY_NORMAL: Final = bytes((_ENCODING, definition_pb2.IDENTITY, _TYPE, MessageType.NORMAL))
_IDENTITY_FIFO: Final = bytes((_ENCODING, definition_pb2.IDENTITY, _TYPE, MessageType.FIFO))
_IDENTITY_LITE: Final = bytes((_ENCODING, definition_pb2.IDENTITY, _TYPE, MessageType.LITE))
_IDENTITY_HALF: Final = bytes((_ENCODING, definition_pb2.IDENTITY, _TYPE, MessageType.TRANSACTION))
_IS_IDENTITY: Final = frozenset((definition_pb2.ENCODING_UNSPECIFIED, definition_pb2.IDENTITY))
_HALF: Final = int(MessageType.TRANSACTION)
# The protocol has no such limit, but more of them take long.
_KEYS_MAX: Final = 128


class HalfFound(NotOrdinary):
    """Raised for a message of type TRANSACTION, which `read_half_message` reads."""


class SendContext:
    """The origin of messages: address as `host:port`, time in milliseconds, and the limits of a message."""

    __slots__ = ("limits", "now_ms", "peer")

    def __init__(
        self,
        peer: str,
        now_ms: int,
        limits: MessageLimits,
    ) -> None:
        self.peer: str = peer
        self.now_ms: int = now_ms
        self.limits: MessageLimits = limits


class OrdinarySend:
    """The name of the topic, the order key of all messages, and the messages in stored form."""

    __slots__ = ("messages", "order_key", "topic")

    def __init__(
        self,
        topic: str,
        order_key: OrderKey,
        messages: list[NewMessage],
    ) -> None:
        self.topic: str = topic
        self.order_key: OrderKey = order_key
        self.messages: list[NewMessage] = messages


def read_sent_messages(data: bytes, sender: SendContext, *, most: int) -> OrdinarySend:
    """Return the messages of a request. Raises NotOrdinary, also for no message, for more than `most`, and for messages
    of several topics, message groups or lite topics; HalfFound if it has a half message."""
    messages: list[NewMessage] = []
    topic = b""
    order_key = ("", "")
    at, end = 0, len(data)
    try:
        while at < end:
            if data[at] != MESSAGES_TAG or len(messages) == most:
                raise NotOrdinary
            begin, at = content_span(data, at + 1, end)
            name, its_key, message = read_sent_message(data, begin, at, sender)
            if messages and (name != topic or its_key != order_key):
                raise NotOrdinary
            topic, order_key = name, its_key
            messages.append(message)
        return OrdinarySend(resource_name(topic), order_key, messages)
    except (IndexError, UnicodeDecodeError, DecodeError) as error:
        raise NotOrdinary from error


def read_half_message(data: bytes, sender: SendContext) -> tuple[str, NewMessage]:
    """Return the topic and the message of a request that sends one half message, without a message group and with the
    server's recovery duration. Raises NotOrdinary."""
    try:
        if data[0] != MESSAGES_TAG:
            raise NotOrdinary
        begin, end = content_span(data, 1, len(data))
        if end != len(data):
            raise NotOrdinary
        topic, _, message = read_sent_message(data, begin, end, sender, is_half=True)
        return resource_name(topic), message
    except (IndexError, UnicodeDecodeError, DecodeError) as error:
        raise NotOrdinary from error


def read_sent_message(
    data: bytes, at: int, end: int, sender: SendContext, *, is_half: bool = False
) -> tuple[bytes, OrderKey, NewMessage]:
    """Return the message at this position: its topic as a serialized Resource, its order key, and its stored form. It
    must be of type TRANSACTION if `is_half`, or else of another one. Raises NotOrdinary, and on broken bytes IndexError
    or UnicodeDecodeError."""
    if data[at] != _TOPIC:
        raise NotOrdinary
    begin, at = content_span(data, at + 1, end)
    topic = data[begin:at]
    user = at
    user_text, user_bytes = "", 0
    if data[at] == _USER_PROPERTIES:
        at, user_text, user_bytes = _read_user_properties(data, at, end, sender.limits.properties_max)
    user_end = at
    if data[at] != _SYSTEM_PROPERTIES:
        raise NotOrdinary
    system, system_end = content_span(data, at + 1, end)
    if data[system_end] != _BODY:
        raise NotOrdinary
    begin, at = content_span(data, system_end + 1, end)
    if at != end or not 0 < at - begin <= sender.limits.body_bytes_max:
        raise NotOrdinary
    rest = data[system_end:end] if user == user_end else data[user:user_end] + data[system_end:end]
    order_key, message = _read_stored_form(
        data, system, system_end, rest, data[begin:end], user_text, user_bytes, sender, is_half
    )
    return topic, order_key, message


def _read_user_properties(data: bytes, at: int, end: int, most: int) -> tuple[int, str, int]:
    """Return where the user properties end, all their text, and its size."""
    keys: list[str] = []
    texts: list[str] = []
    size = 0
    while data[at] == _USER_PROPERTIES:
        at, stop = content_span(data, at + 1, end)
        if data[at] != _KEY:
            raise NotOrdinary
        begin, at = content_span(data, at + 1, stop)
        keys.append(data[begin:at].decode())
        size += at - begin
        if data[at] != _VALUE:
            raise NotOrdinary
        begin, at = content_span(data, at + 1, stop)
        texts.append(data[begin:at].decode())
        size += at - begin
        if at != stop or len(keys) > most:
            raise NotOrdinary
    if not RESERVED_PROPERTY_KEYS.isdisjoint(keys):
        raise NotOrdinary
    return at, "".join(keys) + "".join(texts), size


def _read_stored_form(
    data: bytes,
    begin: int,
    end: int,
    rest: bytes,
    body: bytes,
    user_text: str,
    user_bytes: int,
    sender: SendContext,
    is_half: bool,
) -> tuple[OrderKey, NewMessage]:
    """Return the order key, and the message whose system properties are at this position. Fields up to the message id
    are stored as one piece."""
    at, text, size, tag = begin, user_text, user_bytes, ""
    if data[at] == _TAG:
        first, at = content_span(data, at + 1, end)
        tag = data[first:at].decode()
        if "|" in tag or not tag.strip():
            raise NotOrdinary
        text += tag
        size += at - first
    keys: list[str] = []
    while data[at] == _KEYS:
        first, at = content_span(data, at + 1, end)
        key = data[first:at].decode()
        if not key.strip() or len(keys) == _KEYS_MAX:
            raise NotOrdinary
        keys.append(key)
        text += key
        size += at - first
    if data[at] != _MESSAGE_ID:
        raise NotOrdinary
    first, at = content_span(data, at + 1, end)
    message_id = data[first:at].decode()
    text += message_id
    if not message_id or message_id.isspace() or size > sender.limits.properties_bytes_max:
        raise NotOrdinary
    born, host_text, group, lite = _read_from_birth(data, at, end, sender, is_half)
    if is_half and (group or lite):
        raise NotOrdinary
    if not text.isprintable() or not host_text.isprintable() or not group.isprintable():
        raise NotOrdinary
    kind = _IDENTITY_FIFO if group else _IDENTITY_LITE if lite else _IDENTITY_HALF if is_half else _IDENTITY_NORMAL
    system = b"".join((data[begin:at], DIGEST_HEAD, body_checksum(body), kind, born))
    if len(system) + len(rest) - len(body) > sender.limits.stored_properties_bytes_max:
        raise NotOrdinary
    return (group, lite), NewMessage(tag_hash(tag), system, rest, (message_id, *keys))


def _read_from_birth(data: bytes, at: int, end: int, sender: SendContext, is_half: bool) -> tuple[bytes, str, str, str]:
    """Return the fields from the time of birth on in stored form, and host, message group and lite topic if present."""
    first = at = _skip_server_fields(data, at, end, is_half)
    if at < end and data[at] == _BORN:
        begin, at = content_span(data, at + 1, end)
        _check_time(data, begin, at)
    time = data[first:at] or encode_field(_BORN_TAG, encode_timestamp(sender.now_ms))
    first, host_text = at, ""
    if at < end and data[at] == _HOST:
        begin, at = content_span(data, at + 1, end)
        host_text = data[begin:at].decode()
        if not host_text or at - begin > NAME_BYTES_MAX:
            raise NotOrdinary
    host = data[first:at] or encode_field(_HOST_TAG, sender.peer.encode())
    first = at = _skip_queue_id(data, at, end)
    group = ""
    if data[at : at + 2] == _MESSAGE_GROUP and at + 2 < end:
        begin, at = content_span(data, at + 2, end)
        group = data[begin:at].decode()
        if not group.strip() or at - begin > sender.limits.message_group_bytes_max:
            raise NotOrdinary
    if data[at : at + 2] == _TRACE_CONTEXT and at + 2 < end:
        begin, at = content_span(data, at + 2, end)
        data[begin:at].decode()
    lite = ""
    if data[at : at + 2] == _LITE_TOPIC and at + 2 < end:
        begin, at = content_span(data, at + 2, end)
        lite = data[begin:at].decode()
        if group or not is_legal_lite(lite):
            raise NotOrdinary
    if at != end:
        raise NotOrdinary
    return time + host + data[first:at], host_text, group, lite


def _skip_queue_id(data: bytes, at: int, end: int) -> int:
    """Return where the optional queue id ends. Clients may send one, but the server chooses the queue."""
    return read_number(data, at + 1)[1] if at < end and data[at] == _QUEUE_ID else at


def _skip_server_fields(data: bytes, at: int, end: int, is_half: bool) -> int:
    """Return where digest, encoding and type end, which the server sets itself."""
    kind = 0
    if at < end and data[at] == _DIGEST:
        begin, at = content_span(data, at + 1, end)
        _check_digest(data, begin, at)
    if at < end and data[at] == _ENCODING:
        if data[at + 1] not in _IS_IDENTITY:
            raise NotOrdinary
        at += 2
    if at < end and data[at] == _TYPE:
        kind = data[at + 1]
        if kind > _HALF and kind != MessageType.LITE:
            raise NotOrdinary
        at += 2
    if is_half != (kind == _HALF):
        raise NotOrdinary if is_half else HalfFound
    return at


def _check_digest(data: bytes, at: int, end: int) -> None:
    """Raise NotOrdinary unless the bytes are a Digest."""
    if at < end and data[at] == _DIGEST_TYPE:
        _, at = read_number(data, at + 1)
    if at < end and data[at] == _CHECKSUM:
        begin, at = content_span(data, at + 1, end)
        data[begin:at].decode()
    if at != end:
        raise NotOrdinary


def _check_time(data: bytes, at: int, end: int) -> None:
    """Raise NotOrdinary unless the bytes are a time that consumers can read."""
    seconds = nanos = 0
    if at < end and data[at] == _SECONDS:
        seconds, at = read_number(data, at + 1)
    if at < end and data[at] == _NANOS:
        nanos, at = read_number(data, at + 1)
    if at != end or seconds > LAST_SECOND or nanos >= 1_000_000_000:
        raise NotOrdinary
