"""The gRPC server of a storage broker.

`Exchange` is a stream for each proxy, `Replicate` one for each follower; a follower has `ReadCopy`, one for each proxy
that reads there.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

from ternmq_broker.server.connection import ProxyConnection
from ternmq_broker.server.replication import read_connection, wire
from ternmq_broker.server.replication.read_connection import ReadConnection
from ternmq_common.errors import StartupError
from ternmq_common.shard.form import FORM, NoFrame
from ternmq_rpc.grpc_http2.messages import Status, StreamBroken
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod
from ternmq_rpc.grpc_stream.sockets import bound, named

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from ternmq_broker.server.proxies import Proxies
    from ternmq_broker.server.replication.read_connection import ReadService
    from ternmq_rpc.tls.opening import PortTls

_log = logging.getLogger(__name__)
METHOD = "/ternmq.storage.v1.Storage/Exchange"
# Proxies send something every second. A silent one must not stay for ever, and its members with it.
PROXY_SILENCE_S = 10.0


class Connection(Protocol):
    """Serves the stream of a proxy."""

    name: str
    frames: int

    async def take(self, data: bytes) -> None:
        """Serve one frame. NoFrame: it is invalid."""

    async def write_forever(self) -> None:
        """Write what is queued."""

    async def finished(self) -> None:
        """Return when all calls are answered, and the answers are written."""


class StorageFront:
    """The server. It has its address, `HOST:PORT` or `unix:PATH`, from the beginning, for the registration.

    It serves from `start` on.
    """

    def __init__(
        self,
        address: str,
        *,
        proxy_silence_s: float = PROXY_SILENCE_S,
        tls: "PortTls | None" = None,
        bind: "Callable[[str], socket.socket]" = bound,
    ) -> None:
        """Bind the address; StartupError if that fails.

        With `tls` only peers with a certificate of the cluster's CA are served. `bind` creates the listening socket.
        """
        methods = {
            METHOD: ServedMethod(self._exchange, talks=True),
            wire.METHOD: ServedMethod(self._replicate, talks=True),
            read_connection.METHOD: ServedMethod(self._read_copy, talks=True),
        }
        self._server = CallServer(methods.get, tls=tls)
        self._proxies: Proxies | None = None
        self._followers: Callable[[ServedCall], Awaitable[None]] | None = None
        self._calls: set[ServedCall] = set()
        self._reads: ReadService | None = None
        self._readers: set[ServedCall] = set()
        self._proxy_silence_s = proxy_silence_s
        try:
            self._socket = bind(address)
        except StartupError as error:
            raise StartupError(
                f"the storage service: {error}; stop what is there, or choose another --storage"
            ) from error
        self.address = named(address, self._socket)

    async def start(self, proxies: "Proxies | None" = None) -> None:
        """Serve; without `proxies` as a replica that does not lead, until `lead`."""
        self._proxies = proxies
        await self._server.listen(self._socket)

    def serve_followers(self, followers: "Callable[[ServedCall], Awaitable[None]]") -> None:
        """Serve followers from now on, until `forget_followers`."""
        self._followers = followers

    def lead(self, proxies: "Proxies") -> None:
        """Serve proxies from now on."""
        self._proxies = proxies

    async def follow(self, grace_s: float) -> None:
        """Stop serving proxies: answer their calls, for at most `grace_s` seconds, then break their streams."""
        proxies = self._proxies
        if proxies is None:
            return
        if grace_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await proxies.leave()
        self._proxies = None
        for call in list(self._calls):
            call.abort("this replica no longer leads its shard", status=Status.UNAVAILABLE)

    def forget_followers(self) -> None:
        """Stop accepting followers, which must find another leader."""
        self._followers = None

    def serve_reads(self, service: "ReadService") -> None:
        """Let proxies read the copy of this follower from now on, until `end_reads`."""
        self._reads = service

    def end_reads(self) -> None:
        """End the reads of the copy, as this replica follows no more: proxies must read from the leader."""
        self._reads = None
        for call in list(self._readers):
            call.abort("this replica does not follow", status=Status.UNAVAILABLE)

    async def stop(self, grace_s: float) -> None:
        """Answer open calls, for at most `grace_s` seconds, then end the streams."""
        proxies = self._proxies
        if proxies is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await proxies.leave()
        await self._server.stop(0)
        if proxies is not None:
            proxies.close()

    def close(self) -> None:
        """Close an address that was never served."""
        self._socket.close()

    async def _exchange(self, call: ServedCall) -> None:
        proxies = self._proxies
        if proxies is None:
            raise CallRefused(Status.UNAVAILABLE, "this replica does not lead its shard")
        connection = ProxyConnection(proxies, _writing_to(call))
        proxies.add(connection)
        self._calls.add(call)
        try:
            await self._converse(connection, call, lambda: proxies.remove(connection))
        finally:
            self._calls.discard(call)

    async def _read_copy(self, call: ServedCall) -> None:
        if self._reads is None:
            raise CallRefused(Status.UNAVAILABLE, "this replica does not follow")
        connection = ReadConnection(self._reads, _writing_to(call))
        self._readers.add(call)
        try:
            await self._converse(connection, call, connection.close)
        finally:
            self._readers.discard(call)

    async def _converse(self, connection: Connection, call: ServedCall, gone: "Callable[[], None]") -> None:
        """Serve a proxy's stream to its end; `gone` is called then."""
        writer = asyncio.create_task(_write(connection, call), name="answers to a proxy")
        watch = asyncio.create_task(
            _break_when_silent(connection, call, self._proxy_silence_s), name="watch over a proxy"
        )
        why: object = "unexpected error, which is in the log"
        try:
            await _take_all(connection, call)
            why = "it has ended its stream"
        except asyncio.CancelledError:
            why = call.broken
            raise
        except NoFrame as error:
            why = f"it sent an invalid frame of form {FORM}: {error}"
            _log.error("proxy %s: %s", connection.name or call.peer, why)
            raise CallRefused(Status.INVALID_ARGUMENT, f"that is no valid frame of form {FORM}: {error}") from error
        finally:
            gone()
            for task in (writer, watch):
                task.cancel()
            _log.info("proxy %s is gone: %s", connection.name or call.peer, why)
            await asyncio.gather(writer, watch, return_exceptions=True)

    async def _replicate(self, call: ServedCall) -> None:
        if self._followers is None:
            raise CallRefused(Status.UNAVAILABLE, "this replica does not lead its shard")
        await self._followers(call)


async def _take_all(connection: Connection, call: ServedCall) -> None:
    """Serve the proxy until it has ended its side and its calls are answered."""
    while frames := await call.read_all():
        for data in frames:
            await connection.take(data)
    # Its calls are done, even if it breaks the stream off now.
    await asyncio.shield(connection.finished())
    await call.end()


def _writing_to(call: ServedCall) -> "Callable[[bytes], Awaitable[None]]":
    async def write(frame: bytes) -> None:
        call.write(frame)
        await call.drained()

    return write


async def _write(connection: Connection, call: ServedCall) -> None:
    try:
        await connection.write_forever()
    except StreamBroken:
        pass  # the reader gets it too
    except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
        _log.exception("answers to proxy %s can't be written", connection.name)
        call.abort("the broker can't write its answers", status=Status.INTERNAL)


async def _break_when_silent(connection: Connection, call: ServedCall, silence_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        frames, looked_s = connection.frames, loop.time()
        await asyncio.sleep(silence_s)
        # A process that stood still could receive nothing.
        stood_still = loop.time() - looked_s > silence_s * 1.5
        if connection.frames == frames and not stood_still:
            call.abort(f"the proxy sent nothing for {silence_s:g} s", status=Status.UNAVAILABLE)
            return
