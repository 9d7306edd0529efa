"""Builds the request of a call from an HTTP request: path, query and body."""

from typing import TYPE_CHECKING

import msgspec

from ternmq_console.api.json_form import BadJson, from_json, text_to_json
from ternmq_console.api.routes import WHOLE
from ternmq_console.calls import CALLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from ternmq_console.api.json_form import Json
    from ternmq_console.api.routes import ApiRoute
    from ternmq_console.operator_calls import Message

TEXT = "text"
"""A field of messages to send that only JSON has: the body as text, instead of `body` in Base64."""
_BODY = "body"


def build_request(
    route: "ApiRoute", parameters: "Mapping[str, str]", query: "Iterable[tuple[str, str]]", body: bytes
) -> "Message":
    """Return the request of the route's call; raises BadJson, which says what is wrong."""
    kind = CALLS[route.call].request
    said: dict[str, Json] = {}
    if route.body:
        content = _decode_body(body)
        if route.body == WHOLE:
            said = content
        else:
            said[route.body] = content
    elif body.strip():
        raise BadJson("this call takes no body")
    for name, texts in _group_by_name(query).items():
        if name not in route.query:
            known = ", ".join(route.query) or "none"
            raise BadJson(f"unknown parameter {name!r}; known are: {known}")
        _set_value(said, route.query[name], text_to_json(field_at(kind.DESCRIPTOR, route.query[name]), texts))
    for name, value in parameters.items():
        _set_value(said, route.request_field(name), value)
    if TEXT in said and TEXT not in kind.DESCRIPTOR.fields_by_name and _BODY in kind.DESCRIPTOR.fields_by_name:
        return _with_text(said, kind())
    request = kind()
    from_json(said, request)
    return request


def _with_text(said: "dict[str, Json]", request: "Message") -> "Message":
    text = said.pop(TEXT)
    if not isinstance(text, str) or _BODY in said:
        raise BadJson("text must be a string, and replaces body")
    from_json(said, request)
    request.body = text.encode("utf-8", "surrogatepass")
    return request


def _decode_body(body: bytes) -> "dict[str, Json]":
    if not body.strip():
        return {}
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadJson(f"the body is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadJson("the body must be a JSON object")
    return content


def _group_by_name(query: "Iterable[tuple[str, str]]") -> dict[str, list[str]]:
    gathered: dict[str, list[str]] = {}
    for name, text in query:
        gathered.setdefault(name, []).append(text)
    return gathered


def _set_value(said: "dict[str, Json]", place: str, value: "Json") -> None:
    """Set the value at a dotted path; raises BadJson if the body has another value there."""
    *folders, name = place.split(".")
    for folder in folders:
        said = said.setdefault(folder, {})
        if not isinstance(said, dict):
            raise BadJson(f"{folder} must be an object")
    if name in said and str(said[name]) != str(value):
        raise BadJson(f"{name} is {said[name]!r} in the body, and {value!r} in the address")
    said[name] = value


def field_at(descriptor: "Descriptor", place: str) -> "FieldDescriptor":
    """Return the field at a dotted path."""
    *folders, name = place.split(".")
    for folder in folders:
        inner = descriptor.fields_by_name[folder].message_type
        assert inner is not None
        descriptor = inner
    return descriptor.fields_by_name[name]
