"""`--workers N`: the supervisor process, which starts the others, from `ready` to a clean end.

Start       addresses, HTTP, the broker if there is one here, then all workers; ready when all serve.
End         the workers first, which finish their calls, then their broker.
Deaths      a dead process is replaced. A worker's connections are lost, those of others go on. While a broker is down
            the workers go on as in a cluster: calls wait for it for a moment. If it can't start again, all end.
Addresses   bound here, without listening: ports stay reserved while workers are replaced, and the kernel gives
            connections only to processes that listen.
"""

import asyncio
import logging
import os
import shutil
import socket
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_common.server_settings.front import OFF
from ternmq_rpc.serving.sockets import actual_address, explain_bind_error, reserve_address, share_address
from ternmq_runtime import process
from ternmq_runtime.process_tls import ProcessTls
from ternmq_runtime.remoting_address import choose_remoting
from ternmq_runtime.workers.gathering_front import GatheringFront
from ternmq_runtime.workers.process_keeper import ProcessKeeper
from ternmq_runtime.workers.worker_place import BROKER, WorkerPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AsyncExitStack

    from ternmq_common.server_settings import FrontSettings, ProxySettings, ServerSettings
    from ternmq_runtime.http.asgi import AsgiSite

    MakeSite = Callable[[FrontSettings, Sequence[ProcessKeeper]], AsgiSite | None]

_log = logging.getLogger(__name__)
BROKER_MODULE, WORKER_MODULE = "ternmq_broker.server.shared_broker", "ternmq_proxy.server.worker"
# In addition to the time that calls get: to disconnect from a broker; to write the state for the next start.
_WORKER_END_S, _BROKER_END_S = 10.0, 120.0
_PATH_MAX = 100  # of a socket in the file system, on every system; with the longest possible name
_LONGEST_NAME = "/worker-63/http"


def run_stack_workers(settings: "ServerSettings", site: "MakeSite") -> int:
    """Run `ternmq up` with workers until SIGTERM or SIGINT; return the exit code, 1 if the broker can't be started
    again. `site` creates what HTTP serves beside health, from the processes. StartupError: it could not start."""
    return WorkerSupervisor(settings, "up", site, member=settings.broker_name, with_broker=True).run_server()


def run_proxy_workers(settings: "ProxySettings", site: "MakeSite") -> int:
    """Run `ternmq proxy` with workers; as `run_stack_workers`, without a broker."""
    name = settings.proxy_name or f"{socket.gethostname()}-{os.getpid()}"
    return WorkerSupervisor(settings, "proxy", site, member=name, with_broker=False).run_server()


