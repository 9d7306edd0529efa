"""A relay between clients of the remoting protocol and a server, which keeps the frames that pass in both directions.

Clients connect to the addresses that routes name; so a server behind a relay must advertise the relay's address.
"""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Self

LENGTH_BYTES = 4
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    """A frame, with its length, and whether a client sent it."""

    data: bytes
    by_client: bool


class FrameRelay:
    """Relays the connections to `address`, its own, to the server: `async with FrameRelay(port=0) as relay`, then
    `relay.server = "host:port"`. `frames` are those that passed whole, in order."""

    def __init__(self, *, port: int = 0, server: str = "") -> None:
        self.server = server
        self.address = ""
        self.frames: list[CapturedFrame] = []
        self._port = port
        self._listener: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._relay, "127.0.0.1", self._port)
        self.address = f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.server.rpartition(":")
        onward_reader, onward_writer = await asyncio.open_connection(host, int(port))
        for task in (
            asyncio.create_task(self._pass_on(reader, onward_writer, by_client=True)),
            asyncio.create_task(self._pass_on(onward_reader, writer, by_client=False)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, by_client: bool) -> None:
        waiting = bytearray()
        try:
            while data := await reader.read(_CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
                waiting += data
                self._take_frames(waiting, by_client=by_client)
        except ConnectionError:
            pass  # the other direction ends too
        finally:
            writer.close()

    def _take_frames(self, waiting: bytearray, *, by_client: bool) -> None:
        while len(waiting) >= LENGTH_BYTES:
            size = LENGTH_BYTES + int.from_bytes(waiting[:LENGTH_BYTES])
            if len(waiting) < size:
                return
            self.frames.append(CapturedFrame(bytes(waiting[:size]), by_client))
            del waiting[:size]
