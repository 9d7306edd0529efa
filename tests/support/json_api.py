"""A client of the JSON API that holds every answer to the OpenAPI file."""

import asyncio
import base64
import http.client
import json
import re
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

# JSON of any shape, which the file says.
Json = Any
PREFIX = "/api/v1"
LINES = "application/x-ndjson"
_TIMEOUT_S = 20.0


@cache
def specification() -> Json:
    return json.loads(files("ternmq_console.api").joinpath("openapi.json").read_text())


@cache
def _operations() -> list[tuple[str, re.Pattern[str], Json]]:
    return [
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/?]+", path) + r"(\?.*)?"), operation)
        for path, methods in sorted(specification()["paths"].items(), key=lambda item: item[0].count("{"))
        for method, operation in methods.items()
    ]


def operation_of(method: str, target: str) -> Json:
    """What the file says of a request; None if it knows none like that."""
    return next(
        (operation for its, pattern, operation in _operations() if its == method and pattern.fullmatch(target)), None
    )


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def code(self) -> str:
        """The protocol's code of what went wrong."""
        return str(self.json["error"]["code"])


class JsonApi:
    """`user` and `secret` are said by Basic authentication, if they are given."""

    def __init__(self, address: str, user: str = "", secret: str = "") -> None:
        self._address = address
        self._authorization = basic(user, secret) if user else {}

    async def get(self, path: str, headers: dict[str, str] | None = None, **query: str | int) -> Answer:
        return await self.ask("GET", path + (f"?{urlencode(query)}" if query else ""), None, headers)

    async def post(self, path: str, body: Json = None) -> Answer:
        return await self.ask("POST", path, body)

    async def put(self, path: str, body: Json = None) -> Answer:
        return await self.ask("PUT", path, body)

    async def patch(self, path: str, body: Json = None) -> Answer:
        return await self.ask("PATCH", path, body)

    async def delete(self, path: str, **query: str) -> Answer:
        return await self.ask("DELETE", path + (f"?{urlencode(query)}" if query else ""))

    async def ask(self, method: str, path: str, body: Json = None, headers: dict[str, str] | None = None) -> Answer:
        """One request; `path` is below the prefix."""
        data = b"" if body is None else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if data else {}
        answer = await self.raw(method, PREFIX + path, data, kind | (headers or {}))
        self._check(method, PREFIX + path, answer)
        return answer

    async def raw(self, method: str, target: str, data: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        """As it is, unchecked."""
        return await asyncio.to_thread(self._ask, method, target, data, self._authorization | (headers or {}))

    def _ask(self, method: str, target: str, data: bytes, headers: dict[str, str]) -> Answer:
        with closing(http.client.HTTPConnection(self._address, timeout=_TIMEOUT_S)) as connection:
            connection.request(method, target, data or None, headers)
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read())

    def _check(self, method: str, target: str, answer: Answer) -> None:
        operation = operation_of(method, target)
        if operation is None:
            assert answer.status in (404, 405), (method, target, answer)
            return
        response = operation["responses"].get(str(answer.status))
        if response is None:
            assert answer.status >= 400, answer
            response = specification()["components"]["responses"]["Problem"]
        if "content" not in response:
            assert answer.body == b""
            return
        kind = answer.headers["content-type"].partition(";")[0]
        schema = response["content"][kind]["schema"]
        for said in answer.lines if kind == LINES else [answer.json]:
            _validator(json.dumps(schema)).validate(said)


@cache
def _validator(schema: str) -> Draft202012Validator:
    whole = {**json.loads(schema), "components": specification()["components"]}
    made = validator_for(whole, default=Draft202012Validator)(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert isinstance(made, Draft202012Validator)
    return made


def basic(user: str, secret: str) -> dict[str, str]:
    """The header of Basic authentication."""
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()}


def part(name: str) -> str:
    """A name as part of a path."""
    return quote(name, safe="")
