"""The measured servers, each started with the settings that its makers ship, on empty data and free ports."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from benchmarks.bench.load import WayIn, build_loader, build_nats_server, missing_go
from tests.interop.apache_rocketmq import HOST, jar_folder
from tests.interop.guarded.apache import GuardedApacheRocketMQ
from tests.support.guarded import GuardedStack, dev_certificates
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from ternmq.admin.requests.words import TopicType

TERNMQ = "TernMQ"
APACHE = "Apache RocketMQ"
NATS = "NATS JetStream"
FLOOR = "grpc-go, a constant"
"""A server of Go's gRPC that answers a send with a constant, and stores nothing: what the protocol costs at least."""
START_TIMEOUT_S = 30
QUEUES = 8
TYPES: dict[str, TopicType] = {
    "NORMAL": "normal",
    "FIFO": "fifo",
    "DELAY": "delay",
    "TRANSACTION": "transaction",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a measured server; `flush`, `workers` and `access_control` are TernMQ's. With 2 cores the load
    generator shares them."""

    engine: str
    flush: str = "async"
    workers: int = 1
    cores: int = 1
    tls: bool = False
    access_control: bool = False

    def __str__(self) -> str:
        flush = " sync" if self.flush == "sync" else ""
        workers = f" {self.workers} workers" if self.workers > 1 else ""
        guards = (" TLS" if self.tls else "") + (" access control" if self.access_control else "")
        return f"{self.engine}{flush}{workers}{guards}"


class Server(ABC):
    """A running server: `with TernmqServer(setup, folder) as server`. No process is left after the `with` block."""

    # The prefix of the names of the load generator's works.
    works: ClassVar[str] = ""
    # Whether it has topics and groups, from which messages can be consumed.
    stores: ClassVar[bool] = True

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup, self._folder = setup, folder
        self._running = ExitStack()
        self.started_s = 0.0

    def __enter__(self) -> Self:
        began = time.monotonic()
        with ExitStack() as started:
            self._start(started)
            self._running = started.pop_all()
        self.started_s = time.monotonic() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """HOST:PORT for clients."""

    @property
    def remoting(self) -> str:
        """HOST:PORT of the remoting protocol: of Apache RocketMQ, its broker's own."""
        raise LookupError(f"{self.setup} has no remoting protocol")

    @property
    def way_in(self) -> WayIn:
        """How clients connect."""
        return WayIn()

    @property
    @abstractmethod
    def pids(self) -> Sequence[int]:
        """The processes that were started; they may have children."""

    @abstractmethod
    def create_topics(self, names: Iterable[str], kind: str) -> None:
        """Create topics of a type: NORMAL, FIFO, DELAY or TRANSACTION."""

    @abstractmethod
    def create_group(self, name: str, *, ordered: bool) -> None: ...

    @abstractmethod
    def _start(self, started: ExitStack) -> None: ...


class TernmqServer(Server):
    """`ternmq up` of this checkout."""

    def _start(self, started: ExitStack) -> None:
        setup = self.setup
        options = ("--flush", setup.flush, "--log-level", "warning", "--workers", str(setup.workers))
        certificates = dev_certificates(self._folder / "certificates") if setup.tls else None
        stack = GuardedStack(self._folder, *options, certificates=certificates, access_control=setup.access_control)
        stack.addresses["remoting"] = f"{HOST}:0"
        self._stack = started.enter_context(stack)

    @property
    def endpoint(self) -> str:
        return self._stack.grpc

    @property
    def remoting(self) -> str:
        return self._stack.addresses["remoting"]

    @property
    def way_in(self) -> WayIn:
        return WayIn(self._stack.ca, self._stack.credentials)

    @property
    def pids(self) -> Sequence[int]:
        return [self._stack.process.pid]

    def create_topics(self, names: Iterable[str], kind: str) -> None:
        with self._stack.admin() as admin:
            for name in names:
                admin.create_topic(name, TYPES[kind], QUEUES)

    def create_group(self, name: str, *, ordered: bool) -> None:
        with self._stack.admin() as admin:
            admin.create_group(name, fifo=ordered)


class _LargeApacheRocketMQ(GuardedApacheRocketMQ):
    """Apache RocketMQ with the options of its own start script except the heap; on one core Java would choose a simpler
    collector."""

    java_options = (
        *("-server", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25"),
        *("-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0"),
    )


class ApacheServer(Server):
    """Apache RocketMQ: a name server, and a proxy in local mode, which contains the broker."""

    def _start(self, started: ExitStack) -> None:
        # The default size of a log file here too, which the tests make smaller.
        certificates = dev_certificates(self._folder / "certificates") if self.setup.tls else None
        self._ca = certificates and certificates / "ca.pem"
        self._peer = started.enter_context(_LargeApacheRocketMQ(certificates, mappedFileSizeCommitLog=1024**3))

    @property
    def way_in(self) -> WayIn:
        return WayIn(self._ca)

    @property
    def endpoint(self) -> str:
        return self._peer.endpoint

    @property
    def remoting(self) -> str:
        return self._peer.broker_address

    @property
    def pids(self) -> Sequence[int]:
        return self._peer.pids

    def create_topics(self, names: Iterable[str], kind: str) -> None:
        settings = {"readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "attributes": {"+message.type": kind}}
        wanted = list(names)
        self._folder.mkdir(parents=True, exist_ok=True)
        listed = self._folder / "topics.json"
        listed.write_text(json.dumps([{"topicName": name, **settings} for name in wanted]))
        self._peer.admin("updateTopicList", "-f", str(listed))
        self._peer.wait_for_route(wanted[-1])

    def create_group(self, name: str, *, ordered: bool) -> None:
        self._peer.create_group(name, ordered=ordered)


class ProgramServer(Server):
    """A server that is one program, with an address that it is given."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    def _start(self, started: ExitStack) -> None:
        self._port = free_port()
        self._folder.mkdir(parents=True, exist_ok=True)
        log = started.enter_context((self._folder / "server.log").open("wb"))
        self._process = started.enter_context(subprocess.Popen(self._command(), stderr=log, stdout=log))
        started.callback(self._process.kill)
        self._wait_for_port()

    def _wait_for_port(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self._port)) == 0:
                    return
            time.sleep(0.005)
        raise RuntimeError(f"{self.setup} does not serve:\n{(self._folder / 'server.log').read_text()}")

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pids(self) -> Sequence[int]:
        return [self._process.pid]

    def create_topics(self, names: Iterable[str], kind: str) -> None:
        """Do nothing: the load generator creates what it uses."""

    def create_group(self, name: str, *, ordered: bool) -> None:
        """Do nothing: the load generator creates what it uses."""


class NatsServer(ProgramServer):
    """NATS: one server with JetStream, streams in files, synced as by default: every two minutes."""

    works = "nats-"

    def _command(self) -> list[str]:
        data = str(self._folder / "data")
        return [str(build_nats_server()), "-js", "-sd", data, "-a", HOST, "-p", str(self._port)]


class FloorServer(ProgramServer):
    """The load generator as a server that answers each send with a constant."""

    stores = False

    def _command(self) -> list[str]:
        return [str(build_loader()), "floor", "-endpoint", self.endpoint]


SERVERS: dict[str, type[Server]] = {TERNMQ: TernmqServer, APACHE: ApacheServer, NATS: NatsServer, FLOOR: FloorServer}


def absent(engine: str) -> str | None:
    """Return why a peer can't run here; None if it can."""
    if engine in (NATS, FLOOR):
        return missing_go()
    if engine == APACHE:
        if shutil.which("java") is None:
            return "Java is missing; tests/interop/install_toolchains.sh installs it"
        try:
            jar_folder()
        except (RuntimeError, subprocess.SubprocessError) as error:
            return f"its jars can't be fetched: {error}"
    return None
