"""Calls of `ternmq.admin.v1.Admin` about the brokers of a cluster (`operations/admin/brokers/brokers.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import QueuePermission, ReplicationMode
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.brokers import brokers
from ternmq_proxy.operations.admin.brokers.brokers import check_permission

if TYPE_CHECKING:
    from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, ReplicaEntry
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_PERMISSIONS = {
    definition_pb2.READ_WRITE: QueuePermission.READ_WRITE,
    definition_pb2.READ: QueuePermission.READ,
    definition_pb2.WRITE: QueuePermission.WRITE,
    definition_pb2.NONE: QueuePermission.NONE,
}
_ON_THE_WIRE = {ours: theirs for theirs, ours in _PERMISSIONS.items()}
_REPLICATIONS_ON_THE_WIRE = {
    ReplicationMode.SYNC: admin_pb2.REPLICATION_SYNC,
    ReplicationMode.ASYNC: admin_pb2.REPLICATION_ASYNC,
}


async def list_brokers(
    request: admin_pb2.ListBrokersRequest, call: "Call", services: "Services"
) -> admin_pb2.ListBrokersResponse:
    """Return all brokers, by name."""
    del request
    return admin_pb2.ListBrokersResponse(
        status=OK, brokers=map(wire_broker, await brokers.list_brokers(call, services))
    )


async def update_broker(
    request: admin_pb2.UpdateBrokerRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateBrokerResponse:
    """Give a broker another permission, have it drained, or let it take messages again."""
    changed = await brokers.update_broker(
        request.name,
        call,
        services,
        permission=_read_permission(request.permission) if request.HasField("permission") else None,
        draining=request.draining if request.HasField("draining") else None,
    )
    return admin_pb2.UpdateBrokerResponse(status=OK, broker=wire_broker(changed))


async def remove_broker(
    request: admin_pb2.RemoveBrokerRequest, call: "Call", services: "Services"
) -> admin_pb2.RemoveBrokerResponse:
    """Forget a broker."""
    removed = await brokers.remove_broker(request.name, call, services, force=request.force)
    lost = None if removed.lost is None else _wire_load(removed.lost)
    return admin_pb2.RemoveBrokerResponse(status=OK, topics=removed.topics, lost=lost)


async def broker_remaining(
    request: admin_pb2.BrokerRemainingRequest, call: "Call", services: "Services"
) -> admin_pb2.BrokerRemainingResponse:
    """Return what would be lost with a broker."""
    unfinished = await brokers.describe_unfinished_work(request.name, call, services)
    return admin_pb2.BrokerRemainingResponse(
        status=OK,
        backlogs=[
            admin_pb2.Backlog(group=backlog.group, topic=backlog.topic, messages=backlog.messages)
            for backlog in unfinished.backlogs
        ],
        timers=unfinished.timers,
        transactions=unfinished.transactions,
    )


def _read_permission(asked: "definition_pb2.Permission") -> QueuePermission | int:
    """Return the permission, or the number if it is none."""
    return _PERMISSIONS.get(asked, int(asked))


def permission_of(asked: "definition_pb2.Permission") -> QueuePermission:
    """BAD_REQUEST if it is none."""
    return check_permission(_read_permission(asked))


def wire_permission(permission: QueuePermission) -> "definition_pb2.Permission":
    return _ON_THE_WIRE[permission]


def wire_replica(replica: "ReplicaEntry", *, leader: bool) -> admin_pb2.Replica:
    answer = admin_pb2.Replica(
        name=replica.name,
        store_id=replica.store_id,
        address=replica.address,
        leader=leader,
        in_sync=replica.in_sync,
        live=replica.live,
        position=replica.position,
        version=replica.version,
    )
    if replica.started_ms:
        answer.started.FromMilliseconds(replica.started_ms)
    if replica.lease_end_ms:
        answer.lease_end.FromMilliseconds(replica.lease_end_ms)
    return answer


def _wire_load(load: "BrokerLoad") -> admin_pb2.BrokerLoad:
    return admin_pb2.BrokerLoad(
        messages_in=load.messages_in,
        messages_out=load.messages_out,
        proxies=load.proxies,
        transactions=load.transactions,
        disk_used=load.disk_used,
        messages=load.messages,
        unfinished=load.unfinished,
        timers=load.timers,
        clock_skew=load.clock_skew,
    )


def wire_broker(entry: "BrokerEntry") -> admin_pb2.Broker:
    answer = admin_pb2.Broker(
        name=entry.name,
        address=entry.address,
        live=entry.live,
        permission=wire_permission(entry.permission),
        draining=entry.draining,
        epoch=entry.epoch,
        version=entry.version,
        load=_wire_load(entry.load),
        replicas=[wire_replica(each, leader=each.store_id == entry.store_id) for each in entry.replicas],
        replicas_wanted=entry.replicas_wanted,
        min_insync=entry.min_insync,
        replication=_REPLICATIONS_ON_THE_WIRE[entry.replication],
        move_to=next((each.name for each in entry.replicas if each.store_id == entry.move_to), ""),
    )
    if entry.started_ms:
        answer.started.FromMilliseconds(entry.started_ms)
    if entry.lease_end_ms:
        answer.lease_end.FromMilliseconds(entry.lease_end_ms)
    return answer
