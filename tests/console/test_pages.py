"""Topics and groups in a real browser: every page, every act, by mouse, by keyboard and without a script."""

import re
from contextlib import closing
from datetime import timedelta
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.support.stack import ServerProcess

FIRST_PAGE_BYTES_MAX = 150_000


def make_topic(server: ServerProcess, name: str, **settings: object) -> None:
    ask(server.addresses["http"], "POST", "/topics", {"name": name, "queues": 1, **settings})


def send(server: ServerProcess, topic: str, count: int) -> None:
    with Producer(server.addresses["grpc"], topics=[topic]) as producer:
        for number in range(count):
            producer.send(Message(topic, b"%d" % number))


# --- every page


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, server: ServerProcess, name: str, theme: str, width: int, height: int
) -> None:
    make_topic(server, name)
    ask(server.addresses["http"], "POST", "/groups", {"name": name})
    send(server, name, 2)
    with (
        SimpleConsumer(server.addresses["grpc"], name, {name: "*"}) as consumer,
        visit(browser, server.addresses["http"], theme=theme, width=width, height=height) as window,
    ):
        assert consumer.receive(1, timedelta(seconds=30))
        found = {}
        for path, wanted in {
            "/": "Topics",
            f"/console/topics/{name}": "Queues",
            "/console/topics/nobody": "There is no such thing",
            "/console/topics?search=nobody-has-this": "No topic has",
            "/console/new/topic": "New topic",
            "/console/groups": "Groups",
            f"/console/groups/{name}": "Members that are connected",
            "/console/groups?search=nobody-has-this": "No group has",
            "/console/new/group": "New group",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            for summary in window.page.locator("summary").all():
                summary.click()
            found[path] = window.violations()
        assert {path: told for path, told in found.items() if told} == {}


def test_the_server_says_where_its_console_is(server: ServerProcess) -> None:
    assert f"the console is at http://{server.addresses['http']}/\n" in server.log.read_text()


def test_the_first_page_is_small(window: Visit) -> None:
    sizes: list[int] = []
    window.page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    window.go("/")
    window.page.wait_for_load_state("networkidle")
    assert len(sizes) >= 4  # page, style and two scripts
    assert sum(sizes) < FIRST_PAGE_BYTES_MAX


def test_nothing_is_had_from_elsewhere(window: Visit) -> None:
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.go("/console/groups")
    window.page.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith(f"http://{window.address}/")] == []


# --- topics


def test_a_topic_is_made_by_keyboard_alone(window: Visit, name: str) -> None:
    keyboard = window.page.keyboard
    window.go("/console/topics")

    def tab_to(text: str) -> None:
        for _ in range(30):
            keyboard.press("Tab")
            if window.page.evaluate("document.activeElement.textContent.trim()") == text:
                return
        raise AssertionError(f"the keyboard does not come to {text!r}")

    tab_to("Skip to the content")
    tab_to("New topic")
    keyboard.press("Enter")
    window.page.wait_for_url("**/new/topic")
    while window.page.evaluate("document.activeElement.id") != "name":
        keyboard.press("Tab")
    keyboard.type(name)
    keyboard.press("Enter")
    window.page.wait_for_url(f"**/topics/{name}")
    tab_to("Delete the topic")
    keyboard.press("Enter")
    while window.page.evaluate("document.activeElement.id") != "delete-name":
        keyboard.press("Tab")
    keyboard.type(name)
    keyboard.press("Enter")
    window.page.wait_for_url("**/console/topics")
    assert window.notice == f"Topic {name} was deleted."


def test_everything_works_without_a_script(browser: Browser, server: ServerProcess, name: str) -> None:
    with visit(browser, server.addresses["http"], scripts=False) as window:
        window.go("/console/new/topic")
        window.fill("Name", name)
        window.press("Make the topic")
        assert window.notice == f"Topic {name} was made."
        assert " UTC" in window.text
        window.go("/console/topics")
        window.fill("Part of a topic's name", name[-8:].upper())
        window.press("Find")
        expect(window.page.locator("tbody th")).to_have_text([name])


def test_a_list_is_searched_while_one_types_and_renews_itself(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, f"{name}-1")
    window.go("/console/topics")
    field = window.page.get_by_label("Part of a topic's name")
    field.press_sequentially(name)
    rows = window.page.locator("tbody th")
    expect(rows).to_have_text([f"{name}-1"])
    make_topic(server, f"{name}-2")
    expect(rows).to_have_text([f"{name}-1", f"{name}-2"])  # within the 10 s of the list and a little
    assert window.page.evaluate("document.activeElement.id") == "search"
    assert field.input_value() == name


