"""The gRPC server of a storage broker: one call, `Exchange`, a stream for each proxy."""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from ternmq_broker.server.connection import ProxyConnection
from ternmq_common.errors import StartupError
from ternmq_protos.storage_v1 import storage_pb2

if TYPE_CHECKING:
    from ternmq_broker.server.proxies import Proxies

_log = logging.getLogger(__name__)
STORAGE_SERVICE = storage_pb2.DESCRIPTOR.services_by_name["Storage"]
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.lookahead_bytes", 4 << 20),
)


class StorageFront:
    """Listens from the start, so that the address is known; serves from `start` on."""

    def __init__(self, address: str) -> None:
        self._server = aio.server(options=_OPTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._proxies: Proxies
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise StartupError(
                f"the storage service can't listen on {address}; stop what listens there, or choose another --storage"
            ) from error
        self.address = f"{address.rsplit(':', 1)[0]}:{port}"

    async def start(self, proxies: "Proxies") -> None:
        self._proxies = proxies
        exchange = grpc.stream_stream_rpc_method_handler(self._exchange)
        handlers = grpc.method_handlers_generic_handler(STORAGE_SERVICE.full_name, {"Exchange": exchange})
        self._server.add_generic_rpc_handlers((handlers,))
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Answer what was asked, at most for `grace_s` seconds, then end the streams."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._proxies.leave()
        await self._server.stop(0)

    async def _exchange(self, _: object, context: aio.ServicerContext) -> None:
        connection = ProxyConnection(self._proxies, context.write)
        self._proxies.add(connection)
        reader = asyncio.current_task()
        assert reader is not None
        writer = asyncio.create_task(connection.write_forever(), name="answers to a proxy")
        writer.add_done_callback(lambda task: None if task.cancelled() else reader.cancel(_reason(task)))
        try:
            while (data := await context.read()) is not aio.EOF:
                await connection.take(data)
            await connection.finished()
        except aio.BaseError as error:
            _log.info("the stream of proxy %s broke: %s", connection.name, error)
        finally:
            writer.cancel()
            self._proxies.remove(connection)
            _log.info("proxy %s is gone", connection.name)


def _reason(task: "asyncio.Task[None]") -> str:
    return f"the stream can't be written any more: {task.exception()!r}"
