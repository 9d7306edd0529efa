"""The servers that are measured, each started with the settings that its makers ship, on empty data and free ports."""

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

from benchmarks.bench.load import build_nats_server, missing_go
from ternmq_command.calls.admin import AdminClient
from tests.interop.apache_rocketmq import HOST, ApacheRocketMQ, free_port, jar_folder
from tests.support.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

TERNMQ = "TernMQ"
APACHE = "Apache RocketMQ"
NATS = "NATS JetStream"
START_TIMEOUT_S = 30
QUEUES = 8


@dataclass(frozen=True, slots=True)
class Setup:
    """A server as it is measured; `flush` and `workers` are TernMQ's. With 2 cores the load generator shares them."""

    engine: str
    flush: str = "async"
    workers: int = 1
    cores: int = 1

    def __str__(self) -> str:
        flush = " sync" if self.flush == "sync" else ""
        workers = f" {self.workers} workers" if self.workers > 1 else ""
        return f"{self.engine}{flush}{workers}"


class Server(ABC):
    """A running server: `with TernmqServer(setup, folder) as server`. No process is left after the `with` block."""

    # What comes before the names of the load generator's works.
    works: ClassVar[str] = ""

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
        """HOST:PORT of clients."""

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
        options = ("--flush", self.setup.flush, "--log-level", "warning", "--workers", str(self.setup.workers))
        self._stack = started.enter_context(Stack(self._folder, *options))

    @property
    def endpoint(self) -> str:
        return self._stack.grpc

    @property
    def pids(self) -> Sequence[int]:
        return [self._stack.process.pid]

    def create_topics(self, names: Iterable[str], kind: str) -> None:
        with AdminClient(self.endpoint) as admin:
            for name in names:
                admin.create_topic(name, kind.lower(), QUEUES)

    def create_group(self, name: str, *, ordered: bool) -> None:
        with AdminClient(self.endpoint) as admin:
            admin.create_group(name, {"fifo": ordered})


class _LargeApacheRocketMQ(ApacheRocketMQ):
    """With the options of its own start script but the heap; on one core Java would choose a simpler collector."""

    java_options = (
        *("-server", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25"),
        *("-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0"),
    )


class ApacheServer(Server):
    """A name server, and a proxy in local mode, which holds the broker."""

    def _start(self, started: ExitStack) -> None:
        # The size of a log file is the default here too, which the tests make smaller.
        self._peer = started.enter_context(_LargeApacheRocketMQ(mappedFileSizeCommitLog=1024**3))

    @property
    def endpoint(self) -> str:
        return self._peer.endpoint

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


class NatsServer(Server):
    """One server with JetStream, streams in files, synced as its default is: every two minutes."""

    works = "nats-"

    def _start(self, started: ExitStack) -> None:
        self._port = free_port()
        self._folder.mkdir(parents=True, exist_ok=True)
        log = started.enter_context((self._folder / "server.log").open("wb"))
        command = [
            str(build_nats_server()),
            "-js",
            "-sd",
            str(self._folder / "data"),
            "-a",
            HOST,
            "-p",
            str(self._port),
        ]
        self._process = started.enter_context(subprocess.Popen(command, stderr=log, stdout=log))
        started.callback(self._process.kill)
        self._wait_for_port()

    def _wait_for_port(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self._port)) == 0:
                    return
            time.sleep(0.005)
        raise RuntimeError(f"NATS does not serve:\n{(self._folder / 'server.log').read_text()}")

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pids(self) -> Sequence[int]:
        return [self._process.pid]

    def create_topics(self, names: Iterable[str], kind: str) -> None:
        """The load generator makes its stream."""

    def create_group(self, name: str, *, ordered: bool) -> None:
        """The load generator makes its consumer."""


SERVERS: dict[str, type[Server]] = {TERNMQ: TernmqServer, APACHE: ApacheServer, NATS: NatsServer}


def absent(engine: str) -> str | None:
    """Why a peer can't run here; None if it can."""
    if engine == NATS:
        return missing_go()
    if engine == APACHE:
        if shutil.which("java") is None:
            return "Java is missing; tests/interop/install_toolchains.sh installs it"
        try:
            jar_folder()
        except (RuntimeError, subprocess.SubprocessError) as error:
            return f"its jars can't be fetched: {error}"
    return None
