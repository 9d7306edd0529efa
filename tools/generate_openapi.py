"""Generates the OpenAPI file of the JSON API from its routes and the `.proto` files, and its table in the documents:
`python tools/generate_openapi.py [--check]`.

The descriptions of messages and their fields are the comments of the `.proto` files.
"""

import argparse
import json
import sys
import tempfile
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

from ternmq_console.api.json_form import is_map, is_text
from ternmq_console.api.requests import TEXT, field_at
from ternmq_console.api.routes import PREFIX, ROUTES, WHOLE, ApiRoute
from ternmq_console.calls import CALLS, READING, SENDING

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "reference" / "http.md"
TARGET = ROOT / "console" / "ternmq_console" / "api" / "openapi.json"
PROTOS = ROOT / "protos"
_MESSAGE, _NESTED_IN_FILE = 4, 2
_INTEGERS, _NUMBERS = {"TYPE_INT32", "TYPE_INT64", "TYPE_UINT32"}, {"TYPE_DOUBLE", "TYPE_FLOAT"}
_LINES = "application/x-ndjson"
_JSON = "application/json"

Json = Any
Descriptor = Any


def comments() -> dict[str, str]:
    """Return the comment of each message in the `.proto` files, by its full name."""
    files = [str(path.relative_to(PROTOS)) for path in sorted(PROTOS.glob("*/*/*/*.proto"))]
    files += [str(path.relative_to(PROTOS)) for path in sorted(PROTOS.glob("*/*/*.proto"))]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "set"
        well_known = str(resources.files("grpc_tools") / "_proto")
        arguments = ["protoc", f"-I{PROTOS}", f"-I{well_known}", "--include_source_info", f"-o{target}"]
        if protoc.main([*arguments, *dict.fromkeys(files)]) != 0:
            raise SystemExit("protoc failed; its message is above")
        described = FileDescriptorSet.FromString(target.read_bytes())
    found: dict[str, str] = {}
    for file in described.file:
        for location in file.source_code_info.location:
            if len(location.path) == _NESTED_IN_FILE and location.path[0] == _MESSAGE and location.leading_comments:
                name = file.message_type[location.path[1]].name
                found[f"{file.package}.{name}"] = " ".join(location.leading_comments.split())
    return found


class Schemas:
    """The schemas of all messages and enums that were referred to, by their names."""

    def __init__(self) -> None:
        self.by_name: dict[str, Json] = {}
        self._of: dict[str, str] = {}
        self._comments = comments()

    def reference(self, descriptor: Descriptor, *, answer: bool = False) -> Json:
        """Return a reference to the schema of a message or enum; an `answer` is without its status."""
        name = descriptor.name
        if self._of.setdefault(name, descriptor.full_name) != descriptor.full_name:
            raise SystemExit(f"{descriptor.full_name} and {self._of[name]} have the same name")
        if name not in self.by_name:
            self.by_name[name] = {}
            self.by_name[name] = self._schema(descriptor, answer=answer)
        return {"$ref": f"#/components/schemas/{name}"}

    def _schema(self, descriptor: Descriptor, *, answer: bool) -> Json:
        if not hasattr(descriptor, "fields"):
            return {"type": "string", "enum": [value.name for value in descriptor.values]}
        fields = {field.name: self.of(field) for field in descriptor.fields if not (answer and field.name == "status")}
        schema: Json = {"type": "object", "properties": fields, "additionalProperties": False}
        if comment := self._comments.get(descriptor.full_name):
            schema["description"] = comment
        return schema

    def of(self, field: Descriptor) -> Json:
        """Return the schema of a field."""
        if is_map(field):
            return {"type": "object", "additionalProperties": self._one(field.message_type.fields_by_name["value"])}
        return {"type": "array", "items": self._one(field)} if field.is_repeated else self._one(field)

    def _one(self, field: Descriptor) -> Json:
        if field.message_type is not None:
            if not is_text(field):
                return self.reference(field.message_type)
            if field.message_type.name == "Timestamp":
                return {"type": "string", "format": "date-time"}
            return {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?s$", "examples": ["90s", "0.250s"]}
        if field.enum_type is not None:
            return self.reference(field.enum_type)
        kind = next(
            name for name, number in vars(type(field)).items() if name.startswith("TYPE_") and number == field.type
        )
        if kind in _INTEGERS:
            return {"type": "integer", "format": kind.removeprefix("TYPE_").lower()}
        if kind in _NUMBERS:
            return {"type": "number"}
        if kind == "TYPE_BYTES":
            return {"type": "string", "contentEncoding": "base64"}
        return {"type": "boolean"} if kind == "TYPE_BOOL" else {"type": "string"}


def operation(route: ApiRoute, schemas: Schemas) -> Json:
    """Return the parameters and the answers of a route."""
    kind = CALLS[route.call]
    descriptor = kind.request.DESCRIPTOR
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schemas.of(field_at(descriptor, route.request_field(name))),
        }
        for name in route.parameters
    ]
    parameters += [
        {"name": name, "in": "query", "schema": schemas.of(field_at(descriptor, place))}
        for name, place in route.query.items()
    ]
    described: Json = {"operationId": route.operation or route.call, "tags": [route.tag], "summary": route.summary}
    if parameters:
        described["parameters"] = parameters
    if route.body:
        described["requestBody"] = {"content": {_JSON: {"schema": body_schema(route, schemas)}}}
    described["responses"] = responses(route, schemas)
    return described


