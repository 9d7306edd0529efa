"""The calls of a client to one server: a connection that is opened for the first call, and again when it was lost.

Addresses  tried in their order, all of those that a name has; the next one when one refuses, or is silent for a while.
Failure    calls wait while the connection is opened. When that failed they fail at once, for a while that doubles with
           each failure.
Refused    a call that the server has refused without doing anything is sent again on another connection, unless
           `repeats` is false: repeated calls may overtake others.
"""

import asyncio
import random
from collections.abc import Sequence
from ipaddress import ip_address
from socket import SOCK_STREAM
from typing import TYPE_CHECKING, Final

from ternmq_common.pacing.backoff import ExponentialBackoff, add_jitter
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.calls_connection import CallsConnection, ClientCall

if TYPE_CHECKING:
    import ssl

    from ternmq_rpc.grpc_http2.client_machine import Headers

_CONNECT_S: Final = 20.0
# So long an address has if there are others after it; twice as long after each failure.
_NEXT_ADDRESS_S: Final = 1.0
_BACKOFF: Final = ExponentialBackoff(initial_s=0.2, max_s=5.0)
_KEEPALIVE_S: Final = 60.0
_KEEPALIVE_TIMEOUT_S: Final = 20.0
_REPEATS_MAX: Final = 3
_TOO_MANY_PINGS: Final = "too_many_pings"


