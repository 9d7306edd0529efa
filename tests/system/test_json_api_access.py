"""The JSON API with access control: who asks, what he may, and that nothing is read of who is nobody."""

import logging
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from markupsafe import escape

from tests.support.embedded import Embedded, local_settings
from tests.support.json_api import PREFIX, JsonApi, basic
from tests.support.ports import ANY_PORT
from tests.support.users import SECRET, Users
from tests.system.test_http_front import Connection, get

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Guarded:
    """A server with access control, its users and the folder of its audit log."""

    def __init__(self, server: Embedded, users: Users, folder: "Path") -> None:
        self.server, self.users, self.folder = server, users, folder

    def api(self, user: str = "", secret: str = SECRET) -> JsonApi:
        return JsonApi(self.server.http, user, secret)

    async def audit(self) -> str:
        """All that was written for calls that were answered before, as who asks for entries has what waits written."""
        assert (await self.api("root").get("/audit-log", limit=1)).status == 200
        return (self.folder / "audit.log").read_text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> "AsyncIterator[Guarded]":
    folder = tmp_path_factory.mktemp("guarded")
    settings = local_settings(folder, access_control=True, init_user="first", init_secret=SECRET)
    with pytest.MonkeyPatch.context() as patch:
        users = Users().serve(patch)
        users.put("root", is_super=True)
        async with Embedded(settings) as server:
            yield Guarded(server, users, folder)


async def test_nobody_is_asked_who_he_is(guarded: Guarded) -> None:
    for user, secret in (("", ""), ("root", "wrong"), ("nobody", SECRET)):
        answer = await guarded.api(user, secret).get("/topics")
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"] == 'Basic realm="ternmq"'
    audit = await guarded.audit()
    assert "nobody" in audit
    assert SECRET not in audit


