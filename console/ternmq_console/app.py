"""The ASGI application of the console and the JSON API, with the headers of every answer."""

import json
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from ternmq_console.api.answers import JSON, problem_response
from ternmq_console.api.endpoints import build_endpoints
from ternmq_console.api.long_calls import LongCalls
from ternmq_console.api.routes import PREFIX
from ternmq_console.pages.console import ConsolePages
from ternmq_console.path_prefix import PathPrefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ternmq_console.csrf import RequestGate
    from ternmq_console.operator_calls import OperatorCalls

SPECIFICATION = f"{PREFIX}/openapi.json"
_HEADERS: "Mapping[str, str]" = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
# Pages load only our own files, and contain no inline script or style.
_PAGE_HEADERS = {
    **_HEADERS,
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "same-origin",
}


def build_app(desk: "OperatorCalls", gate: "RequestGate", *, grafana: str = "", root: str = "") -> "ASGIApp":
    """Build the application for one server.

    `grafana` is an address to which pages link, and `root` the path prefix of a reverse proxy, if they are not empty.
    """
    specification = _read_specification(root)

    async def serve_specification(_: "Request") -> Response:
        return Response(specification, media_type=JSON)

    async def answer_not_found(request: "Request", _: Exception) -> Response:
        return problem_response(404, "NOT_FOUND", f"there is no {request.url.path}; see {root}{SPECIFICATION}")

    async def answer_not_allowed(request: "Request", error: Exception) -> Response:
        allowed = getattr(error, "headers", None) or {}
        return problem_response(
            405, "BAD_REQUEST", f"{request.method} is not served at {request.url.path}", dict(allowed)
        )

    async def answer_failure(_: "Request", __: Exception) -> Response:
        return problem_response(500, "INTERNAL_ERROR", "internal error; see the server's log")

    long_calls = LongCalls(desk, is_guarded=gate.is_guarded)
    app = Starlette(
        routes=[
            Route(SPECIFICATION, serve_specification),
            *build_endpoints(desk, long_calls),
            *ConsolePages(desk, long_calls, is_guarded=gate.is_guarded, grafana=grafana, root=root).build_routes(),
        ],
        exception_handlers={404: answer_not_found, 405: answer_not_allowed, 500: answer_failure},
    )
    return PathPrefix(_GuardedApp(app, gate), root)


def _read_specification(root: str) -> bytes:
    """Return the OpenAPI file, with `root` as its server's URL, below which its paths are."""
    file = files("ternmq_console.api").joinpath("openapi.json").read_bytes()
    return json.dumps(json.loads(file) | {"servers": [{"url": root}]}).encode() if root else file


class _GuardedApp:
    """Wraps the application: checks each request at the gate, and adds the headers to every answer."""

    def __init__(self, app: "ASGIApp", gate: "RequestGate") -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        is_page = not scope["path"].startswith(PREFIX)

        async def send_with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                there = {name for name, _ in headers}
                own = _PAGE_HEADERS if is_page else _HEADERS
                more = [(name.encode(), value.encode()) for name, value in own.items()]
                message["headers"] = headers + [(name, value) for name, value in more if name not in there]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        refusal = self._gate.refusal_reason(scope["method"], headers, has_body=has_body, is_form=is_page)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await problem_response(403, "FORBIDDEN", refusal)(scope, receive, send_with_headers)
