"""Requests of clients that pop, which claim nothing: look at messages (200052), ask whether there are some (200054),
and how many pops wait for them (200055)."""

from typing import TYPE_CHECKING

from ternmq_common.limits import RECEIVE_BATCH_MAX
from ternmq_common.names import check_topic_name
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.by_queue.peek import ANY_QUEUE, peek_messages, wait_for_messages
from ternmq_proxy.operations.rights import require_consumer
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall


async def answer_peek(context: "RemotingCall") -> Command:
    """Answer 200052."""
    command, batch = context.command, context.command.get_int32("maxMsgNums")
    if not 0 < batch <= RECEIVE_BATCH_MAX:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, f"maxMsgNums is {batch}; 1 to {RECEIVE_BATCH_MAX} are allowed"
        )
    found = await peek_messages(
        context.get_group(),
        command.get_text("topic"),
        command.get_int32("queueId", ANY_QUEUE),
        batch,
        context.call,
        context.services,
    )
    if not found:
        return Command(ResponseCode.PULL_NOT_FOUND, remark="NO_MESSAGE_IN_QUEUE", fields={"restNum": "0"})
    body = context.client.record_maker.encode_messages(found)
    return Command(ResponseCode.SUCCESS, remark="FOUND", fields={"restNum": "0"}, body=body)


async def notify_of_messages(context: "RemotingCall") -> Command:
    """Answer 200054, at the latest when the client has waited for as long as it wants to."""
    command = context.command
    has_message = await wait_for_messages(
        context.get_group(),
        command.get_text("topic"),
        command.get_int32("queueId", ANY_QUEUE),
        command.get_int64("pollTime", 0) / 1000,
        context.call,
        context.services,
    )
    fields = {"hasMsg": str(has_message).lower(), "pollingFull": "false"}
    return Command(ResponseCode.SUCCESS, fields=fields)


async def count_waiting_pops(context: "RemotingCall") -> Command:
    """Answer 200055: those at this proxy that ask for this queue."""
    command, group = context.command, context.get_group()
    topic = check_topic_name(command.get_text("topic"))
    require_consumer("ReceiveMessage", context.call, group, topic, context.services)
    await context.services.catalog.existing_topic(topic)
    count = context.memberships.waiting_pops[group, topic, command.get_int32("queueId", ANY_QUEUE)]
    return Command(ResponseCode.SUCCESS, fields={"pollingNum": str(count)})
