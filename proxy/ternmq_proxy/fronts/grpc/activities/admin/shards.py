"""Calls of `ternmq.admin.v1.Admin` about replicas (`operations/admin/brokers/replicas.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.admin.brokers import wire_broker, wire_replica
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.brokers import replicas

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def move_leader(
    request: admin_pb2.MoveLeaderRequest, call: "Call", services: "Services"
) -> admin_pb2.MoveLeaderResponse:
    """Ask the leader to hand over to a replica."""
    broker = await replicas.move_leader(request.broker, request.replica, call, services)
    return admin_pb2.MoveLeaderResponse(status=OK, broker=wire_broker(broker))


async def elect_replica(
    request: admin_pb2.ElectReplicaRequest, call: "Call", services: "Services"
) -> admin_pb2.ElectReplicaResponse:
    """Make a replica leader though it is not in sync."""
    broker, election = await replicas.elect_replica(request.broker, request.replica, call, services)
    return admin_pb2.ElectReplicaResponse(
        status=OK,
        broker=wire_broker(broker),
        lost_bytes=election.lost_bytes,
        elected=wire_replica(election.elected, leader=True),
        in_sync=[wire_replica(each, leader=False) for each in election.in_sync],
    )


async def add_replica(
    request: admin_pb2.AddReplicaRequest, call: "Call", services: "Services"
) -> admin_pb2.AddReplicaResponse:
    """Let a shard have one replica more."""
    broker = await replicas.add_replica(request.broker, call, services)
    return admin_pb2.AddReplicaResponse(status=OK, broker=wire_broker(broker))


async def remove_replica(
    request: admin_pb2.RemoveReplicaRequest, call: "Call", services: "Services"
) -> admin_pb2.RemoveReplicaResponse:
    """Forget a replica."""
    broker = await replicas.remove_replica(request.broker, request.replica, call, services)
    return admin_pb2.RemoveReplicaResponse(status=OK, broker=wire_broker(broker))
