"""A server of many methods, also for clients that we did not write: it expects nothing good of them.

Lean      a connection that does nothing keeps no header table, no buffer, and no timer; a call one task.
Bounded   the work that a client causes with what it sends is proportional to it: what it resets is cancelled before it
          can send more, and one that goes on faster than its calls end is cut off.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ternmq_common.grpc_stream import http2_frames as h2
from ternmq_common.grpc_stream.connection import READ_BYTES, Connection, greeting
from ternmq_common.grpc_stream.deadlines import Deadlines, parsed_timeout
from ternmq_common.grpc_stream.http2_frames import HEADER, PREFACE, ErrorCode, Http2Error, Setting
from ternmq_common.grpc_stream.literal_headers import HeaderReader, literal_block
from ternmq_common.grpc_stream.messages import Status, StreamBroken, percent_encoded
from ternmq_common.grpc_stream.served_call import CallRefused, Method, ServedCall

if TYPE_CHECKING:
    from ternmq_common.grpc_stream.stream import Stream

_log = logging.getLogger(__name__)
CALLS_MAX = 100_000
# Calls that the client has broken off, and whose tasks go on.
ABANDONED_MAX = 10_000
SETTINGS_AT_ONCE_MAX = 16
_BACKLOG = 1024
# In which whoever serves a call notices that it was cancelled.
_NOTICE_S = 1.0
_LAST_WORDS_S = 0.1
# In which asyncio makes a connection of what it has accepted.
_TURNS_TO_ACCEPT = 3
_TIMEOUT = "grpc-timeout"
_NEEDED = (":method", ":path", "content-type", _TIMEOUT)
_BEGIN = literal_block(((":status", "200"), ("content-type", "application/grpc")))
_DONE = literal_block((("grpc-status", "0"),))
_NOT_GRPC = literal_block(((":status", "415"),))

Find = Callable[[str], Method | None]


class CallServer:
    """Serves what `find` knows by its path, on any sockets, from `listen` to `stop`.

    Calls have those of their headers that are in `headers`.
    """

    def __init__(self, find: Find, *, headers: Sequence[str] = (), message_max: int) -> None:
        self.find = find
        self.message_max = message_max
        self.headers = HeaderReader((*_NEEDED, *headers), passing=(_TIMEOUT,))
        self.deadlines = Deadlines()
        # One for all connections: what is read is taken out of it at once.
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.connections: set[CallConnection] = set()
        self.tasks: dict[asyncio.Task[None], ServedCall] = {}
        self.leaving = False
        self._servers: list[asyncio.Server] = []
        self._empty: asyncio.Future[None] | None = None

    async def listen(self, sock: socket.socket, listener: str = "") -> None:
        """Serve what comes in at this socket of `sockets.bound`; calls tell the name of the listener."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: CallConnection(self, listener), sock=sock, backlog=_BACKLOG)
        self._servers.append(server)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, leave those that there are some time to end, then break them off, conversations too."""
        self.leaving = True
        await self._close_doors()
        for connection in self.connections:
            connection.leave()
        ending = [task for task, call in self.tasks.items() if not call.method.talks]
        if ending:
            await asyncio.wait(ending, timeout=grace_s)
        for connection in list(self.connections):
            connection.end_calls()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_NOTICE_S)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.connections:
            # Clients that have no calls any more close by themselves: then nothing that is on its way is lost.
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._empty,), timeout=_LAST_WORDS_S)
            for connection in list(self.connections):
                connection.hang_up("the server ends")
            await self._empty

    async def _close_doors(self) -> None:
        """Stop to listen. What asyncio has just accepted becomes a connection first, else it would be lost unclosed."""
        loop = asyncio.get_running_loop()
        for server in self._servers:
            for sock in server.sockets:
                loop.remove_reader(sock.fileno())
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()

    def lost(self, connection: "CallConnection") -> None:
        """A connection is no more."""
        self.connections.discard(connection)
        if self._empty is not None and not self.connections and not self._empty.done():
            self._empty.set_result(None)


class CallConnection(Connection):
    """A client's connection."""

    greeting = greeting({Setting.HEADER_TABLE_SIZE: 0, Setting.MAX_CONCURRENT_STREAMS: CALLS_MAX})

    def __init__(self, server: CallServer, listener: str) -> None:
        super().__init__(buffer=server.buffer)
        self.message_max = server.message_max
        self.listener = listener
        self.deadlines = server.deadlines
        self._server = server
        self._preface = PREFACE
        self._has_table = True
        self._tasks = 0
        self._settings_left = SETTINGS_AT_ONCE_MAX

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
        self._settings_left = SETTINGS_AT_ONCE_MAX
        super().received(data)

    def on_lost(self) -> None:
        self._server.lost(self)

    def leave(self) -> None:
        """Take no more calls."""
        self._write(h2.goaway(self._last_stream, ErrorCode.NO_ERROR, "the server ends"))

    def end_calls(self) -> None:
        """Break off what is there."""
        for call in list(self._streams.values()):
            call.abort("the server ends", status=Status.UNAVAILABLE)

    # --- what comes

    def _settings(self, flags: int, payload: bytes) -> None:
        # Each may change the windows of all calls.
        self._settings_left -= 1
        if self._settings_left < 0:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many SETTINGS at once")
        super()._settings(flags, payload)

    def _decoded(self, block: bytes) -> dict[str, str]:
        if not self._has_table:
            return self._server.headers.read(block)
        headers = super()._decoded(block)
        if not self._decoder.header_table_size:
            # The client knows now that it may have no table; it can't have one again.
            self._has_table = False
            del self._decoder
        return headers

    def on_headers(self, number: int, headers: dict[str, str], *, end_stream: bool) -> None:
        call = self._streams.get(number)
        if call is not None:
            self._trailers(call, end_stream=end_stream)
            return
        if number % 2 == 0 or (number > self._last_stream and ":method" not in headers):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"stream {number} can't be opened by a client so")
        if number <= self._last_stream:
            return  # ended here, and trailers were on their way
        self._last_stream = number
        if self._tasks - len(self._streams) > ABANDONED_MAX:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "calls are broken off faster than they end")
        if self._server.leaving or len(self._streams) >= CALLS_MAX:
            self._answer(h2.rst_stream(number, ErrorCode.REFUSED_STREAM))
            return
        method = self._server.find(headers.get(":path", ""))
        refusal = self._refusal(number, method, headers)
        if refusal is not None:
            self._answer(refusal if end_stream else refusal + h2.rst_stream(number, ErrorCode.NO_ERROR))
            return
        assert method is not None
        self._open_call(number, method, headers, end_stream=end_stream)

    def _refusal(self, number: int, method: Method | None, headers: dict[str, str]) -> bytes | None:
        """The whole answer to a call that is not served."""
        if headers[":method"] != "POST" or not headers.get("content-type", "").startswith("application/grpc"):
            return self._headers(number, _NOT_GRPC, h2.END_STREAM)
        if method is None:
            text = f"{headers.get(':path')} is not served here"
            return self._headers(number, _BEGIN + _status(Status.UNIMPLEMENTED, text), h2.END_STREAM)
        return None

    def _open_call(self, number: int, method: Method, headers: dict[str, str], *, end_stream: bool) -> None:
        timeout_s = parsed_timeout(headers[_TIMEOUT]) if _TIMEOUT in headers else None
        now = 0.0 if timeout_s is None else asyncio.get_running_loop().time()
        deadline = None if timeout_s is None else now + timeout_s
        call = ServedCall(self, self._outflow.open(number), method, headers, deadline)
        self._streams[number] = call
        if deadline is not None:
            self.deadlines.set(call, deadline, now)
        if end_stream:
            call.end_there()
        elif method.talks:
            self.serve(call)

    def _trailers(self, call: "Stream", *, end_stream: bool) -> None:
        """Clients of gRPC send none, and they say nothing."""
        if not end_stream or call.ended_there:
            self._reset(call, ErrorCode.PROTOCOL_ERROR, f"{self.peer} sent headers a second time")
        else:
            self._stream_end(call)

    def on_stream_end(self, stream: "Stream") -> None:
        stream.end_there()
        self._finish(stream)

    # --- calls

    def serve(self, call: ServedCall) -> None:
        """Begin to serve it."""
        task = call.task = asyncio.create_task(self._serve(call), name="call")
        self._server.tasks[task] = call
        self._tasks += 1
        task.add_done_callback(call.served)

    async def _serve(self, call: ServedCall) -> None:
        try:
            await call.method.serve(call)
            if not call.ended_here:
                await call.end()
        except CallRefused as refused:
            self._refuse(call, refused.status, str(refused))
        except StreamBroken as broken:
            _log.debug("a call of %s: %s", self.peer, broken)
        except Exception:  # noqa: BLE001 - the outermost of this call
            _log.exception("a call of %s failed", self.peer)
            self._refuse(call, Status.UNKNOWN, "unexpected error; the log of the server has it")

    def _refuse(self, call: ServedCall, status: Status, text: str) -> None:
        call.task = None  # it ends by itself
        call.abort(text, status=status)

    def served(self, call: ServedCall, task: "asyncio.Task[None]") -> None:
        """The call's task has ended, however."""
        del self._server.tasks[task]
        self.deadlines.unset(call)
        self._tasks -= 1
        if self._streams.get(call.out.stream) is not call:
            return
        if call.ended_here and not call.out.waits:
            self._finish(call)
        else:
            call.abort("it is served no more", status=Status.CANCELLED)

    # --- what goes

    def begin(self, call: ServedCall) -> None:
        """Send the headers of the answer."""
        self._write(self._headers(call.out.stream, _BEGIN))

    def finish(self, call: ServedCall, messages: "Sequence[bytes]") -> bool:
        """Send the messages and the end of the call, if nothing has to wait for the client."""
        if self._paused:
            return False
        out = call.out
        body = self._outflow.at_once(out, messages) if messages else b""
        if body is None:
            return False
        head = b"" if call.begun else self._headers(out.stream, _BEGIN)
        reset = b"" if call.ended_there else h2.rst_stream(out.stream, ErrorCode.NO_ERROR)
        self._later(b"".join((head, body, self._headers(out.stream, _DONE, h2.END_STREAM), reset)))
        self.forget(call)
        return True

    def end(self, stream: "Stream") -> None:
        assert isinstance(stream, ServedCall)
        stream.begin()
        self._outflow.end(stream.out, lambda: self._headers(stream.out.stream, _DONE, h2.END_STREAM))
        self._pump()
        self._finish(stream)

    def abort(self, stream: "Stream", status: Status, text: str) -> None:
        assert isinstance(stream, ServedCall)
        number = stream.out.stream
        if self._streams.get(number) is stream:
            if stream.out.bytes:  # maybe a part of a message is sent, after which there can't be a status
                self._write(h2.rst_stream(number, ErrorCode.CANCEL))
            else:
                block = _status(status, text) if stream.begun else _BEGIN + _status(status, text)
                reset = b"" if stream.ended_there else h2.rst_stream(number, ErrorCode.NO_ERROR)
                self._write(self._headers(number, block, h2.END_STREAM) + reset)
            self.forget(stream)
        stream.break_off(text, status)

    def _finish(self, stream: "Stream") -> None:
        """Forget the call once it has ended here."""
        number = stream.out.stream
        if self._streams.get(number) is stream and stream.ended_here and not stream.out.waits:
            if not stream.ended_there:
                self._write(h2.rst_stream(number, ErrorCode.NO_ERROR))
            self.forget(stream)

    def _headers(self, number: int, block: bytes, flags: int = 0) -> bytes:
        """To be written at once: the first block says that none has a table."""
        if self._table_update:
            block = self._table_update + block
            self._table_update = b""
        if len(block) > self._outflow.frame_max:
            return h2.header_frames(number, block, self._outflow.frame_max, end_stream=bool(flags))
        return HEADER.pack(len(block) << 8 | h2.HEADERS, flags | h2.END_HEADERS, number) + block


def _status(status: Status, text: str) -> bytes:
    fields = [("grpc-status", str(int(status)))]
    if text:
        fields.append(("grpc-message", percent_encoded(text)))
    return literal_block(fields)
