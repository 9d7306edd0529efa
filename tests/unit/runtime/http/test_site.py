"""A site beside health: what it gets of requests, and what becomes of peers who send or take too slowly."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ternmq_rpc.tls.handshake_throttle import HandshakeThrottle
from ternmq_runtime.http.answer import HttpAnswer
from ternmq_runtime.http.asgi import AsgiMessage
from ternmq_runtime.http.connection import HttpConnection, HttpService
from ternmq_runtime.http.front import HttpFront, HttpTiming
from ternmq_runtime.http.request_slots import RequestSlots

Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]


class Echo:
    """Tells what it got, in ways that the path names."""

    def __init__(self) -> None:
        self.scopes: list[AsgiMessage] = []
        self.failed: list[str] = []

    def server_started(self, url: str) -> None:
        self.url = url

    def owns_path(self, path: str) -> bool:
        return path.startswith("/site/")

    async def __call__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await getattr(self, scope["path"].removeprefix("/site/"))(receive, send)

    async def body(self, receive: Receive, send: Send) -> None:
        """The body, as it came."""
        body = b""
        while (piece := await receive())["type"] == "http.request":
            body += piece["body"]
            if not piece["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    async def at_once(self, _: Receive, send: Send) -> None:
        """Nothing is read."""
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})

    async def stream(self, _: Receive, send: Send) -> None:
        """Pieces of which nobody knows how many there will be."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"a", b"", b"b"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def endless(self, _: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
        except OSError as error:
            self.failed.append(str(error))

    async def half(self, _: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async def error(self, _: Receive, __: Send) -> None:
        raise ValueError("as tests want it")


@pytest.fixture
def site() -> Echo:
    return Echo()


@pytest.fixture
async def address(site: Echo) -> AsyncIterator[str]:
    front = HttpFront(lambda: None, lambda: None, header_timeout_ms=300, site=site, timing=HttpTiming(answer_s=0.3))
    served = await front.start_listening("127.0.0.1:0")
    front.announce_address()
    yield served
    await front.stop_listening()


async def exchanged(address: str, *pieces: bytes) -> bytes:
    """All that comes back until the server closes, or has nothing more to say for a while."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


def request(path: str, *headers: str, method: str = "POST", body: bytes = b"", last: bool = True) -> bytes:
    ending = ["connection: close"] if last else []
    length = [f"content-length: {len(body)}"] if body else []
    head = [f"{method} {path} HTTP/1.1", "host: here", *length, *ending, *headers, "", ""]
    return "\r\n".join(head).encode() + body


async def test_a_site_gets_what_came(address: str, site: Echo) -> None:
    answer = await exchanged(address, request("/site/body?a=%20b", "X-Some: thing", body=b"12345"))
    assert answer.endswith(b"\r\n\r\n12345")
    (scope,) = site.scopes
    assert (scope["method"], scope["path"], scope["query_string"]) == ("POST", "/site/body", b"a=%20b")
    assert (b"x-some", b"thing") in scope["headers"]
    assert scope["client"][0] == "127.0.0.1"
    assert site.url == f"http://{address}/"
    assert f"{scope['server'][0]}:{scope['server'][1]}" == address


async def test_a_body_may_come_in_pieces_and_in_chunks(address: str) -> None:
    head = request("/site/body", "transfer-encoding: chunked")
    answer = await exchanged(address, head, b"3\r\nabc\r\n", b"2\r\nde\r\n", b"0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nabcde")


async def test_requests_of_one_connection_are_answered_in_order_by_whom_they_are_for(address: str) -> None:
    answer = await exchanged(
        address,
        request("/site/body", body=b"first", last=False)
        + request("/health/live", method="GET", last=False)
        + request("/site/at_once", body=b"unread", last=False)
        + request("/site/stream", method="GET"),
    )
    assert [answer.index(each) for each in (b"first", b'"live"', b"\r\n\r\nno", b"0\r\n\r\n")] == sorted(
        answer.index(each) for each in (b"first", b'"live"', b"\r\n\r\nno", b"0\r\n\r\n")
    )
    assert answer.count(b"HTTP/1.1 ") == 4
    assert b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n" in answer


async def test_a_head_of_what_is_streamed_has_no_body(address: str) -> None:
    answer = await exchanged(address, request("/site/stream", method="HEAD"))
    assert answer.endswith(b"\r\n\r\n")


async def test_what_was_not_answered_whole_ends_the_connection(address: str) -> None:
    assert (await exchanged(address, request("/site/half", method="GET", last=False))).endswith(b"half")


async def test_an_error_of_the_site_is_logged_and_ends_the_connection(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await exchanged(address, request("/site/error", method="GET", last=False)) == b""
    assert "an HTTP request could not be answered" in caplog.text
    assert b" 200 " in await exchanged(address, request("/health/live", method="GET"))


async def test_a_peer_that_does_not_read_is_left(address: str, site: Echo) -> None:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(request("/site/endless", method="GET"))
        async with asyncio.timeout(20):
            while not site.failed:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.02)
    assert site.failed == ["the peer does not read"]


async def test_a_body_that_comes_too_slowly_is_not_waited_for(site: Echo) -> None:
    async with served_connection(site, site_body_s=0.1) as (client, _):
        head = request("/site/body", "content-length: 9", last=False)
        await asyncio.get_running_loop().sock_sendall(client, head + b"slow")
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


async def test_no_part_of_an_answer_waits_for_the_peer_to_acknowledge_the_one_before(site: Echo) -> None:
    async with served_connection(site) as (client, ours):
        await asyncio.get_running_loop().sock_sendall(client, request("/site/at_once", method="GET", last=False))
        await asyncio.get_running_loop().sock_recv(client, 1)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@asynccontextmanager
async def served_connection(site: Echo, site_body_s: float = 5) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """A client's socket and the server's, of a connection that is served until the client closes its own."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ours, _ = server.accept()
        ours.setblocking(False)
        served = HttpService(
            never_asked,
            never_refused,
            site,
            None,
            header_timeout_s=5,
            answer_s=5,
            slots=RequestSlots(frozenset()),
            handshakes=HandshakeThrottle(),
            site_body_s=site_body_s,
        )
        serving = asyncio.create_task(HttpConnection(ours, served).serve_peer())
        client.setblocking(False)
        yield client, ours
        client.close()
        await serving


async def never_asked(_: str, __: str, ___: object) -> HttpAnswer:
    raise AssertionError("the site answers")


def never_refused(_: int, text: str) -> HttpAnswer:
    raise AssertionError(text)
