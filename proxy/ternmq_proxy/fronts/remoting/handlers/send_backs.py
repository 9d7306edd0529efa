"""The request that sends a message back, as its group failed on it (36)."""

from typing import TYPE_CHECKING

from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.messages.places import find_place
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.fronts.remoting.versions import OBEYS_RETRIES_MAX_FROM
from ternmq_proxy.operations.by_queue.send_back import SentBack, send_back
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_ids import encode_offset_id

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall


async def send_message_back(context: "RemotingCall") -> Command:
    """Answer 36."""
    command = context.command
    number = command.get_int64("offset")
    brokers = [broker.name for broker in context.services.catalog.list_brokers()]
    request = SentBack(
        group=context.get_group("group"),
        places=find_place(number, brokers),
        delay_level=command.get_int32("delayLevel", 0),
        origin_id=encode_offset_id(context.client.store_host, number),
        topic=command.get_text("originTopic", ""),
        message_id=command.get_text("originMsgId", ""),
        broker=context.broker,
        retries_max=read_retries_max(command, "maxReconsumeTimes"),
    )
    if not await send_back(request, context.call, context.services):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {number}")
    return Command(ResponseCode.SUCCESS)


def read_retries_max(command: Command, name: str) -> int | None:
    """Return how often the client wants to try again; None if it does not say so, or is too old to."""
    if command.version < OBEYS_RETRIES_MAX_FROM:
        return None
    wanted = command.get_int32(name, -1)
    return wanted if wanted >= 0 else None
