"""The HTTP front of a server of several processes: the paths of a single process (`http/front.py`), answered for all.

It sends each request to all processes, at their own sockets, in the thread that serves HTTP. /metrics has the series of
all with a label `worker`, and two more for each process: ternmq_worker_up, ternmq_worker_restarts_total.
"""

import asyncio
import json
from typing import TYPE_CHECKING

from ternmq_common.own_version import own_version
from ternmq_rpc.grpc_stream.sockets import UNIX, named
from ternmq_runtime.http.answer import Answer
from ternmq_runtime.http.front import (
    INTERNAL_PATH,
    METRICS_TYPE,
    NOT_ALLOWED,
    OPEN_PATHS,
    PATHS,
    json_answer,
    listening_for_http,
    tell_site,
    told_exposure,
)
from ternmq_runtime.http.server import HttpServer
from ternmq_runtime.http.watched_loop import WatchedLoop
from ternmq_runtime.workers import health
from ternmq_runtime.workers.asking import NoAnswer, asked
from ternmq_runtime.workers.health import Said
from ternmq_runtime.workers.metrics_text import LABEL, joined
from ternmq_runtime.workers.siblings import MAY_READ, YES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.http.asgi import Site
    from ternmq_runtime.http.basic import Asker
    from ternmq_runtime.workers.keeper import Keeper

# More than a process gives itself to answer.
_PATIENCE_S = 2.0
# Less than Prometheus gives a scrape: one process that hangs must not hide the others.
_METRICS_PATIENCE_S = 5.0
_LIVE_S = 10.0


class GatheringFront:
    """The HTTP front of all processes, which `keepers` have; `started` returns what prevents the start, None if nothing
    does. Both are read in the thread. `exposed`: what of the server is open to everybody; `for_users`: all but health
    is only for users, whom a worker knows."""

    def __init__(
        self,
        keepers: "Sequence[Keeper]",
        started: "Callable[[], str | None]",
        *,
        header_timeout_ms: int,
        tls: "PortTls | None" = None,
        exposed: str | None = None,
        for_users: bool = False,
        site: "Site | None" = None,
    ) -> None:
        self._site = site
        self._address = ""
        self._exposed = told_exposure(exposed)
        self._for_users = for_users
        self._keepers = keepers
        self._tls = tls
        self._started = started
        self._header_timeout_s = header_timeout_ms / 1000
        self._loop: WatchedLoop
        self._server: HttpServer | None = None

    async def listen(self, address: str) -> str:
        """Serve on `host:port`; return that with the real port. StartupError: the address is not available."""
        self._loop = WatchedLoop()
        sockets = await listening_for_http(address)
        self._server = HttpServer(
            sockets,
            self._answer,
            lambda code, text: json_answer(code, {"error": text}),
            self._loop.watch,
            header_timeout_s=self._header_timeout_s,
            tls=self._tls,
            site=self._site,
            always=frozenset(OPEN_PATHS),
        )
        self._server.start()
        self._address = named(address, sockets[0])
        return self._address

    def announce(self) -> None:
        """Tell the site, if there is one, its address: everything has started."""
        tell_site(self._site, self._address, self._tls)

    async def stop(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)

    # --- in the thread

    async def _answer(self, method: str, path: str, asker: "Asker") -> Answer:
        if method not in ("GET", "HEAD"):
            return json_answer(405, {"error": f"{method} is not served; use GET"})
        if self._for_users and path not in OPEN_PATHS and not await self._may_read(asker):
            return NOT_ALLOWED
        if path == "/version":
            return json_answer(200, {"version": own_version()})
        if path == "/metrics":
            return Answer(200, METRICS_TYPE, (await self._metrics()).encode())
        if path not in PATHS:
            return json_answer(404, {"error": f"{path} is not here; there are {', '.join((*PATHS, '/metrics'))}"})
        if path == "/health/live":
            return await self._answer_live()
        problem = self._started()
        if problem is not None:
            return json_answer(503, {"status": problem})
        if path == "/health/started":
            return json_answer(200, {"status": "started"})
        code, content = health.ready(await self._said(path))
        return json_answer(code, {**content, **self._exposed})

    async def _may_read(self, asker: "Asker") -> bool:
        """Return whether a worker allows it; all have the same users."""
        bodies = await self._bodies(f"{INTERNAL_PATH}{MAY_READ}/{asker.to_text()}", _PATIENCE_S)
        return (200, YES) in bodies.values()

    async def _answer_live(self) -> Answer:
        ago_s = await self._loop.turned_ago_s(_PATIENCE_S)
        if ago_s >= _LIVE_S:
            return json_answer(503, {"status": f"the supervisor's event loop has not turned for {ago_s:.0f} s"})
        running = frozenset(keeper.place.name for keeper in self._keepers if keeper.serves)
        return json_answer(*health.live(await self._said("/health/live"), running))

    async def _said(self, path: str) -> dict[str, Said | None]:
        bodies = await self._bodies(path, _PATIENCE_S)
        said: dict[str, Said | None] = {}
        for name, answered in bodies.items():
            content = json.loads(answered[1]) if answered is not None else {}
            is_well = answered is not None and answered[0] == 200
            said[name] = None if answered is None else Said(is_well, content["status"], content.get("degraded"))
        return said

    async def _metrics(self) -> str:
        bodies = await self._bodies("/metrics", _METRICS_PATIENCE_S)
        texts = {name: answered[1].decode() for name, answered in bodies.items() if answered is not None}
        up = "".join(f'ternmq_worker_up{{{LABEL}="{name}"}} {int(name in texts)}\n' for name in bodies)
        restarts = "".join(
            f'ternmq_worker_restarts_total{{{LABEL}="{keeper.place.name}"}} {keeper.restarts.count}\n'
            for keeper in self._keepers
        )
        return (
            f"{joined(texts)}"
            f"# HELP ternmq_worker_up 1 while the process answers\n# TYPE ternmq_worker_up gauge\n{up}"
            "# HELP ternmq_worker_restarts_total Times that the process died and was started again\n"
            f"# TYPE ternmq_worker_restarts_total counter\n{restarts}"
        )

    async def _bodies(self, path: str, patience_s: float) -> dict[str, tuple[int, bytes] | None]:
        """Return status and body of each process's answer; None of those that give none."""
        answers = await asyncio.gather(*(_asked_or_none(keeper, path, patience_s) for keeper in self._keepers))
        return {keeper.place.name: answer for keeper, answer in zip(self._keepers, answers, strict=True)}


async def _asked_or_none(keeper: "Keeper", path: str, patience_s: float) -> tuple[int, bytes] | None:
    try:
        return await asked(keeper.place.http.removeprefix(UNIX), path, patience_s)
    except NoAnswer:
        return None
