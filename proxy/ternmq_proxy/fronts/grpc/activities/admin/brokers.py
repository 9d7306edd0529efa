"""Calls of `ternmq.admin.v1.Admin` about the brokers of a cluster; the embedded stack's one broker can't be changed."""

from typing import TYPE_CHECKING

from ternmq_common.cluster import QueuePermission, ReplicationMode
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.removal_warning import has_nothing_to_lose, removal_warning
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.fronts.grpc.activities.admin.remaining_messages import remaining_on
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_common.cluster import BrokerEntry, BrokerLoad, ReplicaEntry
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_PERMISSIONS = {
    definition_pb2.READ_WRITE: QueuePermission.READ_WRITE,
    definition_pb2.READ: QueuePermission.READ,
    definition_pb2.WRITE: QueuePermission.WRITE,
    definition_pb2.NONE: QueuePermission.NONE,
}
_ON_THE_WIRE = {ours: theirs for theirs, ours in _PERMISSIONS.items()}
_REPLICATIONS = {
    admin_pb2.REPLICATION_SYNC: ReplicationMode.SYNC,
    admin_pb2.REPLICATION_ASYNC: ReplicationMode.ASYNC,
    admin_pb2.REPLICATION_SHARD: None,
}
_REPLICATIONS_ON_THE_WIRE = {ours: theirs for theirs, ours in _REPLICATIONS.items()}


async def list_brokers(
    request: admin_pb2.ListBrokersRequest, call: "Call", services: "Services"
) -> admin_pb2.ListBrokersResponse:
    """All brokers, by name."""
    del request, call
    return admin_pb2.ListBrokersResponse(status=OK, brokers=map(wire_broker, services.catalog.list_brokers()))


async def update_broker(
    request: admin_pb2.UpdateBrokerRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateBrokerResponse:
    """Give a broker another permission, have it drained, or let it take messages again."""
    del call
    refuse_if_embedded(services)
    await services.catalog.existing_broker(request.name)
    changed = await services.catalog.set_broker(
        request.name,
        permission=permission_of(request.permission) if request.HasField("permission") else None,
        draining=request.draining if request.HasField("draining") else None,
    )
    return admin_pb2.UpdateBrokerResponse(status=OK, broker=wire_broker(changed))


async def remove_broker(
    request: admin_pb2.RemoveBrokerRequest, call: "Call", services: "Services"
) -> admin_pb2.RemoveBrokerResponse:
    """Forget a broker; BAD_REQUEST while it would be missed, as far as is known, unless the request forces it."""
    del call
    refuse_if_embedded(services)
    await services.catalog.refresh_snapshot()
    broker = await services.catalog.existing_broker(request.name)
    # While no replica leads, one that lives may do so at any time.
    is_at_work = broker.live or any(replica.live for replica in broker.replicas)
    topics = [topic.name for topic in services.catalog.list_topics() if broker.name in topic.brokers]
    if not request.force:
        if is_at_work:
            await _check_drained(broker, services)
        else:
            _check_was_drained(broker, topics)
    await services.catalog.remove_broker(broker.name, force=request.force)
    lost = _wire_load(broker.load) if request.force else None
    return admin_pb2.RemoveBrokerResponse(status=OK, topics=topics, lost=lost)


async def _check_drained(broker: "BrokerEntry", services: "Services") -> None:
    if not broker.draining:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"broker {broker.name!r} is at work; drain it first with `ternmq broker drain {broker.name} --wait`",
        )
    remaining = await remaining_on(broker.name, services)
    if not remaining.is_nothing:
        messages = sum(backlog.messages for backlog in remaining.backlogs)
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"broker {broker.name!r} still has {messages} messages that groups have not finished, {remaining.timers} "
            f"timed messages and {remaining.transactions} open transactions, which would be lost",
        )


def _check_was_drained(broker: "BrokerEntry", topics: list[str]) -> None:
    """Of one that is away."""
    if broker.draining and has_nothing_to_lose(broker.load):
        return
    state = "was not drained to its end" if broker.draining else "was not drained"
    raise MessagingError(
        ErrorCode.BAD_REQUEST,
        f"broker {broker.name!r} is away and {state}: start it again and drain it, or give --force, and lost are "
        f"{removal_warning(topics, broker.load)}",
    )


async def broker_remaining(
    request: admin_pb2.BrokerRemainingRequest, call: "Call", services: "Services"
) -> admin_pb2.BrokerRemainingResponse:
    """What would be lost with a broker, to groups that were made a moment ago too."""
    del call
    await services.catalog.refresh_snapshot()
    broker = await services.catalog.existing_broker(request.name)
    remaining = await remaining_on(broker.name, services)
    return admin_pb2.BrokerRemainingResponse(
        status=OK,
        backlogs=[
            admin_pb2.Backlog(group=backlog.group, topic=backlog.topic, messages=backlog.messages)
            for backlog in remaining.backlogs
        ],
        timers=remaining.timers,
        transactions=remaining.transactions,
    )


def refuse_if_embedded(services: "Services") -> None:
    if services.catalog.is_embedded:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            "this server is its own and only broker, which can't be changed; brokers are those of a cluster "
            "(`ternmq broker`, `ternmq proxy`)",
        )


def permission_of(asked: "definition_pb2.Permission") -> QueuePermission:
    """BAD_REQUEST if it is none."""
    permission = _PERMISSIONS.get(asked)
    if permission is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"permission {asked} is unknown")
    return permission


def wire_permission(permission: QueuePermission) -> "definition_pb2.Permission":
    return _ON_THE_WIRE[permission]


def replication_of(asked: "admin_pb2.Replication") -> ReplicationMode | None:
    """None: as each shard has it. BAD_REQUEST if it is none of those."""
    if asked not in _REPLICATIONS:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"replication {asked} is unknown")
    return _REPLICATIONS[asked]


def wire_replication(replication: ReplicationMode | None) -> "admin_pb2.Replication":
    return _REPLICATIONS_ON_THE_WIRE[replication]


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
        replication=wire_replication(entry.replication),
        move_to=next((each.name for each in entry.replicas if each.store_id == entry.move_to), ""),
    )
    if entry.started_ms:
        answer.started.FromMilliseconds(entry.started_ms)
    if entry.lease_end_ms:
        answer.lease_end.FromMilliseconds(entry.lease_end_ms)
    return answer
