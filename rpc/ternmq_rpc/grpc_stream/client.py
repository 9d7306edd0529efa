"""The calling end on asyncio: one stream, on a connection of its own."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_rpc.grpc_http2.budgets import Budgets
from ternmq_rpc.grpc_http2.client_machine import ClientMachine
from ternmq_rpc.grpc_http2.events import Event
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.connection import Http2Connection
from ternmq_rpc.grpc_stream.sockets import UNIX
from ternmq_rpc.grpc_stream.stream import Stream

if TYPE_CHECKING:
    from ternmq_rpc.grpc_http2.machine import ConnectionFailure
    from ternmq_rpc.grpc_http2.messages import Status

_BUDGETS = Budgets()
# As gRPC does: a path is no authority.
_LOCAL = "localhost"


async def connect(
    host_port: str, method: str, *, timeout_s: float, message_max: int = _BUDGETS.message_bytes_max
) -> Stream:
    """Open a stream to `HOST:PORT` or `unix:PATH`; whoever does has to end or abort it.

    StreamBroken: the address can't be reached, does not answer in time, or is not HTTP/2. That the method is not served
    is told by the first read, for a server that serves it need not say anything before it has something to say.
    """
    is_path = host_port.startswith(UNIX)
    connection = ClientConnection(_LOCAL if is_path else host_port, method, message_max=message_max)
    try:
        async with asyncio.timeout(timeout_s):
            if is_path:
                await connection.loop.create_unix_connection(lambda: connection, host_port.removeprefix(UNIX))
            else:
                host, _, port = host_port.rpartition(":")
                await connection.loop.create_connection(lambda: connection, host.strip("[]"), int(port))
            return await connection.greeted
    except TimeoutError as error:
        raise StreamBroken(f"{host_port} does not answer") from error
    except OSError as error:
        raise StreamBroken(f"{host_port} can't be reached: {error.strerror or error}") from error
    finally:
        connection.unwanted()


class ClientConnection(Http2Connection[Stream, ClientMachine[Stream]]):
    """Ends with its stream. `greeted`: the stream, once the other side was found to speak HTTP/2."""

    __slots__ = ("_authority", "_message_max", "_method", "_stream", "greeted")

    def __init__(self, authority: str, method: str, *, message_max: int) -> None:
        super().__init__()
        self._authority = authority
        self._method = method
        self._message_max = message_max
        self._stream: Stream
        self.greeted: asyncio.Future[Stream] = self.loop.create_future()

    def make_machine(self) -> ClientMachine[Stream]:
        machine: ClientMachine[Stream] = ClientMachine(self._authority, _BUDGETS, self.loop.time())
        self._stream = machine.open(self._method, self._make)
        return machine

    def _make(self, number: int, out_window: int) -> Stream:
        return Stream(self, number, out_window, message_max=self._message_max)

    def on_greeted(self) -> None:
        if not self.greeted.done():
            self.greeted.set_result(self._stream)

    def unwanted(self) -> None:
        """Nobody waits for the stream any more; without one the connection is of no use."""
        if not self.greeted.done() or self.greeted.cancelled():
            self.greeted.cancel()
            if self._transport is not None:
                self.hang_up("nobody waits for it")

    def on_failure(self, failure: "ConnectionFailure") -> None:
        super().on_failure(failure)
        self._stream.break_off(f"{self.peer} is not understood: {failure}")

    def on_lost(self) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(StreamBroken(self._ends or f"{self._authority} closed the connection"))

    # --- the stream

    def on_event(self, event: Event, stream: Stream, text: str) -> None:
        del text
        if event is Event.ENDED:
            stream.wake_reader()
            stream.shut(f"{self._authority} has ended the stream")
            self._goodbye()
        else:
            stream.wake_reader()

    def after_receive(self) -> None:
        if self.machine.failure is None and not self.machine.streams:
            self._goodbye()

    def end(self, stream: Stream) -> None:
        """Say that nothing follows, after all that waits."""
        self.machine.end(stream)
        self.schedule()

    def abort(self, stream: Stream, status: "Status", text: str) -> None:
        super().abort(stream, status, text)
        self._goodbye()

    def _goodbye(self) -> None:
        if not self.closed:
            self.machine.goodbye()
            self.hang_up("the stream has ended")
