"""A server of connections of any protocol: accepts them, and limits the memory of all together.

Accepting  up to a limit of connections; with TLS each begins with a handshake, or may do so.
Limits     by `ConnectionBudgets`: a connection ends what exceeds its own; the limits of all connections together are
           enforced here. One walk over the connections finds what takes too long, a few hundred in a turn of the loop.
Stopping   no further calls; those in progress have a time to end in, then they are aborted.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

from ternmq_rpc.serving.acceptor import Acceptor
from ternmq_rpc.serving.budgets import BudgetLedger, ConnectionBudgets
from ternmq_rpc.serving.deadlines import CallDeadlines
from ternmq_rpc.serving.limit_log import LimitLog
from ternmq_rpc.serving.pending_calls import PendingCalls
from ternmq_rpc.serving.sockets import READ_BYTES, format_peer
from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle
from ternmq_rpc.tls.opening import OpeningConnection, PortTls

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

CONNECTIONS_MAX: Final = 10_000
# Within it the function that serves a call notices that it was cancelled.
_NOTICE_S = 1.0
_LAST_WORDS_S = 0.1
_WALK_EVERY_S = 1.0
# The time to check a connection, in times to pass a quiet one, and how much of that there is in a turn of the loop.
_CHECK_COST = 10
_WALK_COST_MAX = 2000


class ServedConnection(Protocol):
    """A connection of a `ConnectionServer`, an `asyncio.BufferedProtocol`. It calls `add_connection` when it is open,
    and `remove_connection` when it was closed.

    `note` is what the server's owner has noted about it. `reads_nothing`: the bytes that wait for the client have not
    moved between the last two checks. `quiet_until`: when it exceeds a limit at the earliest if nothing comes and
    nothing is sent, in seconds of the loop's clock; 0 if it must be checked now.
    """

    note: object
    reads_nothing: bool
    quiet_until: float

    @property
    def held_bytes(self) -> int:
        """The bytes of its requests in progress."""

    @property
    def unread_bytes(self) -> int:
        """The bytes of its answers that the client has not read."""

    def check_limits(self, now: float, *, crowded: bool) -> None:
        """End what takes too long. `crowded`: other connections wait to be accepted."""

    def cut_off(self, limit: str, why: str) -> None:
        """Close the connection because of the memory it uses."""

    def stop_calls(self) -> None:
        """Accept no more calls."""

    def end_calls(self) -> None:
        """Abort the calls in progress."""

    def hang_up(self, why: str) -> None:
        """Close the connection, after what the kernel takes at once."""

    def refuse_plain(self, begun: bytes) -> bool:
        """Tell a client that speaks plain text that only TLS is served here; return whether the connection goes on."""


class TaskCall(Protocol):
    """A call that is served in a task."""

    @property
    def is_awaited(self) -> bool:
        """Whether a server that stops waits for its end."""


AnyConnection = TypeVar("AnyConnection", bound=ServedConnection)
AnyCall = TypeVar("AnyCall", bound=TaskCall)


class ConnectionServer(ABC, Generic[AnyConnection, AnyCall]):
    """Serves connections on any sockets, from `add_listener` to `stop_serving`.

    `tasks` are the tasks of calls; connections add and remove them. `pending_calls` are the calls that are served
    without a task, and not answered yet.
    """

    def __init__(
        self,
        *,
        budgets: ConnectionBudgets | None = None,
        connections_max: int = CONNECTIONS_MAX,
        tls: PortTls | None = None,
        on_closed: "Callable[[object], None] | None" = None,
    ) -> None:
        """`on_closed` is called with the note of each connection that was closed, if it has one. With `tls`,
        connections begin with a handshake, or may do so."""
        self.budgets = budgets or ConnectionBudgets()
        self.ledger = BudgetLedger(self.budgets.in_bytes_max)
        self.deadlines = CallDeadlines()
        # One for all connections: what was read is copied out of it at once.
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.connections: set[AnyConnection] = set()
        self.openings: set[OpeningConnection] = set()
        """Connections that have not finished the TLS handshake."""
        self.tasks: dict[asyncio.Task[None], AnyCall] = {}
        self.pending_calls = PendingCalls()
        self.leaving = False
        self._on_closed = on_closed
        self.limits = LimitLog(lambda: asyncio.get_running_loop().time())
        self._tls = tls
        self.handshakes = HandshakeThrottle() if tls is None else HandshakeThrottle(tls.handshakes_per_second)
        self._acceptor = Acceptor(
            self._accept_connection, lambda: len(self.connections) + len(self.openings), connections_max
        )
        self._walk: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None

    @abstractmethod
    def create_connection(self, listener: str) -> AnyConnection:
        """Create the protocol of a connection that the listener of this name accepted."""

    @property
    def limit_counts(self) -> dict[str, int]:
        """How often each limit was reached."""
        return {**self.limits.limit_counts, "connections": self._acceptor.stop_count}

    async def add_listener(self, sock: "socket.socket", listener: str = "") -> None:
        """Serve connections at this socket of `sockets.bind_socket`; calls have the name of the listener."""
        self._acceptor.add_listener(sock, listener)

    async def stop_serving(self, grace_s: float) -> None:
        """Accept no more calls, give those in progress `grace_s` to end, then abort them, conversations too."""
        self.leaving = True
        await self._acceptor.close()
        if self._walk is not None:
            self._walk.cancel()
        self._end_openings(list(self.openings))
        for connection in self.connections:
            connection.stop_calls()
        await self._wait_for_calls(grace_s)
        for connection in list(self.connections):
            connection.end_calls()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_NOTICE_S)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.connections:
            # Clients without calls close the connection by themselves: then nothing that is in flight is lost.
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._empty,), timeout=_LAST_WORDS_S)
            for connection in list(self.connections):
                connection.hang_up("the server ends")
            await self._empty

    async def _wait_for_calls(self, grace_s: float) -> None:
        ending: list[asyncio.Future[None]] = [task for task, call in self.tasks.items() if call.is_awaited]
        if self.pending_calls.count:
            ending.append(self.pending_calls.when_none())
        if ending:
            await asyncio.wait(ending, timeout=grace_s)

    # --- connections

    def _accept_connection(self, listener: str) -> asyncio.BaseProtocol:
        connection = cast("asyncio.BufferedProtocol", self.create_connection(listener))
        return connection if self._tls is None else OpeningConnection(self, connection, self._tls, self.buffer)

    def add_connection(self, connection: AnyConnection) -> None:
        """Add an open connection."""
        self.connections.add(connection)
        self._acceptor.count_connection(connection)
        self._schedule_walk()

    def remove_connection(self, connection: AnyConnection) -> None:
        """Remove a closed connection."""
        self.connections.discard(connection)
        if self._on_closed is not None and connection.note is not None:
            self._on_closed(connection.note)
        self._acceptor.connection_closed()
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)

    def _schedule_walk(self) -> None:
        if self._walk is None and not self.leaving:
            self._walk = asyncio.get_running_loop().call_later(_WALK_EVERY_S, self._begin_walk)

    # --- for TLS, as `OpeningOwner`

    def add_opening(self, opening: OpeningConnection) -> None:
        self.openings.add(opening)
        self._acceptor.count_connection(opening)
        self._schedule_walk()

    def finish_opening(self, opening: OpeningConnection) -> None:
        self.openings.discard(opening)

    def refuse_plain(self, opening: OpeningConnection, begun: bytes) -> bool:
        return cast("ServedConnection", opening.connection).refuse_plain(begun)

    def log_throttled(self, opening: OpeningConnection) -> None:
        self.limits.log_limit(
            format_peer(opening.peer), "tls_handshakes", "closed a connection: too many handshakes wait"
        )

    def drop_opening(self, opening: OpeningConnection, why: str | None) -> None:
        is_news = opening in self.openings  # else it was ended here
        self.openings.discard(opening)
        if why is not None and is_news:
            self.limits.log_limit(format_peer(opening.peer), "tls", f"no connection: the TLS handshake failed: {why}")
        self._acceptor.connection_closed()

    def log_broken_tls(self, opening: OpeningConnection, why: str) -> None:
        self.limits.log_limit(format_peer(opening.peer), "tls", f"closed a connection: its TLS is broken: {why}")

    def _end_openings(self, openings: list[OpeningConnection]) -> None:
        for opening in openings:
            self.openings.discard(opening)
            opening.abort()

    def _end_slow_openings(self, now: float) -> None:
        timeout_s = self.budgets.header_timeout_s
        slow = [opening for opening in self.openings if now - opening.began_s > timeout_s]
        for opening in slow:
            self.limits.log_limit(
                format_peer(opening.peer), "header_timeout", f"no TLS handshake within {timeout_s:g} s"
            )
        self._end_openings(slow)

    # --- what takes too long

    def _begin_walk(self) -> None:
        self._end_slow_openings(asyncio.get_running_loop().time())
        self._continue_walk(iter(list(self.connections)))

    def _continue_walk(self, walk: "Iterable[AnyConnection]") -> None:
        """Check some connections, the others in another turn of the loop."""
        loop = asyncio.get_running_loop()
        now, crowded = loop.time(), self._acceptor.full
        left = _WALK_COST_MAX
        for connection in walk:
            left -= 1
            if now >= connection.quiet_until or crowded:
                connection.check_limits(now, crowded=crowded)
                left -= _CHECK_COST
            if left <= 0:
                turns = _CHECK_COST * len(self.connections) / _WALK_COST_MAX + 1
                self._walk = loop.call_later(_WALK_EVERY_S / (2 * turns), self._continue_walk, walk)
                return
        self._limit_output()
        is_open = self.connections or self.openings
        self._walk = loop.call_later(_WALK_EVERY_S, self._begin_walk) if is_open else None

    # --- what all connections hold together

    def limit_input(self) -> None:
        """Close the connection that uses most memory, if all together use too much."""
        if self.ledger.held_bytes > self.budgets.in_bytes_max:
            worst = max(self.connections, key=lambda connection: connection.held_bytes)
            worst.cut_off(
                "in_bytes",
                f"{self.ledger.held_bytes} bytes of requests are in progress, {worst.held_bytes} of them its own",
            )

    def _limit_output(self) -> None:
        """Close connections that read nothing while all together have too much unread, the worst first."""
        while self.ledger.unread_bytes > self.budgets.out_bytes_max:
            stuck = [connection for connection in self.connections if connection.reads_nothing]
            if not stuck:
                return
            worst = max(stuck, key=lambda connection: connection.unread_bytes)
            worst.cut_off(
                "out_bytes",
                f"{self.ledger.unread_bytes} bytes of answers are unread, {worst.unread_bytes} of them its own",
            )
