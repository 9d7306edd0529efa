"""A peer that says over TCP whatever a test wants, frame by frame."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import hpack

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import FrameReader
from tests.unit.rpc.grpc_stream.echo import METHOD

REQUEST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", METHOD),
    (":authority", "test"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)
# Ends a test whose other side is silent for good; no measure.
PATIENCE_S = 30


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


class Peer:
    """Reads frames one after the other, and writes bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader((1 << 24) - 1)
        self._come: Iterator[tuple[int, int, int, int, int]] = iter(())
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()

    def say(self, *data: bytes) -> None:
        self._writer.write(b"".join(data))

    def headers(self, stream: int, *pairs: tuple[str, str], end_stream: bool = False) -> bytes:
        return h2.header_frames(stream, self._encoder.encode(pairs), 16_384, end_stream=end_stream)

    def read_headers(self, frame: Frame) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._decoder.decode(frame.payload)}

    async def frame(self) -> Frame | None:
        """The next frame, or part of a DATA frame; None at the end."""
        while True:
            for kind, flags, stream, start, stop in self._come:
                return Frame(kind, flags, stream, self._frames.data[start:stop])
            data = await self._read()
            if not data:
                return None
            self._come = self._frames.read_frames(data)

    async def expect(self, kind: int) -> Frame:
        """The next frame of that type; others are passed over."""
        while (frame := await self.frame()) is not None:
            if frame.kind == kind and not (kind == h2.SETTINGS and frame.flags & h2.ACK):
                return frame
        raise AssertionError(f"the connection ended before a frame of type {kind} came")

    async def ended(self) -> bool:
        with suppress(ConnectionError):
            while await self._read():
                pass
        return True

    async def _read(self) -> bytes:
        """What comes next; empty at the end."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.read(1 << 16)

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def client(address: str, *, greet: bool = True) -> AsyncIterator[Peer]:
    """A peer at a server of ours, after the greetings."""
    host, port = address.split(":")
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    if greet:
        peer.say(h2.PREFACE, h2.settings_frame({}))
        await peer.expect(h2.SETTINGS)
    try:
        yield peer
    finally:
        peer.close()


class Server:
    """A peer for clients of ours: one connection."""

    def __init__(self) -> None:
        self._accepted: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()
        self.address = ""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(h2.PREFACE)) == h2.PREFACE
        self._accepted.set_result(Peer(reader, writer))

    async def peer(self) -> Peer:
        return await self._accepted


@asynccontextmanager
async def listening() -> AsyncIterator[Server]:
    server = Server()
    listener = await asyncio.start_server(server._accept, "127.0.0.1", 0)
    server.address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        if server._accepted.done():
            (await server.peer()).close()
