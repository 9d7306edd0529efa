"""Test messages that are transactions, in a real browser: committed, rolled back, left open, and what users may do."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.console.api import Json, ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.console.conftest import ROOT, SECRET
from tests.console.test_signing_in import as_root, cookie_of, post, sign_in, token_of
from tests.console.test_waiting import make_topic, received
from tests.support.stack import ServerProcess

KINDS = pytest.mark.parametrize("kind", [{"type": "TRANSACTION"}, {"mixed": True}], ids=["transaction", "mixed"])


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


@KINDS
def test_a_committed_one_is_delivered_at_once(window: Visit, server: ServerProcess, name: str, kind: Json) -> None:
    make(server, name, kind)
    write(window, name, "commit")
    assert re.fullmatch(r"Message \w+ was sent, and its transaction committed\.", window.notice)
    assert "paid" in window.page.get_by_role("region", name="Messages").inner_text()
    assert received(server, name, name) == [b"paid"]
    assert open_of(server, name) == []


@KINDS
def test_one_that_is_rolled_back_is_seen_by_nobody(window: Visit, server: ServerProcess, name: str, kind: Json) -> None:
    make(server, name, kind)
    write(window, name, "rollback")
    assert window.notice.endswith("was sent, and its transaction rolled back: nobody gets it.")
    assert re.search(r"State\s+rolled back", window.text)
    assert window.page.get_by_role("region", name="Body as text").inner_text() == "paid"
    assert received(server, name, name) == []
    window.go(f"/console/messages?topic={name}")
    assert "holds no message yet" in window.text
    assert open_of(server, name) == []


def test_one_that_is_left_open_is_found_among_others_and_committed(
    window: Visit, server: ServerProcess, name: str
) -> None:
    make_topic(server, name, "TRANSACTION")
    write(window, name, "open", "other")
    write(window, name, "open")
    sent = re.fullmatch(r"Half message (\w+) was sent, and its transaction is open\.", window.notice)
    assert sent
    links = window.page.locator("tbody th a")
    expect(links).to_have_text([sent[1]])
    assert received(server, name, f"{name}-before") == []
    assert len(open_of(server, name)) == 2
    window.page.get_by_label("Message id").fill("")
    window.press("Show")
    expect(links).to_have_count(2)
    window.fill("Message id", sent[1])
    window.press("Show")
    expect(links).to_have_text([sent[1]])
    links.click()
    window.open("Commit")
    window.page.get_by_label("Type the name of the topic to go on").locator("visible=true").fill(name)
    window.press("Commit")
    assert "committed" in window.notice
    assert received(server, name, f"{name}-after") == [b"paid"]


def test_the_transaction_of_a_message_is_found_behind_many(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, "TRANSACTION")
    path, half = f"/topics/{name}/messages", {"text": "other", "system_properties": {"message_type": "TRANSACTION"}}
    for _ in range(30):
        ask(server.addresses["http"], "POST", path, half)
    write(window, name, "commit")
    assert "committed" in window.notice
    assert len(open_of(server, name)) == 30
    window.go(f"/console/transactions?topic={name}")
    window.page.get_by_role("link", name="More").click()
    expect(window.page.locator("tbody tr")).to_have_count(5)


def test_a_message_of_a_mixed_topic_need_not_be_a_transaction(window: Visit, server: ServerProcess, name: str) -> None:
    make(server, name, {"mixed": True})
    write(window, name, "")
    assert re.fullmatch(r"Message \w+ was sent\.", window.notice)
    assert received(server, name, name) == [b"paid"]
    window.go(f"/console/messages/send?topic={name}")
    window.fill("Body", "x")
    window.fill("Message group", "c-7")
    window.page.locator("#outcome").select_option("commit")
    window.press("Send it")
    assert "a transaction has neither a message group nor a time of delivery" in window.error
    assert window.page.locator("#outcome").input_value() == "commit"
    assert open_of(server, name) == []


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


@pytest.mark.parametrize(
    ("actions", "outcome", "why"),
    [("Pub,Get", "commit", "Update"), ("Pub,Get", "rollback", "Update"), ("Pub", "commit", "Get")],
)
def test_who_may_send_and_not_end_it_is_told_that_it_stays_open(
    guest: Visit, guarded: ServerProcess, name: str, actions: str, outcome: str, why: str
) -> None:
    as_root(guarded, "POST", "/topics", {"name": name, "queues": 1, "type": "TRANSACTION"})
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": f"Topic:{name}", "actions": "Pub,Get"})
    guest.go(f"/console/messages/send?topic={name}")
    sign_in(guest, name)
    guest.fill("Body", "paid")
    guest.page.locator("#outcome").select_option(outcome)
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": f"Topic:{name}", "actions": actions})
    guest.press("Send it")
    verb = "committed" if outcome == "commit" else "rolled back"
    assert f"was sent, and its transaction could not be {verb}" in guest.error
    assert why.lower() in guest.error.lower()
    assert "may not do this" in guest.error
    assert guest.violations() == []
    (transaction,) = open_of(guarded, name, user=ROOT, secret=SECRET)
    assert transaction["message_id"] in guest.error
    guest.page.get_by_role("link", name="Look for it among the open transactions").click()
    if "Get" in actions:
        expect(guest.page.locator("tbody th a")).to_have_text([transaction["message_id"]])
    else:
        assert "may not do this" in guest.error


def test_who_may_only_send_does_not_see_the_form(guest: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/topics", {"name": name, "queues": 1, "type": "TRANSACTION"})
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": f"Topic:{name}", "actions": "Pub"})
    guest.go(f"/console/messages/send?topic={name}")
    sign_in(guest, name)
    assert "may not do this" in guest.error
    assert open_of(guarded, name, user=ROOT, secret=SECRET) == []
