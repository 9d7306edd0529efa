"""The base of the HTTP fronts of one process and of several: listens and stops; subclasses answer the requests."""

import asyncio
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_rpc.serving.sockets import UNIX, actual_address, bind_socket
from ternmq_runtime.http.answer import HttpAnswer
from ternmq_runtime.http.connection import ANSWER_S
from ternmq_runtime.http.server import HttpServer, open_sockets
from ternmq_runtime.http.watched_loop import WatchedLoop

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.http.asgi import AsgiSite
    from ternmq_runtime.http.basic import HttpCaller

JSON = "application/json"
OPEN_PATHS = ("/health/started", "/health/live", "/health/ready")
"""Open to load balancers and orchestrators, which are not users."""


class ListeningFront(ABC):
    """An HTTP front at one address. `_loop` runs what belongs to the loop that called `start_listening`."""

    def __init__(
        self,
        *,
        header_timeout_ms: int,
        tls: "PortTls | None" = None,
        site: "AsgiSite | None" = None,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._header_timeout_s = header_timeout_ms / 1000
        self._tls = tls
        self._site = site
        self._answer_s = answer_s
        self._address = ""
        self._loop: WatchedLoop
        self._server: HttpServer | None = None

    async def start_listening(self, address: str) -> str:
        """Serve on `host:port`, or `unix:PATH`; return that with the real port. StartupError: it is not available."""
        self._loop = WatchedLoop()
        sockets = [bind_socket(address)] if address.startswith(UNIX) else await _open_sockets(address)
        self._server = HttpServer(
            sockets,
            self._answer_request,
            lambda code, text: json_answer(code, {"error": text}),
            self._loop.watch_loop,
            header_timeout_s=self._header_timeout_s,
            answer_s=self._answer_s,
            tls=self._tls,
            site=self._site,
            always=frozenset(OPEN_PATHS),
        )
        self._server.start_thread()
        self._address = actual_address(address, sockets[0])
        return self._address

    def announce_address(self) -> None:
        """Tell the site, if there is one, its address: everything has started."""
        if self._site is not None:
            self._site.server_started(f"{'http' if self._tls is None else 'https'}://{self._address}/")

    async def stop_listening(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.stop_thread)

    @abstractmethod
    async def _answer_request(self, method: str, path: str, asker: "HttpCaller") -> HttpAnswer:
        """Answer one request, in the thread of HTTP."""


def json_answer(code: int, content: "Mapping[str, str | int]") -> HttpAnswer:
    """Return an answer with a line of JSON."""
    return HttpAnswer(code, JSON, json.dumps(content).encode() + b"\n")


async def _open_sockets(address: str) -> "list[socket.socket]":
    """Return sockets at all addresses of `host:port`; StartupError if they are not available."""
    host, port = address.rsplit(":", 1)
    try:
        return await asyncio.to_thread(open_sockets, host.strip("[]"), int(port))
    except OSError as error:
        raise StartupError(
            f"HTTP can't listen on {address}: {error.strerror}; stop what listens there, or choose another --http"
        ) from error
