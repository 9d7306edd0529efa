"""Timed messages and transactions in a real browser: seen, recalled, committed and rolled back."""

from datetime import timedelta

import pytest
from playwright.sync_api import Browser

from ternmq import Message
from ternmq.blocking import Producer
from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, visit
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
