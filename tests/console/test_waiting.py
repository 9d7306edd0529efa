"""Timed messages and transactions in a real browser: seen, recalled, committed and rolled back."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.support.stack import ServerProcess

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def make_topic(server: ServerProcess, name: str, kind: str) -> None:
    ask(server.addresses["http"], "POST", "/topics", {"name": name, "queues": 1, "type": kind})


def send_later(server: ServerProcess, topic: str, *hours: int) -> None:
    with Producer(server.addresses["grpc"], topics=[topic]) as producer:
        for each in hours:
            later = timedelta(hours=each)
            producer.send(Message(topic, b"later", tag=f"in-{each}", keys=[HOSTILE], delay=later))


def begin(server: ServerProcess, topic: str) -> None:
    with Producer(server.addresses["grpc"], topics=[topic]) as producer:
        producer.begin_transaction().send(Message(topic, b"paid"))


def received(server: ServerProcess, topic: str, group: str) -> list[bytes]:
    """What a group that begins with the first message gets, within a second."""
    ask(server.addresses["http"], "POST", "/groups", {"name": group, "consume_from": "earliest"})
    with SimpleConsumer(server.addresses["grpc"], group, {topic: "*"}, await_duration=timedelta(seconds=1)) as consumer:
        return [view.body for view in consumer.receive(10, timedelta(seconds=30))]


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, server: ServerProcess, name: str, theme: str, width: int, height: int
) -> None:
    make_topic(server, name, "DELAY")
    make_topic(server, f"{name}-tx", "TRANSACTION")
    send_later(server, name, 1, 2)
    begin(server, f"{name}-tx")
    transaction = ask(server.addresses["http"], "GET", f"/transactions?topic={name}-tx")["transactions"][0]
    with visit(browser, server.addresses["http"], theme=theme, width=width, height=height) as window:
        for path, wanted in {
            "/console/timers": "Timed messages",
            f"/console/timers?topic={name}": "in-1",
            f"/console/timers?topic={name}-tx": "No timed message waits",
            "/console/transactions": "Open transactions",
            "/console/transactions?state=DISCARDED": "No transaction is discarded",
            f"/console/transactions?topic={name}-tx": f"{name}-tx",
            f"/console/transactions/{transaction['transaction_id']}": "End it in the place of its producer",
            "/console/transactions/nobody": "That can't be done",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            for summary in window.page.locator("summary").all():
                summary.click()
            assert window.violations() == [], path


def test_what_waits_is_seen_and_recalled(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, "DELAY")
    send_later(server, name, 3, 1, 2)
    window.go("/console/topics")
    window.page.get_by_role("link", name="Timers").click()
    window.fill("Topic; empty for all", name)
    window.press("Show")
    tags = window.page.locator("tbody tr td:nth-of-type(4)")
    expect(tags).to_have_text(["in-1", "in-2", "in-3"])
    assert "U+202E" in window.text
    assert window.page.locator("main img").count() == 0
    window.page.get_by_role("checkbox").nth(1).check()
    window.fill("Type the name of the topic", "another")
    window.press("Recall")
    assert f"type the name, {name}, to go on" in window.error
    expect(window.page.get_by_role("checkbox").nth(1)).to_be_checked()
    expect(tags).to_have_text(["in-1", "in-2", "in-3"])
    window.fill("Type the name of the topic", name)
    window.press("Recall")
    assert window.notice == f"1 of 1 messages of topic {name} were recalled."
    expect(tags).to_have_text(["in-1", "in-3"])
    listed = ask(server.addresses["http"], "GET", f"/timers?topic={name}")["timers"]
    assert [each["tag"] for each in listed] == ["in-1", "in-3"]
    window.fill("Type the name of the topic", name)
    window.press("Recall")
    assert "choose at least one message" in window.error


def test_many_timers_come_in_pages(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, "DELAY")
    with Producer(server.addresses["grpc"], topics=[name]) as producer:
        for number in range(30):
            producer.send(Message(name, b"x", tag=f"t-{number:02}", delay=timedelta(hours=1, seconds=number)))
    window.go(f"/console/timers?topic={name}")
    tags = window.page.locator("tbody tr td:nth-of-type(4)")
    expect(tags).to_have_text([f"t-{number:02}" for number in range(25)])
    window.page.get_by_role("link", name="More").click()
    expect(tags).to_have_text([f"t-{number:02}" for number in range(25, 30)])


@pytest.mark.parametrize(
    ("summary", "button", "state", "bodies"),
    [("Commit", "Commit", "committed", [b"paid"]), ("Roll back", "Roll back", "rolled back", [])],
)
def test_a_transaction_is_ended_in_the_place_of_its_producer(
    window: Visit, server: ServerProcess, name: str, summary: str, button: str, state: str, bodies: list[bytes]
) -> None:
    make_topic(server, name, "TRANSACTION")
    begin(server, name)
    window.go("/console/transactions")
    window.fill("Topic; empty for all", name)
    window.press("Show")
    window.page.locator("tbody th a").click()
    assert re.search(r"State\s+pending", window.text)
    assert window.page.get_by_role("region", name="Body as text").inner_text() == "paid"
    window.page.get_by_role("link", name="Hex").click()
    assert "70 61 69 64" in window.page.get_by_role("region", name="Body as hex").inner_text()
    window.open(summary)
    window.page.get_by_label("Type the name of the topic to go on").locator("visible=true").fill(f"{name}x")
    window.press(button)
    assert f"type the name, {name}, to go on" in window.error
    assert received(server, name, f"{name}-before") == []
    window.open(summary)
    window.page.get_by_label("Type the name of the topic to go on").locator("visible=true").fill(name)
    window.press(button)
    assert state in window.notice
    assert re.search(rf"State\s+{state}", window.text)
    assert window.page.locator("summary").count() == 0
    assert received(server, name, f"{name}-after") == bodies


def test_a_message_is_recalled_without_a_script(browser: Browser, server: ServerProcess, name: str) -> None:
    make_topic(server, name, "DELAY")
    send_later(server, name, 1)
    with visit(browser, server.addresses["http"], scripts=False) as window:
        window.go(f"/console/timers?topic={name}")
        window.page.get_by_role("checkbox").check()
        window.fill("Type the name of the topic", name)
        window.press("Recall")
        assert "1 of 1" in window.notice
        assert "No timed message waits" in window.text
