"""The site beside health and metrics (`ternmq_runtime.http.asgi.Site`). It is imported and made when somebody asks for
the first time, since most processes are never asked."""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_console.csrf import Gate
from ternmq_console.internal import WorkersDesk
from ternmq_console.path_prefix import without_root

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import ASGIApp

    from ternmq_common.server_settings import FrontSettings
    from ternmq_console.desk import Desk
    from ternmq_runtime.http.asgi import Event
    from ternmq_runtime.workers.keeper import Keeper

_log = logging.getLogger(__name__)
_HOME, _PAGES = "/", "/console"
_OWN = ("/api/", f"{_PAGES}/")


class ConsoleSite:
    """That of one server, which `desk` is about; `root` is the path prefix of a reverse proxy."""

    def __init__(self, desk: "Desk", gate: Gate, *, grafana: str = "", root: str = "") -> None:
        self._desk = desk
        self._grafana = grafana
        self._root = root
        self._gate = gate
        self._app: asyncio.Task[ASGIApp] | None = None

    def begun(self, url: str) -> None:
        _log.info("the console is at %s%s/", url.removesuffix("/"), self._root)

    def owns(self, path: str) -> bool:
        path = without_root(path, self._root)
        return path in (_HOME, _PAGES) or path.startswith(_OWN)

    async def __call__(
        self, scope: "Event", receive: "Callable[[], Awaitable[Event]]", send: "Callable[[Event], Awaitable[None]]"
    ) -> None:
        if self._app is None:
            self._app = asyncio.create_task(asyncio.to_thread(self._made))
        app = await asyncio.shield(self._app)
        await app(scope, receive, send)

    def _made(self) -> "ASGIApp":
        from ternmq_console.app import made

        return made(self._desk, self._gate, grafana=self._grafana, root=self._root)


def site_of(settings: "FrontSettings", desk: "Desk") -> ConsoleSite | None:
    """What a server with these settings has; None if they say so, or if a listener for operators is to be the only way
    in: where nobody has to say who he is, HTTP would be another one."""
    if not settings.console or (settings.admin is not None and not settings.access_control):
        return None
    hosts = frozenset(name.strip().lower() for name in settings.console_hosts.split(",") if name.strip())
    gate = Gate(hosts, is_guarded=settings.access_control)
    return ConsoleSite(desk, gate, grafana=settings.console_grafana, root=settings.console_prefix)


def site_of_workers(settings: "FrontSettings", keepers: "Sequence[Keeper]") -> ConsoleSite | None:
    """What the supervisor of these processes has."""
    return site_of(settings, WorkersDesk(keepers))