def test_times_and_colours_are_as_one_likes(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    window.go(f"/console/topics/{name}")
    time = window.page.locator("time").first
    assert not time.inner_text().endswith("UTC")
    window.press("Times in UTC")
    assert time.inner_text().endswith("UTC")
    window.page.get_by_role("button", name="dark colours").click()
    window.go("/console/groups")
    assert window.page.evaluate("document.documentElement.dataset.theme") == "dark"
    window.go(f"/console/topics/{name}")
    assert time.inner_text().endswith("UTC")


# --- groups


def test_a_group_is_seen_and_moved(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    send(server, name, 5)
    window.go("/console/new/group")
    window.fill("Name", name)
    window.fill("Attempts before a message is a dead letter", "4")
    window.page.get_by_label("Where it begins").select_option("earliest")
    window.press("Make the group")
    assert window.notice == f"Group {name} was made."
    consumer = SimpleConsumer(server.addresses["grpc"], name, {name: "*"})
    with closing(consumer):
        consumer.start()
        consumer.ack(consumer.receive(2, timedelta(seconds=30)))
        consumer.receive(1, timedelta(seconds=60))
        window.go(f"/console/groups/{name}")
        assert re.search(r"Lag\s+3 messages", window.text)
        assert re.search(r"In flight\s+1 messages", window.text)
        assert re.search(r"Attempts\s+4", window.text)
        members = window.page.get_by_role("region", name="Members").inner_text()
        assert "simple consumer" in members
        assert "PYTHON" in members
        assert "127.0.0.1" in members
    window.open("Move to another offset")
    window.page.get_by_label("To", exact=True).select_option("earliest")
    window.press("Show what it would do")
    assert "2 messages would come again." in window.notice
    window.page.get_by_label("Type the name of the group to go on").fill(name)
    window.press("Move the group")
    assert window.notice == f"Group {name} was moved in topic {name}."
    assert re.search(r"Lag\s+5 messages", window.text)
    window.open("Move to another offset")
    window.page.get_by_label("To", exact=True).select_option("offset")
    window.press("Show what it would do")
    assert "no whole number" in window.error
    window.page.get_by_label("Offset, if it is by offset").fill("4")
    window.press("Show what it would do")
    assert "4 messages would be skipped." in window.notice
    window.go(f"/console/groups/{name}")
    window.open("Delete the group")
    window.page.get_by_label("Type the name of the group to go on").locator("visible=true").fill(name)
    window.press("Delete the group")
    assert window.notice == f"Group {name} was deleted."
    ask(server.addresses["http"], "GET", f"/groups/{name}", status=404)


def test_a_group_renews_itself_and_leaves_what_one_does(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    ask(server.addresses["http"], "POST", "/groups", {"name": name, "consume_from": "earliest"})
    with SimpleConsumer(server.addresses["grpc"], name, {name: "*"}, await_duration=timedelta(seconds=1)) as consumer:
        consumer.receive(1, timedelta(seconds=30))
        window.go(f"/console/groups/{name}")
        window.open("Delete the group")
        field = window.page.get_by_label("Type the name of the group to go on").locator("visible=true")
        field.fill("half of it")
        send(server, name, 2)
        expect(window.page.locator(".facts")).to_contain_text("2 messages")
        assert field.input_value() == "half of it"


# --- what is hostile


HOSTILE = ("<script>alert(1)<script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "\u202egnp.exe", "a\x1b[31m")


@pytest.mark.parametrize("text", HOSTILE[:2])
def test_what_others_write_stays_text(window: Visit, text: str) -> None:
    shown = text.replace("\u202e", "U+202E").replace("\x1b", "U+001B")
    for path in ("/console/topics", "/console/groups"):
        window.page.goto(f"http://{window.address}{path}?{urlencode({'search': text, 'page': text})}")
        window.page.wait_for_load_state("networkidle")
        assert shown in window.text
        assert window.page.locator("img, main script").count() == 0
    window.page.goto(f"http://{window.address}/console/topics/{quote(text, safe='')}")
    assert window.page.locator("h1").inner_text() in ("There is no such thing", "That can't be done")
