"""The HTTP front of a server of several processes: the paths of a single process (`http/front.py`), answered for all.

It sends each request to all processes, at their own sockets, in the thread that serves HTTP. /metrics has the series of
all with a label `worker`, and two more for each process: ternmq_worker_up, ternmq_worker_restarts_total.
"""

import asyncio
import json
from typing import TYPE_CHECKING

from ternmq_common.process.own_version import own_version
from ternmq_rpc.serving.sockets import UNIX
from ternmq_runtime.http.answer import HttpAnswer
from ternmq_runtime.http.front import INTERNAL_PATH, METRICS_TYPE, NOT_ALLOWED, PATHS, exposure_fields
from ternmq_runtime.http.listening_front import OPEN_PATHS, ListeningFront, json_answer
from ternmq_runtime.workers import health
from ternmq_runtime.workers.health import ProcessHealth
from ternmq_runtime.workers.local_requests import NoAnswer, request_locally
from ternmq_runtime.workers.metrics_text import LABEL, join_metrics
from ternmq_runtime.workers.siblings import MAY_READ, YES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.http.asgi import AsgiSite
    from ternmq_runtime.http.basic import HttpCaller
    from ternmq_runtime.workers.process_keeper import ProcessKeeper

# More than a process gives itself to answer.
_PATIENCE_S = 2.0
# Less than Prometheus gives a scrape: one process that hangs must not hide the others.
_METRICS_PATIENCE_S = 5.0
_LIVE_S = 10.0


class GatheringFront(ListeningFront):
    """The HTTP front of all processes, which `keepers` have; `started` returns what prevents the start, None if nothing
    does. Both are read in the thread. `exposed`: what of the server is open to everybody; `for_users`: all but health
    is only for users, whom a worker knows."""

    def __init__(
        self,
        keepers: "Sequence[ProcessKeeper]",
        started: "Callable[[], str | None]",
        *,
        header_timeout_ms: int,
        tls: "PortTls | None" = None,
        exposed: str | None = None,
        for_users: bool = False,
        site: "AsgiSite | None" = None,
    ) -> None:
        super().__init__(header_timeout_ms=header_timeout_ms, tls=tls, site=site)
        self._exposed = exposure_fields(exposed)
        self._for_users = for_users
        self._keepers = keepers
        self._started = started

    # --- in the thread

    async def _answer_request(self, method: str, path: str, asker: "HttpCaller") -> HttpAnswer:
        if method not in ("GET", "HEAD"):
            return json_answer(405, {"error": f"{method} is not served; use GET"})
        if self._for_users and path not in OPEN_PATHS and not await self._may_read(asker):
            return NOT_ALLOWED
        if path == "/version":
            return json_answer(200, {"version": own_version()})
        if path == "/metrics":
            return HttpAnswer(200, METRICS_TYPE, (await self._join_metrics()).encode())
        if path not in PATHS:
            return json_answer(404, {"error": f"{path} is not here; there are {', '.join((*PATHS, '/metrics'))}"})
        if path == "/health/live":
            return await self._answer_live()
        problem = self._started()
        if problem is not None:
            return json_answer(503, {"status": problem})
        if path == "/health/started":
            return json_answer(200, {"status": "started"})
        code, content = health.combine_ready(await self._read_health(path))
        return json_answer(code, {**content, **self._exposed})

    async def _may_read(self, asker: "HttpCaller") -> bool:
        """Return whether a worker allows it; all have the same users."""
        bodies = await self._request_all(f"{INTERNAL_PATH}{MAY_READ}/{asker.to_text()}", _PATIENCE_S)
        return (200, YES) in bodies.values()

    async def _answer_live(self) -> HttpAnswer:
        ago_s = await self._loop.turned_ago_s(_PATIENCE_S)
        if ago_s >= _LIVE_S:
            return json_answer(503, {"status": f"the supervisor's event loop has not turned for {ago_s:.0f} s"})
        running = frozenset(keeper.place.name for keeper in self._keepers if keeper.serves)
        return json_answer(*health.combine_live(await self._read_health("/health/live"), running))

    async def _read_health(self, path: str) -> dict[str, ProcessHealth | None]:
        bodies = await self._request_all(path, _PATIENCE_S)
        found: dict[str, ProcessHealth | None] = {}
        for name, answered in bodies.items():
            content = json.loads(answered[1]) if answered is not None else {}
            is_well = answered is not None and answered[0] == 200
            found[name] = (
                None if answered is None else ProcessHealth(is_well, content["status"], content.get("degraded"))
            )
        return found

    async def _join_metrics(self) -> str:
        bodies = await self._request_all("/metrics", _METRICS_PATIENCE_S)
        texts = {name: answered[1].decode() for name, answered in bodies.items() if answered is not None}
        up = "".join(f'ternmq_worker_up{{{LABEL}="{name}"}} {int(name in texts)}\n' for name in bodies)
        restarts = "".join(
            f'ternmq_worker_restarts_total{{{LABEL}="{keeper.place.name}"}} {keeper.restarts.count}\n'
            for keeper in self._keepers
        )
        return (
            f"{join_metrics(texts)}"
            f"# HELP ternmq_worker_up 1 while the process answers\n# TYPE ternmq_worker_up gauge\n{up}"
            "# HELP ternmq_worker_restarts_total Times that the process died and was started again\n"
            f"# TYPE ternmq_worker_restarts_total counter\n{restarts}"
        )

    async def _request_all(self, path: str, patience_s: float) -> dict[str, tuple[int, bytes] | None]:
        """Return status and body of each process's answer; None of those that give none."""
        answers = await asyncio.gather(*(_request_or_none(keeper, path, patience_s) for keeper in self._keepers))
        return {keeper.place.name: answer for keeper, answer in zip(self._keepers, answers, strict=True)}


async def _request_or_none(keeper: "ProcessKeeper", path: str, patience_s: float) -> tuple[int, bytes] | None:
    try:
        return await request_locally(keeper.place.http.removeprefix(UNIX), path, patience_s)
    except NoAnswer:
        return None
