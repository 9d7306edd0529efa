"""The HTTP front of every process: health for people and orchestrators, and Prometheus metrics.

Health has three paths, and answers 200, or 503 with the reason:
/health/started   whether the process has started. While it has not, waiting longer may help
/health/live      whether the event loop turns: 200 if it did within the last ten seconds; `"loop_turned_ms_ago"` is
                  there when it is late. Nothing else is checked, since a fault that a restart would not heal must not
                  cause one
/health/ready     whether it can serve now. `"degraded": "..."` says what an operator should look at although it serves;
                  `"registry_copy_age_s": 12` that it uses a copy of the registry, and how old that is;
                  `"insecure": true` that everybody may do everything, `"insecure_because"` why
/version          its version; like the others it reports a test clock: `"test_clock": true`
/metrics          in Prometheus's text format

With access control everything but health requires a user, by Basic authentication.

All other paths belong to the `site` that a process may have: the JSON API of operators.

A process of a supervisor also answers the questions of its siblings (`workers/siblings.py`), at its socket in the file
system.

The front runs in a thread of its own (`server.py`), so that it answers also while the event loop is busy. What it
reports belongs to the event loop, and is read there (`watched_loop.py`): 503 "the event loop is busy" if that takes too
long.
"""

import logging
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ternmq_common.limits import SECOND_MS
from ternmq_common.process.own_version import own_version
from ternmq_runtime.http.answer import HttpAnswer
from ternmq_runtime.http.connection import ANSWER_S
from ternmq_runtime.http.listening_front import JSON, OPEN_PATHS, ListeningFront, json_answer
from ternmq_runtime.http.watched_loop import LoopBusy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.http.asgi import AsgiSite
    from ternmq_runtime.http.basic import HttpCaller

_log = logging.getLogger(__name__)
# The content type that Prometheus's own client uses for its text format.
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
INTERNAL_PATH = "/inside/"
"""The prefix of the paths that siblings use."""
PATHS = ("/health/started", "/health/live", "/health/ready", "/version")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTiming:
    """Times in seconds: how long the event loop may not turn and still counts as live, how long it has to answer, and
    to render the metrics; and how long a peer may take to read an answer."""

    live_s: float = 10.0
    patience_s: float = 1.0
    metrics_patience_s: float = 10.0
    answer_s: float = ANSWER_S


HTTP_TIMING = HttpTiming()


