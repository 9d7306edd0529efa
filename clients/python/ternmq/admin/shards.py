"""Admin calls for the replicas of brokers (`brokers.Broker.replicas`)."""

from dataclasses import dataclass

from ternmq.admin.brokers import Broker, Replica, read_broker, read_replica
from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import check_text
from ternmq_protos.admin_v1 import admin_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """The result of an unclean election. `lost_bytes` of the log are known to be lost, by the positions that `elected`
    and the replicas that were `in_sync` last reported: it may be more. `broker` is the broker after it."""

    broker: Broker
    elected: Replica
    in_sync: tuple[Replica, ...]
    lost_bytes: int


def move_leader(broker: str, replica: str) -> AdminCall[Broker]:
    """Ask the leader of a broker with replicas to hand over to this replica, which must be live and in sync.
    Returns the broker as it is now; `list_brokers` shows when the handover has happened."""
    request = admin_pb2.MoveLeaderRequest(broker=check_text("broker", broker), replica=check_text("replica", replica))
    return AdminCall(request, lambda answer: read_broker(answer.broker))


def elect_replica(broker: str, replica: str) -> AdminCall[UncleanElection]:
    """Elect a replica that is not in sync while no leader is live: the messages that it lacks are lost."""
    request = admin_pb2.ElectReplicaRequest(broker=check_text("broker", broker), replica=check_text("replica", replica))
    return AdminCall(request, _read_elected)


def add_replica(broker: str) -> AdminCall[Broker]:
    """Allow a broker with replicas one more, which is then to be started."""
    request = admin_pb2.AddReplicaRequest(broker=check_text("broker", broker))
    return AdminCall(request, lambda answer: read_broker(answer.broker))


def remove_replica(broker: str, replica: str) -> AdminCall[Broker]:
    """Remove a replica that does not lead, and allow the broker one less."""
    request = admin_pb2.RemoveReplicaRequest(
        broker=check_text("broker", broker), replica=check_text("replica", replica)
    )
    return AdminCall(request, lambda answer: read_broker(answer.broker))


def _read_elected(answer: admin_pb2.ElectReplicaResponse) -> UncleanElection:
    return UncleanElection(
        broker=read_broker(answer.broker),
        elected=read_replica(answer.elected),
        in_sync=tuple(map(read_replica, answer.in_sync)),
        lost_bytes=answer.lost_bytes,
    )