class Channel:
    """Calls one server, on the event loop that created it. `addresses` are its hosts, or one name, and their ports.

    Calls raise StreamBroken.
    """

    __slots__ = (
        "_addresses",
        "_backoff",
        "_connecting",
        "_connections",
        "_failure",
        "_failures",
        "_is_closed",
        "_keepalive_s",
        "_loop",
        "_ready",
        "_repeats",
        "_retry_at",
        "_server_name",
        "_tls",
    )

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        *,
        tls: "ssl.SSLContext | None" = None,
        server_name: str | None = None,
        repeats: bool = True,
        backoff: ExponentialBackoff = _BACKOFF,
    ) -> None:
        """With `tls` the server's certificate must be for `server_name`, or for the host that is connected to. Calls
        fail at once for the time of `backoff` after failed attempts to connect."""
        self._addresses = addresses
        self._tls = tls
        self._server_name = server_name
        self._repeats = repeats
        self._backoff = backoff
        self._loop = asyncio.get_running_loop()
        self._ready: CallsConnection | None = None
        self._connecting: asyncio.Task[CallsConnection] | None = None
        self._connections: set[CallsConnection] = set()
        self._failure = ""
        self._failures = 0
        self._retry_at = 0.0
        self._keepalive_s = _KEEPALIVE_S
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """Whether there is a connection."""
        return self._ready is not None

    async def call_unary(self, method: str, headers: "Headers", request: bytes, timeout_s: float) -> bytes:
        """Call a method with one request and one answer."""
        repeats = 0
        left_s, began = timeout_s, 0.0
        while True:
            connection = self._ready
            if connection is None or not connection.has_room:
                began = began or self._loop.time()
                connection = await self._open_room(timeout_s - (self._loop.time() - began))
                left_s = max(0.001, timeout_s - (self._loop.time() - began))
            call = connection.begin_unary(method, headers, request, left_s)
            assert call.answer is not None
            try:
                return await call.answer
            except asyncio.CancelledError:
                call.abort_stream("the caller was cancelled")
                raise
            except StreamBroken as broken:
                repeats += 1
                if not (broken.is_refused and self._repeats) or repeats > _REPEATS_MAX or self._is_closed:
                    raise
                began = began or self._loop.time()

    async def open_call(
        self, method: str, headers: "Headers", *, connect_timeout_s: float, timeout_s: float = 0.0
    ) -> ClientCall:
        """Begin a call whose messages its user reads and writes, and that ends after `timeout_s`; 0: never."""
        connection = self._ready
        if connection is None or not connection.has_room:
            connection = await self._open_room(connect_timeout_s)
        return connection.begin_call(method, headers, timeout_s)

    async def close(self) -> None:
        """Close all connections; calls in progress fail."""
        self._is_closed = True
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.wait((connecting,))
        connections = list(self._connections)
        for connection in connections:
            connection.close_connection("the channel was closed")
        for connection in connections:
            await connection.ended

    # --- connections

    async def _open_room(self, timeout_s: float) -> CallsConnection:
        """Return a connection on which a call may begin at once."""
        try:
            async with asyncio.timeout(timeout_s):
                connection = self._ready
                attempts = 1
                while True:
                    if connection is None:
                        connection = await self._wait_connected()
                    if connection.has_room and connection is self._ready:
                        return connection
                    try:
                        await connection.wait_room()
                    except StreamBroken:
                        attempts += 1
                        if attempts > _REPEATS_MAX:  # else a server that leaves at once would be called for ever
                            raise
                        connection = self._ready
                    else:
                        return connection
        except TimeoutError as late:
            raise StreamBroken("no connection in time", status=int(GrpcStatus.DEADLINE_EXCEEDED)) from late

    async def _wait_connected(self) -> CallsConnection:
        connecting = self._connecting
        if connecting is None:
            if self._is_closed:
                raise StreamBroken("the channel was closed", status=int(GrpcStatus.CANCELLED))
            if self._loop.time() < self._retry_at:
                raise StreamBroken(self._failure)
            connecting = self._connecting = self._loop.create_task(self._connect())
            connecting.add_done_callback(self._note_connected)
        await asyncio.wait((connecting,))
        if connecting.cancelled():
            raise StreamBroken("the channel was closed", status=int(GrpcStatus.CANCELLED))
        return connecting.result()

    def _note_connected(self, connecting: "asyncio.Task[CallsConnection]") -> None:
        if self._connecting is connecting:
            self._connecting = None
        if connecting.cancelled():
            return
        failure = connecting.exception()
        if failure is None:
            self._failures = 0
            connection = connecting.result()
            if not connection.closed and connection.machine.can_open:
                self._ready = connection
        else:
            self._failures += 1
            self._failure = str(failure)
            pause_s = add_jitter(self._backoff.delay_s(self._failures), random.random())  # noqa: S311 - no secret
            self._retry_at = self._loop.time() + pause_s

    async def _connect(self) -> CallsConnection:
        failures = []
        try:
            resolved = await self._resolve_addresses()
        except OSError as error:
            raise StreamBroken(f"{self._addresses[0][0]} is not known: {error.strerror or error}") from error
        for number, (name, host, port) in enumerate(resolved, start=1):
            limit_s = _CONNECT_S
            if number < len(resolved):
                limit_s = min(limit_s, _NEXT_ADDRESS_S * 2.0 ** min(self._failures, 10))
            try:
                return await self._connect_to(name, host, port, limit_s)
            except StreamBroken as broken:
                failures.append(str(broken))
        raise StreamBroken("; ".join(failures))

    async def _resolve_addresses(self) -> list[tuple[str, str, int]]:
        """Return the addresses and ports to connect to, each with the name that it was resolved from."""
        resolved: list[tuple[str, str, int]] = []
        for name, port in self._addresses:
            if _is_address(name):  # else a thread would look it up
                resolved.append((name, name, port))
                continue
            for *_, address in await self._loop.getaddrinfo(name, port, type=SOCK_STREAM):
                resolved.append((name, str(address[0]), port))
        return list(dict.fromkeys(resolved))

    async def _connect_to(self, name: str, host: str, port: int, limit_s: float) -> CallsConnection:
        authority = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        connection = CallsConnection(
            authority,
            on_unusable=self._drop_connection,
            keepalive_s=self._keepalive_s,
            keepalive_timeout_s=_KEEPALIVE_TIMEOUT_S,
        )
        entry = connection.begin_protocol(self._tls, self._server_name or name)
        try:
            async with asyncio.timeout(limit_s):
                await self._loop.create_connection(lambda: entry, host, port)
                self._connections.add(connection)
                connection.ended.add_done_callback(lambda _: self._connections.discard(connection))
                await connection.greeted
        except TimeoutError as late:
            raise StreamBroken(f"{host}:{port} does not answer") from late
        except OSError as error:
            raise StreamBroken(f"failed to connect to {host}:{port}: {error.strerror or error}") from error
        finally:
            connection.close_unwanted("the connection is no longer wanted")
        return connection

    def _drop_connection(self, connection: CallsConnection, why: str) -> None:
        if self._ready is connection:
            self._ready = None
        if _TOO_MANY_PINGS in why:
            self._keepalive_s *= 2.0


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
