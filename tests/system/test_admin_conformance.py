"""Each call of the Admin service by gRPC, the JSON API, the Python clients and the command: all tell the same."""

import asyncio
import inspect
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from google.protobuf import json_format

import ternmq
import ternmq.blocking
from ternmq.testing import Stack
from ternmq_console.api.routes import ROUTES, WHOLE
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.access_table import ADMIN, is_enough
from tests.support.admin_conformance import READER, ROWS, Names
from tests.support.command_line import CommandLine, printed_records
from tests.support.embedded import ADMIN as SERVICE
from tests.support.embedded import RawClient, code
from tests.support.json_api import JsonApi, part
from tests.support.users import SECRET, signed

GUARDED = sorted(name for name, line in ADMIN.items() if not is_enough(line, ()))
_numbers = itertools.count()
# Answers are of as many types as there are calls.
Told = Any


class Refused(Exception):
    """The code with which a call was refused."""


class ByGrpc:
    def __init__(self, stack: Stack, user: str, secret: str) -> None:
        self._stack, self._metadata = stack, signed(user, secret=secret)

    async def tell(self, name: str, names: Names) -> object:
        """The facts that the user hears by this surface, or Refused."""
        async with RawClient(self._stack.endpoint, metadata=self._metadata) as client:
            answer = await client.admin(name, ROWS[name].request(names))
        if answer.status.code != pb.OK:
            raise Refused(code(answer))
        return ROWS[name].told(answer)


class ByJson:
    def __init__(self, stack: Stack, user: str, secret: str) -> None:
        self._api = JsonApi(stack.http, user, secret)

    async def tell(self, name: str, names: Names) -> object:
        answer = await self._api.ask(*http_request(name, ROWS[name].request(names)))
        if answer.status >= 400:
            raise Refused(answer.code)
        response = getattr(admin_pb2, f"{name}Response")()
        return ROWS[name].told(json_format.ParseDict(answer.json if answer.body else {}, response))


class ByClient:
    def __init__(self, stack: Stack, user: str, secret: str) -> None:
        self._endpoint, self._credentials = stack.endpoint, ternmq.Credentials(user, secret)

    async def tell(self, name: str, names: Names) -> object:
        async with ternmq.Admin(self._endpoint, credentials=self._credentials) as client:
            return await _told_by(client, name, names)


class ByBlockingClient(ByClient):
    async def tell(self, name: str, names: Names) -> object:
        with ternmq.blocking.Admin(self._endpoint, credentials=self._credentials) as blocking:
            return await _told_by(cast("ternmq.Admin", Threaded(blocking)), name, names)


async def _told_by(client: ternmq.Admin, name: str, names: Names) -> object:
    row = ROWS[name]
    assert row.client is not None
    try:
        result = await row.client(client, names)
    except ternmq.ClientError as error:
        raise Refused(pb.Code.Name(error.code or 0)) from None
    return row.of_client(result)


class Threaded:
    """The blocking client, each call in a thread, so that rows are for both."""

    def __init__(self, admin: ternmq.blocking.Admin) -> None:
        self._admin = admin

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._admin, name)

        async def call(*arguments: object, **keywords: object) -> object:
            return await asyncio.to_thread(method, *arguments, **keywords)

        async def iterate(*arguments: object, **keywords: object) -> AsyncIterator[object]:
            iterator = iter(method(*arguments, **keywords))
            while (found := await asyncio.to_thread(next, iterator, None)) is not None:
                yield found

        return iterate if inspect.isasyncgenfunction(getattr(ternmq.Admin, name)) else call


class ByCommand:
    def __init__(self, stack: Stack, user: str, secret: str) -> None:
        self._command = CommandLine(stack.endpoint, TERNMQ_ACCESS_KEY=user, TERNMQ_SECRET_KEY=secret)

    async def tell(self, name: str, names: Names) -> object:
        row = ROWS[name]
        assert row.command is not None
        done = await asyncio.to_thread(self._command.call, *row.command(names), "--json")
        if done.exit_code:
            raise Refused(json.loads(done.stderr.splitlines()[-1])["error"]["code"])
        return row.of_command(printed_records(done))


def surfaces(name: str) -> list[type[ByGrpc] | type[ByJson] | type[ByClient] | type[ByCommand]]:
    """Those that make this call."""
    row = ROWS[name]
    return [
        ByGrpc,
        ByJson,
        *([ByClient, ByBlockingClient] if row.client else []),
        *([ByCommand] if row.command else []),
    ]


