"""The gRPC server of a storage broker.

`Exchange` is a stream for each proxy, `Replicate` one for each follower; a follower has `ReadCopy`, one for each proxy
that reads there.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

from ternmq_broker.server.proxy_connection import ProxyConnection
from ternmq_broker.server.replication import read_connection, replica_messages
from ternmq_broker.server.replication.read_connection import ReadConnection
from ternmq_common.errors import StartupError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.shard.shard_frames import FORM, InvalidFrame
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import CallRefused, ServedCall, ServedMethod
from ternmq_rpc.serving.sockets import actual_address, bind_socket

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from ternmq_broker.server.proxy_connections import ProxyConnections
    from ternmq_broker.server.replication.read_connection import ReadService
    from ternmq_rpc.tls.opening import PortTls

_log = logging.getLogger(__name__)
METHOD = "/ternmq.storage.v1.Storage/Exchange"
# Proxies send something every second. A silent one must not stay for ever, and its members with it.
PROXY_SILENCE_S = 10.0


class ServedConnection(Protocol):
    """Serves the stream of a proxy."""

    name: str
    frames: int

    async def serve_frame(self, data: bytes) -> None:
        """Serve one frame. NoFrame: it is invalid."""

    async def write_forever(self) -> None:
        """Write what is queued."""

    async def wait_until_answered(self) -> None:
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
        bind: "Callable[[str], socket.socket]" = bind_socket,
    ) -> None:
        """Bind the address; StartupError if that fails.

        With `tls` only peers with a certificate of the cluster's CA are served. `bind` creates the listening socket.
        """
        methods = {
            METHOD: ServedMethod(self._serve_exchange, is_conversation=True),
            replica_messages.METHOD: ServedMethod(self._serve_replicate, is_conversation=True),
            read_connection.METHOD: ServedMethod(self._read_copy, is_conversation=True),
        }
        self._server = CallServer(methods.get, tls=tls)
        self._proxies: ProxyConnections | None = None
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
        self.address = actual_address(address, self._socket)

    async def start(self, proxies: "ProxyConnections | None" = None) -> None:
        """Serve; without `proxies` as a replica that does not lead, until `serve_proxies`."""
        self._proxies = proxies
        await self._server.add_listener(self._socket)

    def serve_followers(self, followers: "Callable[[ServedCall], Awaitable[None]]") -> None:
        """Serve followers from now on, until `forget_followers`."""
        self._followers = followers

    def serve_proxies(self, proxies: "ProxyConnections") -> None:
        """Serve proxies from now on."""
        self._proxies = proxies

    async def stop_serving_proxies(self, grace_s: float) -> None:
        """Stop serving proxies: answer their calls, for at most `grace_s` seconds, then break their streams."""
        proxies = self._proxies
        if proxies is None:
            return
        if grace_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await proxies.wait_until_gone()
        self._proxies = None
        for call in list(self._calls):
            call.abort_stream("this replica no longer leads its shard", status=GrpcStatus.UNAVAILABLE)

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
            call.abort_stream("this replica does not follow", status=GrpcStatus.UNAVAILABLE)

    async def stop(self, grace_s: float) -> None:
        """Answer open calls, for at most `grace_s` seconds, then end the streams."""
        proxies = self._proxies
        if proxies is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await proxies.wait_until_gone()
        await self._server.stop_serving(0)
        if proxies is not None:
            proxies.close()

    def close(self) -> None:
        """Close an address that was never served."""
        self._socket.close()

    async def _serve_exchange(self, call: ServedCall) -> None:
        proxies = self._proxies
        if proxies is None:
            raise CallRefused(GrpcStatus.UNAVAILABLE, "this replica does not lead its shard")
        connection = ProxyConnection(proxies, _frame_writer(call))
        proxies.add_connection(connection)
        self._calls.add(call)
        try:
            await self._serve_stream(connection, call, lambda: proxies.remove_connection(connection))
        finally:
            self._calls.discard(call)

    async def _read_copy(self, call: ServedCall) -> None:
        if self._reads is None:
            raise CallRefused(GrpcStatus.UNAVAILABLE, "this replica does not follow")
        connection = ReadConnection(self._reads, _frame_writer(call))
        self._readers.add(call)
        try:
            await self._serve_stream(connection, call, connection.close)
        finally:
            self._readers.discard(call)

    async def _serve_stream(self, connection: ServedConnection, call: ServedCall, gone: "Callable[[], None]") -> None:
        """Serve a proxy's stream to its end; `gone` is called then."""
        tasks = BackgroundTasks()
        tasks.start(_write_answers(connection, call), name="answers to a proxy")
        tasks.start(_break_when_silent(connection, call, self._proxy_silence_s), name="watch over a proxy")
        why: object = "unexpected error, which is in the log"
        try:
            await _serve_frames(connection, call)
            why = "it has ended its stream"
        except asyncio.CancelledError:
            why = call.failure
            raise
        except InvalidFrame as error:
            why = f"it sent an invalid frame of form {FORM}: {error}"
            _log.error("proxy %s: %s", connection.name or call.peer, why)
            raise CallRefused(GrpcStatus.INVALID_ARGUMENT, f"that is no valid frame of form {FORM}: {error}") from error
        finally:
            gone()
            _log.info("proxy %s is gone: %s", connection.name or call.peer, why)
            await tasks.stop()

    async def _serve_replicate(self, call: ServedCall) -> None:
        if self._followers is None:
            raise CallRefused(GrpcStatus.UNAVAILABLE, "this replica does not lead its shard")
        await self._followers(call)


async def _serve_frames(connection: ServedConnection, call: ServedCall) -> None:
    """Serve the proxy until it has ended its side and its calls are answered."""
    while frames := await call.read_all():
        for data in frames:
            await connection.serve_frame(data)
    # Its calls are done, even if it breaks the stream off now.
    await asyncio.shield(connection.wait_until_answered())
    await call.end_stream()


def _frame_writer(call: ServedCall) -> "Callable[[bytes], Awaitable[None]]":
    async def write_frame(frame: bytes) -> None:
        call.write_messages(frame)
        await call.wait_drained()

    return write_frame


async def _write_answers(connection: ServedConnection, call: ServedCall) -> None:
    try:
        await connection.write_forever()
    except StreamBroken:
        pass  # the reader gets it too
    except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
        _log.exception("answers to proxy %s can't be written", connection.name)
        call.abort_stream("the broker can't write its answers", status=GrpcStatus.INTERNAL)


async def _break_when_silent(connection: ServedConnection, call: ServedCall, silence_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        frames, looked_s = connection.frames, loop.time()
        await asyncio.sleep(silence_s)
        # A process that stood still could receive nothing.
        stood_still = loop.time() - looked_s > silence_s * 1.5
        if connection.frames == frames and not stood_still:
            call.abort_stream(f"the proxy sent nothing for {silence_s:g} s", status=GrpcStatus.UNAVAILABLE)
            return
