"""The HTTP front: health and version, for whatever comes in on the port."""

import asyncio
import json
from importlib.metadata import version
from types import TracebackType
from typing import Self

import pytest

from ternmq_runtime.http.front import HttpFront
from tests.support.embedded import Embedded
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


class Connection:
    """One TCP connection to the front, for raw bytes."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        host, port = self._address.rsplit(":", 1)
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        self._writer.write(request)
        async with asyncio.timeout(5):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            size = 0 if request.startswith(b"HEAD") else int(headers["content-length"])
            return int(head[0].split()[1]), headers, await self._reader.readexactly(size)

    async def ended(self) -> bool:
        """Whether the server closes the connection, without another byte."""
        async with asyncio.timeout(5):
            return await self._reader.read() == b""


async def ask(address: str, request: bytes) -> tuple[int, dict[str, str], bytes]:
    async with Connection(address) as connection:
        return await connection.ask(request)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/health/started", {"status": "started"}),
        ("/health/live", {"status": "live"}),
        ("/health/ready", {"status": "ready"}),
        ("/health/ready?verbose=1", {"status": "ready"}),
        ("/version", {"version": version("ternmq")}),
    ],
)
async def test_a_known_path_is_answered(server: Embedded, path: str, content: dict[str, str]) -> None:
    status, headers, body = await ask(server.http, get(path))
    assert (status, json.loads(body)) == (200, content)
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/health", "/health/live/", "/nobody", "//", "/%00", "http://localhost/version"])
async def test_an_unknown_path_is_not_found_and_told_what_there_is(server: Embedded, path: str) -> None:
    status, _, body = await ask(server.http, get(path))
    assert status == 404
    assert "/health/live" in json.loads(body)["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "CONNECT", "OPTIONS"])
async def test_any_method_but_get_and_head_is_refused(server: Embedded, method: str) -> None:
    assert (await ask(server.http, get("/version", method=method)))[0] == 405


async def test_a_head_request_gets_the_headers_only(server: Embedded) -> None:
    async with Connection(server.http) as connection:
        status, headers, _ = await connection.ask(get("/version", method="HEAD"))
        assert (status, int(headers["content-length"]) > 0) == (200, True)
        assert (await connection.ask(get("/health/live")))[0] == 200


async def test_a_connection_serves_one_request_after_another(server: Embedded) -> None:
    async with Connection(server.http) as connection:
        for path, status in (("/health/live", 200), ("/nobody", 404), ("/health/ready", 200)):
            assert (await connection.ask(get(path)))[0] == status


async def test_requests_that_come_in_one_go_are_answered_in_order(server: Embedded) -> None:
    async with Connection(server.http) as connection:
        assert (await connection.ask(get("/version") + get("/nobody") + get("/health/live")))[0] == 200
        assert (await connection.ask(b""))[0] == 404
        assert (await connection.ask(b""))[0] == 200


async def test_a_body_is_read_past(server: Embedded) -> None:
    async with Connection(server.http) as connection:
        assert (await connection.ask(get("/version", "content-length: 5", method="POST") + b"12345"))[0] == 405
        assert (await connection.ask(get("/version")))[0] == 200


@pytest.mark.parametrize("headers", [["connection: close"], ["connection: upgrade", "upgrade: h2c"]])
async def test_a_request_for_another_kind_of_connection_is_answered(server: Embedded, headers: list[str]) -> None:
    assert (await ask(server.http, get("/version", *headers)))[0] == 200


async def test_a_connection_that_is_to_be_closed_is_closed(server: Embedded) -> None:
    async with Connection(server.http) as connection:
        assert (await connection.ask(get("/version", "connection: close")))[0] == 200
        assert await connection.ended()


@pytest.mark.parametrize(
    "noise",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /version HTTP/1.1\r\n\r\n",
        b"GET /version HTTP/1.1\r\nhost: a\r\nno header\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"GET /" + b"x" * 17_000,
    ],
    ids=["zeros", "HTTP/2", "no host", "header", "TLS", "endless"],
)
async def test_bytes_that_are_no_http_are_told_so_and_harm_nobody(server: Embedded, noise: bytes) -> None:
    async with Connection(server.http) as connection:
        status, _, body = await connection.ask(noise)
        assert 400 <= status < 500
        assert "error" in json.loads(body)
    assert (await ask(server.http, get("/health/live")))[0] == 200


async def test_a_client_that_goes_away_in_the_middle_harms_nobody(server: Embedded) -> None:
    async with Connection(server.http) as connection:
        connection._writer.write(b"GET /version HTT")
    assert (await ask(server.http, get("/health/live")))[0] == 200


async def test_a_process_that_can_not_store_lives_but_is_not_ready() -> None:
    front = HttpFront(lambda: None, lambda: "the disk is broken")
    address = await front.start_listening("127.0.0.1:0")
    assert (await ask(address, get("/health/live")))[0] == 200
    assert (await ask(address, get("/health/started")))[0] == 200
    status, _, body = await ask(address, get("/health/ready"))
    assert status == 503
    assert "the disk is broken" in json.loads(body)["status"]
    await front.stop_listening()


async def test_a_process_that_is_degraded_is_ready_and_says_so() -> None:
    said: list[str | None] = [None, "3 messages can't be read any more"]
    front = HttpFront(lambda: None, lambda: None, degraded=lambda: said.pop(0))
    address = await front.start_listening("127.0.0.1:0")
    for expected in ({}, {"degraded": "3 messages can't be read any more"}):
        status, _, body = await ask(address, get("/health/ready"))
        assert (status, json.loads(body)) == (200, {"status": "ready"} | expected)
    await front.stop_listening()


async def test_a_process_that_has_not_begun_says_what_it_waits_for() -> None:
    front = HttpFront(lambda: "the registry was not read yet", lambda: "the registry was not read yet")
    address = await front.start_listening("127.0.0.1:0")
    answers = {path: await ask(address, get(path)) for path in ("/health/started", "/health/live", "/health/ready")}
    assert [status for status, _, _ in answers.values()] == [503, 200, 503]
    assert json.loads(answers["/health/started"][2])["status"] == "the registry was not read yet"
    await front.stop_listening()


async def test_metrics_that_can_not_be_made_harm_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> bytes:
        raise ValueError("a figure is missing")

    front = HttpFront(lambda: None, lambda: None, metrics=broken)
    address = await front.start_listening("127.0.0.1:0")
    assert (await ask(address, get("/metrics")))[0] == 500
    assert (await ask(address, get("/health/live")))[0] == 200
    assert "a figure is missing" in caplog.text
    await front.stop_listening()


async def test_a_front_without_metrics_has_no_path_for_them() -> None:
    front = HttpFront(lambda: None, lambda: None)
    status, _, body = await ask(await front.start_listening("127.0.0.1:0"), get("/metrics"))
    assert (status, "/metrics" in json.loads(body)["error"].partition(";")[2]) == (404, False)
    await front.stop_listening()


async def test_an_open_connection_does_not_keep_the_front_from_stopping() -> None:
    front = HttpFront(lambda: None, lambda: None)
    async with Connection(await front.start_listening("127.0.0.1:0")) as connection:
        assert (await connection.ask(get("/health/live")))[0] == 200
        async with asyncio.timeout(5):
            await front.stop_listening()
        assert await connection.ended()
