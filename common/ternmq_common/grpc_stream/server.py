"""The serving end: one method, a task for each stream of it."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ternmq_common.grpc_stream import http2_frames as h2
from ternmq_common.grpc_stream.connection import MESSAGE_MAX, STREAMS_MAX, Connection
from ternmq_common.grpc_stream.http2_frames import PREFACE, ErrorCode, Http2Error
from ternmq_common.grpc_stream.messages import Status, StreamBroken, percent_encoded
from ternmq_common.grpc_stream.sockets import bound

if TYPE_CHECKING:
    from ternmq_common.grpc_stream.stream import Stream

_log = logging.getLogger(__name__)
# In which whoever serves a stream notices that it was broken off.
_NOTICE_S = 1.0
_CONTENT_TYPE = "application/grpc"
_BEGIN = ((":status", "200"), ("content-type", _CONTENT_TYPE))

Serve = Callable[["Stream"], Awaitable[None]]


class StreamServer:
    """Listens from `listen` to `stop`. `serve` is run for each stream; when it returns, the stream ends in order."""

    def __init__(self, *, message_max: int = MESSAGE_MAX) -> None:
        self.message_max = message_max
        self.method = ""
        self.serve: Serve
        self.connections: set[ServerConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._empty: asyncio.Future[None] | None = None

    async def listen(self, where: str | socket.socket, method: str, serve: Serve) -> int:
        """Serve the method at an address, `HOST:PORT` or `sockets.bound`, and return the real port; StartupError if the
        address can't be had."""
        self.method, self.serve = method, serve
        sock = bound(where) if isinstance(where, str) else where
        self._server = await asyncio.get_running_loop().create_server(lambda: ServerConnection(self), sock=sock)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Take no more streams, leave those that there are some time to end, then break them off."""
        if self._server is None:
            return
        self._server.close()
        for connection in self.connections:
            connection.leave()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=grace_s)
        for connection in list(self.connections):
            connection.give_up()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_NOTICE_S)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.connections:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty

    def lost(self, connection: "ServerConnection") -> None:
        self.connections.discard(connection)
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)


class ServerConnection(Connection):
    """A client's connection, with as many streams as it opens."""

    def __init__(self, server: StreamServer) -> None:
        super().__init__(message_max=server.message_max)
        self._server = server
        self._preface = PREFACE
        self._running: dict[Stream, asyncio.Task[None]] = {}
        self._leaving = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)

    def received(self, data: bytes) -> None:
        if self._preface:
            size = min(len(data), len(self._preface))
            if self._preface[:size] != data[:size]:
                self._fail(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
                return
            self._preface, data = self._preface[size:], data[size:]
        super().received(data)

    def on_lost(self) -> None:
        self._server.lost(self)

    def leave(self) -> None:
        """Take no more streams."""
        self._leaving = True
        self._write(h2.goaway(self._last_stream, ErrorCode.NO_ERROR, "the server ends"))

    def give_up(self) -> None:
        """Break off what is there, and close."""
        for stream in list(self._streams.values()):
            stream.abort("the server ends", status=Status.UNAVAILABLE)
        self.hang_up("the server ends")

    # --- streams

    def on_headers(self, number: int, headers: dict[str, str], *, end_stream: bool) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            self._trailers(stream, end_stream=end_stream)
            return
        if number % 2 == 0 or (number > self._last_stream and ":method" not in headers):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {number} can't be opened by a client so")
        if number <= self._last_stream:
            return  # ended here, and trailers were on their way
        self._last_stream = number
        if self._leaving or len(self._running) >= STREAMS_MAX:
            self._answer(h2.rst_stream(number, ErrorCode.REFUSED_STREAM))
            return
        refusal = self._refusal(number, headers)
        if refusal is not None:
            self._answer(refusal if end_stream else refusal + h2.rst_stream(number, ErrorCode.NO_ERROR))
            return
        self._begin(number, end_stream=end_stream)

    def _refusal(self, number: int, headers: dict[str, str]) -> bytes | None:
        """The whole answer to a call that is not served."""
        if headers.get("te", "trailers") != "trailers" or headers[":method"] != "POST":
            return h2.rst_stream(number, ErrorCode.PROTOCOL_ERROR)
        if not headers.get("content-type", "").startswith(_CONTENT_TYPE):
            return self._header_frames(number, [(":status", "415")], end_stream=True)
        if headers.get(":path") != self._server.method:
            status = _status(Status.UNIMPLEMENTED, f"{headers.get(':path')} is not served here")
            return self._header_frames(number, [*_BEGIN, *status], end_stream=True)
        return None

    def _begin(self, number: int, *, end_stream: bool) -> None:
        stream = self._open(number)
        self._answer(self._header_frames(number, _BEGIN, end_stream=False))
        if end_stream:
            stream.end_there()
        task = asyncio.create_task(self._serve(stream), name=f"stream {number} of {self.peer}")
        self._running[stream] = task
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _serve(self, stream: "Stream") -> None:
        try:
            await self._server.serve(stream)
            await stream.end()
        except StreamBroken as broken:
            _log.debug("stream of %s: %s", self.peer, broken)
        except Exception:  # noqa: BLE001 - the outermost of this stream
            _log.exception("a stream of %s failed", self.peer)
            stream.abort("unexpected error; the log of the server has it", status=Status.INTERNAL)
        finally:
            del self._running[stream]
            if not stream.ended_here or stream.out.waits:
                stream.abort("it is served no more", status=Status.UNAVAILABLE)
            self._finish(stream)

    def _trailers(self, stream: "Stream", *, end_stream: bool) -> None:
        """Clients of gRPC send none, and they say nothing."""
        if not end_stream or stream.ended_there:
            self._reset(stream, ErrorCode.PROTOCOL_ERROR, f"{self.peer} sent headers a second time")
        else:
            self._stream_end(stream)

    def on_stream_end(self, stream: "Stream") -> None:
        stream.end_there()
        self._finish(stream)

    def end(self, stream: "Stream") -> None:
        self._outflow.end(stream.out, lambda: self._last_frame(stream, Status.OK, ""))
        self._pump()
        self._finish(stream)

    def abort(self, stream: "Stream", status: Status, text: str) -> None:
        if self._streams.get(stream.out.stream) is stream:
            if stream.out.bytes:  # maybe a part of a message is sent, after which there can't be a status
                self._write(h2.rst_stream(stream.out.stream, ErrorCode.CANCEL))
            else:
                self._write(
                    self._last_frame(stream, status, text) + h2.rst_stream(stream.out.stream, ErrorCode.NO_ERROR)
                )
            self.forget(stream)
        stream.break_off(text, status)

    def _last_frame(self, stream: "Stream", status: Status, text: str) -> bytes:
        return self._header_frames(stream.out.stream, _status(status, text), end_stream=True)

    def _finish(self, stream: "Stream") -> None:
        """Forget the stream once it has ended at this side, and the other side's end came or is of no interest."""
        number = stream.out.stream
        if self._streams.get(number) is not stream or not stream.ended_here or stream.out.waits:
            return
        if stream.ended_there:
            self.forget(stream)
        elif stream not in self._running:
            self._write(h2.rst_stream(number, ErrorCode.NO_ERROR))
            self.forget(stream)


def _status(status: Status, text: str) -> list[tuple[str, str]]:
    trailers = [("grpc-status", str(int(status)))]
    if text:
        trailers.append(("grpc-message", percent_encoded(text)))
    return trailers
