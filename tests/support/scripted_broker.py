"""A storage service that does what a test says, stream by stream, and a wire to a real one that can be held and cut."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import grpc
from grpc import aio

from ternmq_common.errors import MessagingError
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.shard_frames import FramePiece, PeerGreeting, ShardFailure

Script = Callable[["ScriptedStream"], Awaitable[None]]


def calls_in(frame: Sequence[FramePiece]) -> list[FramePiece]:
    return [piece for piece in frame if piece.what in CALLS]


def said(frame: Sequence[FramePiece]) -> dict[str, FramePiece]:
    """What is said in a frame, by its names."""
    return {piece.what: piece for piece in frame}


class ScriptedStream:
    """One stream as the broker has it. `frames` are those that came, the one with `hello` included."""

    def __init__(self, context: aio.ServicerContext) -> None:
        self._context = context
        self.frames: list[list[FramePiece]] = []

    async def frame(self) -> list[FramePiece] | None:
        """The next frame; None when the proxy has ended its side."""
        data = await self._context.read()
        if data is aio.EOF:
            return None
        self.frames.append(shard_frames.decode_frame(data))
        return self.frames[-1]

    async def call(self) -> FramePiece:
        """The next call, whatever else comes before."""
        while True:
            frame = await self.frame()
            assert frame is not None, "the proxy has ended its side"
            if calls := calls_in(frame):
                (call,) = calls
                return call

    async def say(self, *pieces: bytes) -> None:
        await self.write(shard_frames.join_pieces(pieces))

    async def write(self, data: bytes) -> None:
        await self._context.write(data)

    async def welcome(self, name: str = "broker-0") -> None:
        """Greet as that broker."""
        frame = await self.frame()
        assert frame is not None
        assert shard_frames.HELLO.what in said(frame)
        await self.say(shard_frames.WELCOME.encode_note(PeerGreeting(name)))

    async def answer(self, call: FramePiece, result: object = None) -> None:
        await self.say(shard_frames.encode_piece(shard_frames.ANSWER, call.number, result))

    async def refuse(self, call: FramePiece, error: MessagingError) -> None:
        await self.say(shard_frames.FAILED.encode_note(ShardFailure(error.code, error.message), call.number))

    async def forever(self) -> None:
        """Read, and say nothing."""
        while await self.frame() is not None:
            pass


class ScriptedBroker:
    """Listens within `async with`. The n-th stream takes the n-th script, the last of them all that follow."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self._server = aio.server(options=(("grpc.max_receive_message_length", -1),))
        self._failures: list[BaseException] = []
        self.streams: list[ScriptedStream] = []
        self.began_s: list[float] = []
        self.address = ""

    async def __aenter__(self) -> Self:
        exchange = grpc.stream_stream_rpc_method_handler(self._exchange)
        service = grpc.method_handlers_generic_handler("ternmq.storage.v1.Storage", {"Exchange": exchange})
        self._server.add_generic_rpc_handlers((service,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(0)
        if error is None and self._failures:
            raise self._failures[0]

    async def _exchange(self, _: object, context: aio.ServicerContext) -> None:
        stream = ScriptedStream(context)
        script = self._scripts[min(len(self.streams), len(self._scripts) - 1)]
        self.streams.append(stream)
        self.began_s.append(asyncio.get_running_loop().time())
        try:
            await script(stream)
        except AssertionError as failure:
            self._failures.append(failure)
            raise


class Wire:
    """Carries bytes to the address `to` within `async with`, 64 KiB in `pause_s`. `hold` keeps back what is said there;
    `cut` breaks it."""

    def __init__(self) -> None:
        self.to = ""
        self.pause_s = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold(self) -> None:
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self.release()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.to.rsplit(":", 1)
        try:
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
        except ConnectionError:
            writer.transport.abort()
            return
        self._writers |= {writer, there_writer}
        for flow in (self._carry(reader, there_writer, held=False), self._carry(there_reader, writer, held=True)):
            task = asyncio.create_task(flow)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                await asyncio.sleep(self.pause_s)
                if held:
                    await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
