"""Requests of clients that have the server share queues out: for their queues (400), and for a group's way (401).

The way (`setConsumeMode`) is the group's: it applies to all its topics, and all members pop from all queues, so that
`popShareQueueNum` means nothing. A member that asks is what the way says from then on.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.catalog.assignment_strategy import AssignmentStrategy
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import RETRY_PREFIX, check_group_name
from ternmq_common.shard.model import ConsumerGroup
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import answer_done, answer_json, read_object, read_text
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.admin.groups.group_settings import create_group, update_group
from ternmq_proxy.operations.by_queue.assignment import require_sharing, share_queues
from ternmq_proxy.operations.by_queue.group_ways import GroupWay, joining

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_rpc.remoting.commands import Command

_POP, _PULL = "POP", "PULL"


async def query_assignment(context: "RemotingCall") -> "Command":
    """Answer 400: the member's queues of a topic. None are named while they are not known, so that it keeps its own; an
    error would have it share queues out by itself from then on."""
    content, services = read_object(context.command.body), context.services
    group, topic = check_group_name(read_text(content, "consumerGroup")), read_text(content, "topic")
    require_sharing(group, topic, context.call, services)
    pops = services.catalog.group_or_default(group).remoting_pop
    if context.memberships.members.is_member(context.client, group):
        if not pops and not context.memberships.is_pulling(context.client, group):
            try:
                async with joining(group, GroupWay.PULLS, services):
                    context.memberships.adopt_way(context.client, group)
            except MessagingError:
                return answer_json({"messageQueueAssignments": []})  # until those are gone that pop by gRPC
        else:
            context.memberships.adopt_way(context.client, group)
    strategy: AssignmentStrategy | None = None
    members: list[str] = []
    if read_text(content, "messageModel") != "BROADCASTING":
        try:
            strategy = AssignmentStrategy.parse_strategy(read_text(content, "strategyName"))
        except MessagingError:
            return answer_json({})
        members = await context.memberships.find_members(group)
    client_id = read_text(content, "clientId")
    queues = await share_queues(group, topic, client_id, members, strategy, context.call, services)
    if queues is None:
        return answer_json({})
    return answer_json(
        {
            "messageQueueAssignments": [
                {
                    "messageQueue": {"brokerName": broker, "queueId": queue_id, "topic": topic},
                    "mode": _POP if pops else _PULL,
                }
                for broker, queue_id in queues
            ]
        }
    )


async def set_request_mode(context: "RemotingCall") -> "Command":
    """Answer 401: members pop, or pull. A missing group is created."""
    content, services = read_object(context.command.body), context.services
    if read_text(content, "topic").startswith(RETRY_PREFIX):
        raise RequestRefused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    mode = read_text(content, "mode")
    if mode not in (_POP, _PULL):
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"the mode is {mode[:40]!r}; POP and PULL are known")
    name, pops = check_group_name(read_text(content, "consumerGroup")), mode == _POP
    try:
        known = await services.catalog.existing_group(name)
    except MessagingError as error:
        if error.code != ErrorCode.CONSUMER_GROUP_NOT_FOUND:
            raise
        await create_group(name, lambda: ConsumerGroup(name=name, remoting_pop=pops), context.call, services)
    else:
        bound = None if known.lite is None else known.lite.bind
        await update_group(name, lambda: replace(known, remoting_pop=pops), context.call, services, lite_topic=bound)
    context.memberships.announce_change(name)
    return answer_done()
