"""A relay that makes gRPC calls of h2spec's requests, so that what it sends meets a stream that is open.

h2spec asks by GET and names no type of contents, which a server of gRPC refuses at once; then its cases for a stream
that waits for more, or has DATA to send, test nothing.

Changed   in a HEADERS frame whose block begins with `:method` from the static table, that field becomes POST, and the
          fields of a call follow after the block. All other bytes pass as they are, wrong ones too.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from tests.support import http2_wire as h2
from tests.support.http2_wire import Kind

_GET, _POST = 0x82, 0x83
_MORE_FIELDS = h2.block((("content-type", "application/grpc"),))
# Larger ones are h2spec's own trials with sizes.
_FRAME_MAX = 8192


class Maker:
    """Bytes of one side in, what the other is to get out: as they are. `gathers_s`: what comes within so many seconds
    of each other is passed on together."""

    gathers_s = 0.0

    def feed(self, data: bytes) -> bytes:
        return data

    def end(self) -> bytes:
        """What is left of one that ends."""
        return b""


class Gatherer(Maker):
    """The frames of a case, which h2spec sends one after the other, come to the server together. It may refuse the
    first one at once: else it would depend on the moment whether it has seen the next."""

    gathers_s = 0.01


class GrpcMaker(Maker):
    """What the server is to get are calls."""

    def __init__(self) -> None:
        self._rest = b""
        self._passing = len(h2.PREFACE)

    def feed(self, data: bytes) -> bytes:
        """Whatever of a HEADERS frame is not whole yet stays here."""
        self._rest += data
        out = []
        while self._rest:
            if self._passing:
                part, self._rest = self._rest[: self._passing], self._rest[self._passing :]
                self._passing -= len(part)
                out.append(part)
                continue
            if len(self._rest) < h2.HEADER_BYTES:
                break
            size, kind, flags, stream = h2.read_header(self._rest)
            if kind != Kind.HEADERS or size > _FRAME_MAX:
                self._passing = h2.HEADER_BYTES + size
                continue
            if len(self._rest) < h2.HEADER_BYTES + size:
                break
            payload = self._rest[h2.HEADER_BYTES : h2.HEADER_BYTES + size]
            self._rest = self._rest[h2.HEADER_BYTES + size :]
            out.append(h2.frame(kind, flags, stream, as_call(payload, flags)))
        return b"".join(out)

    def end(self) -> bytes:
        """What is left of a client that ends within a frame."""
        rest, self._rest = self._rest, b""
        return rest


def as_call(payload: bytes, flags: int) -> bytes:
    """The payload of HEADERS with the fields of a call; as it is where it can't be told."""
    begin = (1 if flags & h2.PADDED else 0) + (5 if flags & h2.PRIORITIZED else 0)
    end = len(payload) - (payload[0] if payload and flags & h2.PADDED else 0)
    if begin >= end or payload[begin] not in (_GET, _POST):
        return payload
    # A block that is continued may break anywhere, so nothing can follow it.
    more = _MORE_FIELDS if flags & h2.END_HEADERS else b""
    return b"".join((payload[:begin], bytes((_POST,)), payload[begin + 1 : end], more, payload[end:]))


@asynccontextmanager
async def relay_to(address: str, make: Callable[[], Maker], tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a relay to this server, to which it speaks TLS if it has a context; what `make` makes is for one
    connection."""
    host, _, port = address.rpartition(":")
    running = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError), _closed_after(writer):
            there, back = await asyncio.open_connection(host, int(port), ssl=tls)
            with _closed_after(back):
                await asyncio.gather(_pass(reader, back, make()), _pass(there, writer, Maker()))

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        # The judge may have left while a handshake was under way.
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@contextmanager
def _closed_after(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, maker: Maker) -> None:
    try:
        # An ssl.SSLError is what data after the end of a connection is to it.
        with suppress(ConnectionError, ssl.SSLError):
            while data := await reader.read(1 << 16):
                if maker.gathers_s:
                    data += await _more(reader, maker.gathers_s)
                writer.write(maker.feed(data))
                await writer.drain()
            writer.write(maker.end())
    finally:
        writer.close()


async def _more(reader: asyncio.StreamReader, within_s: float) -> bytes:
    """All that comes until nothing does for so long."""
    more = []
    while True:
        try:
            async with asyncio.timeout(within_s):
                data = await reader.read(1 << 16)
        except TimeoutError:
            break
        if not data:
            break  # the end is seen again by the next read
        more.append(data)
    return b"".join(more)
