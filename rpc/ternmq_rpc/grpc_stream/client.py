"""The client's end of a stream on asyncio: one stream, on a connection of its own."""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from ternmq_rpc.grpc_http2.client_machine import ClientMachine
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.connection import Http2Connection
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.serving.sockets import UNIX
from ternmq_rpc.tls.transport import TlsTransport

if TYPE_CHECKING:
    import ssl

    from ternmq_rpc.grpc_http2.machine import ConnectionFailure
    from ternmq_rpc.grpc_http2.messages import GrpcStatus

_BUDGETS: Final = ConnectionBudgets()
# The authority of a socket in the file system, as gRPC has it: a path is no authority.
_LOCAL: Final = "localhost"


async def open_stream(
    host_port: str,
    method: str,
    *,
    timeout_s: float,
    message_max: int = _BUDGETS.message_bytes_max,
    tls: "ssl.SSLContext | None" = None,
) -> MessageStream:
    """Open a stream to `HOST:PORT` or `unix:PATH`. The caller has to end or abort it. `tls` is ignored for a socket in
    the file system.

    StreamBroken: the address can't be reached, does not answer in time, is not HTTP/2, or the TLS handshake fails. Only
    the first read reports that the method is not served, since a server need not send anything before it has a message.

    """
    is_path = host_port.startswith(UNIX)
    connection = ClientConnection(_LOCAL if is_path else host_port, method, message_max=message_max)
    try:
        async with asyncio.timeout(timeout_s):
            if is_path:
                await connection.loop.create_unix_connection(lambda: connection, host_port.removeprefix(UNIX))
            else:
                host, port = host_port.rpartition(":")[0].strip("[]"), int(host_port.rpartition(":")[2])
                entry = connection if tls is None else connection.wrap_tls(tls, host)
                await connection.loop.create_connection(lambda: entry, host, port)
            return await connection.greeted
    except TimeoutError as late:
        raise StreamBroken(f"{host_port} does not answer") from late
    except OSError as error:
        raise StreamBroken(f"{host_port} can't be reached: {error.strerror or error}") from error
    finally:
        connection.close_unwanted()


class ClientConnection(Http2Connection[MessageStream, ClientMachine[MessageStream]]):
    """A connection with one stream; it ends with it. `greeted`: the stream, once the server has sent its settings."""

    __slots__ = ("_authority", "_message_max", "_method", "_stream", "_tls", "greeted")

    def __init__(self, authority: str, method: str, *, message_max: int) -> None:
        super().__init__()
        self._authority = authority
        self._method = method
        self._message_max = message_max
        self._stream: MessageStream
        self._tls: TlsTransport | None = None
        self.greeted: asyncio.Future[MessageStream] = self.loop.create_future()

    def make_machine(self) -> ClientMachine[MessageStream]:
        machine: ClientMachine[MessageStream] = ClientMachine(self._authority, _BUDGETS, self.loop.time())
        self._stream = machine.open_stream(self._method, self._create_stream)
        return machine

    def _create_stream(self, number: int, out_window: int) -> MessageStream:
        return MessageStream(self, number, out_window, message_max=self._message_max)

    def wrap_tls(self, context: "ssl.SSLContext", server_name: str) -> asyncio.BufferedProtocol:
        """Return the protocol to connect instead: this connection begins when the server has proved its identity."""
        self._tls = TlsTransport(
            self,
            context,
            buffer=self._buffer,
            on_ready=self._tls_ready,
            on_failed=self._tls_failed,
            server_name=server_name,
        )
        return self._tls

    def _tls_ready(self) -> None:
        assert self._tls is not None
        self.connection_made(cast("asyncio.Transport", self._tls))

    def _tls_failed(self, why: str) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(StreamBroken(f"no TLS with {self._authority}: {why}"))

    def handle_greeting(self) -> None:
        if not self.greeted.done():
            self.greeted.set_result(self._stream)

    def close_unwanted(self) -> None:
        """Note that the stream is no longer used; close a connection without streams."""
        if not self.greeted.done() or self.greeted.cancelled():
            self.greeted.cancel()
            if self._transport is not None:
                self.hang_up("the stream is no longer used")
            elif self._tls is not None:
                self._tls.abandon_handshake()

    def handle_failure(self, failure: "ConnectionFailure") -> None:
        super().handle_failure(failure)
        self._stream.break_off(f"{self.peer} is not understood: {failure}")

    def handle_lost(self) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(StreamBroken(self._end_reason or f"{self._authority} closed the connection"))

    # --- the stream

    def handle_event(self, event: EventKind, stream: MessageStream, text: str) -> None:
        del text
        if event is EventKind.ENDED:
            stream.wake_reader()
            stream.refuse_writes(f"{self._authority} has ended the stream")
            self._close_connection()
        else:
            stream.wake_reader()

    def after_receive(self) -> None:
        if self.machine.failure is None and not self.machine.streams:
            self._close_connection()

    def end_stream(self, stream: MessageStream) -> None:
        """End this side of the stream after all that waits."""
        self.machine.end_stream(stream)
        self.schedule_write()

    def abort_stream(self, stream: MessageStream, status: "GrpcStatus", text: str) -> None:
        super().abort_stream(stream, status, text)
        self._close_connection()

    def _close_connection(self) -> None:
        if not self.closed:
            self.machine.send_goaway()
            self.hang_up("the stream has ended")