class HttpFront(ListeningFront):
    """The HTTP front of one process.

    `started` and `ready` return what prevents it, None if nothing does; `degraded` returns what is wrong although
    messages are served; `copy_age_s` the age in seconds of the copy of the registry that is used, None if none is;
    `metrics` renders the text for Prometheus. `test_clock`: the process's clock can be moved; `exposed`: what is open
    to everybody; `may_read`: decides who may read pages other than health, None for everybody. All are called on the
    loop that calls `start_listening`, as are `internal`, the answers to siblings by question, which may take a
    while."""

    def __init__(
        self,
        started: "Callable[[], str | None]",
        ready: "Callable[[], str | None]",
        *,
        degraded: "Callable[[], str | None]" = lambda: None,
        copy_age_s: "Callable[[], float | None]" = lambda: None,
        metrics: "Callable[[], Awaitable[bytes]] | None" = None,
        test_clock: bool = False,
        exposed: str | None = None,
        may_read: "Callable[[HttpCaller], bool] | None" = None,
        header_timeout_ms: int = 10 * SECOND_MS,
        internal: "Mapping[str, Callable[[str], Awaitable[bytes]]]" = MappingProxyType({}),
        tls: "PortTls | None" = None,
        site: "AsgiSite | None" = None,
        timing: HttpTiming = HTTP_TIMING,
    ) -> None:
        super().__init__(header_timeout_ms=header_timeout_ms, tls=tls, site=site, answer_s=timing.answer_s)
        self._internal = internal
        self._timing = timing
        self._started = started
        self._ready = ready
        self._degraded = degraded
        self._copy_age_s = copy_age_s
        self._metrics = metrics
        self._clock_remark: dict[str, bool] = {"test_clock": True} if test_clock else {}
        self._exposed = exposure_fields(exposed)
        self._may_read = may_read

    # --- in the thread

    async def _answer_request(self, method: str, path: str, asker: "HttpCaller") -> HttpAnswer:
        if method not in ("GET", "HEAD"):
            return json_answer(405, {"error": f"{method} is not served; use GET"})
        if path == "/health/live":
            return await self._answer_live()
        try:
            if path not in OPEN_PATHS and not await self._is_allowed(asker):
                return NOT_ALLOWED
            if path == "/version":
                return json_answer(200, {"version": own_version(), **self._clock_remark})
            return await self._answer_from_loop(path)
        except LoopBusy as error:
            return json_answer(503, {"status": str(error), **self._clock_remark})

    async def _is_allowed(self, asker: "HttpCaller") -> bool:
        may_read = self._may_read
        return may_read is None or await self._loop.call_on_loop(lambda: may_read(asker), self._timing.patience_s)

    async def _answer_live(self) -> HttpAnswer:
        ago_s = await self._loop.turned_ago_s(self._timing.patience_s)
        late = {"loop_turned_ms_ago": int(ago_s * 1000)} if ago_s >= self._timing.patience_s else {}
        if ago_s < self._timing.live_s:
            return json_answer(200, {"status": "live", **late, **self._clock_remark})
        return json_answer(
            503, {"status": f"the event loop has not turned for {ago_s:.0f} s", **late, **self._clock_remark}
        )

    async def _answer_from_loop(self, path: str) -> HttpAnswer:
        if path == "/metrics" and self._metrics is not None:
            return await self._answer_metrics(self._metrics)
        if path == "/health/started":
            return self._health_answer("started", await self._loop.call_on_loop(self._started, self._timing.patience_s))
        if path == "/health/ready":
            problem, degraded, copy_age_s = await self._loop.call_on_loop(
                lambda: (self._ready(), self._degraded(), self._copy_age_s()), self._timing.patience_s
            )
            amiss: dict[str, str | int] = {} if degraded is None else {"degraded": degraded}
            if copy_age_s is not None:
                amiss["registry_copy_age_s"] = int(copy_age_s)
            return self._health_answer("ready", problem, {**amiss, **self._exposed})
        if path.startswith(INTERNAL_PATH):
            question, _, argument = path.removeprefix(INTERNAL_PATH).partition("/")
            if (answer := self._internal.get(question)) is not None:
                content = await self._loop.run_on_loop(lambda: answer(unquote(argument)), self._timing.patience_s)
                return HttpAnswer(200, "application/octet-stream", content)
        paths = ", ".join(PATHS if self._metrics is None else (*PATHS, "/metrics"))
        return json_answer(404, {"error": f"{path} is not here; there are {paths}"})

    def _health_answer(
        self, what: str, problem: str | None, more: "Mapping[str, str | int]" = MappingProxyType({})
    ) -> HttpAnswer:
        code, text = (200, what) if problem is None else (503, problem)
        return json_answer(code, {"status": text, **more, **self._clock_remark})

    async def _answer_metrics(self, metrics: "Callable[[], Awaitable[bytes]]") -> HttpAnswer:
        try:
            return HttpAnswer(200, METRICS_TYPE, await self._loop.run_on_loop(metrics, self._timing.metrics_patience_s))
        except LoopBusy:
            raise
        except Exception:  # noqa: BLE001 - the outermost of this request, and it logs
            _log.exception("cannot render the metrics")
            return json_answer(500, {"error": "cannot render the metrics; the log says why"})


def describe_copy(age_s: float | None) -> str | None:
    """Describe, for readiness, a copy of the registry that is so many seconds old; None if there is none."""
    if age_s is None:
        return None
    return f"the registry is away since before the start: it goes on with a copy that is {age_s:.0f} s old"


def exposure_fields(exposed: str | None) -> "dict[str, str | bool]":
    """Return the fields that readiness adds for a server that is open to everybody."""
    return {} if exposed is None else {"insecure": True, "insecure_because": exposed}


NOT_ALLOWED = HttpAnswer(
    401, JSON, b'{"error": "access key and secret of a user are needed who may Get Cluster:metrics"}\n', "ternmq"
)
