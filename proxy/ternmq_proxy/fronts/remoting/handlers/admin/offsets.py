"""Requests that move groups: to a time (222), to where another group is (314); and where members say they are (223).

Reset   the group's offsets are moved at once. Connected members get a command (220) to drop what they have of the
        topic, so that none goes on from where it was and commits that: they store the new offsets themselves.
"""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import QueueRef
from ternmq_proxy.access.needs import GROUP_GET, GROUP_UPDATE
from ternmq_proxy.fronts.remoting.codes import RequestCode, ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import answer_done, answer_json, queue_key
from ternmq_proxy.fronts.remoting.handlers.admin.peers import call_member, find_consumers, push_to_group
from ternmq_proxy.operations.admin.groups.group_offsets import OffsetReset, Target, reset_offsets
from ternmq_proxy.operations.admin.named import find_group, find_topic
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.connection import ConnectionGone
from ternmq_rpc.remoting.json_dialect import MessageQueueKey, decode_dialect, encode_dialect

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall

_TO_THE_END, _NONE = -1, -1


async def reset_group(context: "RemotingCall") -> Command:
    """Answer 222."""
    command, services = context.command, context.services
    group, topic = context.get_group("group"), command.get_text("topic")
    moves = await reset_offsets(_read_reset(group, topic, command), context.call, services)
    table = {queue_key(move.queue): move.after for move in moves}
    push = Command(
        RequestCode.PUSH_RESET_CONSUMER_OFFSET,
        fields={"group": group, "isForce": "true", "timestamp": command.get_text("timestamp", "0"), "topic": topic},
        body=encode_dialect({"offsetTable": table}),
    )
    await push_to_group(group, push, context.memberships.members, services)
    return answer_json({"offsetTable": table})


def _read_reset(group: str, topic: str, command: Command) -> OffsetReset:
    queue_id, offset = command.get_int32("queueId", _NONE), command.get_int64("offset", _NONE)
    time_ms = command.get_int64("timestamp", _TO_THE_END)
    if offset >= 0:
        target, number = Target.OFFSET, offset
    else:
        target, number = (Target.LATEST, 0) if time_ms < 0 else (Target.TIME, time_ms)
    queue_ids = () if queue_id < 0 else (queue_id,)
    return OffsetReset(group=group, topic=topic, target=target, number=number, queue_ids=queue_ids)


async def clone_group(context: "RemotingCall") -> Command:
    """Answer 314: the destination group goes on where the source group is, in each queue where that is known."""
    command, services = context.command, context.services
    services.access.require_right("DescribeGroup", context.call, GROUP_GET, command.get_text("srcGroup"))
    services.access.require_change("ResetOffsets", context.call, (GROUP_UPDATE, command.get_text("destGroup")))
    source = await find_group(command.get_text("srcGroup"), services)
    destination = await find_group(command.get_text("destGroup"), services)
    topic = await find_topic(command.get_text("topic"), services)
    for broker in services.messages.find_route(topic).brokers:
        for queue_id in range(topic.queues):
            queue = QueueRef(topic.name, broker, queue_id)
            offset = await services.messages.reading.committed(source.name, queue)
            if offset is not None:
                await services.messages.reading.set_committed(destination.name, queue, offset)
    return answer_done()


async def describe_members(context: "RemotingCall") -> Command:
    """Answer 223: each member's offsets, as it says itself (221); members that don't answer are left out."""
    command, services, members = context.command, context.services, context.memberships.members
    group, topic = context.get_group("group"), command.get_text("topic")
    services.access.require_right("GetConsumerRunningInfo", context.call, GROUP_GET, group)
    wanted = command.get_text("clientAddr", "")
    table: dict[str, object] = {}
    for member in (await find_consumers(group, members, services)).members:
        if wanted in ("", member.client_id):
            table[member.client_id] = await _ask_offsets(group, topic, member.client_id, context)
    known = {client_id: offsets for client_id, offsets in table.items() if offsets is not None}
    return answer_json({"consumerTable": known, "messageQueueTable": {}})


async def _ask_offsets(
    group: str, topic: str, client_id: str, context: "RemotingCall"
) -> "dict[object, object] | None":
    question = Command(RequestCode.PUSH_GET_CONSUMER_STATUS, fields={"group": group, "topic": topic})
    try:
        answer = await call_member(group, client_id, question, context.memberships.members, context.services)
    except ConnectionGone:
        return None
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return None
    content = decode_dialect(answer.body)
    offsets = content.get("messageQueueTable") if isinstance(content, dict) else None
    if not isinstance(offsets, dict):
        return None
    return {queue: offset for queue, offset in offsets.items() if isinstance(queue, MessageQueueKey)}
