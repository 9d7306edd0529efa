"""ListAuditEntries over sockets: `ternmq.Admin`, the JSON API and the command, against a whole stack."""

import asyncio
import base64
import http.client
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ternmq
import ternmq.blocking
from ternmq.admin.audit import AuditEntry
from ternmq.testing import Stack
from ternmq_command.main import cli
from ternmq_command.terminal import contexts
from ternmq_proxy.access.audit import PER_MINUTE
from tests.support.json_api import LINES, JsonApi
from tests.support.users import SECRET

Call = Callable[..., Result]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(data_dir=tmp_path / "data", access_control=True, audit_log_bytes="64KiB") as running:
        yield running


@pytest.fixture
def call(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setattr(contexts, "contexts_file", lambda: tmp_path / "contexts.json")
    assert stack.credentials is not None
    name, secret = stack.credentials.access_key, stack.credentials.secret_key
    root = {"TERNMQ_ENDPOINT": stack.endpoint, "TERNMQ_ACCESS_KEY": name, "TERNMQ_SECRET_KEY": secret}

    def invoke(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, arguments, env=root)
        assert result.exit_code == code, result.output
        return result

    return invoke


def admin_of(stack: Stack, user: str = "") -> ternmq.Admin:
    credentials = ternmq.Credentials(user, SECRET) if user else stack.credentials
    return ternmq.Admin(stack.endpoint, credentials=credentials)


async def made(stack: Stack) -> None:
    """A topic by the super user, and one that alice may not make."""
    async with admin_of(stack) as root:
        await root.create_topic("orders")
        await root.create_user("alice", SECRET)
    async with admin_of(stack, "alice") as alice:
        with pytest.raises(ternmq.Unauthorized):
            await alice.create_topic("secrets")


async def entries(stack: Stack, **wanted: object) -> list[AuditEntry]:
    async with admin_of(stack) as root:
        return [entry async for entry in root.list_audit_entries(**wanted)]  # type: ignore[arg-type]


async def test_who_did_what_and_who_was_not_allowed_to(stack: Stack) -> None:
    await made(stack)
    refused, user, topic = await entries(stack)
    assert (refused.user, refused.call, refused.resource, refused.allowed) == (
        "alice",
        "CreateTopic",
        "Topic:secrets",
        False,
    )
    assert refused.why == "no policy allows it"
    assert refused.source.startswith("127.0.0.1:")
    assert (user.call, user.resource, user.allowed, user.why) == (
        "CreateUser",
        "Cluster:users/alice",
        True,
        "a super user",
    )
    assert (topic.call, topic.resource, topic.process) == ("CreateTopic", "Topic:orders", "")
    assert topic.time is not None
    assert topic.time <= user.time <= refused.time  # type: ignore[operator]


async def test_a_user_who_gives_himself_another_secret_is_heard(stack: Stack) -> None:
    await made(stack)
    async with admin_of(stack, "alice") as alice:
        await alice.rotate_secret("alice")
    [own] = await entries(stack, call="RotateSecret")
    assert (own.user, own.resource, own.allowed, own.why) == ("alice", "Cluster:users/alice", True, "the user's own")


@pytest.mark.parametrize("path", ["/metrics", "/version", "/api/v1/topics"])
async def test_guesses_of_a_secret_by_http_are_heard_and_few(stack: Stack, path: str) -> None:
    host, port = stack.http.rsplit(":", 1)
    assert stack.credentials is not None
    name, right = stack.credentials.access_key, stack.credentials.secret_key

    def statuses(*secrets: str) -> list[int]:
        found = []
        for secret in secrets:
            with closing(http.client.HTTPConnection(host, int(port), timeout=20)) as connection:
                proof = base64.b64encode(f"{name}:{secret}".encode()).decode()
                connection.request("GET", path, headers={"authorization": f"Basic {proof}"})
                found.append(connection.getresponse().status)
        return found

    guessed = await asyncio.to_thread(statuses, *(f"guess-{number}" for number in range(60)))
    assert guessed == [401] * 60
    async with asyncio.timeout(20):  # a right one that comes in a second of too many is not known from the others
        while await asyncio.to_thread(statuses, right) != [200]:
            pass
    refused = await entries(stack, user=name, allowed=False)
    assert 1 <= len(refused) <= PER_MINUTE
    assert {each.why for each in refused} <= {
        "not authenticated: an unknown user or a wrong secret",
        "not authenticated: too many wrong ones of this access key from this address in this second",
    }


async def test_what_is_wanted_is_chosen(stack: Stack) -> None:
    await made(stack)
    for wanted, count in (
        ({"user": "alice"}, 1),
        ({"user": "nobody"}, 0),
        ({"call": "createtopic"}, 2),
        ({"resource": "ORDERS"}, 1),
        ({"allowed": True}, 2),
        ({"allowed": False}, 1),
        ({"since": LONG_AGO, "until": datetime.now(UTC) + timedelta(days=1)}, 3),
        ({"until": LONG_AGO}, 0),
        ({"since": datetime.now(UTC) + timedelta(days=1)}, 0),
    ):
        assert len(await entries(stack, **wanted)) == count, wanted


def test_pages_go_on_and_count_lines_that_are_no_entries(stack: Stack) -> None:
    with ternmq.blocking.Admin(stack.endpoint, credentials=stack.credentials) as admin:
        for number in range(3):
            admin.create_topic(f"t{number}")
        admin.audit_page(limit=1)  # then all of them are in the file
        with (stack.settings.data_dir / "audit.log").open("ab") as file:
            file.write(b"\xff\x00garbage\n")
        first = admin.audit_page(limit=2)
        rest = admin.audit_page(first.next_page, limit=2)
    assert [entry.resource for page in (first, rest) for entry in page.entries] == ["Topic:t2", "Topic:t1", "Topic:t0"]
    assert (first.damaged, rest.damaged, rest.next_page) == (1, 0, "")
    assert (first.server, first.reached) == ("broker-0", first.entries[-1].time)


async def test_it_is_for_super_users(stack: Stack) -> None:
    await made(stack)
    async with admin_of(stack, "alice") as alice:
        with pytest.raises(ternmq.Unauthorized, match="super users only"):
            await alice.audit_page()
    refused, *_ = await entries(stack)
    assert (refused.user, refused.call, refused.allowed) == ("alice", "ListAuditEntries", False)


@pytest.mark.parametrize("wanted", [{"limit": 1001}, {"page": "../../etc/passwd"}])
async def test_what_can_not_be_asked_is_refused(stack: Stack, wanted: dict[str, object]) -> None:
    async with admin_of(stack) as root:
        with pytest.raises(ternmq.BadRequest):
            await root.audit_page(**wanted)  # type: ignore[arg-type]


async def test_without_access_control_there_is_none() -> None:
    with Stack() as open_stack:
        async with ternmq.Admin(open_stack.endpoint) as admin:
            with pytest.raises(ternmq.ClientError, match="access control is off") as refused:
                await admin.audit_page()
    assert "PRECONDITION_FAILED" in str(refused.value)


async def test_what_can_not_be_read_is_said(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_of(stack) as root:
        await root.create_topic("orders")

        def cut(*_: object) -> bytes:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "pread", cut)
        with pytest.raises(ternmq.InternalError, match="the audit log can't be read: Input/output error"):
            await root.audit_page()


# --- by HTTP


async def test_the_json_api_has_it(stack: Stack) -> None:
    await made(stack)
    assert stack.credentials is not None
    name, secret = stack.credentials.access_key, stack.credentials.secret_key
    api = JsonApi(stack.http, name, secret)
    told = (await api.get("/audit-log", user="alice", allowed="false", since="2020-01-01T00:00:00Z")).json
    (entry,) = told["entries"]
    assert (entry["call"], entry["resource"], entry["allowed"]) == ("CreateTopic", "Topic:secrets", False)
    assert (told["damaged"], told["next_page"]) == (0, "")
    first = (await api.get("/audit-log", limit=1)).json
    second = (await api.get("/audit-log", limit=1, page=first["next_page"])).json
    assert [each["entries"][0]["call"] for each in (first, second)] == ["CreateTopic", "CreateUser"]
    lines = (await api.get("/audit-log", {"accept": LINES})).lines
    assert [line["call"] for line in lines] == ["CreateTopic", "CreateUser", "CreateTopic"]
    assert (await api.get("/audit-log", allowed="perhaps")).status == 400
    assert (await api.get("/audit-log", since="yesterday")).status == 400
    refused = await JsonApi(stack.http, "alice", SECRET).get("/audit-log")
    assert (refused.status, refused.code) == (403, "UNAUTHORIZED")


# --- the command


async def test_the_command_shows_it(stack: Stack, call: Call) -> None:
    await made(stack)
    shown = (await asyncio.to_thread(call, "audit")).stdout
    assert [row.split()[2] for row in shown.splitlines()] == ["CALL", "CreateTopic", "CreateUser", "CreateTopic"]
    told = await asyncio.to_thread(call, "audit", "--refused", "--user", "alice", "--since", "1h", "--json")
    (record,) = map(json.loads, told.stdout.splitlines())
    assert (record["resource"], record["allowed"], record["process"]) == ("Topic:secrets", False, None)
    some = await asyncio.to_thread(call, "audit", "--max", "2")
    assert len(some.stdout.splitlines()) == 3
    assert "the newest 2" in some.stderr
    none = await asyncio.to_thread(call, "audit", "--call", "Nothing")
    assert (none.stdout, "no such entries" in none.stderr) == ("", True)
    path = stack.settings.data_dir / "audit.log"
    path.write_bytes(path.read_bytes() + b"garbage\n")
    assert "1 line of the audit log" in (await asyncio.to_thread(call, "audit")).stderr
