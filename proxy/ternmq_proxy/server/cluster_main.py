"""`ternmq proxy`: a proxy of a cluster as a process, from `ready` to a clean end."""

import asyncio
import os
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_common.clock import SystemClock
from ternmq_common.server_settings import ProxySettings
from ternmq_console.internal import InternalSite
from ternmq_console.site import build_site
from ternmq_proxy.access.opening import open_access
from ternmq_proxy.catalog.catalog import Catalog
from ternmq_proxy.fronts.operator_calls import ProcessOperatorCalls
from ternmq_proxy.message_service.cluster.service import ClusterMessageService
from ternmq_proxy.server.registry_joining import join_cluster_registry
from ternmq_proxy.server.serving import serve_clients
from ternmq_proxy.server_process import ServerProcess
from ternmq_runtime import process
from ternmq_runtime.clock_watch import ClockWatch
from ternmq_runtime.http.basic import HttpCaller
from ternmq_runtime.http.front import HttpFront, describe_copy
from ternmq_runtime.observability.figures import MemberFigures
from ternmq_runtime.observability.process_observability import ProcessObservability
from ternmq_runtime.process_tls import ProcessTls
from ternmq_runtime.remoting_address import choose_remoting
from ternmq_runtime.workers.siblings import MAY_READ, YES, SiblingProcesses, create_answers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_common.server_settings import FrontSettings
    from ternmq_proxy.access.control import AccessControl
    from ternmq_registry.directory import RegistryDirectory
    from ternmq_runtime.workers.worker_place import WorkerPlace


def run(settings: "ProxySettings") -> int:
    """Serve until SIGTERM or SIGINT, or until the registry turns out to be unusable when it returns after a start
    without it; return the process's exit code. Raises StartupError."""
    clock, over = SystemClock(), asyncio.Event()

    async def start(stack: AsyncExitStack) -> str:
        proxy = ProxyServer(
            choose_remoting(settings),
            clock,
            name=settings.proxy_name or f"{socket.gethostname()}-{os.getpid()}",
            http=settings.http,
            registry=lambda stack: join_cluster_registry(settings, stack, clock, over),
        )
        await proxy.start(stack)
        return proxy.ready_line

    return process.run_server(settings, start, over=over)


