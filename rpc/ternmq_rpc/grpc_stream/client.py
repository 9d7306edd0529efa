"""The client's end of a stream on asyncio: one stream, on a connection of its own."""

import asyncio
from typing import TYPE_CHECKING, Final

from ternmq_rpc.grpc_http2.client_machine import ClientMachine
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.client_connection import BUDGETS, ClientConnection
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_rpc.serving.sockets import UNIX

if TYPE_CHECKING:
    import ssl

    from ternmq_rpc.grpc_http2.machine import ConnectionFailure
    from ternmq_rpc.grpc_http2.messages import GrpcStatus

# The authority of a socket in the file system, as gRPC has it: a path is no authority.
_LOCAL: Final = "localhost"


async def open_stream(
    host_port: str,
    method: str,
    *,
    timeout_s: float,
    message_max: int = BUDGETS.message_bytes_max,
    tls: "ssl.SSLContext | None" = None,
) -> MessageStream:
    """Open a stream to `HOST:PORT` or `unix:PATH`. The caller has to end or abort it. `tls` is ignored for a socket in
    the file system.

    StreamBroken: the address can't be reached, does not answer in time, is not HTTP/2, or the TLS handshake fails. Only
    the first read reports that the method is not served, since a server need not send anything before it has a message.

    """
    is_path = host_port.startswith(UNIX)
    connection = StreamConnection(_LOCAL if is_path else host_port, method, message_max=message_max)
    try:
        async with asyncio.timeout(timeout_s):
            if is_path:
                await connection.loop.create_unix_connection(lambda: connection, host_port.removeprefix(UNIX))
            else:
                host, port = host_port.rpartition(":")[0].strip("[]"), int(host_port.rpartition(":")[2])
                entry = connection.begin_protocol(tls, host)
                await connection.loop.create_connection(lambda: entry, host, port)
            await connection.greeted
            return connection.stream
    except TimeoutError as late:
        raise StreamBroken(f"{host_port} does not answer") from late
    except OSError as error:
        raise StreamBroken(f"{host_port} can't be reached: {error.strerror or error}") from error
    finally:
        connection.close_unwanted("the stream is no longer wanted")


class StreamConnection(ClientConnection[MessageStream]):
    """A connection with one stream, `stream`; it ends with it."""

    __slots__ = ("_method", "stream")

    def __init__(self, authority: str, method: str, *, message_max: int) -> None:
        super().__init__(authority, message_max=message_max)
        self._method = method
        self.stream: MessageStream

    def make_machine(self) -> ClientMachine[MessageStream]:
        machine = super().make_machine()
        self.stream = machine.open_stream(self._method, self._create_stream)
        return machine

    def _create_stream(self, number: int, out_window: int) -> MessageStream:
        return MessageStream(self, number, out_window, message_max=self.message_max)

    def handle_failure(self, failure: "ConnectionFailure") -> None:
        super().handle_failure(failure)
        self.stream.break_off(f"{self.peer} is not understood: {failure}")

    # --- the stream

    def handle_event(self, event: EventKind, stream: MessageStream, text: str) -> None:
        del text
        if event is EventKind.ENDED:
            stream.wake_reader()
            stream.refuse_writes(f"{self.authority} has ended the stream")
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
