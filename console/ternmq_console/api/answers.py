"""Converts the answer of a call to an HTTP response: status and JSON."""

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from ternmq_common.errors import ErrorCode
from ternmq_console.api.json_form import answer_json, to_json
from ternmq_console.calls import READING
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_console.api.json_form import Json
    from ternmq_console.api.routes import ApiRoute
    from ternmq_console.operator_calls import Message

JSON, LINES = "application/json", "application/x-ndjson"
OK, MULTIPLE = ErrorCode.OK, ErrorCode.MULTIPLE_RESULTS
CHALLENGE = {"www-authenticate": 'Basic realm="ternmq"'}
_NAMES = {number: name for name, number in definition_pb2.Code.items()}
# Codes whose first three digits are no suitable status of HTTP: a missing right, no body, a condition that fails.
_STATUSES: dict[int, int] = {
    ErrorCode.UNAUTHORIZED: 403,
    ErrorCode.MESSAGE_BODY_EMPTY: 400,
    ErrorCode.PRECONDITION_FAILED: 412,
}
_NOTHING_NEW = ErrorCode.MESSAGE_NOT_FOUND


def json_response(status: int, content: "Json", headers: "dict[str, str] | None" = None) -> Response:
    """Return a response of JSON, on one line."""
    return Response(msgspec.json.encode(content) + b"\n", status, headers, JSON)


def problem_response(
    status: int, code: str, message: str, headers: "dict[str, str] | None" = None, **more: "Json"
) -> Response:
    """Return the response for an error; `code` is the protocol's name for it."""
    return json_response(status, problem_json(code, message) | more, headers)


def problem_json(code: str, message: str) -> "dict[str, Json]":
    """Return the JSON of an error."""
    return {"error": {"code": code, "message": message}}


def code_name(code: int) -> str:
    """Return the protocol's name of a status code; its number if it has none."""
    return _NAMES.get(code, str(code))


def http_status(code: int) -> int:
    """Return the status of HTTP for a code of the protocol: mostly its first three digits."""
    if code in (OK, MULTIPLE):
        return 200
    status = _STATUSES.get(code, code // 100)
    return status if 400 <= status <= 599 else 500


def build_response(route: "ApiRoute", frames: "Sequence[Message]") -> Response:
    """Return the response for the frames of an answer."""
    status = frames[0].status
    code: int = status.code
    if route.call == READING:
        return _read_response(frames)
    if code not in (OK, MULTIPLE):
        return problem_response(http_status(code), code_name(code), status.message)
    content: dict[str, Any] = answer_json(frames[0])
    if not content:
        return Response(status_code=204)
    return json_response(201 if route.makes and content.get("created", True) else 200, content)


def _read_response(frames: "Sequence[Message]") -> Response:
    """Return the response for messages of a queue.

    No message is no error; `next_offset`, where to continue, is also in the error for removed messages.
    """
    status = frames[0].status
    messages = [to_json(frame.message) for frame in frames if frame.WhichOneof("content") == "message"]
    offsets = [frame.next_offset for frame in frames if frame.WhichOneof("content") == "next_offset"]
    content: dict[str, Any] = {"messages": messages, "next_offset": offsets[0] if offsets else 0}
    if status.code in (OK, _NOTHING_NEW):
        return json_response(200, content)
    more = {"next_offset": offsets[0]} if offsets else {}
    return problem_response(http_status(status.code), code_name(status.code), status.message, **more)
