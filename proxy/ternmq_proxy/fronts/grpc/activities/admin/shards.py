"""Calls of `ternmq.admin.v1.Admin` about replicas; the embedded stack's one broker has none."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.admin.brokers import wire_broker, wire_replica
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def move_leader(
    request: admin_pb2.MoveLeaderRequest, call: "Call", services: "Services"
) -> admin_pb2.MoveLeaderResponse:
    """Ask the leader to hand over to a replica; who wants to know when that is done looks at the brokers."""
    del call
    _refuse_if_embedded(services)
    await services.catalog.shards.request_handover(request.broker, request.replica)
    return admin_pb2.MoveLeaderResponse(status=OK, broker=await _shown(request.broker, services))


async def elect_replica(
    request: admin_pb2.ElectReplicaRequest, call: "Call", services: "Services"
) -> admin_pb2.ElectReplicaResponse:
    """Make a replica leader though it is not in sync; see the request's comment."""
    del call
    _refuse_if_embedded(services)
    unclean = await services.catalog.shards.elect_unclean(request.broker, request.replica)
    return admin_pb2.ElectReplicaResponse(
        status=OK,
        broker=await _shown(request.broker, services),
        lost_bytes=unclean.lost_bytes,
        elected=wire_replica(unclean.elected, leader=True),
        in_sync=[wire_replica(each, leader=False) for each in unclean.in_sync],
    )


async def add_replica(
    request: admin_pb2.AddReplicaRequest, call: "Call", services: "Services"
) -> admin_pb2.AddReplicaResponse:
    """Let a shard have one replica more."""
    del call
    _refuse_if_embedded(services)
    await services.catalog.shards.add_replica(request.broker)
    return admin_pb2.AddReplicaResponse(status=OK, broker=await _shown(request.broker, services))


async def remove_replica(
    request: admin_pb2.RemoveReplicaRequest, call: "Call", services: "Services"
) -> admin_pb2.RemoveReplicaResponse:
    """Forget a replica; BAD_REQUEST for the leader, and if too few would be in sync."""
    del call
    _refuse_if_embedded(services)
    await services.catalog.shards.remove_replica(request.broker, request.replica)
    return admin_pb2.RemoveReplicaResponse(status=OK, broker=await _shown(request.broker, services))


async def _shown(broker: str, services: "Services") -> admin_pb2.Broker:
    return wire_broker(await services.catalog.existing_broker(broker))


def _refuse_if_embedded(services: "Services") -> None:
    if services.catalog.is_embedded:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            "this server is its own and only broker, without replicas; those are of a cluster's brokers "
            "(`ternmq broker --replicas`)",
        )
