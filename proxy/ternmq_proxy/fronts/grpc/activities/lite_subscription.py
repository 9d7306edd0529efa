"""SyncLiteSubscription as gRPC has it (`operations/lite_subscriptions.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import LiteAction, LiteOffset
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import OffsetOption
from ternmq_protos.v2.service_pb2 import SyncLiteSubscriptionRequest, SyncLiteSubscriptionResponse
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.lite_subscriptions import LitePosition, sync_lite_topics

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_ACTIONS = {
    definition_pb2.PARTIAL_ADD: LiteAction.PARTIAL_ADD,
    definition_pb2.PARTIAL_REMOVE: LiteAction.PARTIAL_REMOVE,
    definition_pb2.COMPLETE_ADD: LiteAction.COMPLETE_ADD,
    definition_pb2.COMPLETE_REMOVE: LiteAction.COMPLETE_REMOVE,
}
_POLICIES = {OffsetOption.MIN: LitePosition(LiteOffset.FIRST), OffsetOption.MAX: LitePosition(LiteOffset.END)}


async def sync_lite_subscription(
    request: SyncLiteSubscriptionRequest, call: "Call", services: "Services"
) -> SyncLiteSubscriptionResponse:
    """Subscribe a client of a lite group to lite topics, or unsubscribe it."""
    await sync_lite_topics(
        request.group.name,
        request.topic.name,
        _ACTIONS.get(request.action, int(request.action)),
        request.lite_topic_set,
        call,
        services,
        position=_read_position(request.offset_option),
    )
    return SyncLiteSubscriptionResponse(status=OK)


def _read_position(option: OffsetOption) -> LitePosition | None:
    """Return where the group starts to consume, None to leave its offset as it is."""
    match option.WhichOneof("offset_type"):
        case "policy":
            return _POLICIES.get(option.policy)
        case "offset":
            return LitePosition(LiteOffset.OFFSET, option.offset)
        case "tail_n":
            return LitePosition(LiteOffset.TAIL, option.tail_n)
        case "timestamp":
            return LitePosition(LiteOffset.TIME, option.timestamp)
        case _:
            return None