class ProxyServer:
    """A proxy within its process.

    `name` identifies it to brokers, `http` is where it answers health and metrics, and `registry` opens the registry,
    which the stack closes. `embedded` names the only broker, if this is a worker of an embedded stack; `place` is that
    of a worker.
    """

    def __init__(
        self,
        settings: "FrontSettings",
        clock: SystemClock,
        *,
        name: str,
        http: str,
        registry: "Callable[[AsyncExitStack], Awaitable[RegistryDirectory]]",
        embedded: str | None = None,
        place: "WorkerPlace | None" = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._name = name
        self._http = http
        self._registry = registry
        self._embedded = embedded
        self._place = place
        self._answers = create_answers(settings)
        self._not_started: str | None = "the registry was not read yet"
        self._directory: RegistryDirectory | None = None
        self._messages: ClusterMessageService | None = None
        self._access: AccessControl | None = None
        self._answers[MAY_READ] = self._answer_may_read
        self.grpc_addresses: list[str] = []
        self.http_address = self.admin_address = self.remoting_address = ""

    async def start(self, stack: AsyncExitStack) -> None:
        """Start everything; `stack` stops it. Raises StartupError."""
        settings = self._settings
        # The supervisor of workers has logged it.
        alone = self._place is None
        exposed = process.warn_of_exposure(settings) if alone else None
        observability = ProcessObservability(settings, service="ternmq-proxy", instance=self._name)
        stack.push_async_callback(observability.stop_export)
        await observability.start_export()
        tls = await ProcessTls.load_files(settings, stack)
        observability.watch_certificates(tls.certificate_figures)
        operator_calls = ProcessOperatorCalls()
        http = HttpFront(
            lambda: self._not_started,
            self._outage_reason,
            degraded=self._degraded_reason,
            copy_age_s=lambda: self._copy_age_s,
            metrics=observability.render_metrics,
            header_timeout_ms=settings.header_timeout_ms,
            exposed=exposed,
            may_read=self._may_read if settings.access_control and not settings.metrics_open and alone else None,
            internal={} if self._place is None else self._answers,
            # Behind a supervisor it listens at a socket in the file system, and the supervisor speaks TLS.
            tls=tls.http if self._place is None else None,
            site=build_site(settings, operator_calls) if self._place is None else InternalSite(operator_calls),
        )
        stack.push_async_callback(http.stop_listening)
        self.http_address = await http.start_listening(self._http)
        clock_watch = ClockWatch(self._clock)
        stack.push_async_callback(clock_watch.stop)
        clock_watch.start()
        directory = self._directory = await self._registry(stack)
        catalog = Catalog(
            directory,
            auto_create=settings.auto_create,
            auto_create_per_minute=settings.auto_create_per_minute,
            default_queues=settings.default_queues,
            embedded=self._embedded,
            shared=True,
        )
        messages = self._messages = ClusterMessageService(
            directory,
            proxy=self._name,
            tls=tls.to_brokers,
            read_from_followers=isinstance(settings, ProxySettings) and settings.read_from_followers,
        )
        stack.push_async_callback(messages.close)
        messages.start()
        observability.watch_links(messages.link_figures)
        observability.watch_follower_reads(messages.follower_read_figures)
        observability.watch_member(
            lambda: MemberFigures(
                registry_reachable=directory.problem is None,
                registry_version=directory.snapshot.version,
                registry_copy_age_s=directory.copy_age_s,
                clock_skew_s=directory.clock_skew_s,
            )
        )
        worker = "" if self._place is None else self._place.name
        access = self._access = open_access(settings, catalog, self._clock, stack, worker=worker)
        fronts = await serve_clients(
            settings, self._clock, catalog, messages, observability, stack, self._server_process(), access, tls.grpc
        )
        operator_calls.open_calls(fronts.grpc.operator_calls)
        self.grpc_addresses, self.admin_address = fronts.grpc.listener_addresses, fronts.grpc.admin_address
        self.remoting_address = fronts.remoting_address
        self._not_started = None
        http.announce_address()

    @property
    def ready_line(self) -> str:
        """The line that the process prints when it serves."""
        return process.ready_line(self.grpc_addresses, self.http_address, self.admin_address, self.remoting_address)

    def _server_process(self) -> ServerProcess:
        place = self._place
        return ServerProcess(
            kind="proxy" if place is None else "worker",
            server=self._name if place is None else place.member.removesuffix(place.name.removeprefix("worker")),
            name=self._name if place is None else place.name,
            settings=self._settings,
            siblings=SiblingProcesses(place),
            answers=self._answers,
            degraded=self._degraded_reason,
        )

    async def wait_connected(self) -> None:
        """Wait until a broker is connected."""
        assert self._messages is not None
        await self._messages.connected.wait()

    def _degraded_reason(self) -> str | None:
        return self._clock.find_problem() or describe_copy(self._copy_age_s)

    @property
    def _copy_age_s(self) -> float | None:
        return None if self._directory is None else self._directory.copy_age_s

    def _may_read(self, asker: "HttpCaller") -> bool:
        """Return whether the caller may read metrics; no caller may before the users are known."""
        return self._access is not None and self._access.may_read_metrics(asker)

    async def _answer_may_read(self, argument: str) -> bytes:
        return YES if self._may_read(HttpCaller.from_text(argument)) else b""

    def _outage_reason(self) -> str | None:
        """Return why no client can be served now, None if they can. Without the registry the proxy serves what it
        knows."""
        if self._not_started is not None:
            return self._not_started
        assert self._messages is not None
        return self._messages.outage_reason
