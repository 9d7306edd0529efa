"""Pages of timed messages and open transactions: seen, recalled, committed and rolled back."""

import re
from datetime import timedelta

import pytest

from tests.support.console_site import Site
from tests.support.console_window import Window
from tests.system.console.test_messages import found

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def tags(window: Window) -> list[str]:
    return window.column(4) if window.page.find_all("tbody") else []


def send_later(site: Site, topic: str, *minutes: int) -> None:
    site.create_topic(topic, type="DELAY")
    for each in minutes:
        site.send(topic, b"later", tag=f"in-{each:02}", keys=[HOSTILE], delay=timedelta(minutes=each))


def test_timed_messages_are_seen_and_recalled(window: Window, site: Site, name: str) -> None:
    send_later(site, name, 30, 10, 20)
    window.go("/console/topics").follow("Timers").fill("Topic; empty for all", name)
    assert tags(window.press("Show")) == ["in-10", "in-20", "in-30"]
    assert "U+202E" in window.text
    assert not window.main.find_all("img")

    def recall(topic: str) -> Window:
        window.fill("Type the name of the topic", topic)
        return window.press("Recall")

    def boxes() -> list[bool]:
        return [each.is_checked for each in window.main.find_all("input", type="checkbox")]

    window.main.find_all("input", type="checkbox")[1].attributes["checked"] = ""
    assert f"type the name, {name}, to confirm" in recall("another").error
    assert (boxes(), tags(window)) == ([False, True, False], ["in-10", "in-20", "in-30"])
    assert recall(name).notice == f"1 of 1 messages of topic {name} were recalled."
    assert tags(window) == ["in-10", "in-30"]
    listed = site.ask("GET", f"/timers?topic={name}")["timers"]
    assert [each["tag"] for each in listed] == ["in-10", "in-30"]
    assert "choose at least one message" in recall(name).error


def test_many_timers_come_in_pages(window: Window, site: Site, name: str) -> None:
    send_later(site, name, *range(10, 40))
    wanted = [f"in-{number:02}" for number in range(10, 40)]
    assert tags(window.go(f"/console/timers?topic={name}")) == wanted[:25]
    assert tags(window.follow("More")) == wanted[25:]


@pytest.mark.parametrize(
    ("button", "state", "bodies"), [("Commit", "committed", ["paid"]), ("Roll back", "rolled back", [])]
)
def test_a_transaction_is_ended_in_the_place_of_its_producer(
    window: Window, site: Site, name: str, button: str, state: str, bodies: list[str]
) -> None:
    site.create_topic(name, type="TRANSACTION")
    site.begin_transaction(name)
    window.go("/console/transactions").fill("Topic; empty for all", name)
    window.press("Show").follow("", window.region("Transactions").find("tbody"))
    assert re.search(r"State\s+pending", window.text)
    assert window.region("Body as text").text == "paid"
    assert "70 61 69 64" in window.follow("Hex").region("Body as hex").text
    window.open(button)
    window.fill("Type the name of the topic to confirm", f"{name}x")
    assert f"type the name, {name}, to confirm" in window.press(button).error
    assert len(site.list_transactions(name)) == 1
    window.open(button)
    window.fill("Type the name of the topic to confirm", name)
    assert state in window.press(button).notice
    assert re.search(rf"State\s+{state}", window.text)
    assert window.summaries == []
    assert found(window.go(f"/console/messages?topic={name}")) == bodies
