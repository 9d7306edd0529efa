"""Calls about the replicas of brokers; the brokers have them (`brokers.Broker.replicas`)."""

from dataclasses import dataclass

from ternmq.admin.brokers import Broker, Replica, broker_of, replica_of
from ternmq.admin.call import AdminCall
from ternmq.admin.checks import text
from ternmq_protos.admin_v1 import admin_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """`lost_bytes` of the log is what is known to be lost, by the positions that `elected` and those that were
    `in_sync` told last: it may be more. `broker` is as it is after it."""

    broker: Broker
    elected: Replica
    in_sync: tuple[Replica, ...]
    lost_bytes: int


def move_leader(broker: str, replica: str) -> AdminCall[Broker]:
    """The broker as it is now; it has happened when its `leader` is that one."""
    request = admin_pb2.MoveLeaderRequest(broker=text("broker", broker), replica=text("replica", replica))
    return AdminCall("MoveLeader", request, admin_pb2.MoveLeaderResponse, lambda answer: broker_of(answer.broker))


def elect(broker: str, replica: str) -> AdminCall[UncleanElection]:
    request = admin_pb2.ElectReplicaRequest(broker=text("broker", broker), replica=text("replica", replica))
    return AdminCall("ElectReplica", request, admin_pb2.ElectReplicaResponse, _elected)


def add(broker: str) -> AdminCall[Broker]:
    request = admin_pb2.AddReplicaRequest(broker=text("broker", broker))
    return AdminCall("AddReplica", request, admin_pb2.AddReplicaResponse, lambda answer: broker_of(answer.broker))


def remove(broker: str, replica: str) -> AdminCall[Broker]:
    request = admin_pb2.RemoveReplicaRequest(broker=text("broker", broker), replica=text("replica", replica))
    return AdminCall("RemoveReplica", request, admin_pb2.RemoveReplicaResponse, lambda answer: broker_of(answer.broker))


def _elected(answer: admin_pb2.ElectReplicaResponse) -> UncleanElection:
    return UncleanElection(
        broker=broker_of(answer.broker),
        elected=replica_of(answer.elected),
        in_sync=tuple(map(replica_of, answer.in_sync)),
        lost_bytes=answer.lost_bytes,
    )
