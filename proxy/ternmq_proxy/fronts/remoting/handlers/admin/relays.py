"""Requests that are a client's to answer: what it is doing (307), and to consume a message now (309).

The client may be connected to any proxy. It must be of 3.1.8 or later, as all are that connect today.
"""

from typing import TYPE_CHECKING

from ternmq_proxy.access.needs import GROUP_GET, GROUP_UPDATE, TOPIC_GET
from ternmq_proxy.fronts.remoting.codes import RequestCode, ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.peers import call_member
from ternmq_proxy.fronts.remoting.messages.places import find_place
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.by_queue.look_up import read_place
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.connection import ConnectionGone
from ternmq_rpc.remoting.message_ids import InvalidMessageId, decode_offset_id

if TYPE_CHECKING:
    from ternmq_common.shard.model import StoredMessage
    from ternmq_proxy.fronts.remoting.call import RemotingCall


async def get_running_info(context: "RemotingCall") -> Command:
    """Answer 307 with what the client says."""
    group, client_id = context.get_group(), context.command.get_text("clientId")
    context.services.access.require_right("GetConsumerRunningInfo", context.call, GROUP_GET, group)
    wanted = context.command.get_text("jstackEnable", "false")
    question = Command(
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        fields={"clientId": client_id, "consumerGroup": group, "jstackEnable": wanted},
    )
    return await _relay(group, client_id, question, context)


async def consume_directly(context: "RemotingCall") -> Command:
    """Answer 309 with what the client says of the message."""
    command, group = context.command, context.get_group()
    context.services.access.require_right("VerifyMessage", context.call, GROUP_UPDATE, group)
    client_id = command.get_text("clientId")
    message = await _find_message(command.get_text("msgId"), context)
    context.services.access.require_right("VerifyMessage", context.call, TOPIC_GET, message.queue.topic)
    fields = {
        "brokerName": message.queue.broker,
        "clientId": client_id,
        "consumerGroup": group,
        "msgId": command.get_text("msgId"),
        "topic": message.queue.topic,
    }
    question = Command(
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        fields=fields,
        body=context.client.record_maker.encode_message(message),
    )
    return await _relay(group, client_id, question, context)


async def _relay(group: str, client_id: str, question: Command, context: "RemotingCall") -> Command:
    try:
        answer = await call_member(group, client_id, question, context.memberships.members, context.services)
    except ConnectionGone:
        raise RequestRefused(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> does not answer"
        ) from None
    if answer is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    return answer


async def _find_message(message_id: str, context: "RemotingCall") -> "StoredMessage":
    """Return the message of an offset id."""
    try:
        _, number = decode_offset_id(message_id)
    except InvalidMessageId as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    brokers = [broker.name for broker in context.services.catalog.list_brokers()]
    found = await read_place(find_place(number, brokers), context.services)
    if found is not None:
        return found
    raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {number}")