def http_request(name: str, request: Told) -> tuple[str, str, Told]:
    """The method, path and body that the route of a call has for a request."""
    fields = json_format.MessageToDict(request, preserving_proto_field_name=True)
    routes = [each for each in ROUTES if each.call == name]
    route = max(routes, key=lambda each: len(fields.keys() & {each.request_field(part) for part in each.parameters}))
    places = {parameter: route.request_field(parameter) for parameter in route.parameters}
    path = route.path
    for parameter, place in places.items():
        value = request
        for step in place.split("."):
            value = getattr(value, step)
        path = path.replace("{" + parameter + "}", part(str(value)))
    query = "&".join(f"{its}={part(str(fields[place]))}" for its, place in route.query.items() if place in fields)
    body = None
    if route.body:
        whole = fields if route.body == WHOLE else fields[route.body]
        taken = {place.rpartition(".")[2] for place in places.values()}
        body = {field: value for field, value in whole.items() if field not in taken}
    return route.method, f"{path}?{query}" if query else path, body


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(access_control=True, default_queues=1) as running:
        yield running


@pytest.fixture
def root_secret(stack: Stack) -> str:
    assert stack.credentials is not None
    return stack.credentials.secret_key


@pytest.fixture
async def root(stack: Stack, root_secret: str) -> AsyncIterator[RawClient]:
    async with RawClient(stack.endpoint, metadata=signed("root", secret=root_secret)) as client:
        yield client


@pytest.fixture
async def clerk(root: RawClient) -> str:
    """The name of a user who may do nothing."""
    name = f"clerk-{next(_numbers)}"
    answer = await root.admin("CreateUser", name=name, secret=SECRET)
    assert code(answer) == "OK", answer.status.message
    return name


async def prepared(root: RawClient, name: str) -> Names:
    """Names of which there is what the call needs."""
    names = Names(*(f"{kind}-{next(_numbers)}" for kind in ("topic", "group", "user")))
    for step in ROWS[name].before:
        await step(root, names)
    return names


async def grant(root: RawClient, user: str, name: str, names: Names) -> None:
    """The rights that the call needs, and no others."""
    for policy in next(iter(ADMIN[name].sets), ()):
        resource, actions = policy.split()
        resource = {"Topic:t": f"Topic:{names.topic}", "Group:g": f"Group:{names.group}"}.get(resource, resource)
        assert code(await root.admin("PutPolicy", user=user, policy={"resource": resource, "actions": actions})) == "OK"


def test_each_call_has_a_row() -> None:
    assert ROWS.keys() == set(SERVICE.methods_by_name)


@pytest.mark.parametrize("name", sorted(name for name, row in ROWS.items() if row.facts))
async def test_all_tell_the_same_to_a_user_with_the_right(
    stack: Stack, root: RawClient, root_secret: str, clerk: str, name: str
) -> None:
    row = ROWS[name]
    assert row.facts is not None
    for surface in surfaces(name):
        names = await prepared(root, name)
        await grant(root, clerk, name, names)
        # A command may look at what it is about first, which needs more than its call.
        reads_first = surface is ByCommand or (issubclass(surface, ByClient) and row.client_reads_first)
        of_root = reads_first or not ADMIN[name].sets
        told = await surface(stack, *(("root", root_secret) if of_root else (clerk, SECRET))).tell(name, names)
        expected = row.facts(names)
        assert told >= expected if isinstance(expected, set) else told == expected, surface  # type: ignore[operator]


async def test_where_members_are_is_for_those_who_may_list_clients(root: RawClient, stack: Stack, clerk: str) -> None:
    names = await prepared(root, "DescribeGroup")
    await grant(root, clerk, "DescribeGroup", names)
    async with RawClient(stack.endpoint, metadata=signed(clerk)) as client:
        request = admin_pb2.DescribeGroupRequest(name=names.group)
        [member] = (await client.admin("DescribeGroup", request)).members
        assert (member.client_id, member.address) == (READER, "")
        await grant(root, clerk, "ListClients", names)
        [member] = (await client.admin("DescribeGroup", request)).members
        assert member.address.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", GUARDED)
async def test_a_user_without_the_right_is_refused_by_all(stack: Stack, root: RawClient, clerk: str, name: str) -> None:
    names = await prepared(root, name)
    for surface in surfaces(name):
        with pytest.raises(Refused, match=r"^UNAUTHORIZED$"):
            await surface(stack, clerk, SECRET).tell(name, names)


@pytest.mark.parametrize("name", sorted(name for name, row in ROWS.items() if row.error))
async def test_all_refuse_what_can_not_be_with_the_same_code(stack: Stack, root_secret: str, name: str) -> None:
    names = replace(Names("none", "none", "none"), **ROWS[name].wrong)
    for surface in surfaces(name):
        with pytest.raises(Refused, match=f"^{ROWS[name].error}$"):
            await surface(stack, "root", root_secret).tell(name, names)
