"""Redirects lead to a path of this server, whatever the request says of hosts."""

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ternmq_console.path_prefix import PathPrefix

HOSTS = [
    b"evil.example",
    b"a//evil.example",
    b"a/\\evil.example",
    b"a?b",
    b"a#b",
    b"http://evil.example",
    b"@evil",
    b"",
]


async def users(_: object) -> Response:
    return Response()


APP = Starlette(routes=[Route("/api/v1/users", users)])


async def location(app: PathPrefix, path: str, host: bytes) -> str:
    answered: list[Message] = []

    async def send(message: Message) -> None:
        answered.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    scope: Scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"limit=1",
        "headers": [(b"host", host)],
        "server": ("here", 80),
    }
    await app(scope, receive, send)
    [found] = [value for name, value in answered[0]["headers"] if name == b"location"]
    assert isinstance(found, bytes)
    return found.decode()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("root", ["", "/ops"])
async def test_a_path_with_a_slash_too_many_leads_to_that_path_here(host: bytes, root: str) -> None:
    assert await location(PathPrefix(APP, root), "/api/v1/users/", host) == f"{root}/api/v1/users?limit=1"


@pytest.mark.parametrize("sent", ["//evil.example/x", "/\\evil.example/x", "http://a//evil.example/x"])
async def test_no_answer_leads_to_another_host(sent: str) -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 303, "headers": [(b"location", sent.encode())]})

    found = await location(PathPrefix(app, ""), "/leading", b"here")
    assert found.startswith("/")
    assert not found.startswith(("//", "/\\"))
