"""A server with access control and no users, as a proxy of a new cluster: who meets it hears how the first is made."""

import asyncio
import logging
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ternmq_common.access.users import AccessSnapshot, AccessUser, UserSecret
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.access.audit import AuditLog
from ternmq_proxy.access.authentication import RequestAuthentication
from ternmq_proxy.access.control import AccessControl
from tests.support.embedded import Embedded, RawClient, local_settings
from tests.support.json_api import JsonApi
from tests.support.users import SECRET, Users, signed

REMEDY = "--init-user NAME"


class Unused:
    """A server, and the users that it knows: none, although its registry has one, without whom it would not start."""

    def __init__(self, server: Embedded, users: Users) -> None:
        self.server, self.users = server, users

    async def refusal(self) -> pb.Status:
        """Of a call that alice signs."""
        async with RawClient(self.server.grpc, metadata=signed("alice", "client-alice")) as alice:
            status: pb.Status = (await alice.call("QueryRoute", topic={"name": "orders"})).status
            return status

    def login(self) -> str:
        """The page after an attempt to sign in."""
        form = urllib.parse.urlencode({"name": "alice", "secret": SECRET}).encode()
        try:
            with urllib.request.urlopen(f"http://{self.server.http}/console/login", form, timeout=20) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()


@pytest_asyncio.fixture
async def unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Unused]:
    settings = local_settings(tmp_path, access_control=True, init_user="first", init_secret=SECRET)
    users = Users().serve(monkeypatch)
    async with Embedded(settings) as server:
        yield Unused(server, users)


async def test_calls_the_json_api_and_the_page_to_sign_in_say_how_the_first_user_is_made(unused: Unused) -> None:
    status = await unused.refusal()
    assert (status.code, REMEDY in status.message) == (pb.UNAUTHORIZED, True)
    answer = await JsonApi(unused.server.http, "alice", SECRET).get("/topics")
    assert (answer.status, REMEDY in answer.json["error"]["message"]) == (401, True)
    assert "has no user yet" in await asyncio.to_thread(unused.login)


async def test_where_there_are_users_nobody_hears_more_than_that_he_is_none(unused: Unused) -> None:
    unused.users.put("root", is_super=True)
    status = await unused.refusal()
    assert (status.code, REMEDY in status.message) == (pb.UNAUTHORIZED, False)
    assert "has no user yet" not in await asyncio.to_thread(unused.login)


def test_the_log_says_it_once_and_not_before_others_had_time_to_make_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    snapshot = AccessSnapshot()
    authentication = RequestAuthentication(
        lambda: snapshot, now_ms=lambda: 0, wall_ms=lambda: 0, window_ms=1000, local_time=False
    )
    audit = AuditLog(None, bytes_max=1, files=1, wall_ms=lambda: 0)
    access = AccessControl(lambda: snapshot, authentication, audit)
    access.log_missing_users(running_s=1.0)
    assert caplog.messages == []
    for running_s in (10.0, 11.0):
        access.log_missing_users(running_s)
    [said] = caplog.records
    assert said.levelno == logging.WARNING
    assert REMEDY in said.getMessage()
    disabled = AccessUser(name="root", secrets=(UserSecret(SECRET, 0),), is_enabled=False)
    snapshot = AccessSnapshot({"root": disabled})
    access.log_missing_users(12.0)
    assert len(caplog.records) == 1
    snapshot = AccessSnapshot({"root": AccessUser(name="root", secrets=(UserSecret(SECRET, 0),))})
    for running_s in (13.0, 14.0):
        access.log_missing_users(running_s)
    assert caplog.messages[1:] == ["there are users now"]
