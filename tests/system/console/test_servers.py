"""Pages of brokers, clients and processes at a server that is its own broker."""

import asyncio
import re
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from ternmq.blocking import Producer, SimpleConsumer
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.console_site import ROOT, Site
from tests.support.console_window import Window
from tests.support.embedded import RawClient

BROKER = "broker-0"
OWN = "This server is its own and only broker"
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202egnp.exe", "a\x1b[31m")


def of_group(name: str, **fields: Any) -> pb.Settings:  # noqa: ANN401 - of the types of its fields
    """What a client of that group sends first."""
    group = {"group": {"name": name}, "subscriptions": [{"topic": {"name": name}}]}
    return pb.Settings(subscription=group, **fields)


def connect(site: Site, settings: pb.Settings) -> None:
    """A client that is gone again."""

    async def configure() -> None:
        async with RawClient(site.grpc) as client:
            await client.configure(settings)

    asyncio.run(configure())


# --- brokers


def test_the_pages_are_found_from_each_other(window: Window) -> None:
    assert window.go("/").follow("Clients").path == "/console/clients"
    window.follow("Brokers").follow("Log levels and diagnostics of its processes")
    assert window.follow("Diagnostics").path == "/console/processes/diagnostics"


def test_a_server_of_one_process_says_how_it_is_and_that_it_is_its_own_broker(window: Window, site: Site) -> None:
    window.go("/console/brokers")
    assert OWN in window.text
    assert "Brokers" not in [each.name for each in window.page.find_all(role="region")]
    told = site.ask("GET", "/status")
    assert [row[:3] for row in window.rows("Components")] == [
        [each["name"], each["kind"], "well"] for each in told["components"]
    ]
    assert re.search(rf"Version\s+{re.escape(told['version'])}", window.text)
    assert re.search(r"Memory of one process\s+[\d.]+ MiB", window.text)
    assert re.search(r"Its clock\s+the machine's", window.text)


def test_unfinished_messages_are_counted_on_request(window: Window, site: Site, name: str) -> None:
    with SimpleConsumer(site.grpc, name, {name: "*"}) as consumer:
        site.send(name, b"a", b"a", b"a")
        assert consumer.receive(1, timedelta(seconds=60))
        window.go("/console/brokers").follow("What is unfinished on it")
        assert [name, name, "3"] in window.rows("Backlogs")
        assert re.search(r"Open transactions\s+\d+", window.text)


def test_the_one_broker_of_a_server_can_not_be_changed_whatever_is_sent(window: Window, site: Site) -> None:
    token = window.go("/console/new/topic").token
    for act, form in (
        ("drain", {"draining": "yes"}),
        ("permission", {"permission": "READ"}),
        ("permission", {"permission": "ALL"}),
        ("remove", {"confirmation": BROKER, "force": "yes"}),
        ("replicas", {}),
        ("leader", {"replica": "a"}),
    ):
        path = f"/console/brokers/{BROKER}/{act}"
        assert window.post(path, {**form, "token": token}) == 400, act
        assert window.post(path, form) == 403, act
    (broker,) = site.ask("GET", "/brokers")["brokers"]
    assert (broker["permission"], broker["draining"]) == ("READ_WRITE", False)


# --- clients


def test_a_client_is_found_by_its_group_or_topic(window: Window, site: Site, name: str) -> None:
    with Producer(site.grpc, topics=[name]), SimpleConsumer(site.grpc, name, {name: "*"}):
        window.go("/console/clients").fill("Of topic", name)
        assert sorted(window.press("Find").column(1, "Clients")) == ["producer", "simple consumer"]
        window.fill("Of group", name)
        (row,) = window.press("Find").rows("Clients")
        told = site.ask("GET", f"/clients?group={name}")["clients"][0]
        assert row[1:8] == ["simple consumer", name, name, *(told[each] for each in ("address", "hostname")), "PYTHON",
            told["version"]]  # fmt: skip
        assert row[8] == told["protocol"] == "grpc"
        assert row[9].endswith(" UTC")
        assert row[10] == told["proxy"] == told["process"] == BROKER


def test_many_clients_come_in_pages(window: Window, site: Site, name: str) -> None:
    window.go(f"/console/clients?topic={name}")
    assert f"No client of topic {name} is connected." in window.text
    with ExitStack() as producers:
        for _ in range(26):
            producers.enter_context(Producer(site.grpc, topics=[name]))
        first = window.go(window.path).column(0)
        assert len(first) == 25
        (last,) = window.follow("More").column(0)
        assert last > max(first)
        assert window.follow("From the beginning").column(0) == first


def test_of_a_client_of_many_topics_some_are_named(window: Window, site: Site, name: str) -> None:
    topics = [f"{name}-{number:02}" for number in range(8)]
    with Producer(site.grpc, topics=topics):
        assert window.go(f"/console/clients?topic={topics[6]}").column(3) == [f"{', '.join(topics[:5])} and 3 more"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_client_says_of_itself_stays_text(window: Window, site: Site, name: str, text: str) -> None:
    agent = {"language": pb.RUST, "version": text, "hostname": text}
    connect(site, of_group(name, client_type=pb.SIMPLE_CONSUMER, user_agent=agent))
    shown = text.replace("\u202e", "U+202E").replace("\x1b", "U+001B")
    (row,) = window.go(f"/console/clients?group={name}").rows("Clients")
    assert row[5:8] == [shown, "RUST", shown]
    assert not window.main.find_all("img", "script")
    window.fill("Of group", text)
    assert f"No client of group {shown} is connected." in window.press("Find").text
    assert not window.main.find_all("img", "script")


def test_a_client_of_a_type_that_is_none_breaks_no_page(window: Window, site: Site, name: str) -> None:
    settings = of_group(name)
    settings.MergeFromString(b"\x08\x4d")  # field 1, the type, is 77
    site.create_group(name)
    connect(site, settings)
    assert window.go(f"/console/clients?group={name}").column(1, "Clients") == ["77"]
    assert window.go(f"/console/groups/{name}").column(1, "Members") == ["77"]


def test_that_no_client_is_connected_is_said(own_window: Window) -> None:
    own_window.go("/console/clients").sign_in(ROOT)
    assert "No client is connected." in own_window.text


# --- few rights


def test_what_one_may_not_see_is_said_in_its_place(guest: Window, guarded: Site, name: str) -> None:
    guarded.create_user(name)
    guest.go("/console/brokers").sign_in(name)
    assert "You may not see the brokers." in guest.text
    assert guest.text.count("You may not see it.") == 2
    for path, said in {
        "/console/clients": "You may not see the clients.",
        "/console/processes": "You may not see them.",
        "/console/processes/diagnostics": "You may not see them.",
        f"/console/brokers/{BROKER}/remaining": "may not do this",
    }.items():
        assert said in guest.go(path).text, path
    guarded.put_policy(name, "Cluster:brokers", "Get,List")
    guarded.put_policy(name, "Cluster:log-levels", "Get")
    assert OWN in guest.go("/console/brokers").text
    assert guest.text.count("You may not see it.") == 2
    before = guarded.ask("GET", "/log-levels")
    guest.go("/console/processes").fill("Log levels of all of them", "debug")
    assert "may not do this" in guest.press("Change").error
    assert guarded.ask("GET", "/log-levels") == before
