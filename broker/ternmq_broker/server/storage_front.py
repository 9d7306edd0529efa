"""The gRPC server of a storage broker: one call, `Exchange`, a stream for each proxy."""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ternmq_broker.server.connection import ProxyConnection
from ternmq_common.errors import StartupError
from ternmq_common.grpc_stream import Status, Stream, StreamBroken, StreamServer
from ternmq_common.grpc_stream.sockets import bound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_broker.server.proxies import Proxies

_log = logging.getLogger(__name__)
METHOD = "/ternmq.storage.v1.Storage/Exchange"
# Proxies say something every second. One that has gone without a word must not stay for ever, and its members with it.
PROXY_SILENCE_S = 10.0


class StorageFront:
    """Has its address from the start, so that it can be registered; serves from `start` on."""

    def __init__(self, address: str) -> None:
        """StartupError if the address can't be had."""
        self._server = StreamServer()
        self._proxies: Proxies
        try:
            self._socket = bound(address)
        except StartupError as error:
            raise StartupError(
                f"the storage service: {error}; stop what is there, or choose another --storage"
            ) from error
        self.address = f"{address.rsplit(':', 1)[0]}:{self._socket.getsockname()[1]}"

    async def start(self, proxies: "Proxies") -> None:
        self._proxies = proxies
        await self._server.listen(self._socket, METHOD, self._exchange)

    async def stop(self, grace_s: float) -> None:
        """Answer what was asked, at most for `grace_s` seconds, then end the streams."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._proxies.leave()
        await self._server.stop(0)
        self._proxies.close()

    def close(self) -> None:
        """Let go of an address that was never served."""
        self._socket.close()

    async def _exchange(self, stream: Stream) -> None:
        connection = ProxyConnection(self._proxies, _writing_to(stream))
        self._proxies.add(connection)
        writer = asyncio.create_task(_write(connection, stream), name="answers to a proxy")
        watch = asyncio.create_task(_break_when_silent(connection, stream), name="watch over a proxy")
        try:
            while frames := await stream.read_all():
                for data in frames:
                    await connection.take(data)
            await connection.finished()
        except StreamBroken as error:
            _log.info("the stream of proxy %s broke: %s", connection.name, error)
        except DecodeError as error:
            _log.error("proxy %s sent what is no frame, its stream ends: %s", connection.name or stream.peer, error)
            stream.abort("that is no frame", status=Status.INVALID_ARGUMENT)
        finally:
            self._proxies.remove(connection)
            for task in (writer, watch):
                task.cancel()
            _log.info("proxy %s is gone", connection.name)
            await asyncio.gather(writer, watch, return_exceptions=True)


def _writing_to(stream: Stream) -> "Callable[[bytes], Awaitable[None]]":
    async def write(frame: bytes) -> None:
        stream.write(frame)
        await stream.drained()

    return write


async def _write(connection: ProxyConnection, stream: Stream) -> None:
    try:
        await connection.write_forever()
    except StreamBroken:
        pass  # the reader hears it too
    except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
        _log.exception("answers to proxy %s can't be written", connection.name)
        stream.abort("the broker can't write its answers", status=Status.INTERNAL)


async def _break_when_silent(connection: ProxyConnection, stream: Stream) -> None:
    loop = asyncio.get_running_loop()
    while True:
        frames, looked_s = connection.frames, loop.time()
        await asyncio.sleep(PROXY_SILENCE_S)
        # A process that stood still could hear nobody.
        stood_still = loop.time() - looked_s > PROXY_SILENCE_S * 1.5
        if connection.frames == frames and not stood_still:
            stream.abort(f"the proxy said nothing for {PROXY_SILENCE_S:g} s", status=Status.UNAVAILABLE)
            return
