"""Requests that look for messages: by a key or an id (12), and by the number in an offset id (33)."""

from typing import TYPE_CHECKING

from ternmq_common.names import lite_parent
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.messages.places import find_place, number_of_place
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.by_queue.look_up import FOUND_MAX, KeySearch, find_at_place, find_by_key
from ternmq_rpc.remoting.commands import INT64_MAX, Command

if TYPE_CHECKING:
    from ternmq_common.shard.model import StoredMessage
    from ternmq_proxy.fronts.remoting.call import RemotingCall

_BY_ID_MAX = 32
_ID_INDEX = "U"


async def query_messages(context: "RemotingCall") -> Command:
    """Answer 12."""
    command = context.command
    by_id = command.get_bool("_UNIQUE_KEY_QUERY", default=False) or command.get_text("indexType", "") == _ID_INDEX
    limit = command.get_int32("maxNum", FOUND_MAX)
    search = KeySearch(
        topic=command.get_text("topic"),
        key=command.get_text("key"),
        limit=min(limit, _BY_ID_MAX) if by_id else limit,
        begin_ms=command.get_int64("beginTimestamp", 0),
        end_ms=command.get_int64("endTimestamp", INT64_MAX),
        by_id=by_id,
    )
    found = await find_by_key(search, context.call, context.services)
    if not found:
        raise RequestRefused(
            ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe its time is not in the range, or it has expired"
        )
    newest = max(found, key=lambda message: message.stored_ms)
    return Command(
        ResponseCode.SUCCESS,
        fields={
            "indexLastUpdateTimestamp": str(newest.stored_ms),
            "indexLastUpdatePhyoffset": str(number_of_place(newest.queue.broker, newest.log_offset)),
        },
        body=b"".join([_encode_found(message, context) for message in found]),
    )


async def view_message(context: "RemotingCall") -> Command:
    """Answer 33."""
    number = context.command.get_int64("offset")
    brokers = [broker.name for broker in context.services.catalog.list_brokers()]
    found = await find_at_place(find_place(number, brokers), context.call, context.services)
    if found is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {number}")
    return Command(ResponseCode.SUCCESS, body=_encode_found(found, context))


def _encode_found(message: "StoredMessage", context: "RemotingCall") -> bytes:
    return context.client.record_maker.encode_message(message, topic=lite_parent(message.queue.topic))
