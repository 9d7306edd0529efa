"""HTTP/1.1 in a thread of its own, with an event loop of its own: whatever holds the process's loop, it answers.

Everything that a peer controls has a limit:

connections   64. At the limit the one that has kept us waiting longest makes room, so that nobody who opens many and
              says nothing shuts out those who ask; if all are being answered, the new one is closed
head          16 KiB, whole within the header time-out from its first byte on, a handshake of TLS and a body included
body          read past, up to 16 KiB: nothing here takes one
idle          60 s between two requests
answer        closed if it is not taken within 10 s
"""

import asyncio
import contextlib
import errno
import logging
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import h11

from ternmq_runtime.observability.http_basic import Asker, asker
from ternmq_runtime.observability.http_wire import HttpWire, PlainRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from ternmq_rpc.tls.opening import PortTls

_log = logging.getLogger(__name__)
CONNECTIONS_MAX = 64
HEAD_BYTES_MAX = BODY_BYTES_MAX = 16 * 1024
IDLE_S = 60.0
ANSWER_S = 10.0
_ACCEPT_AGAIN_S = 0.2
_SAY_AGAIN_S = 60.0
_BACKLOG = 128


class Answer(NamedTuple):
    """`realm`: whom the peer is asked to be a user of, if it is asked for name and password."""

    code: int
    content_type: str
    body: bytes
    realm: str = ""


