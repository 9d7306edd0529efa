"""One HTTP/2 connection on asyncio, without what is different at its two ends (`call_server.py`, `client.py`).

Writing   nothing is given to a transport that has not handed all to the kernel yet, so at most one batch waits there,
          and what answers the other side's own frames; all else waits in `Outflow`. Answers of many calls that are
          ready in one turn of the loop go in one write (`_later`): the kernel takes as long for a write as a call.
Errors    what the other side does wrong never raises out of a callback: it is told by GOAWAY or RST_STREAM.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import hpack

from ternmq_common.grpc_stream import http2_frames as h2
from ternmq_common.grpc_stream.header_blocks import HeaderBlocks
from ternmq_common.grpc_stream.http2_frames import ErrorCode, Http2Error, Setting
from ternmq_common.grpc_stream.inflow import Inflow
from ternmq_common.grpc_stream.literal_headers import NO_TABLE
from ternmq_common.grpc_stream.messages import MessageRefused, Status
from ternmq_common.grpc_stream.outflow import Outflow
from ternmq_common.grpc_stream.sockets import address, keep_alive
from ternmq_common.grpc_stream.stream import STREAM_WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ternmq_common.grpc_stream.outflow import StreamOutflow
    from ternmq_common.grpc_stream.stream import Stream

_log = logging.getLogger(__name__)
MESSAGE_MAX = 256 << 20
FRAME_MAX = 256 << 10
HEADER_BYTES_MAX = 16 << 10
# More than a stream's, so that a stream that nobody reads does not stop the others.
CONNECTION_WINDOW = 2 * STREAM_WINDOW
HANDSHAKE_S = 10.0
_BATCH_BYTES = 256 << 10
READ_BYTES = 256 << 10
_UNSENT_ANSWERS_MAX = 1000
_SETTINGS = {
    Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    Setting.MAX_FRAME_SIZE: FRAME_MAX,
    Setting.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
}


def greeting(settings: "Mapping[Setting, int]") -> bytes:
    """What an end says first: its own settings and those of both."""
    return h2.settings({**settings, **_SETTINGS}) + h2.window_update(0, CONNECTION_WINDOW - h2.DEFAULT_WINDOW)


class Connection(asyncio.BufferedProtocol, ABC):
    """What both ends share: frames, flow control, header blocks, and the streams that are open."""

    greeting: ClassVar[bytes]
    _transport: asyncio.Transport

    def __init__(self, *, buffer: memoryview | None = None) -> None:
        self.peer = ""
        # One for all that comes: without it every read would get new memory of the most that there may be.
        self._buffer = buffer or memoryview(bytearray(READ_BYTES))
        self._frames = h2.FrameReader(FRAME_MAX)
        self._outflow = Outflow()
        self._table_update = b""
        self._decoder = hpack.Decoder(max_header_list_size=HEADER_BYTES_MAX)
        self._streams: dict[int, Stream] = {}
        self._writers: set[Stream] = set()
        self._ready: list[bytes] = []
        self._last_stream = 0
        self._inflow = Inflow(CONNECTION_WINDOW)
        self._blocks = HeaderBlocks(HEADER_BYTES_MAX)
        self._paused = False
        self._more_room = False
        self._unsent_answers = 0
        self._greeted = False
        self._closed = False
        self._ends: str | None = None
        self._handshake: asyncio.TimerHandle | None = None

    # --- what the ends do differently

    def on_greeted(self) -> None:
        """The other side speaks HTTP/2."""

    @abstractmethod
    def on_headers(self, number: int, headers: dict[str, str], *, end_stream: bool) -> None:
        """A whole header block came."""

    @abstractmethod
    def on_stream_end(self, stream: "Stream") -> None:
        """END_STREAM came with DATA, and all messages were whole."""

    def on_goaway(self, last_stream: int, text: str) -> None:
        """The other side takes no streams after that one."""

    @abstractmethod
    def on_lost(self) -> None:
        """The connection is no more."""

    @abstractmethod
    def end(self, stream: "Stream") -> None:
        """Say that nothing follows, after all that waits."""

    @abstractmethod
    def abort(self, stream: "Stream", status: Status, text: str) -> None:
        """End the stream now."""

    # --- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)
        self.peer = address(transport.get_extra_info("peername"))
        keep_alive(transport.get_extra_info("socket"))
        self._handshake = asyncio.get_running_loop().call_later(HANDSHAKE_S, self._too_slow)
        self._write(self.greeting)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(bytes(self._buffer[:nbytes]))

    def received(self, data: bytes) -> None:
        """Handle bytes that came."""
        if self._closed:
            return
        try:
            for kind, flags, number, start, stop in self._frames.feed(data):
                if kind == h2.DATA and not self._blocks.stream:
                    self._data(flags, number, start, stop)
                else:
                    self._frame(kind, flags, number, self._frames.data[start:stop])
                if self._closed:
                    return
        except Http2Error as error:
            self._fail(error.code, str(error))
            return
        self._frames.data = b""
        if self._more_room:  # once for all that came together
            self._more_room = False
            self._pump()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._unsent_answers = 0
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._paused = False
        self._ready.clear()
        if self._handshake is not None:
            self._handshake.cancel()
        why = f"the connection to {self.peer} was lost: {exc}" if exc else f"{self.peer} closed the connection"
        self._break_all(self._ends or why)
        for stream in self._writers:  # those that have ended, and whose last bytes were not sent
            stream.break_off(self._ends or why)
        self._writers.clear()
        self.on_lost()

    # --- for streams

    def send(self, out: "StreamOutflow", messages: "Sequence[bytes]") -> None:
        """Send messages now as far as they may be; the others wait."""
        if not self._paused:
            frame = self._outflow.at_once(out, messages)
            if frame is not None:
                self._write(frame)
                return
        for message in messages:
            self._outflow.add(out, message)
        self._pump()

    def holds(self, stream: "Stream") -> bool:
        """Whether something of the stream is not in the kernel's hands; then it is woken when that may have changed."""
        if self._paused or stream.out.waits or self._ready:
            self._writers.add(stream)
            return True
        return False

    def credit(self, stream: "Stream", size: int) -> None:
        """The other side may send so much more."""
        number = stream.out.stream
        if self._streams.get(number) is not stream or self._closed:
            return
        stream.window += size
        update = b"" if stream.ended_there else h2.window_update(number, size)
        self._write(update + self._inflow.give_back(size))

    # --- frames

    def _data(self, flags: int, number: int, start: int, stop: int) -> None:
        size = stop - start
        self._inflow.take(size)
        stream = self._streams.get(number)
        if stream is None or stream.ended_there:
            self._stray_data(stream, number, size)
            return
        stream.window -= size
        if stream.window < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the stream's window allows")
        if flags & h2.PADDED:
            start, stop = h2.without_padding(self._frames.data, start, stop)
            stream.skip(size - (stop - start))
        try:
            stream.receive(self._frames.data, start, stop)
        except MessageRefused as refused:
            self.abort(stream, refused.status, str(refused))
            return
        if flags & h2.END_STREAM:
            self._stream_end(stream)

    def _stream_end(self, stream: "Stream") -> None:
        if stream.unfinished:
            self.abort(stream, Status.INTERNAL, "the stream ended within a message")
        else:
            self.on_stream_end(stream)

    def _stray_data(self, stream: "Stream | None", number: int, size: int) -> None:
        """DATA on a stream that has ended: on its way when it was ended here, or a mistake of the other side."""
        if number == 0 or number > self._last_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"DATA on stream {number}, which nobody has opened")
        self._write(self._inflow.give_back(size))
        if stream is not None:
            self._reset(stream, ErrorCode.STREAM_CLOSED, f"{self.peer} went on after the end of the stream")

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._blocks.stream and (kind != h2.CONTINUATION or number != self._blocks.stream):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block was not continued")
        if not self._greeted and (kind != h2.SETTINGS or flags & h2.ACK):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if kind in (h2.SETTINGS, h2.PING, h2.GOAWAY):
            if number:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream {number}")
            self._connection_frame(kind, flags, payload)
        elif kind == h2.WINDOW_UPDATE:
            self._window_update(number, h2.read_u32(payload, "WINDOW_UPDATE") & h2.WINDOW_MAX)
        elif kind <= h2.CONTINUATION:
            if not number:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream 0")
            self._stream_frame(kind, flags, number, payload)

    def _connection_frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == h2.SETTINGS:
            self._settings(flags, payload)
        elif kind == h2.PING:
            if len(payload) != 8:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes")
            if not flags & h2.ACK:
                self._answer(h2.frame(h2.PING, h2.ACK, 0, payload))
        else:
            last, code, text = h2.read_goaway(payload)
            why = f"{self.peer} ends the connection: {h2.error_name(code)}"
            self.on_goaway(last, f"{why}, {text}" if text else why)

    def _settings(self, flags: int, payload: bytes) -> None:
        if flags & h2.ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS that is not empty")
            return
        for number, value in dict(h2.read_settings(payload)).items():
            if number == Setting.INITIAL_WINDOW_SIZE:
                self._outflow.set_stream_window(value)
            elif number == Setting.MAX_FRAME_SIZE:
                self._outflow.frame_max = min(value, FRAME_MAX)
            elif number == Setting.HEADER_TABLE_SIZE:
                self._table_update = NO_TABLE
        self._answer(h2.frame(h2.SETTINGS, h2.ACK, 0))
        if not self._greeted:
            self._greeted = True
            if self._handshake is not None:
                self._handshake.cancel()
                self._handshake = None
            self.on_greeted()
        self._more_room = True

    def _window_update(self, number: int, increment: int) -> None:
        if number > self._last_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"WINDOW_UPDATE on stream {number}, which nobody has opened")
        if not number:
            if not increment:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of 0")
            self._outflow.grow(increment)
        elif (stream := self._streams.get(number)) is not None:
            if not increment:
                self._reset(stream, ErrorCode.PROTOCOL_ERROR, f"WINDOW_UPDATE of 0 by {self.peer}")
            elif not self._outflow.grow_stream(number, increment):
                self._reset(stream, ErrorCode.FLOW_CONTROL_ERROR, f"too large a window of {self.peer}")
        self._more_room = True

    def _stream_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == h2.HEADERS:
            self._header_block(number, self._blocks.begin(number, flags, payload))
        elif kind == h2.CONTINUATION:
            self._header_block(number, self._blocks.go_on(flags, payload))
        elif kind == h2.RST_STREAM:
            code = h2.read_u32(payload, "RST_STREAM")
            if number > self._last_stream:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"RST_STREAM on stream {number}, which nobody has opened")
            if (stream := self._streams.get(number)) is not None:
                self.forget(stream)
                stream.break_off(f"{self.peer} broke the stream off: {h2.error_name(code)}")
        elif kind == h2.PRIORITY:
            if len(payload) != 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes")
        else:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frame of type {kind} on stream {number}")

    def _header_block(self, number: int, block: bytes | None) -> None:
        if block is not None:
            self.on_headers(number, self._decoded(block), end_stream=self._blocks.end_stream)

    def _decoded(self, block: bytes) -> dict[str, str]:
        try:
            pairs = self._decoder.decode(block, raw=True)
        except hpack.HPACKError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"a header block can't be read: {error}") from error
        return {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in pairs}

    # --- streams

    def forget(self, stream: "Stream") -> None:
        """The stream is no more: what it was sent and nobody has read does not count any longer."""
        number = stream.out.stream
        if self._streams.pop(number, None) is not None:
            self._outflow.close(stream.out)
            self._write(self._inflow.give_back(STREAM_WINDOW - stream.window))

    def _reset(self, stream: "Stream", code: ErrorCode, why: str, status: Status | None = None) -> None:
        self._answer(h2.rst_stream(stream.out.stream, code))
        self.forget(stream)
        stream.break_off(why, status)

    # --- writing

    def _write(self, data: bytes) -> None:
        if data and not self._closed:
            if self._ready:
                self._write_ready()
            self._transport.write(data)

    def _later(self, data: bytes) -> None:
        """Write that at the end of this turn of the loop, or before whatever else is written."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._turn_ended)
        self._ready.append(data)

    def _turn_ended(self) -> None:
        if self._ready:
            self._write_ready()
        self._wake_writers()

    def _write_ready(self) -> None:
        ready, self._ready = self._ready, []
        if not self._closed:
            self._transport.write(b"".join(ready))

    def _answer(self, data: bytes) -> None:
        """Write what a frame of the other side asks for; it must read to ask for more."""
        self._write(data)
        self._unsent_answers += self._paused
        if self._unsent_answers > _UNSENT_ANSWERS_MAX:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "frames are answered that nobody reads")

    def _pump(self) -> None:
        """Write what may be sent, as long as the kernel takes it."""
        if self._ready:
            self._write_ready()
        while not self._paused and not self._closed and (buffers := self._outflow.take(_BATCH_BYTES)):
            self._transport.writelines(buffers)
        self._wake_writers()

    def _wake_writers(self) -> None:
        if not self._paused and self._writers:
            writers, self._writers = self._writers, set()
            for stream in writers:
                stream.wake_writers()

    # --- the end

    def hang_up(self, why: str) -> None:
        """Close the connection, after what the kernel takes at once."""
        self._ends = self._ends or why
        if self._ready:
            self._write_ready()
        if self._paused:
            self._transport.abort()
        else:
            self._transport.close()
        self._closed = True
        self._break_all(why)

    def _too_slow(self) -> None:
        self._fail(ErrorCode.SETTINGS_TIMEOUT, f"no SETTINGS within {HANDSHAKE_S:.0f} s")

    def _fail(self, code: ErrorCode, text: str) -> None:
        """The other side broke the rules: say so, and close."""
        if not self._closed:
            _log.info("the connection to %s is closed: %s, %s", self.peer, code.name, text)
            self._write(h2.goaway(self._last_stream, code, text))
            self.hang_up(f"{self.peer} is not understood: {text}")

    def _break_all(self, why: str) -> None:
        streams = list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            self._outflow.close(stream.out)
            stream.break_off(why)
