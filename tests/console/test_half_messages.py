"""Test messages that are transactions, in a real browser: committed, rolled back, left open, and what users may do."""

import pytest
from playwright.sync_api import Browser

from tests.console.api import Json, ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.console.test_signing_in import cookie_of, post, token_of
from tests.console.test_waiting import make_topic
from tests.support.stack import ServerProcess


def make(server: ServerProcess, name: str, kind: Json) -> None:
    ask(server.addresses["http"], "POST", "/topics", {"name": name, "queues": 1} | kind)


def write(window: Visit, topic: str, outcome: str, body: str = "paid") -> None:
    window.go(f"/console/messages/send?topic={topic}")
    window.fill("Body", body)
    window.page.locator("#outcome").select_option(outcome)
    window.press("Send it")


def open_of(server: ServerProcess, topic: str, *, user: str = "", secret: str = "") -> list[Json]:
    path = f"/transactions?topic={topic}"
    return list(ask(server.addresses["http"], "GET", path, user=user, secret=secret)["transactions"])


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, server: ServerProcess, name: str, theme: str, width: int, height: int
) -> None:
    make_topic(server, name, "TRANSACTION")
    make(server, f"{name}-mixed", {"mixed": True})
    with visit(browser, server.addresses["http"], theme=theme, width=width, height=height) as window:
        for path, wanted in {
            f"/console/messages/send?topic={name}": "Outcome of its transaction",
            f"/console/messages/send?topic={name}-mixed": "No: an ordinary message",
            f"/console/transactions?topic={name}&message_id=nobody": "with message nobody",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            assert window.violations() == [], path
        write(window, name, "open")
        assert window.violations() == []


def test_an_outcome_must_be_chosen_and_must_be_one(browser: Browser, server: ServerProcess, name: str) -> None:
    make_topic(server, name, "TRANSACTION")
    with visit(browser, server.addresses["http"], scripts=False) as window:
        write(window, name, "")
        assert window.path == f"/console/messages/send?topic={name}", "the browser does not send it"
        cookie = str(cookie_of(window)["value"])
        for outcome in ("", "never", "COMMIT"):
            form = {"token": token_of(window), "topic": name, "body": "x", "outcome": outcome}
            assert post(server, "/console/messages/send", cookie, form) == 400, outcome
        write(window, name, "commit")
        assert "committed" in window.notice
    assert open_of(server, name) == []
