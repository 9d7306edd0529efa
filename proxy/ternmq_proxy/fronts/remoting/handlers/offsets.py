"""Requests about offsets: committed ones (14, 15), by time (29), of queues (30, 31), the oldest message's time (32)."""

from typing import TYPE_CHECKING, Final

from ternmq_common.filters.message_filter import ALL_TEXT
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.operations.by_queue.offsets import (
    commit_queue_offset,
    find_bounds,
    find_committed,
    find_offset_at,
)
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall

_UPPER: Final = "UPPER"


def read_queue(context: "RemotingCall") -> QueueRef:
    """Return the queue that a request names."""
    command = context.command
    return QueueRef(command.get_text("topic"), context.broker, max(0, command.get_int32("queueId")))


async def query_committed(context: "RemotingCall") -> Command:
    """Answer 14."""
    zero = context.command.get_bool("setZeroIfNotFound", default=True)
    group = context.get_group()
    offset = await find_committed(
        group,
        read_queue(context),
        context.call,
        context.services,
        zero_if_missing=zero,
        begins=context.memberships.members.is_member(context.client, group),
    )
    return _answer_offset(offset)


async def update_committed(context: "RemotingCall") -> Command:
    """Answer 15."""
    offset = context.command.get_int64("commitOffset")
    group = context.get_group()
    is_member = context.memberships.members.is_member(context.client, group)
    await commit_queue_offset(group, read_queue(context), offset, context.call, context.services, is_member=is_member)
    return Command(ResponseCode.SUCCESS)


async def search_offset(context: "RemotingCall") -> Command:
    """Answer 29."""
    after = context.command.get_text("boundaryType", "LOWER") != _UPPER
    time_ms = context.command.get_int64("timestamp")
    return _answer_offset(
        await find_offset_at(read_queue(context), time_ms, context.call, context.services, after=after)
    )


async def get_maximum(context: "RemotingCall") -> Command:
    """Answer 30."""
    bounds = await find_bounds(read_queue(context), context.call, context.services)
    return _answer_offset(0 if bounds is None else bounds.maximum)


async def get_minimum(context: "RemotingCall") -> Command:
    """Answer 31."""
    bounds = await find_bounds(read_queue(context), context.call, context.services)
    return _answer_offset(0 if bounds is None else bounds.minimum)


async def get_earliest_time(context: "RemotingCall") -> Command:
    """Answer 32: when the oldest message was stored; -1 for an empty queue."""
    queue = read_queue(context)
    bounds = await find_bounds(queue, context.call, context.services)
    stored_ms = -1
    if bounds is not None and bounds.minimum < bounds.maximum:
        passing = await context.services.filters.find_filter(ALL_TEXT)
        pulled = await context.services.messages.reading.pull(queue, bounds.minimum, passing, batch=1, poll_s=0.0)
        if pulled.messages:
            stored_ms = pulled.messages[0].stored_ms
    return Command(ResponseCode.SUCCESS, fields={"timestamp": str(stored_ms)})


def _answer_offset(offset: int) -> Command:
    return Command(ResponseCode.SUCCESS, fields={"offset": str(offset)})
