"""The HTTP front's thread: it answers while the event loop is held, and no peer keeps it from that.

What holds the loop here is a wait for the client's thread, so the loop is held exactly until the client has its answer.
"""

import asyncio
import http.client
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, TypeVar

import pytest

from ternmq_runtime.http import server as http_server
from ternmq_runtime.http.front import HTTP_TIMING, HttpFront, HttpTiming
from tests.support.until import until_answered

pytestmark = pytest.mark.slow

T = TypeVar("T")
MANY_BYTES = 32 << 20


async def many() -> bytes:
    return bytes(MANY_BYTES)


def timed(**seconds: float) -> pytest.MarkDecorator:
    """The front of this test has these times."""
    return pytest.mark.parametrize("timing", [HttpTiming(**seconds)], ids=["timed"])


@pytest.fixture
def timing() -> HttpTiming:
    return HTTP_TIMING


@pytest.fixture
async def address(timing: HttpTiming) -> AsyncIterator[str]:
    front = HttpFront(lambda: None, lambda: None, metrics=many, header_timeout_ms=300, timing=timing)
    yield await front.start_listening("127.0.0.1:0")
    await front.stop_listening()


@pytest.fixture
def held() -> Iterator[Callable[..., Any]]:
    """Calls in a thread what it is given, and holds the event loop meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda *call: pool.submit(*call).result(20)


def connected(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), timeout=20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def ask(address: str, path: str) -> tuple[int, dict[str, Any], float]:
    """Status and content, and how many seconds they took."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(address, timeout=20)
    with closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read()), time.monotonic() - began


async def in_thread(call: Callable[..., T], *arguments: object) -> T:
    async with asyncio.timeout(20):
        return await asyncio.to_thread(call, *arguments)


async def test_health_is_answered_while_the_event_loop_is_held(address: str, held: Callable[..., Any]) -> None:
    status, content, seconds = held(ask, address, "/health/live")
    assert (status, content["status"]) == (200, "live")
    assert content["loop_turned_ms_ago"] >= 1000
    assert seconds < 3  # 1.2 on a quiet machine


@timed(metrics_patience_s=0.2)
@pytest.mark.parametrize("path", ["/health/ready", "/health/started", "/metrics"])
async def test_what_the_loop_does_not_tell_in_time_is_said_to_be_missing(
    address: str, held: Callable[..., Any], path: str
) -> None:
    status, content, seconds = held(ask, address, path)
    assert (status, content) == (503, {"status": "the event loop is busy"})
    assert seconds < 3
    assert (await in_thread(ask, address, "/health/ready"))[0] == 200


@timed(live_s=0.2, patience_s=0.2)
async def test_a_loop_that_is_held_for_long_is_not_live_until_it_turns_again(
    address: str, held: Callable[..., Any]
) -> None:
    status, content, _ = held(ask, address, "/health/live")
    assert (status, content["loop_turned_ms_ago"] >= 200) == (503, True)
    assert content["status"].startswith("the event loop has not turned for ")

    async def answered() -> tuple[int, dict[str, Any]]:
        return (await in_thread(ask, address, "/health/live"))[:2]

    async with asyncio.timeout(20):  # a busy machine may be late at first
        await until_answered(answered, (200, {"status": "live"}))


def seconds_until_closed(sock: socket.socket, piece: bytes, head: bytes = b"") -> float:
    """Send a piece again and again, each well within the time-out, until the server has enough of it."""
    began = time.monotonic()
    with sock:
        sock.sendall(head)
        sock.settimeout(0.02)
        while time.monotonic() - began < 10:
            try:
                sock.sendall(piece)
                if sock.recv(1 << 16) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
    return time.monotonic() - began


@pytest.mark.parametrize(
    "head",
    [b"GET /version HTTP/1.1\r\nhost: x\r\nx: ", b"POST /version HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n"],
    ids=["head", "body"],
)
async def test_a_request_that_comes_byte_by_byte_ends_at_the_time_limit(address: str, head: bytes) -> None:
    assert await in_thread(seconds_until_closed, connected(address), b"x", head) < 5


async def test_a_body_that_nobody_asked_for_ends_the_connection(address: str) -> None:
    head = b"POST /version HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n"
    assert await in_thread(seconds_until_closed, connected(address), bytes(8192), head) < 5


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /version HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n", b" 405 "),
        (b"GET /version HTTP/nonsense\r\n\r\n", b" 400 "),
    ],
    ids=["body", "nonsense"],
)
async def test_who_sends_too_much_still_gets_the_answer(address: str, head: bytes, status: bytes) -> None:
    def answered() -> bytes:
        with connected(address) as sock:
            sock.sendall(head + bytes(12 << 20))  # a reset would raise here, or below
            return b"".join(iter(lambda: sock.recv(1 << 16), b""))

    assert status in (await in_thread(answered)).partition(b"\r\n")[0] + b" "


async def test_who_never_stops_sending_is_cut_off(address: str) -> None:
    def pour() -> None:
        with connected(address) as sock:
            while True:
                sock.sendall(bytes(1 << 20))

    with pytest.raises(ConnectionError):
        await in_thread(pour)


@timed(answer_s=0.3)
async def test_an_answer_that_is_not_read_ends_the_connection(address: str) -> None:
    def reset_without_reading() -> bool:
        with connected(address) as sock:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            closed = select.poll()
            closed.register(sock, 0)  # POLLERR and POLLHUP are told in any case
            return bool(closed.poll(10_000))

    assert await in_thread(reset_without_reading)


async def test_connections_that_say_nothing_make_room_for_one_that_asks(address: str) -> None:
    def crowd() -> tuple[int, bytes]:
        with ExitStack() as stack:
            silent = [stack.enter_context(connected(address)) for _ in range(http_server.CONNECTIONS_MAX)]
            status, _, _ = ask(address, "/health/live")
            return status, silent[0].recv(1)

    assert await in_thread(crowd) == (200, b"")


WITHOUT_DESCRIPTORS = """
import asyncio, os, resource, sys
from ternmq_runtime.http.front import HttpFront

async def main():
    front = HttpFront(lambda: None, lambda: None)
    print(await front.start_listening("127.0.0.1:0"), flush=True)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        print("full", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for number in taken:
        os.close(number)
    await asyncio.to_thread(sys.stdin.readline)
    await front.stop_listening()

asyncio.run(main())
"""


def test_without_descriptors_it_waits_says_so_once_and_goes_on() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        assert process.stdout.readline() == "full\n"
        with connected(address) as waiting:
            said = process.stderr.readline()
            waiting.settimeout(1)
            waiting.sendall(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n")
            with pytest.raises(TimeoutError):
                waiting.recv(1)  # several attempts to accept later
            process.stdin.write("go on\n")
            process.stdin.flush()
            waiting.settimeout(20)
            assert waiting.recv(1 << 16).startswith(b"HTTP/1.1 200")
        _, rest = process.communicate("end\n", timeout=20)
    assert "can't accept connections now" in said
    assert rest == ""
    assert process.returncode == 0
