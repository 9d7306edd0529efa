"""Recalls a DELAY message before it is delivered (`sending.md, Recall`)."""

from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import DAY_MS
from ternmq_common.names import check_topic_name
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_proxy.access.needs import TOPIC_PUB

if TYPE_CHECKING:
    from ternmq_common.shard.model import Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

# The largest possible delay_max_ms: no message ever had a longer delay.
_WAIT_MAX_MS = 365 * DAY_MS


async def recall_timed_message(topic: str, recall_handle: str, call: "Call", services: "Services") -> str:
    """Recall the message of this handle, and return its id. Raises BAD_REQUEST if it is too late or the handle is for
    another topic, and UNAUTHORIZED unless the user may send to the topic.

    A repetition succeeds, and so does a handle of an unknown message, which can't be distinguished from a repetition.
    """
    services.access.require_right("RecallMessage", call, TOPIC_PUB, topic)
    call.require_client()
    name = check_topic_name(topic)
    known = await _find_topic(name, services)
    if known is None or MessageType.DELAY not in known.accepted_types:
        raise MessagingError(
            ErrorCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"there is no topic {name!r} that takes DELAY messages; no others can be recalled",
        )
    handle = RecallHandle.decode_handle(recall_handle, services.handles.keys)
    if handle.topic != name:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"the recall handle is of topic {handle.topic!r}, not of {name!r}")
    if handle.broker not in services.messages.find_route(known).brokers:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"the recall handle names broker {handle.broker!r}, which topic {name!r} has not",
        )
    if handle.due_ms > services.clock.now_ms() + _WAIT_MAX_MS:
        raise MessagingError(ErrorCode.BAD_REQUEST, "no message waits for as long as the recall handle says")
    await services.messages.sending.recall(handle)
    return handle.message_id


async def _find_topic(name: str, services: "Services") -> "Topic | None":
    try:
        return await services.catalog.existing_topic(name)
    except MessagingError as error:
        if error.code != ErrorCode.TOPIC_NOT_FOUND:
            raise
        return None
