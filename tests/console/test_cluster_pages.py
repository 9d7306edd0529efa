"""Brokers, clients and processes of a server that is its own broker, of one process or several, in a real browser."""

import asyncio
import re
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq_protos.v2 import definition_pb2 as pb
from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.console.conftest import ROOT, SECRET
from tests.console.test_signing_in import as_root, cookie_of, post, sign_in, token_of
from tests.support.embedded import RawClient
from tests.support.stack import ServerProcess
from tests.support.workers import WorkerStack

BROKER = "broker-0"
OWN = "This server is its own and only broker"


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerStack]:
    """Three processes and their supervisor."""
    with WorkerStack(tmp_path_factory.mktemp("workers"), "--workers", "2") as running:
        yield running


def apart(work: Coroutine[object, object, None]) -> None:
    """Have it done on a loop of its own: Playwright's is in this thread."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


def rows(window: Visit, region: str) -> dict[str, list[str]]:
    """What a table says, by the first cell of each row."""
    table = window.page.get_by_role("region", name=region, exact=True)
    cells = [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]
    return {first: others for first, *others in cells}


# --- every page


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, workers: WorkerStack, name: str, theme: str, width: int, height: int
) -> None:
    # A worker that was asked for a topic that is not there yet looks for it again after a second.
    ask(workers.http, "POST", "/topics", {"name": name, "queues": 1})
    with (
        Producer(workers.grpc, topics=[name]) as producer,
        SimpleConsumer(workers.grpc, name, {name: "*"}) as consumer,
        visit(browser, workers.http, theme=theme, width=width, height=height) as window,
    ):
        producer.send(Message(name, b"a"))
        assert consumer.receive(1, timedelta(seconds=60))
        found = {}
        for path, wanted in {
            "/console/brokers": "What is well, and what is amiss",
            f"/console/brokers/{BROKER}": OWN,
            f"/console/brokers/{BROKER}/remaining": "Messages that groups have not finished",
            "/console/brokers/nobody": "There is no such thing",
            f"/console/brokers/{BROKER}/replicas/nobody": "There is no such thing",
            "/console/clients": "simple consumer",
            "/console/clients?group=nobody&topic=nothing": "No client of group nobody of topic nothing",
            "/console/processes": "Log levels of all of them",
            "/console/processes/diagnostics": "Open files",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            for summary in window.page.locator("summary").all():
                summary.click()
            found[path] = window.violations()
        assert {path: told for path, told in found.items() if told} == {}


def test_the_pages_are_found_from_each_other(window: Visit) -> None:
    window.go("/")
    window.page.get_by_role("link", name="Clients").click()
    assert window.path == "/console/clients"
    window.page.get_by_role("link", name="Brokers").click()
    window.page.get_by_role("link", name="Log levels and diagnostics of its processes").click()
    window.page.get_by_role("link", name="Diagnostics").click()
    assert window.path == "/console/processes/diagnostics"


# --- brokers


def test_a_server_of_one_process_says_how_it_is_and_that_it_is_its_own_broker(
    window: Visit, server: ServerProcess
) -> None:
    window.go("/console/brokers")
    assert OWN in window.text
    assert window.page.get_by_role("region", name="Brokers").count() == 0
    told = ask(server.addresses["http"], "GET", "/status")
    components = {each["name"]: each["kind"] for each in told["components"]}
    assert {name: what for name, (what, *_) in rows(window, "Components").items()} == components
    assert {state for _, state, _ in rows(window, "Components").values()} == {"well"}
    assert re.search(rf"Version\s+{re.escape(told['version'])}", window.text)
    assert re.search(r"Memory of one process\s+[\d.]+ MiB", window.text)
    assert re.search(r"Its clock\s+the machine's", window.text)


def test_a_server_of_workers_names_each(browser: Browser, workers: WorkerStack) -> None:
    with visit(browser, workers.http) as window:
        window.go("/console/brokers")
        assert {name: row[:2] for name, row in rows(window, "Components").items()} == {
            "worker-0": ["worker", "well"],
            "worker-1": ["worker", "well"],
            "registry": ["registry", "well"],
            BROKER: ["broker", "well"],
        }


def test_what_is_unfinished_is_counted_when_one_asks_for_it(window: Visit, server: ServerProcess, name: str) -> None:
    with (
        Producer(server.addresses["grpc"], topics=[name]) as producer,
        SimpleConsumer(server.addresses["grpc"], name, {name: "*"}) as consumer,
    ):
        for _ in range(3):
            producer.send(Message(name, b"a"))
        assert consumer.receive(1, timedelta(seconds=60))
        window.go("/console/brokers")
        window.page.get_by_role("link", name="What is unfinished on it").click()
        assert rows(window, "Backlogs")[name] == [name, "3"]
        assert re.search(r"Open transactions\s+\d+", window.text)


def test_the_one_broker_of_a_server_can_not_be_changed_whatever_is_sent(
    window: Visit, server: ServerProcess, name: str
) -> None:
    window.go("/console/new/topic")
    cookie, token = str(cookie_of(window)["value"]), token_of(window)
    for path, form in {
        "drain": {"draining": "yes"},
        "permission": {"permission": "READ"},
        "remove": {"confirmation": BROKER, "force": "yes"},
        "replicas": {},
        "leader": {"replica": "a"},
    }.items():
        at = f"/console/brokers/{BROKER}/{path}"
        assert post(server, at, cookie, {**form, "token": token}) == 400, path
        assert post(server, at, cookie, form) == 403, path
    assert post(server, f"/console/brokers/{BROKER}/permission", cookie, {"permission": "ALL", "token": token}) == 400
    (broker,) = ask(server.addresses["http"], "GET", "/brokers")["brokers"]
    assert (broker["permission"], broker["draining"]) == ("READ_WRITE", False)


# --- clients


def test_a_client_is_found_by_its_group_or_topic_without_a_script(
    browser: Browser, server: ServerProcess, name: str
) -> None:
    with (
        Producer(server.addresses["grpc"], topics=[name]) as producer,
        SimpleConsumer(server.addresses["grpc"], name, {name: "*"}) as consumer,
        visit(browser, server.addresses["http"], scripts=False) as window,
    ):
        producer.send(Message(name, b"a"))
        assert consumer.receive(1, timedelta(seconds=60))
        window.go("/console/clients")
        window.fill("Of topic", name)
        window.press("Find")
        assert sorted(kind for kind, *_ in rows(window, "Clients").values()) == ["producer", "simple consumer"]
        window.fill("Of group", name)
        window.press("Find")
        (row,) = rows(window, "Clients").values()
        told = ask(server.addresses["http"], "GET", f"/clients?group={name}")["clients"][0]
        assert row[:4] == ["simple consumer", name, name, told["address"]]
        assert row[4:7] == [told["hostname"], "PYTHON", told["version"]]
        assert row[7].endswith(" UTC")
        assert row[8] == told["proxy"] == told["process"] == BROKER


def test_many_clients_come_in_pages_and_the_list_renews_itself(
    browser: Browser, server: ServerProcess, name: str
) -> None:
    with ExitStack() as producers, visit(browser, server.addresses["http"]) as window:
        window.go(f"/console/clients?topic={name}")
        assert f"No client of topic {name} is connected." in window.text
        for _ in range(26):
            producers.enter_context(Producer(server.addresses["grpc"], topics=[name]))
        found = window.page.locator("tbody th")
        expect(found).to_have_count(25)  # within the 10 s of the list and a little
        first = found.all_inner_texts()
        window.page.get_by_role("link", name="More").click()
        expect(found).to_have_count(1)
        assert found.inner_text() > max(first)
        window.page.get_by_role("link", name="From the beginning").click()
        expect(found).to_have_text(first)


def test_of_a_client_of_many_topics_some_are_named(window: Visit, server: ServerProcess, name: str) -> None:
    topics = [f"{name}-{number:02}" for number in range(8)]
    with Producer(server.addresses["grpc"], topics=topics):
        window.go(f"/console/clients?topic={topics[6]}")
        (row,) = rows(window, "Clients").values()
        assert row[2] == f"{', '.join(topics[:5])} and 3 more"


HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202egnp.exe", "a\x1b[31m")


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_client_says_of_itself_stays_text(window: Visit, server: ServerProcess, name: str, text: str) -> None:
    async def come() -> None:
        settings = pb.Settings(
            client_type=pb.SIMPLE_CONSUMER,
            user_agent={"language": pb.RUST, "version": text, "hostname": text},
            subscription={"group": {"name": name}, "subscriptions": [{"topic": {"name": name}}]},
        )
        async with RawClient(server.addresses["grpc"]) as client:
            await client.configure(settings)

    apart(come())
    shown = text.replace("\u202e", "U+202E").replace("\x1b", "U+001B")
    window.go(f"/console/clients?group={name}")
    (row,) = rows(window, "Clients").values()
    assert row[4:7] == [shown, "RUST", shown]
    assert window.page.locator("main img, main script").count() == 0


def test_a_client_of_a_type_that_is_none_breaks_no_page(window: Visit, server: ServerProcess, name: str) -> None:
    async def come() -> None:
        settings = pb.Settings(subscription={"group": {"name": name}, "subscriptions": [{"topic": {"name": name}}]})
        settings.MergeFromString(b"\x08\x4d")  # field 1, the type, is 77
        async with RawClient(server.addresses["grpc"]) as client:
            await client.configure(settings)

    ask(server.addresses["http"], "POST", "/groups", {"name": name})
    apart(come())
    window.go(f"/console/clients?group={name}")
    assert [kind for kind, *_ in rows(window, "Clients").values()] == ["77"]
    window.go(f"/console/groups/{name}")
    assert [kind for kind, *_ in rows(window, "Members").values()] == ["77"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_in_an_address_stays_text(window: Visit, text: str) -> None:
    shown = text.replace("\u202e", "U+202E").replace("\x1b", "U+001B")
    window.page.goto(f"http://{window.address}/console/clients")
    window.fill("Of group", text.replace("\x1b", ""))
    window.press("Find")
    assert f"No client of group {shown.replace('U+001B', '')} is connected." in window.text
    assert window.page.locator("main img, main script").count() == 0


# --- processes


def test_log_levels_are_changed_in_all_processes(browser: Browser, workers: WorkerStack) -> None:
    def levels() -> dict[str, str]:
        told = ask(workers.http, "GET", "/log-levels")
        return {each["process"]: each["levels"] for each in told["processes"]}

    with visit(browser, workers.http) as window:
        window.go("/console/processes")
        assert {process: row[0] for process, row in rows(window, "Log levels").items()} == levels()
        window.fill("Log levels of all of them", "loud")
        window.press("Change")
        assert "loud" in window.error
        assert window.page.get_by_label("Log levels of all of them").input_value() == "loud"
        window.fill("Log levels of all of them", "info,ternmq_proxy=debug")
        window.press("Change")
        assert window.notice == "The log levels were changed in 3 processes."
        assert levels() == dict.fromkeys(("worker-0", "worker-1", "broker"), "info,ternmq_proxy=debug")
        window.fill("Log levels of all of them", "info")
        window.press("Change")
        assert set(levels().values()) == {"info"}


def test_diagnostics_are_told_of_each_process(browser: Browser, workers: WorkerStack) -> None:
    with visit(browser, workers.http) as window:
        window.go("/console/processes/diagnostics")
        assert sorted(window.page.locator("h2").all_inner_texts()) == ["broker", "worker-0", "worker-1"]
        assert not window.page.get_by_role("region", name="Settings of broker").is_visible()
        for what in ("Settings of broker", "Tasks of broker", "Threads of broker"):
            window.open(what)
        assert rows(window, "Settings of broker")["data_dir"] == [str(workers.data_dir)]
        assert all(int(count) > 0 for (count,) in rows(window, "Tasks of broker").values())
        threads = window.page.get_by_role("region", name="Threads of broker").inner_text()
        assert "thread MainThread" in threads
        assert len(threads.splitlines()) > 10
        for told in ask(workers.http, "GET", "/diagnostics")["processes"]:
            assert f"{told['pid']}" in window.text


# --- who may see what


def test_what_one_may_not_see_is_said_in_its_place(guest: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    guest.go("/console/brokers")
    sign_in(guest, name)
    assert "You may not see the brokers." in guest.text
    assert guest.text.count("You may not see it.") == 2
    assert guest.violations() == []
    for path, said in {
        "/console/clients": "You may not see who is connected.",
        "/console/processes": "You may not see them.",
        "/console/processes/diagnostics": "You may not see them.",
    }.items():
        guest.go(path)
        assert said in guest.text, path
        assert guest.violations() == []
    guest.go(f"/console/brokers/{BROKER}/remaining")
    assert "may not do this" in guest.error
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": "Cluster:brokers", "actions": "Get,List"})
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": "Cluster:log-levels", "actions": "Get"})
    guest.go("/console/brokers")
    assert OWN in guest.text
    assert guest.text.count("You may not see it.") == 2
    guest.go("/console/processes")
    guest.fill("Log levels of all of them", "debug")
    guest.press("Change")
    assert "may not do this" in guest.error
    told = ask(guarded.addresses["http"], "GET", "/log-levels", user=ROOT, secret=SECRET)
    assert [each["levels"] for each in told["processes"]] == ["info"]
