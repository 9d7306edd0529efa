"""The HTTP endpoints of the JSON API: each makes the call of its route, and converts the answer."""

from typing import TYPE_CHECKING

import msgspec
from starlette.responses import StreamingResponse
from starlette.routing import Route as StarletteRoute

from ternmq_console.api.answers import (
    CHALLENGE,
    LINES,
    MULTIPLE,
    OK,
    build_response,
    code_name,
    problem_json,
    problem_response,
)
from ternmq_console.api.json_form import BadJson, to_json
from ternmq_console.api.long_calls import LongCalls, TooManyLongCalls, too_many_response
from ternmq_console.api.requests import build_request
from ternmq_console.api.routes import PREFIX, ROUTES
from ternmq_console.calls import READING
from ternmq_console.csrf import caller_of_request
from ternmq_console.operator_calls import NotSignedIn, ServerBusy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.api.routes import ApiRoute
    from ternmq_console.operator_calls import Message, OperatorCalls
    from ternmq_runtime.http.basic import HttpCaller

    Answering = Callable[[Request], Awaitable[Response]]

BODY_BYTES_MAX = 8 << 20
"""The default limit of a message, in Base64, with its properties."""
PAGE = 500
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")


def build_endpoints(desk: "OperatorCalls", long_calls: LongCalls) -> list[StarletteRoute]:
    """Return one endpoint for each path, so that a wrong method is answered with the allowed ones."""
    by_path: dict[str, dict[str, Answering]] = {}
    for route in ROUTES:
        by_path.setdefault(f"{PREFIX}{_starlette_path(route)}", {})[route.method] = _build_endpoint(
            route, desk, long_calls
        )
    return [StarletteRoute(path, _route_by_method(answers), methods=list(answers)) for path, answers in by_path.items()]


def _route_by_method(answers: "dict[str, Answering]") -> "Answering":
    async def answer_request(request: "Request") -> "Response":
        return await answers["GET" if request.method == "HEAD" else request.method](request)

    return answer_request


def _starlette_path(route: "ApiRoute") -> str:
    return route.path.replace(f"{{{route.rest}}}", f"{{{route.rest}:path}}") if route.rest else route.path


def _build_endpoint(route: "ApiRoute", desk: "OperatorCalls", long_calls: LongCalls) -> "Answering":
    async def answer_request(request: "Request") -> "Response":
        try:
            asker = caller_of_request(request)
            body = b""
            if request.method in _CHANGES:
                await desk.sign_in(asker)  # before the body is read
                body = await _read_body(request)
            asked = build_request(route, request.path_params, request.query_params.multi_items(), body)
            if route.items and LINES in request.headers.get("accept", ""):
                user = await long_calls.find_user(asker)
                return long_calls.counted_answer(user, await _stream_lines(route, asked, asker, desk))
            if route.call == READING and asked.HasField("long_polling_timeout"):
                with long_calls.count_call(await long_calls.find_user(asker)):
                    return build_response(route, await desk.call(route.call, asked, asker))
            return build_response(route, await desk.call(route.call, asked, asker))
        except BadJson as error:
            return problem_response(400, "BAD_REQUEST", str(error))
        except _TooLarge:
            return problem_response(413, "PAYLOAD_TOO_LARGE", f"a body has {BODY_BYTES_MAX} bytes at most")
        except NotSignedIn as error:
            return problem_response(401, "UNAUTHORIZED", str(error), CHALLENGE)
        except TooManyLongCalls as error:
            return too_many_response(error)
        except ServerBusy as error:
            return problem_response(503, "PROXY_TIMEOUT", str(error))

    return answer_request


class _TooLarge(Exception):
    pass


async def _read_body(request: "Request") -> bytes:
    """Return the body; raises _TooLarge as soon as it exceeds the limit."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise _TooLarge
    return bytes(body)


async def _stream_lines(
    route: "ApiRoute", asked: "Message", asker: "HttpCaller", desk: "OperatorCalls", *, page_items: int = PAGE
) -> "Response":
    """Stream the items of a list, one on each line, page by page, so that only one page is in memory.

    An error after the beginning is the last line.
    """
    if route.is_paged and not asked.limit:
        asked.limit = page_items
        follows = True
    else:
        follows = False
    frames = await desk.call(route.call, asked, asker)
    if frames[0].status.code not in (OK, MULTIPLE):
        return build_response(route, frames)

    async def encode_pages() -> "AsyncIterator[bytes]":
        answer = frames
        while True:
            yield b"".join(msgspec.json.encode(item) + b"\n" for item in _answer_items(route, answer))
            page = answer[0].next_page if follows else ""
            if not page:
                return
            asked.page = page
            try:
                answer = await desk.call(route.call, asked, asker)
            except (NotSignedIn, ServerBusy) as error:
                yield msgspec.json.encode(problem_json("PROXY_TIMEOUT", str(error))) + b"\n"
                return
            status = answer[0].status
            if status.code not in (OK, MULTIPLE):
                yield msgspec.json.encode(problem_json(code_name(status.code), status.message)) + b"\n"
                return

    return StreamingResponse(encode_pages(), media_type=LINES)


def _answer_items(route: "ApiRoute", frames: "list[Message]") -> "list[object]":
    if len(frames) > 1:
        return [to_json(frame.message) for frame in frames if frame.WhichOneof("content") == "message"]
    return [to_json(item) for item in getattr(frames[0], route.items)]