def body_schema(route: ApiRoute, schemas: Schemas) -> Json:
    """Return the schema of the body of a route."""
    descriptor = CALLS[route.call].request.DESCRIPTOR
    if route.call == SENDING:
        reference = schemas.reference(descriptor)
        schemas.by_name[descriptor.name]["properties"][TEXT] = {
            "type": "string",
            "description": "the body as text, in place of `body`",
        }
        return reference
    if route.body == WHOLE:
        return schemas.reference(descriptor)
    return schemas.reference(field_at(descriptor, route.body).message_type)


def responses(route: ApiRoute, schemas: Schemas) -> Json:
    """Return the possible answers of a route."""
    descriptor = CALLS[route.call].answer.DESCRIPTOR
    answers: Json = {}
    if route.call == READING:
        message = schemas.of(descriptor.fields_by_name["message"])
        offset = schemas.of(descriptor.fields_by_name["next_offset"])
        properties = {"messages": {"type": "array", "items": message}, "next_offset": offset}
        schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    elif [field.name for field in descriptor.fields] == ["status"]:
        return {"204": {"description": "done"}, "default": {"$ref": "#/components/responses/Problem"}}
    else:
        message = schemas.of(descriptor.fields_by_name[route.items])["items"] if route.items else None
        schema = schemas.reference(descriptor, answer=True)
    content: Json = {_JSON: {"schema": schema}}
    if route.items:
        content[_LINES] = {"schema": message}
    answers["200"] = {"description": "done", "content": content}
    if route.makes:
        answers["201"] = {"description": "made", "content": content}
    answers["default"] = {"$ref": "#/components/responses/Problem"}
    return answers


def specification() -> Json:
    """Return the whole file."""
    schemas = Schemas()
    paths: Json = {}
    for route in ROUTES:
        paths.setdefault(f"{PREFIX}{route.path}", {})[route.method.lower()] = operation(route, schemas)
    error = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "a status code of the protocol, by its name"},
            "message": {"type": "string"},
        },
        "required": ["code", "message"],
        "additionalProperties": False,
    }
    schemas.by_name["Problem"] = {
        "type": "object",
        "properties": {
            "error": error,
            "next_offset": {"type": "integer", "description": "where to go on reading a queue"},
        },
        "required": ["error"],
        "additionalProperties": False,
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TernMQ",
            "version": version("ternmq"),
            "summary": "What operators do: topics, groups, messages, brokers, users and quotas.",
            "description": "The Admin service of TernMQ as JSON over HTTP, and what else an operator needs.",
        },
        "security": [{}, {"basic": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "access key and secret of a user, where access control is on",
                }
            },
            "responses": {
                "Problem": {
                    "description": "it was not done, and why",
                    "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
            },
            "schemas": dict(sorted(schemas.by_name.items())),
        },
    }


def table() -> str:
    """Return all routes, for the documents."""
    lines = [
        "# The JSON API",
        "Each is below `/api/v1`; [what it takes and tells](../http-api.md) is in the OpenAPI file that",
    ]
    lines += [
        "the server has at `/api/v1/openapi.json`, and the call in the last column is that of the Admin service.",
        "",
    ]
    lines += ["| method | path | what it does | call |", "|---|---|---|---|"]
    lines += [
        f"| {route.method} | `{route.path}{'?' + ', '.join(route.query) if route.query else ''}` | {route.summary} "
        f"| `{route.call}` |"
        for route in ROUTES
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the files are current")
    check: bool = parser.parse_args().check
    files = {TARGET: json.dumps(specification(), indent=1) + "\n", TABLE: table()}
    if not check:
        for path, text in files.items():
            path.write_text(text)
        return 0
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        sys.stderr.write(f"stale: {path.relative_to(ROOT)}; run python tools/generate_openapi.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