class HttpServer:
    """`answer` gets method, path and who asks; it runs in this thread. `refused` makes the answer to what is no HTTP,
    of a status and a text; `beside` runs beside the connections, for ever. With `tls` connections begin with a
    handshake, or may."""

    def __init__(
        self,
        sockets: "Sequence[socket.socket]",
        answer: "Callable[[str, str, Asker], Awaitable[Answer]]",
        refused: "Callable[[int, str], Answer]",
        beside: "Callable[[], Coroutine[None, None, None]]",
        *,
        header_timeout_s: float,
        answer_s: float = ANSWER_S,
        tls: "PortTls | None" = None,
    ) -> None:
        self._sockets = sockets
        self._tls = tls
        self._answer = answer
        self._refused = refused
        self._beside = beside
        self._header_timeout_s = header_timeout_s
        self._answer_s = answer_s
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: set[socket.socket] = set()
        self._said_s = -_SAY_AGAIN_S
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        # A process that fails must not wait for it.
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close everything; blocks until it is closed."""
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        beside = asyncio.create_task(self._beside())
        for sock in self._sockets:
            sock.setblocking(False)
            self._loop.add_reader(sock, self._accept, sock)
        await self._over.wait()
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        tasks = [beside, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients:  # of tasks that were cancelled before they began
            client.close()

    # --- connections

    def _accept(self, sock: socket.socket) -> None:
        try:
            client, _ = sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._say(error)
            self._loop.remove_reader(sock)
            self._loop.call_later(_ACCEPT_AGAIN_S, self._accept_again, sock)
            return
        self._begin(client)

    def _accept_again(self, sock: socket.socket) -> None:
        if not self._over.is_set():
            self._loop.add_reader(sock, self._accept, sock)

    def _say(self, error: OSError) -> None:
        """Once a minute: while descriptors are short, the same is true every time."""
        if time.monotonic() - self._said_s >= _SAY_AGAIN_S:
            self._said_s = time.monotonic()
            _log.error("HTTP can't accept connections now: %s", error.strerror)

    def _begin(self, client: socket.socket) -> None:
        if len(self._connections) >= CONNECTIONS_MAX and not self._make_room():
            client.close()
            return
        client.setblocking(False)
        connection = _Connection(client, self._answer, self._refused, self._header_timeout_s, self._answer_s, self._tls)
        self._connections[connection] = task = self._loop.create_task(connection.serve())
        self._tasks.add(task)
        self._clients.add(client)
        task.add_done_callback(lambda _: self._ended(connection, client, task))

    def _ended(self, connection: "_Connection", client: socket.socket, task: "asyncio.Task[None]") -> None:
        self._connections.pop(connection, None)
        self._tasks.discard(task)
        self._clients.discard(client)
        client.close()

    def _make_room(self) -> bool:
        waited_for = [connection for connection in self._connections if connection.waits_since_s is not None]
        if not waited_for:
            return False
        # It leaves the count at once, though its task ends a moment later.
        self._connections.pop(min(waited_for, key=lambda connection: connection.waits_since_s or 0.0)).cancel()
        return True


class _Connection:
    """One peer; `waits_since_s` is since when nothing but the peer's next bytes is waited for, None while it isn't."""

    def __init__(
        self,
        sock: socket.socket,
        answer: "Callable[[str, str, Asker], Awaitable[Answer]]",
        refused: "Callable[[int, str], Answer]",
        header_timeout_s: float,
        answer_s: float,
        tls: "PortTls | None",
    ) -> None:
        self._socket = sock
        self._wire = HttpWire(sock, tls)
        self._answer = answer
        self._refused = refused
        self._header_timeout_s = header_timeout_s
        self._answer_s = answer_s
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        self._request_began_s: float | None = None
        self._body_bytes = 0
        self.waits_since_s: float | None = self._loop.time()

    async def serve(self) -> None:
        try:
            await self._converse()
        except (OSError, TimeoutError):
            pass  # the peer is gone, or too slow: there is nobody to tell
        except PlainRefused as error:
            with contextlib.suppress(OSError, TimeoutError):
                await self._respond(self._refused(400, str(error)))
        except h11.RemoteProtocolError as error:
            with contextlib.suppress(OSError, TimeoutError, h11.LocalProtocolError):
                await self._respond(self._refused(error.error_status_hint, f"this is no HTTP: {error}"))
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("an HTTP request could not be answered")
        finally:
            self._socket.close()

    async def _converse(self) -> None:
        http = self._http
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await self._read())
            elif isinstance(event, h11.Request):
                path = event.target.decode().partition("?")[0]
                answer = await self._answer(event.method.decode(), path, self._asker(event))
                await self._respond(answer, head=event.method == b"HEAD")
            elif isinstance(event, h11.Data):
                self._body_bytes += len(event.data)
                if self._body_bytes > BODY_BYTES_MAX:
                    return
            elif isinstance(event, h11.EndOfMessage):
                if http.our_state is h11.MUST_CLOSE:
                    return
                http.start_next_cycle()
                self._next_request()
            elif isinstance(event, h11.ConnectionClosed):
                return

    def _asker(self, request: h11.Request) -> Asker:
        given = next((value for name, value in request.headers if name == b"authorization"), b"")
        peer = self._socket.getpeername()
        return asker(given.decode("latin-1"), str(peer[0]) if isinstance(peer, tuple) else "")

    def _next_request(self) -> None:
        self._body_bytes = 0
        begun = bool(self._http.trailing_data[0])
        self._request_began_s = self._loop.time() if begun else None

    async def _read(self) -> bytes:
        """The peer's next bytes; TimeoutError if it takes too long."""
        began_s = self._request_began_s
        self.waits_since_s = now_s = self._loop.time()
        end_s = now_s + IDLE_S if began_s is None else began_s + self._header_timeout_s
        async with asyncio.timeout_at(end_s):
            data = await self._wire.read()
        if data is None:  # a handshake begins, or part of a record came
            async with asyncio.timeout_at(end_s if began_s else self._loop.time() + self._header_timeout_s):
                while data is None:
                    data = await self._wire.read()
        self.waits_since_s = None
        if began_s is None:
            self._request_began_s = self._loop.time()
        return data

    async def _respond(self, answer: Answer, *, head: bool = False) -> None:
        code, content_type, body, realm = answer
        headers = [("content-type", content_type), ("content-length", str(len(body)))]
        if realm:
            headers.append(("www-authenticate", f'Basic realm="{realm}"'))
        response = h11.Response(status_code=code, headers=headers)
        parts = (response, h11.Data(data=b"" if head else body), h11.EndOfMessage())
        data = b"".join(self._http.send(part) or b"" for part in parts)
        try:
            async with asyncio.timeout(self._answer_s):
                await self._wire.write(data)
        except TimeoutError:
            # The kernel has part of the answer; it is to let go of that too.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise


def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets on all addresses that the host stands for; OSError if one can't be had, but for families that this
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
