"""A real cluster of processes: PostgreSQL, `ternmq broker` and `ternmq proxy`, all on free ports of 127.0.0.1."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from tests.support.postgres import Postgres
from tests.support.stack import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

MIGRATE_TIMEOUT_S = 60.0


@cache
def empty_registry() -> Path:
    """The data of a PostgreSQL with an empty registry, which `ternmq registry migrate` makes once in this process."""
    folder = Path(tempfile.mkdtemp(prefix="ternmq-registry-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with Postgres(folder) as postgres:
        migrate(postgres.url)
        return postgres.stopped_copy(folder)


def migrate(url: str) -> None:
    """`ternmq registry migrate`."""
    command = (sys.executable, "-m", "ternmq_command.main", "registry", "migrate", "--registry", url)
    done = subprocess.run(command, capture_output=True, text=True, timeout=MIGRATE_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr


class MemberProcess(ServerProcess):
    """A process of the cluster, on a machine whose clock is `ahead_s` when it is started next."""

    name: str
    ahead_s = 0

    def command(self) -> Sequence[str]:
        command = list(super().command())
        if self.ahead_s:
            place = command.index("-m") + 1
            command[place:place] = ["tests.support.clock_ahead", str(self.ahead_s)]
        return command

    @property
    def title(self) -> str:
        """What it is called among all processes."""
        return self.name


class BrokerProcess(MemberProcess):
    """`ternmq broker`. `options` are those of the next start, beside those that it has always."""

    def __init__(self, folder: Path, name: str, registry: str, *options: str) -> None:
        self.name = name
        self.data = folder / "data"
        self.options: Sequence[str] = ()
        given = ("--broker-name", name, "--registry", registry, "--data-dir", str(folder / "data"))
        super().__init__(folder, "broker", *given, *options, addresses=("storage", "http"))

    def command(self) -> Sequence[str]:
        return (*super().command(), *self.options)


class ReplicaProcess(BrokerProcess):
    """`ternmq broker --replicas N`: one replica of a shard."""

    def __init__(self, folder: Path, shard: str, replica: str, registry: str, *options: str) -> None:
        super().__init__(folder, shard, registry, "--replica-name", replica, *options)
        self.replica = replica

    @property
    def title(self) -> str:
        return f"{self.name}-{self.replica}"


class ProxyProcess(MemberProcess):
    """`ternmq proxy`."""

    def __init__(self, folder: Path, name: str, registry: str, *options: str) -> None:
        self.name = name
        given = ("--proxy-name", name, "--registry", registry)
        super().__init__(folder, "proxy", *given, *options, addresses=("grpc", "http", "remoting"))

    @property
    def remoting(self) -> str:
        return self.addresses["remoting"]

    @property
    def grpc(self) -> str:
        return self.addresses["grpc"]


MemberT = TypeVar("MemberT", bound=MemberProcess)


def begin_together(processes: list[MemberT], stack: ExitStack) -> list[MemberT]:
    """Start these at the same time, and return them when all serve; the stack ends them."""
    for process in processes:
        process.begin()
        stack.push(process)
    for process in processes:
        process.wait_until_ready()
    return processes


class ClusterProcesses:
    """`with ClusterProcesses(folder) as cluster`: everything runs and is ready; nothing is left afterwards. With
    `replicas` each broker is a shard of so many.

    `within` comes before commands that are no member's, such as `ip netns exec NAME`.
    """

    within: Sequence[str] = ()

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 2,
        proxies: int = 2,
        replicas: int = 0,
        broker_options: tuple[str, ...] = (),
        proxy_options: tuple[str, ...] = (),
    ) -> None:
        self._folder = folder
        self._counts = brokers, proxies
        self._replicas = replicas
        self._options = broker_options, proxy_options
        self._stack = ExitStack()
        self.postgres = Postgres(folder, holds=empty_registry())
        self.brokers: list[BrokerProcess] = []
        self.replicas: list[ReplicaProcess] = []
        self.proxies: list[ProxyProcess] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        self._stack.enter_context(self.postgres)
        for number in range(self._counts[0]):
            if self._replicas:
                self.add_shard(f"broker-{number}")
        if not self._replicas:
            self.brokers += self._begun([self._broker(f"broker-{number}") for number in range(self._counts[0])])
        self.proxies += self._begun([self._proxy(f"proxy-{number}") for number in range(self._counts[1])])

    def add_broker(self, name: str) -> BrokerProcess:
        self.brokers += self._begun([self._broker(name)])
        return self.brokers[-1]

    def _broker(self, name: str) -> BrokerProcess:
        return BrokerProcess(self._folder / name, name, self.postgres.url, *self._options[0])

    def add_shard(self, name: str) -> None:
        """The first replica, which will lead, and then the others."""
        first, *others = list("abcde"[: self._replicas])
        self.add_replica(name, first)
        self.replicas += self._begun([self._replica(name, each) for each in others])

    def add_replica(
        self, shard: str, name: str, *, replicas: int | None = None, folder: Path | None = None
    ) -> ReplicaProcess:
        """`folder` is one that is there, of a broker that has ended."""
        self.replicas += self._begun([self._replica(shard, name, replicas=replicas, folder=folder)])
        return self.replicas[-1]

    def _replica(
        self, shard: str, name: str, *, replicas: int | None = None, folder: Path | None = None
    ) -> ReplicaProcess:
        options = ("--replicas", str(replicas or self._replicas), *self._options[0])
        folder = folder or self._folder / f"{shard}-{name}"
        return ReplicaProcess(folder, shard, name, self.postgres.url, *options)

    def add_proxy(self, name: str) -> ProxyProcess:
        self.proxies += self._begun([self._proxy(name)])
        return self.proxies[-1]

    def _proxy(self, name: str) -> ProxyProcess:
        return ProxyProcess(self._folder / name, name, self.postgres.url, *self._options[1])

    def _begun(self, processes: list[MemberT]) -> list[MemberT]:
        for process in processes:
            self.place(process)
        return begin_together(processes, self._stack)

    def place(self, process: MemberProcess) -> None:
        """Say where it runs; here, unless a subclass knows better."""

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def registry_url(self) -> str:
        """The registry, for a test that asks it."""
        return self.postgres.url

    @property
    def doors(self) -> list[str]:
        """Each proxy, for a test's own clients."""
        return [proxy.grpc for proxy in self.proxies]

    @property
    def logs(self) -> str:
        """The ends of all processes' logs."""
        return "\n".join(
            f"--- {each.title}\n{each.log_tail()}" for each in (*self.brokers, *self.replicas, *self.proxies)
        )
