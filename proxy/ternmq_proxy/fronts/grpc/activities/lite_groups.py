"""Lite groups: which consumers and topics go with them, and what clients subscribe (`consuming.md, Lite topics`)."""

import time
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.message_type import MessageType
from ternmq_common.model import LiteAction, LiteOffset, LiteSync
from ternmq_common.names import checked_group, checked_lite_topic, checked_topic
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import ClientType, OffsetOption
from ternmq_protos.v2.service_pb2 import SyncLiteSubscriptionRequest, SyncLiteSubscriptionResponse
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import Group, Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.quotas.bucket import TokenBucket
    from ternmq_proxy.services import Services

_ACTIONS = {
    definition_pb2.PARTIAL_ADD: LiteAction.PARTIAL_ADD,
    definition_pb2.PARTIAL_REMOVE: LiteAction.PARTIAL_REMOVE,
    definition_pb2.COMPLETE_ADD: LiteAction.COMPLETE_ADD,
    definition_pb2.COMPLETE_REMOVE: LiteAction.COMPLETE_REMOVE,
}
LITE_TYPES = {definition_pb2.LITE_PUSH_CONSUMER, definition_pb2.LITE_SIMPLE_CONSUMER}
LITE_ADDS_PER_S = 5000
_OFFSET_MAX = 1 << 62


def check_lite(topic: "Topic", group: "Group", passing: "MessageFilter") -> None:
    """ILLEGAL_TOPIC unless the topic is LITE and the group is bound to it; ILLEGAL_FILTER_EXPRESSION for a filter."""
    check_bound(topic.name, group)
    if topic.type != MessageType.LITE:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC, f"topic {topic.name!r} of lite group {group.name!r} is {topic.kind}, not LITE"
        )
    if not passing.takes_all:
        raise MessagingError(ErrorCode.ILLEGAL_FILTER_EXPRESSION, "lite groups take all messages: the filter is *")


def check_bound(topic: str, group: "Group") -> None:
    """ILLEGAL_TOPIC unless the group is a lite group of that topic."""
    if group.lite is None:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC,
            f"topic {topic!r} is LITE, and group {group.name!r} is no lite group: make one that is bound to the topic, "
            f"`ternmq group create NAME --lite-bind {topic}`",
        )
    if group.lite.bind != topic:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC,
            f"lite group {group.name!r} is bound to topic {group.lite.bind!r}, not {topic!r}",
        )


def check_client(kind: ClientType, topics: list[str], group: "Group") -> None:
    """ILLEGAL_CONSUMER_GROUP unless lite consumers, and no others, read with lite groups; ILLEGAL_TOPIC unless these
    read the topic of theirs."""
    if kind in LITE_TYPES:
        if group.lite is None:
            raise MessagingError(
                ErrorCode.ILLEGAL_CONSUMER_GROUP, f"group {group.name!r} is no lite group; lite consumers need one"
            )
        for topic in topics:
            check_bound(topic, group)
    elif group.lite is not None:
        raise MessagingError(
            ErrorCode.ILLEGAL_CONSUMER_GROUP,
            f"group {group.name!r} is a lite group, which only lite consumers can read with",
        )


async def sync_lite_subscription(
    request: SyncLiteSubscriptionRequest, call: "Call", services: "Services"
) -> SyncLiteSubscriptionResponse:
    """A client of a lite group says which lite topics it subscribes: some more, some fewer, all, or none any more."""
    client_id = call.require_client()
    topic, group_name = checked_topic(request.topic.name), checked_group(request.group.name)
    action = _ACTIONS.get(request.action)
    if action is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"action {request.action} is none")
    names = list(map(checked_lite_topic, request.lite_topic_set))
    if action is LiteAction.PARTIAL_ADD:
        _take_rate(services.lite_adds)
    check_bound(topic, await services.catalog.existing_group(group_name, bind=topic))
    services.clients.seen(client_id, group_name, user=call.user, joined=True)
    begin, number = _begin(request.offset_option) if request.HasField("offset_option") else (None, 0)
    sync = LiteSync(group_name, topic, client_id, action, names)
    if action is LiteAction.PARTIAL_ADD and begin is not None:
        sync = LiteSync(group_name, topic, client_id, action, names, begin, number)
    await services.messages.sync_lite(sync)
    return SyncLiteSubscriptionResponse(status=OK)


def _take_rate(adds: "TokenBucket") -> None:
    now = time.monotonic()
    if adds.wait_s(1, now):
        raise MessagingError(
            ErrorCode.TOO_MANY_REQUESTS,
            f"this proxy takes {adds.rate:g} additions to subscriptions of lite topics each second; try again later",
        )
    adds.take(1, now)


def _begin(option: OffsetOption) -> tuple[LiteOffset | None, int]:
    """Where the group is to be; None: where it is. BAD_REQUEST for what no queue has."""
    match option.WhichOneof("offset_type"):
        case "policy":
            policies = {OffsetOption.MIN: LiteOffset.FIRST, OffsetOption.MAX: LiteOffset.END}
            return policies.get(option.policy), 0
        case "offset":
            return LiteOffset.OFFSET, _number(option.offset, "offset")
        case "tail_n":
            return LiteOffset.TAIL, _number(option.tail_n, "tail_n")
        case "timestamp":
            return LiteOffset.TIME, _number(option.timestamp, "timestamp")
        case _:
            return None, 0


def _number(value: int, name: str) -> int:
    if not 0 <= value <= _OFFSET_MAX:
        raise MessagingError(ErrorCode.ILLEGAL_OFFSET, f"{name} is {value}; it is 0 or more")
    return value
