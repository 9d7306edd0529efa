"""The HTTP front of every process: health for people and orchestrators, and metrics.

Health asks three questions, and answers 200 or 503 with the reason:
/health/started   has it been able to begin? While it has not, waiting longer may help
/health/live      does the event loop turn? It answers, or it doesn't: nothing else is looked at, for what a restart
                  would not heal must not cause one
/health/ready     can it serve now? `"degraded": "..."` beside it says what a person should look at although it can
/version          which version it is; like the others it tells of a test clock: `"test_clock": true`
/metrics          in Prometheus's text format
"""

import asyncio
import contextlib
import json
import logging
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING

import h11

from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_log = logging.getLogger(__name__)
_READ_BYTES = 64 * 1024
_IDLE_S = 60.0
_JSON = "application/json"
# What Prometheus's own client calls its text format.
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_PATHS = ("/health/started", "/health/live", "/health/ready", "/version")


class HttpFront:
    """`started` and `ready` say what is in the way, None if nothing is; `degraded` what is amiss although messages are
    served; `metrics` makes the text for Prometheus; `test_clock`: the process's clock can be moved."""

    def __init__(
        self,
        started: "Callable[[], str | None]",
        ready: "Callable[[], str | None]",
        *,
        degraded: "Callable[[], str | None]" = lambda: None,
        metrics: "Callable[[], Awaitable[bytes]] | None" = None,
        test_clock: bool = False,
    ) -> None:
        self._started = started
        self._ready = ready
        self._degraded = degraded
        self._metrics = metrics
        self._remark: dict[str, bool] = {"test_clock": True} if test_clock else {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, address: str) -> str:
        """Serve on `host:port` and return that with the real port; StartupError if the address can't be had."""
        host, port = address.rsplit(":", 1)
        try:
            self._server = await asyncio.start_server(self._accepted, host.strip("[]"), int(port))
        except OSError as error:
            raise StartupError(
                f"HTTP can't listen on {address}: {error.strerror}; stop what listens there, or choose another --http"
            ) from error
        return f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for connection in list(self._connections):
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError, TimeoutError):
                await self._serve(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        try:
            await self._converse(connection, reader, writer)
        except h11.RemoteProtocolError as error:
            if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                refusal = _json(error.error_status_hint, {"error": f"this is no HTTP: {error}"})
                await _respond(connection, writer, refusal)

    async def _converse(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                async with asyncio.timeout(_IDLE_S):
                    connection.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                answer = await self._answer(event.method.decode(), event.target.decode().partition("?")[0])
                await _respond(connection, writer, answer, head=event.method == b"HEAD")
            elif isinstance(event, h11.EndOfMessage):
                if connection.our_state is h11.MUST_CLOSE:
                    return
                connection.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed):
                return

    async def _answer(self, method: str, path: str) -> "tuple[int, str, bytes]":
        """The status, the type of the content, and the content."""
        if method not in ("GET", "HEAD"):
            return _json(405, {"error": f"{method} is not served; use GET"})
        if path == "/metrics" and self._metrics is not None:
            return await self._answer_metrics(self._metrics)
        if path == "/health/live":
            return _json(200, {"status": "live", **self._remark})
        if path == "/health/started":
            return self._health("started", self._started())
        if path == "/health/ready":
            degraded = self._degraded()
            return self._health("ready", self._ready(), {} if degraded is None else {"degraded": degraded})
        if path == "/version":
            return _json(200, {"version": version("ternmq"), **self._remark})
        paths = ", ".join(_PATHS if self._metrics is None else (*_PATHS, "/metrics"))
        return _json(404, {"error": f"{path} is not here; there are {paths}"})

    def _health(
        self, what: str, problem: str | None, more: "Mapping[str, str]" = MappingProxyType({})
    ) -> "tuple[int, str, bytes]":
        code, text = (200, what) if problem is None else (503, problem)
        return _json(code, {"status": text, **more, **self._remark})

    async def _answer_metrics(self, metrics: "Callable[[], Awaitable[bytes]]") -> "tuple[int, str, bytes]":
        try:
            return 200, _METRICS, await metrics()
        except Exception:  # noqa: BLE001 - the outermost of this request, and it logs
            _log.exception("the metrics could not be made")
            return _json(500, {"error": "the metrics could not be made; the log says why"})


def _json(code: int, content: "dict[str, str | bool]") -> "tuple[int, str, bytes]":
    return code, _JSON, json.dumps(content).encode() + b"\n"


async def _respond(
    connection: h11.Connection, writer: asyncio.StreamWriter, answer: "tuple[int, str, bytes]", *, head: bool = False
) -> None:
    code, kind, body = answer
    headers = [("content-type", kind), ("content-length", str(len(body)))]
    response = h11.Response(status_code=code, headers=headers)
    for part in (response, h11.Data(data=b"" if head else body), h11.EndOfMessage()):
        writer.write(connection.send(part) or b"")
    await writer.drain()
