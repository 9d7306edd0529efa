"""The request that recalls a message before it is delivered (370)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.messages.recall_handles import read_handle
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.recall import recall_timed_message
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall

_ILLEGAL = (ErrorCode.BAD_REQUEST, ErrorCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE)


async def recall_message(context: "RemotingCall") -> Command:
    """Answer 370. A handle that is not of this topic, or whose time has come, is an illegal operation."""
    topic = context.command.get_text("topic")
    handle = read_handle(context.command.get_text("recallHandle"))
    try:
        message_id = await recall_timed_message(topic, handle, context.call, context.services)
    except MessagingError as error:
        if error.code not in _ILLEGAL:
            raise
        is_known = context.services.catalog.has_topic(topic)
        raise RequestRefused(
            ResponseCode.ILLEGAL_OPERATION if is_known else ResponseCode.TOPIC_NOT_EXIST, error.message
        ) from error
    return Command(ResponseCode.SUCCESS, fields={"msgId": message_id, names.MESSAGE_REGION: names.REGION})
