"""Messages to send, and the receipts for them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self, TypedDict, Unpack

from ternmq.errors import BadRequest, PayloadEmpty, RequestHeaderFieldsTooLarge
from ternmq.times.wire_time import NANOS_PER_MS, to_nanos
from ternmq_common.errors import MessagingError
from ternmq_common.limits import LITE_TOPIC_BYTES_MAX, MessageLimits
from ternmq_common.names import check_lite_topic_name, check_topic_name
from ternmq_protos.v2 import definition_pb2 as pb

LIMITS = MessageLimits()
_known_topics: set[str] = set()
_KNOWN_TOPICS_MAX = 10_000
# The property of RocketMQ 4.x with a delay level.
DELAY_LEVEL_PROPERTY: Final = "DELAY"
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Half of a character, as from `os.fsdecode` and broken JSON: it can't be encoded in UTF-8.
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MUST_NOT = "must not be blank nor hold control characters or lone surrogates"
_NO_KIND = (None,) * 6


class MessageOptions(TypedDict, total=False):
    """The optional fields of a message."""

    tag: str | None
    keys: Sequence[str]
    properties: Mapping[str, str]
    message_group: str | None
    delivery_timestamp: datetime | int | None
    priority: int | None
    delay: timedelta | None
    delay_level: int | None
    lite_topic: str | None


@dataclass(slots=True)
class Message:
    """One message to send; it is checked when it is created, so a mistake shows where the message is created.

        Message("orders", b"...", tag="paid", keys=("order-17",), properties={"region": "eu"})

    At most one of the following can be set, and the topic must be of its type; none of them can be used in a
    transaction.

    message_group       FIFO: messages of one group are delivered one after the other
    delivery_timestamp  DELAY: when it is delivered: an aware datetime, or milliseconds since 1970
    delay               DELAY: how long after its sending it is delivered, by this machine's clock
    delay_level         DELAY: the same by a level of the server's table, from 1 on, as in RocketMQ 4.x; a level above
                        the highest counts as the highest. Apache RocketMQ ignores levels of clients like this one
    priority            PRIORITY: from 0 on; among messages that wait, higher ones are delivered first
    lite_topic          LITE: the lite topic to which it goes, created by its first message: 1 to 64 letters, digits, _
                        or -; its subscribers get its messages one after the other

    A time that has passed and a negative `delay` mean now. The server limits how far ahead a time may be (24 hours by
    default): it refuses more with ILLEGAL_DELIVERY_TIME.
    """

    topic: str
    body: bytes = field(repr=False)
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    message_group: str | None = None
    delivery_timestamp: datetime | int | None = None
    priority: int | None = None
    delay: timedelta | None = None
    delay_level: int | None = None
    lite_topic: str | None = None
    message_type: pb.MessageType = field(init=False)

    def __post_init__(self) -> None:
        if self.topic not in _known_topics:
            _check_topic(self.topic)
        if not isinstance(self.body, bytes):
            self.body = _convert_body(self.body)
        if not self.body:
            raise PayloadEmpty(pb.MESSAGE_BODY_EMPTY, "the body of a message must not be empty")
        if self.tag is not None:
            _check_tag(self.tag)
        if self.keys:
            self.keys = _check_keys(self.keys)
        if self.properties:
            _check_properties(self.properties)
        self.message_type = self._derive_type()

    @classmethod
    def json(cls, topic: str, value: object, **options: Unpack[MessageOptions]) -> Self:
        """Create a message whose body is `value` in JSON: plain values, dataclasses, pydantic models.

            Message.json("orders", Order(17, paid=True), keys=["order-17"])

        TypeError for values without a JSON form, ValueError for NaN and Infinity; `ternmq.messages.json_body` says
        which types it knows. `MessageView.json` reads it.
        """
        from ternmq.messages.json_body import encode_body

        return cls(topic, encode_body(value), **options)

    @property
    def delivery_timestamp_ms(self) -> int | None:
        """Milliseconds since 1970, rounded down; None for a `delay`, which counts from the sending."""
        if isinstance(self.delivery_timestamp, datetime):
            return to_nanos(self.delivery_timestamp) // NANOS_PER_MS
        return self.delivery_timestamp

    @property
    def order_key(self) -> str | None:
        """The message group or lite topic in which the message keeps its order; None without one."""
        return self.lite_topic if self.message_group is None else self.message_group

    def _derive_type(self) -> pb.MessageType:
        kinds = (
            self.message_group,
            self.delivery_timestamp,
            self.delay,
            self.delay_level,
            self.priority,
            self.lite_topic,
        )
        if kinds == _NO_KIND:
            return pb.NORMAL
        unset = kinds.count(None)
        if unset < len(kinds) - 1:
            raise BadRequest(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                "message_group, delivery_timestamp, delay, delay_level, priority and lite_topic exclude each other",
            )
        if self.message_group is not None:
            _check_message_group(self.message_group)
            return pb.FIFO
        if self.priority is not None:
            if self.priority < 0:
                raise BadRequest(pb.BAD_REQUEST, f"priority {self.priority} must not be negative")
            return pb.PRIORITY
        if self.lite_topic is not None:
            check_lite_topic(self.lite_topic)
            return pb.LITE
        self._check_delay()
        return pb.DELAY

    def _check_delay(self) -> None:
        if isinstance(self.delivery_timestamp, datetime) and self.delivery_timestamp.tzinfo is None:
            raise BadRequest(pb.ILLEGAL_DELIVERY_TIME, "delivery_timestamp needs a time zone: datetime.now(UTC) + ...")
        if self.delay is not None and not isinstance(self.delay, timedelta):
            raise BadRequest(pb.ILLEGAL_DELIVERY_TIME, f"delay is a timedelta: timedelta(seconds={self.delay!r})")
        if self.delay_level is not None and not (isinstance(self.delay_level, int) and self.delay_level >= 1):
            raise BadRequest(pb.ILLEGAL_DELIVERY_TIME, f"delay_level {self.delay_level!r} must be a number from 1 on")


class SendReceipt(NamedTuple):
    """Proof that a message was stored.

    `offset` is its offset in its queue (for delayed messages and those of transactions the offset in an internal queue
    of the server). `transaction_id` has a meaning only for messages of transactions. `Producer.recall` needs the
    `recall_handle` of a delayed message; it is empty for others.
    """

    message_id: str
    topic: str
    offset: int
    transaction_id: str = ""
    recall_handle: str = ""


def check_message_ids(message_ids: Sequence[str], count: int) -> None:
    """BadRequest unless these are `count` valid message ids; whether they are unique isn't checked."""
    if len(message_ids) != count:
        raise BadRequest(pb.ILLEGAL_MESSAGE_ID, f"{len(message_ids)} message ids for {count} messages")
    wrong = next(filter(_is_illegal, message_ids), None)
    if wrong is not None:
        raise BadRequest(pb.ILLEGAL_MESSAGE_ID, f"message id {wrong!r} {_MUST_NOT}")