async def test_the_log_of_changes_names_the_user(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    guarded.users.put("maker", is_super=True)
    api = guarded.api("maker")
    assert (await api.post("/topics", {"name": "logged"})).status == 201
    assert (await api.delete("/topics/logged")).status < 300
    said = [text for text in caplog.messages if text.startswith("topic logged was ")]
    who = "by client http of user maker at 127.0.0.1:"
    assert [text.partition(who)[0] for text in said] == ["topic logged was created ", "topic logged was deleted "], said


async def test_nothing_is_read_of_a_body_of_nobody(guarded: Guarded) -> None:
    """It would have to be told to go on."""
    async with Connection(guarded.server.http) as connection:
        status, _, _ = await connection.ask(
            get(
                f"{PREFIX}/topics",
                "content-type: application/json",
                "expect: 100-continue",
                "content-length: 5000000",
                method="POST",
            )
        )
        assert status == 401


async def test_a_user_may_what_his_policies_say_and_no_more(guarded: Guarded) -> None:
    root = guarded.api("root")
    for name in ("own", "other"):
        assert (await root.post("/topics", {"name": name, "queues": 1})).status == 201
    guarded.users.put("clerk", "allow Topic:own Get,List,Pub")
    clerk = guarded.api("clerk")
    assert (await clerk.get("/topics/own")).status == 200
    assert [topic["name"] for topic in (await clerk.get("/topics")).json["topics"]] == ["own"]
    assert (await clerk.post("/topics/own/messages", {"text": "a"})).status == 201
    for refused in (
        await clerk.get("/topics/other"),
        await clerk.get("/topics/own/queues/0/messages", offset=0),
        await clerk.delete("/topics/own"),
        await clerk.post("/topics", {"name": "third"}),
        await clerk.get("/users"),
        await clerk.get("/diagnostics"),
    ):
        assert (refused.status, refused.code) == (403, "UNAUTHORIZED")
    assert (await root.get("/topics/own/queues/0/messages", offset=0)).json["messages"]
    assert (await root.get("/topics/third")).status == 404


async def test_a_page_has_as_many_as_one_may_see(guarded: Guarded) -> None:
    """Those of others are not counted, and nobody learns how many there are."""
    root = guarded.api("root")
    for number in range(4):
        await root.post("/topics", {"name": f"aaa-hidden-{number}", "queues": 1})
        await root.post("/groups", {"name": f"aaa-hidden-{number}"})
    for name in ("pages-1", "pages-2"):
        await root.post("/topics", {"name": name, "queues": 1})
        await root.post("/groups", {"name": name})
    guarded.users.put("reader", "allow Topic:pages-* Get,List", "allow Group:pages-* Get,List")
    for kind in ("topics", "groups"):
        first = (await guarded.api("reader").get(f"/{kind}", limit=1)).json
        assert ([each["name"] for each in first[kind]], first["next_page"]) == (["pages-1"], "pages-1")
        second = (await guarded.api("reader").get(f"/{kind}", limit=1, page="pages-1")).json
        assert ([each["name"] for each in second[kind]], second["next_page"]) == (["pages-2"], "")


async def test_what_changes_something_is_in_the_audit_log(guarded: Guarded) -> None:
    assert (await guarded.api("root").post("/topics", {"name": "noted"})).status == 201
    (line,) = (line for line in (await guarded.audit()).splitlines() if "Topic:noted" in line or '"noted"' in line)
    assert "CreateTopic" in line
    assert "root" in line
    assert "127.0.0.1" in line


async def test_a_user_who_is_disabled_is_nobody_at_once(guarded: Guarded) -> None:
    guarded.users.put("leaver", "allow Topic:* Get,List")
    assert (await guarded.api("leaver").get("/topics")).status == 200
    guarded.users.disable("leaver")
    assert (await guarded.api("leaver").get("/topics")).status == 401


async def test_policies_hold_for_the_address_of_who_asks(guarded: Guarded) -> None:
    guarded.users.put("far", "allow Topic:* Get,List 10.0.0.0/8")
    guarded.users.put("near", "allow Topic:* Get,List 127.0.0.0/8")
    assert (await guarded.api("far").get("/topics/own")).status == 403
    assert (await guarded.api("near").get("/topics/own")).status in (200, 404)


async def test_any_name_of_the_server_will_do(guarded: Guarded) -> None:
    """A page of somebody else can't say who it is."""
    answer = await guarded.api("root").raw("GET", f"{PREFIX}/topics", headers={"host": "mq.example"})
    assert answer.status == 200


async def test_a_page_of_somebody_else_changes_nothing_though_the_browser_says_who_it_is(guarded: Guarded) -> None:
    headers = {"origin": "http://evil.example", "content-type": "application/json", **basic("root", SECRET)}
    answer = await guarded.api().raw("POST", f"{PREFIX}/topics", b'{"name": "evil"}', headers)
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert (await guarded.api("root").get("/topics/evil")).status == 404


async def test_names_may_be_allowed_and_all_of_it_left_out(tmp_path: "Path") -> None:
    named = local_settings(tmp_path / "a", console_hosts="mq.example, other.example")
    async with Embedded(named) as server:
        api = JsonApi(server.http)
        for host, status in (("mq.example:8082", 200), ("OTHER.example", 200), ("evil.example", 403)):
            assert (await api.raw("GET", f"{PREFIX}/topics", headers={"host": host})).status == status
    without = local_settings(tmp_path / "b", console=False)
    elsewhere = local_settings(tmp_path / "c", admin=ANY_PORT)
    for settings in (without, elsewhere):
        async with Embedded(settings) as server:
            answer = await JsonApi(server.http).raw("GET", f"{PREFIX}/topics")
            assert (answer.status, "/health/live" in answer.json["error"]) == (404, True)


async def test_a_grafana_is_linked_to_where_one_is_named(tmp_path: "Path") -> None:
    address = 'https://grafana.example/d/ternmq?var="x"&y=<b>'
    for number, grafana in enumerate((address, "")):
        async with Embedded(local_settings(tmp_path / str(number), console_grafana=grafana)) as server:
            page = (await JsonApi(server.http).raw("GET", "/console/rates")).body.decode()
            assert (f'href="{escape(address)}"' in page) == bool(grafana)
            assert ("Grafana" in page) == bool(grafana)
