"""An HTTP/1.1 server in a thread of its own, with its own event loop: it answers also while the process's loop is busy.

Everything that a peer controls has a limit:

connections   64. At the limit the one that has kept us waiting longest, for a request or until it takes an answer, is
              closed, so that a peer that opens many shuts out nobody; if all are being answered, the new one is closed
slots         how many requests are answered at once (`request_slots.py`); health has slots that nothing else can take
head          16 KiB, complete within the header time-out from its first byte on, TLS handshake and body included
body          discarded, up to 16 KiB; a site's own requests may have one, which the site limits, complete within 30 s
idle          60 s between two requests
answer        the connection is closed if the answer is not taken within 10 s
"""

import asyncio
import contextlib
import errno
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.log_throttle import LogThrottle
from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle
from ternmq_runtime.http.connection import ANSWER_S, HttpConnection, HttpService
from ternmq_runtime.http.request_slots import RequestSlots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.http.answer import HttpAnswer
    from ternmq_runtime.http.asgi import AsgiSite
    from ternmq_runtime.http.basic import HttpCaller

_log = logging.getLogger(__name__)
CONNECTIONS_MAX = 64
_ACCEPT_AGAIN_S = 0.2
_BACKLOG = 128


class HttpServer:
    """Serves HTTP on these sockets. `answer` gets method, path and caller; it runs in this thread. `refused` creates
    the answer to something that is not HTTP from a status and a text; `beside` runs beside the connections for ever.
    With `tls`, connections begin with a handshake, or may. `site` answers the paths that it owns, in this thread too.
    Requests of the paths `always` are answered beside any others."""

    def __init__(
        self,
        sockets: "Sequence[socket.socket]",
        answer: "Callable[[str, str, HttpCaller], Awaitable[HttpAnswer]]",
        refused: "Callable[[int, str], HttpAnswer]",
        beside: "Callable[[], Coroutine[None, None, None]]",
        *,
        header_timeout_s: float,
        answer_s: float = ANSWER_S,
        tls: "PortTls | None" = None,
        site: "AsgiSite | None" = None,
        always: "frozenset[str]" = frozenset(),
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._sockets = sockets
        self._beside = beside
        self._connections_max = connections_max
        handshakes = HandshakeThrottle() if tls is None else HandshakeThrottle(tls.handshakes_per_second)
        self._served = HttpService(
            answer, refused, site, tls, header_timeout_s, answer_s, RequestSlots(always), handshakes
        )
        self._connections: dict[HttpConnection, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()
        self._clients: set[socket.socket] = set()
        self._log_throttle = LogThrottle(time.monotonic)
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        # A daemon, so that a process that fails does not wait for it.
        self._thread = threading.Thread(target=self._run_loop, name="http", daemon=True)

    def start_thread(self) -> None:
        self._thread.start()

    def stop_thread(self) -> None:
        """Close everything; blocks until it is closed."""
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve_connections())

    async def _serve_connections(self) -> None:
        self._tasks.start(self._beside(), name="work beside the HTTP server")
        for sock in self._sockets:
            sock.setblocking(False)
            self._loop.add_reader(sock, self._accept_connection, sock)
        await self._over.wait()
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        await self._tasks.stop()
        for client in self._clients:  # of tasks that were cancelled before they began
            client.close()

    # --- connections

    def _accept_connection(self, sock: socket.socket) -> None:
        try:
            client, _ = sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._log_failure(error)
            self._loop.remove_reader(sock)
            self._loop.call_later(_ACCEPT_AGAIN_S, self._resume_accepting, sock)
            return
        self._start_connection(client)

    def _resume_accepting(self, sock: socket.socket) -> None:
        if not self._over.is_set():
            self._loop.add_reader(sock, self._accept_connection, sock)

    def _log_failure(self, error: OSError) -> None:
        """Log the failure once a minute: while descriptors are short, each attempt fails."""
        if self._log_throttle.is_due():
            _log.error("HTTP can't accept connections now: %s", error.strerror)

    def _start_connection(self, client: socket.socket) -> None:
        if len(self._connections) >= self._connections_max and not self._close_longest_waiting():
            client.close()
            return
        client.setblocking(False)
        connection = HttpConnection(client, self._served)
        self._connections[connection] = task = self._tasks.start(connection.serve_peer(), name="HTTP connection")
        self._clients.add(client)
        task.add_done_callback(lambda _: self._connection_ended(connection, client))

    def _connection_ended(self, connection: HttpConnection, client: socket.socket) -> None:
        self._connections.pop(connection, None)
        self._clients.discard(client)
        client.close()

    def _close_longest_waiting(self) -> bool:
        waited_for = [connection for connection in self._connections if connection.waits_since_s is not None]
        if not waited_for:
            return False
        # It is not counted any more, though its task ends a moment later.
        self._connections.pop(min(waited_for, key=lambda connection: connection.waits_since_s or 0.0)).cancel()
        return True


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Open sockets on all addresses of the host; OSError if one is not available, except for address families that this
    machine lacks."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with contextlib.ExitStack() as taken:
        sockets: list[socket.socket] = []
        lacking: OSError | None = None
        for family, name in dict.fromkeys((entry[0], entry[4]) for entry in found):
            try:
                sock = socket.create_server(name, family=family, backlog=_BACKLOG)
            except OSError as error:
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
                lacking = error
                continue
            sockets.append(taken.enter_context(sock))
            sock.setblocking(False)
        if not sockets and lacking is not None:
            raise lacking
        taken.pop_all()
        return sockets
