"""Accepts connections, up to a limit.

The accept loop of asyncio goes on when no file descriptors are left, and logs each failure. This one stops, and resumes
when a connection is closed or a second has passed. Clients that connect in the meantime wait in the kernel.
"""

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable

from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.backoff import RETRY_S
from ternmq_common.pacing.log_throttle import LogThrottle

_log = logging.getLogger(__name__)
_AT_ONCE = 64
_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts the connections of several listening sockets.

    `create_protocol` creates the protocol of a connection from the name of its listener; `count` returns the number of
    connections. The owner calls `count_connection` for a connection when `count` includes it, and `connection_closed`
    when it no longer does.

    `full`: nothing is accepted now, and clients may wait. `stop_count` counts how often that happened.
    """

    def __init__(
        self, create_protocol: Callable[[str], asyncio.BaseProtocol], count: Callable[[], int], connections_max: int
    ) -> None:
        self._make = create_protocol
        self._count = count
        self._connections_max = connections_max
        self._listening: dict[socket.socket, str] = {}
        self._openings = BackgroundTasks()
        # Connections that `count` does not include yet. Some event loops end the task a while after the connection.
        self._uncounted: set[object] = set()
        self._again: asyncio.TimerHandle | None = None
        self._open = False
        self._log_throttle = LogThrottle(time.monotonic)
        self.full = False
        self.stop_count = 0

    def add_listener(self, sock: socket.socket, listener: str) -> None:
        """Accept connections at this socket from now on."""
        sock.setblocking(False)
        self._listening[sock] = listener
        self._open = True
        if not self.full:
            self._start_accepting(sock)

    async def close(self) -> None:
        """Stop accepting. A connection that is in the backlog is opened first, else it would be lost unclosed."""
        self._open = False
        loop = asyncio.get_running_loop()
        if self._again is not None:
            self._again.cancel()
        for sock, listener in self._listening.items():
            loop.remove_reader(sock)
            self._accept_connections(sock, listener)
        await self._openings.wait_until_done()
        for sock in self._listening:
            sock.close()
        self._listening.clear()

    def count_connection(self, connection: object) -> None:
        """Note that `count` includes the connection from now on."""
        self._uncounted.discard(connection)

    def connection_closed(self) -> None:
        """Note that a connection was closed."""
        if self.full and self._open:
            self._resume_accepting()

    def _start_accepting(self, sock: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(sock, self._accept_connections, sock, self._listening[sock])

    def _accept_connections(self, sock: socket.socket, listener: str) -> None:
        for _ in range(_AT_ONCE):
            if self._count() + len(self._uncounted) >= self._connections_max:
                self._stop_accepting(f"{self._connections_max} connections are open, as many as connections_max allows")
                return
            try:
                accepted, _ = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_MORE:
                    raise
                self._stop_accepting(f"no further connection can be opened: {error.strerror}")
                self._again = asyncio.get_running_loop().call_later(RETRY_S, self._resume_accepting)
                return
            accepted.setblocking(False)
            connection = self._make(listener)
            self._uncounted.add(connection)
            self._openings.start(self._open_connection(accepted, connection), name="connection")

    async def _open_connection(self, sock: socket.socket, connection: asyncio.BaseProtocol) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)
        except OSError as error:
            _log.debug("a connection was lost while it was being opened: %s", error)
            sock.close()
        finally:
            if connection in self._uncounted:  # it never came to count
                self._uncounted.discard(connection)
                self.connection_closed()

    def _stop_accepting(self, why: str) -> None:
        self.stop_count += 1
        self.full = True
        loop = asyncio.get_running_loop()
        for sock in self._listening:
            loop.remove_reader(sock)
        if self._log_throttle.is_due():
            _log.warning("%s; new connections wait until one is closed", why)

    def _resume_accepting(self) -> None:
        self._again = None
        if self.full and self._open and self._count() + len(self._uncounted) < self._connections_max:
            self.full = False
            for sock in self._listening:
                self._start_accepting(sock)
