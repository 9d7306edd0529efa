"""`ternmq proxy`: a proxy of a cluster as a process, from `ready` to a clean end."""

import os
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_common import process
from ternmq_common.clock import Clock
from ternmq_common.clock_watch import ClockWatch
from ternmq_common.observability.figures import MemberFigures
from ternmq_common.observability.http_front import HttpFront
from ternmq_common.observability.observability import Observability
from ternmq_proxy.catalog import Catalog
from ternmq_proxy.message_service.cluster.service import ClusterMessageService
from ternmq_proxy.serving import serve_clients
from ternmq_registry.joining import join

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_common.server_settings import FrontSettings, ProxySettings
    from ternmq_registry.directory import Directory


def run(settings: "ProxySettings") -> int:
    """Serve until SIGTERM or SIGINT; the process's exit code. StartupError: it could not begin."""
    proxy = ProxyServer(
        settings,
        Clock(),
        name=settings.proxy_name or f"{socket.gethostname()}-{os.getpid()}",
        http=settings.http,
        registry=lambda stack: join(settings, stack),
    )

    async def start(stack: AsyncExitStack) -> str:
        await proxy.start(stack)
        return process.ready_line(proxy.grpc_addresses, proxy.http_address)

    return process.run(settings, start)


class ProxyServer:
    """All of a proxy process but the process.

    `name` is what brokers call it, `http` where it answers health and metrics, and `registry` opens that, to be closed
    by the stack. `embedded` names the one broker, if it is a worker of an embedded stack.
    """

    def __init__(
        self,
        settings: "FrontSettings",
        clock: Clock,
        *,
        name: str,
        http: str,
        registry: "Callable[[AsyncExitStack], Awaitable[Directory]]",
        embedded: str | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._name = name
        self._http = http
        self._registry = registry
        self._embedded = embedded
        self._not_started: str | None = "the registry was not read yet"
        self._messages: ClusterMessageService | None = None
        self.grpc_addresses: list[str] = []
        self.http_address = ""

    async def start(self, stack: AsyncExitStack) -> None:
        """Begin everything; `stack` ends it. StartupError says why it can't begin."""
        settings = self._settings
        observability = Observability(settings, service="ternmq-proxy", instance=self._name)
        stack.push_async_callback(observability.stop)
        await observability.start()
        http = HttpFront(
            lambda: self._not_started,
            self._problem,
            metrics=observability.scrape,
            header_timeout_ms=settings.header_timeout_ms,
        )
        stack.push_async_callback(http.stop)
        self.http_address = await http.listen(self._http)
        clock_watch = ClockWatch(self._clock)
        stack.push_async_callback(clock_watch.stop)
        clock_watch.start()
        directory = await self._registry(stack)
        catalog = Catalog(
            directory,
            auto_create=settings.auto_create,
            auto_create_per_minute=settings.auto_create_per_minute,
            default_queues=settings.default_queues,
            embedded=self._embedded,
            shared=True,
        )
        messages = self._messages = ClusterMessageService(directory, proxy=self._name)
        stack.push_async_callback(messages.close)
        messages.start()
        observability.watch_links(messages.link_figures)
        observability.watch_member(
            lambda: MemberFigures(
                registry_reachable=directory.problem is None, registry_version=directory.snapshot.version
            )
        )
        self.grpc_addresses = await serve_clients(settings, self._clock, catalog, messages, observability, stack)
        self._not_started = None

    async def connected(self) -> None:
        """Return when a broker can be asked; for who has started."""
        assert self._messages is not None
        await self._messages.connected.wait()

    def _problem(self) -> str | None:
        """Why no client can be served now. A registry that is away is no reason: what is known goes on."""
        if self._not_started is not None:
            return self._not_started
        assert self._messages is not None
        return self._messages.problem
