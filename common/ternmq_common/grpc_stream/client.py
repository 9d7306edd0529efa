"""The calling end: one stream, on a connection of its own."""

import asyncio

from ternmq_common.grpc_stream import http2_frames as h2
from ternmq_common.grpc_stream.connection import MESSAGE_MAX, Connection, greeting
from ternmq_common.grpc_stream.http2_frames import DEFAULT_FRAME_MAX, PREFACE, ErrorCode, Http2Error, Setting
from ternmq_common.grpc_stream.literal_headers import literal_block
from ternmq_common.grpc_stream.messages import Status, StreamBroken, status_text
from ternmq_common.grpc_stream.stream import Stream

_STREAM = 1


async def connect(host_port: str, method: str, *, timeout_s: float, message_max: int = MESSAGE_MAX) -> Stream:
    """Open a stream; whoever does has to end or abort it.

    StreamBroken: the address can't be reached, does not answer in time, or is not HTTP/2. That the method is not served
    is told by the first read, for a server that serves it need not say anything before it has something to say.
    """
    host, _, port = host_port.rpartition(":")
    loop = asyncio.get_running_loop()
    connection = ClientConnection(host_port, method, message_max=message_max)
    try:
        async with asyncio.timeout(timeout_s):
            await loop.create_connection(lambda: connection, host.strip("[]"), int(port))
            return await connection.greeted
    except TimeoutError as error:
        raise StreamBroken(f"{host_port} does not answer") from error
    except OSError as error:
        raise StreamBroken(f"{host_port} can't be reached: {error.strerror or error}") from error
    finally:
        connection.unwanted()


class ClientConnection(Connection):
    """Ends with its stream. `greeted`: the stream, once the other side was found to speak HTTP/2."""

    greeting = greeting({Setting.ENABLE_PUSH: 0})

    def __init__(self, authority: str, method: str, *, message_max: int) -> None:
        super().__init__()
        self._authority = authority
        self._method = method
        self._message_max = message_max
        self._stream: Stream
        self._answered = False
        self.greeted: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(PREFACE)
        super().connection_made(transport)
        self._last_stream = _STREAM
        self._stream = Stream(self, self._outflow.open(_STREAM), message_max=self._message_max)
        self._streams[_STREAM] = self._stream
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", self._method),
            (":authority", self._authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "ternmq"),
        )
        self._write(h2.header_frames(_STREAM, literal_block(headers), DEFAULT_FRAME_MAX, end_stream=False))

    def on_greeted(self) -> None:
        if not self.greeted.done():
            self.greeted.set_result(self._stream)

    def unwanted(self) -> None:
        """Nobody waits for the stream any more; without one the connection is of no use."""
        if not self.greeted.done() or self.greeted.cancelled():
            self.greeted.cancel()
            if hasattr(self, "_transport") and not self._closed:
                self.hang_up("nobody waits for it")

    def on_lost(self) -> None:
        if not self.greeted.done():
            self.greeted.set_exception(StreamBroken(self._ends or f"{self._authority} closed the connection"))

    def on_goaway(self, last_stream: int, text: str) -> None:
        if last_stream < _STREAM and self._streams:
            self._done(text)

    # --- the stream

    def on_headers(self, number: int, headers: dict[str, str], *, end_stream: bool) -> None:
        if number != _STREAM:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"headers on stream {number}, which nobody has opened")
        if not self._streams:
            return
        if not self._answered:
            status = headers.get(":status", "")
            if status.startswith("1") and not end_stream:
                return
            self._answered = True
            if status != "200" or not headers.get("content-type", "").startswith("application/grpc"):
                self._done(f"{self._authority} does not speak gRPC: HTTP status {status or 'missing'}")
                return
        elif not end_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers in the midst of a stream")
        if end_stream:
            self._status(headers)

    def _status(self, headers: dict[str, str]) -> None:
        """The server has ended the stream, and says how."""
        status = headers.get("grpc-status", str(int(Status.UNKNOWN)))
        text = status_text(status, headers.get("grpc-message", ""))
        if status != "0":
            self._done(text, int(status) if status.isdecimal() else None)
        elif self._stream.unfinished:
            self._done("the stream ended within a message", Status.INTERNAL)
        else:
            self._stream.end_there()
            self._stream.shut(f"{self._authority} has ended the stream")
            self.forget(self._stream)
            self._goodbye()

    def on_stream_end(self, stream: Stream) -> None:
        self._done(f"{self._authority} ended the stream without a status")

    def end(self, stream: Stream) -> None:
        self._outflow.end(stream.out, lambda: h2.frame(h2.DATA, h2.END_STREAM, _STREAM))
        self._pump()

    def abort(self, stream: Stream, status: Status, text: str) -> None:
        if self._streams:
            self._write(h2.rst_stream(_STREAM, ErrorCode.CANCEL))
        self._done(text, status)

    def _done(self, why: str, status: int | None = None) -> None:
        """The stream is broken, and the connection of no more use."""
        self.forget(self._stream)
        self._stream.break_off(why, status)
        self._goodbye()

    def _goodbye(self) -> None:
        if not self._closed:
            self._write(h2.goaway(0, ErrorCode.NO_ERROR, ""))
            self.hang_up("the stream has ended")
