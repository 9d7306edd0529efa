"""Brokers of a cluster in memory, behind the calls of the admin service about them."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

OK = pb.Status(code=pb.OK, message="OK")


class MemoryBrokers:
    """`all` has them by name. `remaining` are the answers to come about what remains, the last one again and again.

    `silent` are named as those that don't answer; `removed` are (name, force) of each removal, which is from `topics`.
    `then` are functions, one for each list of brokers that is asked for: what happens before it. `proxies` are those
    that look at them, and `registry_problem` is why others are missing.
    """

    def __init__(self) -> None:
        self.all: dict[str, admin_pb2.Broker] = {}
        self.proxies: list[admin_pb2.Proxy] = []
        self.registry_problem = ""
        self.remaining = [admin_pb2.BrokerRemainingResponse(status=OK)]
        self.looks = 0
        self.silent: list[str] = []
        self.removed: list[tuple[str, bool]] = []
        self.topics: list[str] = []
        self.then: list[Callable[[], object]] = []

    def put(self, name: str, *, live: bool = True, load: admin_pb2.BrokerLoad | None = None) -> None:
        broker = admin_pb2.Broker(
            name=name,
            address=f"{name}.example:10911",
            live=live,
            permission=pb.READ_WRITE,
            epoch=7,
            version="1.0",
            load=load,
        )
        broker.started.FromSeconds(1_700_000_000)
        broker.lease_end.FromSeconds(1_700_000_600)
        self.all[name] = broker

    def put_replicas(self, name: str, **positions: int) -> None:
        """A shard, which the first of these replicas leads; all are in sync."""
        self.put(name)
        shard = self.all[name]
        shard.replicas_wanted, shard.min_insync = len(positions), len(positions) // 2 + 1
        shard.replication = admin_pb2.REPLICATION_SYNC
        for replica, position in positions.items():
            added = shard.replicas.add(
                name=replica,
                store_id=f"store-{replica}",
                address=f"{replica}.example:10911",
                leader=not shard.replicas,
                in_sync=True,
                live=True,
                position=position,
                version="1.0",
            )
            added.started.FromSeconds(1_700_000_000)
            added.lease_end.FromSeconds(1_700_000_600)

    def replica(self, name: str, replica: str) -> admin_pb2.Replica:
        return next(each for each in self.all[name].replicas if each.name == replica)

    def lead(self, name: str, replica: str) -> None:
        """Have it lead from now on."""
        shard = self.all[name]
        for each in shard.replicas:
            each.leader = each.name == replica
        shard.epoch += 1
        shard.move_to = ""

    def MoveLeader(self, request: admin_pb2.MoveLeaderRequest) -> admin_pb2.MoveLeaderResponse:  # noqa: N802
        if not self.replica(request.broker, request.replica).in_sync:
            status = pb.Status(code=pb.BAD_REQUEST, message=f"replica {request.replica} is not in sync")
            return admin_pb2.MoveLeaderResponse(status=status)
        self.all[request.broker].move_to = request.replica
        return admin_pb2.MoveLeaderResponse(status=OK, broker=self.all[request.broker])

    def ElectReplica(self, request: admin_pb2.ElectReplicaRequest) -> admin_pb2.ElectReplicaResponse:  # noqa: N802
        shard, elected = self.all[request.broker], self.replica(request.broker, request.replica)
        lost = max(each.position for each in shard.replicas if each.in_sync) - elected.position
        self.lead(request.broker, request.replica)
        for each in shard.replicas:
            each.in_sync = each.leader
        return admin_pb2.ElectReplicaResponse(status=OK, broker=shard, lost_bytes=max(0, lost), elected=elected)

    def AddReplica(self, request: admin_pb2.AddReplicaRequest) -> admin_pb2.AddReplicaResponse:  # noqa: N802
        self.all[request.broker].replicas_wanted += 1
        return admin_pb2.AddReplicaResponse(status=OK, broker=self.all[request.broker])

    def RemoveReplica(self, request: admin_pb2.RemoveReplicaRequest) -> admin_pb2.RemoveReplicaResponse:  # noqa: N802
        shard = self.all[request.broker]
        shard.replicas.remove(self.replica(request.broker, request.replica))
        shard.replicas_wanted -= 1
        return admin_pb2.RemoveReplicaResponse(status=OK, broker=shard)

    def ListBrokers(self, _: admin_pb2.ListBrokersRequest) -> admin_pb2.ListBrokersResponse:  # noqa: N802
        if self.then:
            self.then.pop(0)()
        return admin_pb2.ListBrokersResponse(status=OK, brokers=self.all.values())

    def ListProxies(self, _: admin_pb2.ListProxiesRequest) -> admin_pb2.ListProxiesResponse:  # noqa: N802
        return admin_pb2.ListProxiesResponse(status=OK, proxies=self.proxies, registry_problem=self.registry_problem)

    def UpdateBroker(self, request: admin_pb2.UpdateBrokerRequest) -> admin_pb2.UpdateBrokerResponse:  # noqa: N802
        if request.name not in self.all:
            return admin_pb2.UpdateBrokerResponse(status=_no_broker(request.name))
        broker = self.all[request.name]
        if request.HasField("permission"):
            broker.permission = request.permission
        if request.HasField("draining"):
            broker.draining = request.draining
        return admin_pb2.UpdateBrokerResponse(status=OK, broker=broker)

    def RemoveBroker(self, request: admin_pb2.RemoveBrokerRequest) -> admin_pb2.RemoveBrokerResponse:  # noqa: N802
        self.removed.append((request.name, request.force))
        broker = self.all.pop(request.name, None)
        if broker is None:
            return admin_pb2.RemoveBrokerResponse(status=_no_broker(request.name))
        lost = broker.load if request.force else None
        return admin_pb2.RemoveBrokerResponse(status=OK, topics=self.topics, lost=lost)

    def BrokerRemaining(  # noqa: N802
        self, request: admin_pb2.BrokerRemainingRequest
    ) -> admin_pb2.BrokerRemainingResponse:
        assert request.name in self.all
        self.looks += 1
        return self.remaining.pop(0) if len(self.remaining) > 1 else self.remaining[0]


def _no_broker(name: str) -> pb.Status:
    return pb.Status(code=pb.NOT_FOUND, message=f"no broker {name}")
