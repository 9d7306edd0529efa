"""Whom an attack attacks, and for how long; the calls that attacks are made of."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.attacks.remoting.wire import RemotingWire
from tests.attacks.wire import Disconnected, Wire

SERVICE = "/apache.rocketmq.v2.MessagingService/"
SEND, RECEIVE, PULL, ACK = (
    f"{SERVICE}{name}" for name in ("SendMessage", "ReceiveMessage", "PullMessage", "AckMessage")
)
ROUTE, HEARTBEAT, TELEMETRY = (f"{SERVICE}{name}" for name in ("QueryRoute", "Heartbeat", "Telemetry"))
CLIENT_ID = ("x-mq-client-id", "attacker")
TOPIC = "attacked"
# An attacker that is thrown out comes back so soon.
_RETURN_S = 0.02
Proto = Any


@dataclass(slots=True)
class Target:
    """A running server. `facts` are what the attacker has to tell afterwards."""

    grpc: str
    http: str
    remoting: str
    seconds: float
    facts: dict[str, int] = field(default_factory=dict)
    ends: float = 0.0

    def begin(self) -> None:
        self.ends = time.monotonic() + self.seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self.ends - time.monotonic())

    def rounds(self) -> Iterator[int]:
        """0, 1, ... as long as the attack lasts; each begins a little after the one before."""
        for number in itertools.count():
            if not self.left_s:
                return
            yield number
            time.sleep(_RETURN_S)

    def count(self, fact: str, more: int = 1) -> None:
        self.facts[fact] = self.facts.get(fact, 0) + more

    @contextlib.contextmanager
    def wire(self, **how: Any) -> Iterator[Wire]:  # noqa: ANN401 - as Wire
        """A connection; that it is lost ends the block."""
        with contextlib.suppress(Disconnected), Wire(self.grpc, **how) as wire:
            self.count("connections")
            yield wire

    @contextlib.contextmanager
    def remoting_wire(self, **how: Any) -> Iterator[RemotingWire]:  # noqa: ANN401 - as RemotingWire
        """A connection of the remoting protocol; that it is lost ends the block."""
        with self.remoting_wires(**how) as connect:
            yield connect()

    @contextlib.contextmanager
    def remoting_wires(self, **how: Any) -> Iterator[Callable[[], RemotingWire]]:  # noqa: ANN401 - as RemotingWire
        """Makes such connections, which are closed together; that one is lost ends the block."""
        with contextlib.suppress(Disconnected), contextlib.ExitStack() as stack:

            def connect() -> RemotingWire:
                wire = stack.enter_context(RemotingWire(self.remoting, **how))
                self.count("connections")
                return wire

            yield connect


def message(topic: str, body: bytes, message_id: str, encoding: "pb.Encoding" = pb.IDENTITY, **system: Proto) -> Proto:
    fields = {"message_id": message_id, "body_encoding": encoding, **system}
    return pb.Message(topic={"name": topic}, system_properties=fields, body=body)


def send_request(*messages: Proto) -> bytes:
    return rpc.SendMessageRequest(messages=messages).SerializeToString()


def receive_request(topic: str, group: str, *, tags: str = "*", hidden_s: int = 30) -> bytes:
    """Up to 32 messages, without a wait."""
    return rpc.ReceiveMessageRequest(
        group={"name": group},
        message_queue={"topic": {"name": topic}},
        batch_size=32,
        filter_expression=pb.FilterExpression(type=pb.TAG, expression=tags),
        invisible_duration=Duration(seconds=hidden_s),
        long_polling_timeout=Duration(),
    ).SerializeToString()


def route_request(topic: str) -> bytes:
    return rpc.QueryRouteRequest(topic={"name": topic}).SerializeToString()
