"""Requests of clients that consume in order: lock queues (41), and release them (42)."""

from typing import TYPE_CHECKING

from ternmq_common.names import check_group_name
from ternmq_proxy.fronts.remoting.call import check_client_id
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.heartbeats import LockRequest, read_lock_request
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.by_queue import locks
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.json_dialect import encode_json

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall


async def lock_queues(context: "RemotingCall") -> Command:
    """Answer 41: those of the queues that the client has now."""
    request = _read_request(context)
    locked = await locks.lock_queues(request.group, request.client_id, request.queues, context.call, context.services)
    queues = [{"brokerName": each.broker, "queueId": each.queue_id, "topic": each.topic} for each in locked]
    return Command(ResponseCode.SUCCESS, body=encode_json({"lockOKMQSet": queues}))


async def unlock_queues(context: "RemotingCall") -> Command:
    """Answer 42."""
    request = _read_request(context)
    await locks.unlock_queues(request.group, request.client_id, request.queues, context.call, context.services)
    return Command(ResponseCode.SUCCESS)


def _read_request(context: "RemotingCall") -> LockRequest:
    request = read_lock_request(context.command.body)
    check_group_name(request.group)
    if not check_client_id(request.client_id):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the client id is empty, or can't be printed")
    return request
