"""Reads the bodies in which clients report themselves.

The C++ client writes enumerations by their numbers, and numbers as texts.
"""

from typing import NamedTuple

from ternmq_common.filters.message_filter import FilterText
from ternmq_common.printable import find_name_problem
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.processors.client_limits import refuse_excess
from ternmq_proxy.processors.group_members import (
    GROUPS_OF_CLIENT_MAX,
    TOPICS_OF_GROUP_MAX,
    ConsumerReport,
    GroupSubscription,
)
from ternmq_rpc.remoting.json_dialect import decode_dialect

_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
_CONSUME_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
_SQL = "SQL92"


class Heartbeat(NamedTuple):
    """A client's id, the consumer groups that it is in, by name, and its producer groups."""

    client_id: str
    consumers: dict[str, ConsumerReport]
    producers: list[str]


def read_heartbeat(body: bytes) -> Heartbeat:
    """Return what a heartbeat reports. RemotingError or RequestRefused if it can't be read, TOO_MANY_REQUESTS if it
    names too many groups or topics."""
    content = _as_object(decode_dialect(body))
    keeps_subscriptions = content.get("withoutSub") is True
    consuming, producing = _as_list(content.get("consumerDataSet")), _as_list(content.get("producerDataSet"))
    if len(consuming) + len(producing) > GROUPS_OF_CLIENT_MAX:
        refuse_excess(f"the client is in more than {GROUPS_OF_CLIENT_MAX} groups")
    consumers = [_read_consumer(_as_object(each), keeps_subscriptions=keeps_subscriptions) for each in consuming]
    return Heartbeat(
        _read_text(content, "clientID"),
        {report.group: report for report in consumers},
        [group for each in producing if (group := _read_producer(_as_object(each)))],
    )


def read_subscription_check(body: bytes) -> FilterText:
    """Return the filter that a client wants to have checked."""
    return _read_filter(_as_object(_as_object(decode_dialect(body)).get("subscriptionData")))


class LockRequest(NamedTuple):
    """The queues that a client of a group wants to lock or to release; the brokers are those that it names."""

    group: str
    client_id: str
    queues: list[QueueRef]


def read_lock_request(body: bytes) -> LockRequest:
    """Return what a client wants to lock, or to release."""
    content = _as_object(decode_dialect(body))
    queues = [_as_object(each) for each in _as_list(content.get("mqSet"))]
    return LockRequest(
        _read_text(content, "consumerGroup"),
        _read_text(content, "clientId"),
        [
            QueueRef(_read_text(each, "topic"), _read_text(each, "brokerName"), _read_number(each, "queueId"))
            for each in queues
        ],
    )


def _read_producer(content: dict[str, object]) -> str:
    """Return the name of a producer group, which no operator creates: any name that can be printed may be one."""
    group = _read_text(content, "groupName")
    if problem := find_name_problem(group):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the name of a producer group {problem}")
    return group


def _read_consumer(content: dict[str, object], *, keeps_subscriptions: bool) -> ConsumerReport:
    subscriptions = None
    if not keeps_subscriptions:
        listed = _as_list(content.get("subscriptionDataSet"))
        if len(listed) > TOPICS_OF_GROUP_MAX:
            refuse_excess(f"the group subscribes to more than {TOPICS_OF_GROUP_MAX} topics")
        subscriptions = tuple(_read_subscription(_as_object(each)) for each in listed)
    return ConsumerReport(
        group=_read_text(content, "groupName"),
        consume_type=_read_name(content, "consumeType", _CONSUME_TYPES, "CONSUME_PASSIVELY"),
        message_model=_read_name(content, "messageModel", _MESSAGE_MODELS, "CLUSTERING"),
        consume_from=_read_name(content, "consumeFromWhere", _CONSUME_FROM, _CONSUME_FROM[0]),
        subscriptions=subscriptions,
    )


def _read_subscription(content: dict[str, object]) -> GroupSubscription:
    return GroupSubscription(_read_text(content, "topic"), _read_filter(content), _read_number(content, "subVersion"))


def _read_filter(content: dict[str, object]) -> FilterText:
    return filter_of(_read_text(content, "subString"), _read_text(content, "expressionType"))


def filter_of(expression: str, kind: str) -> FilterText:
    """Return the filter of an expression; an empty one is `*`, an empty kind TAG."""
    if kind not in ("", "TAG", _SQL):
        raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"expressions of type {kind[:40]!r} are unknown")
    return FilterText(expression or "*", is_sql=kind == _SQL)


def _as_object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the body is no JSON object where one must be")
    return value


def _as_list(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the body has no list where one must be")
    return value


def _read_text(content: dict[str, object], name: str) -> str:
    value = content.get(name)
    return value if isinstance(value, str) else ""


def _read_number(content: dict[str, object], name: str) -> int:
    value = content.get(name, 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) else 0


def _read_name(content: dict[str, object], name: str, known: tuple[str, ...], default: str) -> str:
    """Return the name of an enumeration's value, which may be written as its number."""
    value = content.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 3:
        value = int(value)
    if isinstance(value, int) and 0 <= value < len(known):
        return known[value]
    return value if isinstance(value, str) and value in known else default
