"""Checks of a message before it is accepted, in the order of `sending.md, Checks`."""

from typing import TYPE_CHECKING, Final, NoReturn

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.tag_filter import find_tag_problem
from ternmq_common.names import check_lite_topic_name
from ternmq_common.printable import cut_text, has_control
from ternmq_common.units import render_duration, spell_duration

if TYPE_CHECKING:
    from ternmq_common.limits import MessageLimits
    from ternmq_common.shard.model import Topic
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage

RESERVED_PROPERTY_KEYS: Final = frozenset(
    # A table of names is easier to read without 54 pairs of quotes.
    """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_GROUP ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY
    MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO
    EXTEND_UNIQ_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE
    INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
    TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC
    DLQ_ORIGIN_MESSAGE_ID __CRC32# _SYS_MSG_PRIORITY_ __LITE_TOPIC
    """.split()  # noqa: SIM905
)
assert len(RESERVED_PROPERTY_KEYS) == 54
DELAY_LEVEL_KEY: Final = "DELAY"
_DELAY_LEVEL_RULE: Final = (
    "a level is a decimal number, in a message to a DELAY topic that has neither a delivery time nor a message group, "
    "priority or lite topic, and is no transaction"
)
_TIME_MAX_MS: Final = 2**62


def check_message(message: "ProducerMessage", limits: "MessageLimits", now_ms: int) -> MessageType:
    """Return the message's effective type; raise the MessagingError of the first rule that it breaks. The topic and its
    type are checked separately."""
    if not 0 < len(message.body) <= limits.body_bytes_max:
        _refuse_body(message.body, limits)
    _check_properties(message, limits)
    message_id = message.message_id
    if not message_id or message_id.isspace():
        _refuse_message(ErrorCode.ILLEGAL_MESSAGE_ID, "the message id is empty")
    if has_control(message_id):
        _refuse_message(
            ErrorCode.ILLEGAL_MESSAGE_ID,
            f"the message id {cut_text(message_id)!r} holds a control character",
        )
    kind = effective_type(message)
    if kind != MessageType.NORMAL:
        _check_special(message, limits, now_ms)
    return kind


def type_conflict(topic: "Topic", kind: MessageType) -> MessagingError:
    """Return the error for a topic that does not accept messages of that type."""
    return MessagingError(
        ErrorCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
        f"topic {topic.name!r} takes {topic.type_name} messages, this one is {MessageType(kind).name} by its fields",
    )


def effective_type(message: "ProducerMessage") -> MessageType:
    """Return the message's type by its fields, regardless of the type in the request (`sending.md, Types`)."""
    if message.is_transaction:
        return MessageType.TRANSACTION
    if message.delivery_ns is not None:
        return MessageType.DELAY
    if message.message_group:
        return MessageType.FIFO
    if message.priority is not None:
        return MessageType.PRIORITY
    if message.lite_topic is not None:
        return MessageType.LITE
    return MessageType.NORMAL


def whole_ms(time_ns: int) -> int:
    """Return a time in whole milliseconds since the epoch, rounded down, limited to the range of a broker's numbers."""
    return min(max(-_TIME_MAX_MS, time_ns // 1_000_000), _TIME_MAX_MS)


def _refuse_body(body: bytes, limits: "MessageLimits") -> NoReturn:
    if not body:
        _refuse_message(ErrorCode.MESSAGE_BODY_EMPTY, "the body is empty; a message needs at least one byte")
    _refuse_message(
        ErrorCode.MESSAGE_BODY_TOO_LARGE,
        f"the body has {len(body)} bytes; {limits.body_bytes_max} are allowed (body_bytes_max)",
    )


def _check_properties(message: "ProducerMessage", limits: "MessageLimits") -> None:
    text = ""
    if message.properties:
        text = _checked_pairs(message.properties, limits)
    tag = message.tag
    if tag:
        if problem := find_tag_problem(tag):
            _refuse_message(ErrorCode.ILLEGAL_MESSAGE_TAG, problem)
        text += tag
    for key in message.keys:
        text += _checked_text(key, "key", ErrorCode.ILLEGAL_MESSAGE_KEY)
    # A character has at most four bytes.
    if 4 * len(text) > limits.properties_bytes_max and len(text.encode()) > limits.properties_bytes_max:
        _refuse_message(
            ErrorCode.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {len(text.encode())} bytes together; {limits.properties_bytes_max} are "
            "allowed (properties_bytes_max)",
        )


def _checked_pairs(pairs: dict[str, str], limits: "MessageLimits") -> str:
    """Return all keys and values of the user's properties, concatenated."""
    if len(pairs) > limits.properties_max:
        _refuse_message(
            ErrorCode.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(pairs)} properties; {limits.properties_max} are allowed (properties_max)",
        )
    reserved = RESERVED_PROPERTY_KEYS.intersection(pairs)
    if reserved:
        _refuse_message(ErrorCode.ILLEGAL_MESSAGE_PROPERTY_KEY, _reserved_problem(min(reserved), pairs))
    text = "".join(pairs) + "".join(pairs.values())
    if has_control(text):
        culprit = next(key for key, value in pairs.items() if has_control(key + value))
        _refuse_message(
            ErrorCode.ILLEGAL_MESSAGE_PROPERTY_KEY,
            f"property {cut_text(culprit)!r} holds a control character, in its key or its value",
        )
    return text


def _reserved_problem(key: str, pairs: dict[str, str]) -> str:
    text = f"property key {key!r} is reserved"
    if key == DELAY_LEVEL_KEY:  # levels were removed from the properties before
        text += f": {pairs[key][:20]!r} is no delay level here; {_DELAY_LEVEL_RULE}"
    return text


def _checked_text(text: str, what: str, code: ErrorCode) -> str:
    if not text.strip():
        _refuse_message(code, f"a {what} is blank")
    if has_control(text):
        _refuse_message(code, f"{what} {cut_text(text)!r} holds a control character")
    return text


def _check_special(message: "ProducerMessage", limits: "MessageLimits", now_ms: int) -> None:
    if message.is_transaction and message.recovery_ms > limits.transaction_recovery_max_ms:
        _refuse_message(
            ErrorCode.BAD_REQUEST,
            f"the transaction's recovery duration is {message.recovery_ms} ms; "
            f"{limits.transaction_recovery_max_ms} are allowed",
        )
    if message.delivery_ns is not None:
        ahead_ms = whole_ms(message.delivery_ns) - now_ms
        if ahead_ms > limits.delay_max_ms:
            _refuse_message(
                ErrorCode.ILLEGAL_DELIVERY_TIME,
                f"the delivery time is {spell_duration(ahead_ms)} ahead; this server allows "
                f"{render_duration(limits.delay_max_ms)}, which its setting delay_max_ms raises, up to 365d",
            )
    if message.priority is not None and message.priority < 0:
        _refuse_message(ErrorCode.BAD_REQUEST, f"the priority is {message.priority}; it must not be negative")
    group = message.message_group
    if group:
        _checked_text(group, "message group", ErrorCode.ILLEGAL_MESSAGE_GROUP)
        if len(group.encode()) > limits.message_group_bytes_max:
            _refuse_message(
                ErrorCode.ILLEGAL_MESSAGE_GROUP,
                f"the message group has {len(group.encode())} bytes; {limits.message_group_bytes_max} are allowed",
            )
    if message.lite_topic is not None:
        check_lite_topic_name(message.lite_topic)


def _refuse_message(code: ErrorCode, text: str) -> NoReturn:
    raise MessagingError(code, text)
