"""The console as a site of a server's HTTP address (`ternmq_runtime.http.asgi.Site`), beside health and metrics.

The application is imported and built at the first request, since most processes never get one.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_console.csrf import RequestGate
from ternmq_console.internal import WorkerCalls
from ternmq_console.path_prefix import without_root

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import ASGIApp

    from ternmq_common.server_settings import FrontSettings
    from ternmq_console.operator_calls import OperatorCalls
    from ternmq_runtime.http.asgi import AsgiMessage
    from ternmq_runtime.workers.process_keeper import ProcessKeeper

_log = logging.getLogger(__name__)
_HOME, _PAGES = "/", "/console"
_OWN = ("/api/", f"{_PAGES}/")


class ConsoleSite:
    """The console of one server, whose calls `desk` makes; `root` is the path prefix of a reverse proxy."""

    def __init__(self, desk: "OperatorCalls", gate: RequestGate, *, grafana: str = "", root: str = "") -> None:
        self._desk = desk
        self._grafana = grafana
        self._root = root
        self._gate = gate
        self._app: asyncio.Task[ASGIApp] | None = None

    def server_started(self, url: str) -> None:
        _log.info("the console is at %s%s/", url.removesuffix("/"), self._root)

    def owns_path(self, path: str) -> bool:
        path = without_root(path, self._root)
        return path in (_HOME, _PAGES) or path.startswith(_OWN)

    async def __call__(
        self,
        scope: "AsgiMessage",
        receive: "Callable[[], Awaitable[AsgiMessage]]",
        send: "Callable[[AsgiMessage], Awaitable[None]]",
    ) -> None:
        if self._app is None:
            self._app = asyncio.create_task(asyncio.to_thread(self._build_app))
        app = await asyncio.shield(self._app)
        await app(scope, receive, send)

    def _build_app(self) -> "ASGIApp":
        from ternmq_console.app import build_app

        return build_app(self._desk, self._gate, grafana=self._grafana, root=self._root)


def build_site(settings: "FrontSettings", desk: "OperatorCalls") -> ConsoleSite | None:
    """Return the console of a server with these settings; None if they switch it off.

    It is None too if operators have a listener of their own (`admin`) and access control is off, since HTTP would be
    another way in.
    """
    if not settings.console or (settings.admin is not None and not settings.access_control):
        return None
    hosts = frozenset(name.strip().lower() for name in settings.console_hosts.split(",") if name.strip())
    gate = RequestGate(hosts, is_guarded=settings.access_control)
    return ConsoleSite(desk, gate, grafana=settings.console_grafana, root=settings.console_prefix)


def build_workers_site(settings: "FrontSettings", keepers: "Sequence[ProcessKeeper]") -> ConsoleSite | None:
    """Return the console of a supervisor of workers."""
    return build_site(settings, WorkerCalls(keepers))
