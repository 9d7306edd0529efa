"""Brokers of a cluster in memory, behind the calls of the admin service about them."""

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

OK = pb.Status(code=pb.OK, message="OK")


class MemoryBrokers:
    """`all` has them by name. `remaining` are the answers to come about what remains, the last one again and again.

    `silent` are named as those that don't answer; `removed` are (name, force) of each removal.
    """

    def __init__(self) -> None:
        self.all: dict[str, admin_pb2.Broker] = {}
        self.remaining = [admin_pb2.BrokerRemainingResponse(status=OK)]
        self.looks = 0
        self.silent: list[str] = []
        self.removed: list[tuple[str, bool]] = []

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
        self.all[name] = broker

    def ListBrokers(self, _: admin_pb2.ListBrokersRequest) -> admin_pb2.ListBrokersResponse:  # noqa: N802
        return admin_pb2.ListBrokersResponse(status=OK, brokers=self.all.values())

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
        if self.all.pop(request.name, None) is None:
            return admin_pb2.RemoveBrokerResponse(status=_no_broker(request.name))
        return admin_pb2.RemoveBrokerResponse(status=OK)

    def BrokerRemaining(  # noqa: N802
        self, request: admin_pb2.BrokerRemainingRequest
    ) -> admin_pb2.BrokerRemainingResponse:
        assert request.name in self.all
        self.looks += 1
        return self.remaining.pop(0) if len(self.remaining) > 1 else self.remaining[0]


def _no_broker(name: str) -> pb.Status:
    return pb.Status(code=pb.NOT_FOUND, message=f"no broker {name}")