def _check_topic(name: str) -> None:
    try:
        check_topic_name(name)
    except MessagingError as error:
        raise BadRequest(error.code, error.message) from None
    if len(_known_topics) < _KNOWN_TOPICS_MAX:
        _known_topics.add(name)


def check_lite_topic(name: str, bytes_max: int = LITE_TOPIC_BYTES_MAX) -> None:
    """BadRequest (ILLEGAL_LITE_TOPIC) for an invalid name of a lite topic."""
    try:
        check_lite_topic_name(name, bytes_max)
    except MessagingError as error:
        raise BadRequest(error.code, error.message) from None


def _convert_body(body: object) -> bytes:
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    advice = ": write body.encode()" if isinstance(body, str) else ""
    raise TypeError(f"the body of a message is bytes, not {type(body).__name__}{advice}")


def _is_illegal(text: str) -> bool:
    """Return whether the text is blank or has control characters or lone surrogates."""
    # These are not printable; other text that is not printable may be legal, and is rare.
    if text.isprintable():
        return not text or text.isspace()
    return not text.strip() or _CONTROL_CHARACTER.search(text) is not None or has_lone_surrogate(text)


def has_lone_surrogate(text: str) -> bool:
    """Return whether the text has lone surrogates and can't be encoded."""
    return not text.isascii() and _LONE_SURROGATE.search(text) is not None


def _check_tag(tag: str) -> None:
    if not isinstance(tag, str):
        raise TypeError(f"tag is text, which {tag!r} is not")
    if "|" in tag or _is_illegal(tag):
        raise BadRequest(
            pb.ILLEGAL_MESSAGE_TAG, f"tag {tag!r} must not be blank nor hold '|', control characters or lone surrogates"
        )


def _check_keys(keys: Sequence[str]) -> tuple[str, ...]:
    if isinstance(keys, str):
        raise TypeError(f'keys is a list of strings: write keys=["{keys}"]')
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"keys is a list of strings, which {key!r} is not")
        if _is_illegal(key):
            raise BadRequest(pb.ILLEGAL_MESSAGE_KEY, f"key {key!r} {_MUST_NOT}")
    return tuple(keys)


def _check_properties(properties: Mapping[str, str]) -> None:
    if len(properties) > LIMITS.properties_max:
        raise RequestHeaderFieldsTooLarge(
            pb.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(properties)} properties; {LIMITS.properties_max} are allowed"
        )
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise BadRequest(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {key!r}: {value!r} must be text: text")
        if has_lone_surrogate(key) or has_lone_surrogate(value):
            raise BadRequest(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {key!r}: {value!r} must not hold lone surrogates"
            )


def _check_message_group(group: str) -> None:
    if not isinstance(group, str):
        raise TypeError(f"message_group is text, which {group!r} is not")
    if _is_illegal(group) or len(group.encode()) > LIMITS.message_group_bytes_max:
        raise BadRequest(
            pb.ILLEGAL_MESSAGE_GROUP,
            f"message group {group!r} must have 1 to {LIMITS.message_group_bytes_max} bytes, "
            "not only white space, no control characters or lone surrogates",
        )