class WorkerSupervisor:
    """All processes of one server. `kind` says what the workers belong to; `member` is the prefix of their names
    there."""

    def __init__(
        self, settings: "FrontSettings", kind: str, site: "MakeSite", *, member: str, with_broker: bool
    ) -> None:
        self._settings = settings
        self._kind = kind
        self._site = site
        self._member = member
        self._with_broker = with_broker
        self._keepers: list[ProcessKeeper] = []
        self._over = asyncio.Event()
        self._start_problem: str | None = "the server begins"

    def run_server(self) -> int:
        return process.run_server(self._settings, self._start_server, over=self._over, name="supervisor")

    async def _start_server(self, stack: "AsyncExitStack") -> str:
        settings = self._settings
        if settings.workers > (cores := os.cpu_count() or 1):
            _log.warning("%d workers are more than the %d cores of this machine", settings.workers, cores)
        addresses, settings = self._reserve_addresses(settings, stack)
        folder = _create_folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        tls = await ProcessTls.load_files(settings, stack)
        front = GatheringFront(
            self._keepers,
            lambda: self._start_problem,
            header_timeout_ms=settings.header_timeout_ms,
            exposed=process.warn_of_exposure(self._settings),
            for_users=settings.access_control and not settings.metrics_open,
            tls=tls.http,
            site=self._site(settings, self._keepers),
        )
        stack.push_async_callback(front.stop_listening)
        http_address = await front.start_listening(settings.http)
        await self._start_all(settings, folder, stack)
        self._start_problem = None
        front.announce_address()
        remoting = settings.remoting_listener
        return process.ready_line(
            addresses, http_address, settings.admin or "", "" if remoting is None else remoting.address
        )

    def _reserve_addresses(
        self, settings: "FrontSettings", stack: "AsyncExitStack"
    ) -> "tuple[list[str], FrontSettings]":
        """Reserve the addresses of gRPC; return them, and settings that name them."""
        addresses, texts = [], []
        for listener in settings.grpc_listeners:
            address = _reserve_address(listener.address, stack)
            addresses.append(address)
            texts.append(address if listener.advertised is None else f"{address}={listener.advertised}")
        admin = None if settings.admin is None else _reserve_address(settings.admin, stack, option="--admin")
        return addresses, replace(
            settings, grpc=",".join(texts), admin=admin, remoting=_reserve_remoting(settings, stack)
        )

    async def _start_all(self, settings: "FrontSettings", folder: Path, stack: "AsyncExitStack") -> None:
        grace_s = settings.shutdown_grace_ms / 1000
        brokers, workers = self._create_keepers(settings, folder)
        for keepers, end_s in ((brokers, _BROKER_END_S), (workers, _WORKER_END_S)):
            stack.push_async_callback(_end_all, keepers, grace_s + end_s)
        self._keepers += [*brokers, *workers]
        await asyncio.gather(*(keeper.prepare_process() for keeper in self._keepers))
        for what, keepers in (("broker is", brokers), ("workers are", workers)):
            self._start_problem = f"the {what} starting"
            await asyncio.gather(*(keeper.start_process() for keeper in keepers))

    def _create_keepers(
        self, settings: "FrontSettings", folder: Path
    ) -> tuple[list[ProcessKeeper], list[ProcessKeeper]]:
        """Create the keepers of the broker, if there is one here, and of the workers."""
        broker = WorkerPlace(name=BROKER, member=self._member, folder=folder)
        places = [
            WorkerPlace(name=f"worker-{number}", member=f"{self._member}-{number}", folder=folder)
            for number in range(settings.workers)
        ]
        return (
            [ProcessKeeper(broker, settings, (BROKER_MODULE,), lost=self._end_all_for)] if self._with_broker else [],
            [ProcessKeeper(place, settings, (WORKER_MODULE, self._kind)) for place in places],
        )

    def _end_all_for(self, why: str) -> None:
        _log.critical("%s; all processes end", why)
        self._over.set()


def _reserve_remoting(settings: "FrontSettings", stack: "AsyncExitStack") -> str:
    """Reserve the address of the remoting front; return it with its port, or `off`."""
    chosen = choose_remoting(settings).remoting_listener
    return OFF if chosen is None else _reserve_address(chosen.address, stack, option="--remoting")


def _reserve_address(address: str, stack: "AsyncExitStack", *, option: str = "--grpc") -> str:
    """Reserve the address; return it with its port. StartupError if it is not available."""
    try:
        sock = stack.enter_context(reserve_address(address))
    except StartupError as error:
        raise explain_bind_error(address, error, protocol="gRPC", option=option) from error
    share_address(sock)
    return actual_address(address, sock)


async def _end_all(keepers: list[ProcessKeeper], grace_s: float) -> None:
    await asyncio.gather(*(keeper.end_process(grace_s) for keeper in keepers))


def _create_folder() -> Path:
    """Create a folder for this user alone, with a name short enough for sockets below it; StartupError."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="ternmq-"))
        if len(str(folder) + _LONGEST_NAME) > _PATH_MAX:
            folder.rmdir()
            folder = Path(tempfile.mkdtemp(prefix="ternmq-", dir="/tmp"))
    except OSError as error:
        raise StartupError(
            f"workers need a temporary folder for their sockets: {error.strerror or error}; let this user write to "
            "one, and name it in $TMPDIR"
        ) from error
    return folder
