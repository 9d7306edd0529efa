"""Whatever else is asked of a process by HTTP, and however it is taken, health is answered."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from ternmq_runtime.http.answer import HttpAnswer
from ternmq_runtime.http.asgi import AsgiMessage
from ternmq_runtime.http.front import HttpFront
from ternmq_runtime.http.request_slots import OTHERS_MAX, SITE_MAX
from ternmq_runtime.http.server import CONNECTIONS_MAX, HttpServer, open_sockets

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
WITHIN_S = 20.0
# More than a kernel takes for a peer that does not read.
MANY_BYTES = 32 << 20
HEALTH = ("/health/live", "/health/ready", "/health/started")


class Waiting:
    """A site that answers when it is to."""

    def __init__(self) -> None:
        self._count = 0
        self.is_full = asyncio.Event()
        self.may_answer = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def server_started(self, url: str) -> None:
        """Nobody has to know."""

    def owns_path(self, path: str) -> bool:
        return path == "/site"

    async def __call__(
        self,
        scope: AsgiMessage,
        receive: Callable[[], Awaitable[AsgiMessage]],
        send: Callable[[AsgiMessage], Awaitable[None]],
    ) -> None:
        self._count += 1
        if self._count == SITE_MAX:
            self._loop.call_soon_threadsafe(self.is_full.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.may_answer.wait(), self._loop))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


async def many() -> bytes:
    return bytes(MANY_BYTES)


@asynccontextmanager
async def served(site: Waiting | None = None) -> AsyncIterator[str]:
    front = HttpFront(lambda: None, lambda: None, metrics=many, site=site)
    yield await front.start_listening("127.0.0.1:0")
    await front.stop_listening()


@asynccontextmanager
async def connected(address: str, *paths: str) -> AsyncIterator[Streams]:
    """A connection on which that was asked, and of which nothing was read."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 10)
    for path in paths:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: here\r\n\r\n".encode())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def for_ever() -> None:
    await asyncio.Event().wait()


async def status_of(address: str, path: str) -> int:
    async with asyncio.timeout(WITHIN_S), connected(address, path) as (reader, _):
        return int((await reader.readline()).split()[1])


async def test_health_is_answered_while_a_site_has_as_much_to_answer_as_it_may() -> None:
    site = Waiting()
    async with served(site) as address, AsyncExitStack() as stack, asyncio.timeout(WITHIN_S):
        waiting = [await stack.enter_async_context(connected(address, "/site")) for _ in range(SITE_MAX)]
        await site.is_full.wait()
        assert [await status_of(address, "/site") for _ in range(CONNECTIONS_MAX)] == [503] * CONNECTIONS_MAX
        assert [await status_of(address, path) for path in (*HEALTH, "/version")] == [200] * 4
        site.may_answer.set()
        for reader, _ in waiting:
            assert await reader.readline() == b"HTTP/1.1 200 \r\n"
        assert await status_of(address, "/site") == 200


async def test_health_is_answered_while_metrics_are_not_taken() -> None:
    async with served() as address, AsyncExitStack() as stack, asyncio.timeout(WITHIN_S):
        asked = [await stack.enter_async_context(connected(address, "/metrics")) for _ in range(OTHERS_MAX + 1)]
        statuses = [(await reader.readline()).split()[1] for reader, _ in asked]
        assert sorted(statuses) == [b"200"] * OTHERS_MAX + [b"503"]
        assert [await status_of(address, path) for path in HEALTH] == [200] * 3


async def test_connections_that_take_no_answers_make_room_for_one_that_asks() -> None:
    async def answer(_: str, path: str, __: object) -> HttpAnswer:
        return HttpAnswer(200, "text/plain", bytes(MANY_BYTES) if path == "/much" else b"")

    def refuse(_: int, text: str) -> HttpAnswer:
        raise AssertionError(text)

    sockets = await asyncio.to_thread(open_sockets, "127.0.0.1", 0)
    server = HttpServer(sockets, answer, refuse, for_ever, header_timeout_s=WITHIN_S, connections_max=4)
    server.start_thread()
    address = "{}:{}".format(*sockets[0].getsockname())
    async with AsyncExitStack() as stack, asyncio.timeout(WITHIN_S):
        asked = [await stack.enter_async_context(connected(address, "/much")) for _ in range(4)]
        for reader, _ in asked:
            await reader.readline()
        assert await status_of(address, "/little") == 200
    await asyncio.to_thread(server.stop_thread)
