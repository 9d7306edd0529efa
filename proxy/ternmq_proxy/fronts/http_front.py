"""The HTTP front: health for people and orchestrators.

`GET /health/live` (200 while the process runs), `/health/ready` (200 while it serves, 503 otherwise), `/version`. All
of them tell of a test clock: `"test_clock": true`.
"""

import asyncio
import contextlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING

import h11

from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.errors import MessagingError

_READ_BYTES = 64 * 1024
_IDLE_S = 60.0
_Content = dict[str, str | bool]


class HttpFront:
    """`problem` says why the process can't serve, None while it can; `test_clock`, whether its clock can be moved."""

    def __init__(self, problem: "Callable[[], MessagingError | None]", *, test_clock: bool = False) -> None:
        self._problem = problem
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
                await _respond(connection, writer, error.error_status_hint, {"error": f"this is no HTTP: {error}"})

    async def _converse(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                async with asyncio.timeout(_IDLE_S):
                    connection.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                code, content = self._answer(event.method.decode(), event.target.decode().partition("?")[0])
                await _respond(connection, writer, code, content, head=event.method == b"HEAD")
            elif isinstance(event, h11.EndOfMessage):
                if connection.our_state is h11.MUST_CLOSE:
                    return
                connection.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed):
                return

    def _answer(self, method: str, path: str) -> tuple[int, _Content]:
        if method not in ("GET", "HEAD"):
            return 405, {"error": f"{method} is not served; use GET"}
        if path == "/health/live":
            return 200, {"status": "live", **self._remark}
        if path == "/health/ready":
            problem = self._problem()
            code, text = (200, "ready") if problem is None else (503, str(problem))
            return code, {"status": text, **self._remark}
        if path == "/version":
            return 200, {"version": version("ternmq"), **self._remark}
        return 404, {"error": f"{path} is not here; try /health/live, /health/ready or /version"}


async def _respond(
    connection: h11.Connection, writer: asyncio.StreamWriter, code: int, content: _Content, *, head: bool = False
) -> None:
    body = json.dumps(content).encode() + b"\n"
    headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
    response = h11.Response(status_code=code, headers=headers)
    for part in (response, h11.Data(data=b"" if head else body), h11.EndOfMessage()):
        writer.write(connection.send(part) or b"")
    await writer.drain()
