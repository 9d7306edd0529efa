"""The form that sends a test message: of each type, as a transaction, and what can't be sent."""

import base64
import re

import pytest

from tests.support.console_site import SECRET, Json, Site
from tests.support.console_window import Window
from tests.system.console.test_messages import found

KINDS = pytest.mark.parametrize("kind", [{"type": "TRANSACTION"}, {"mixed": True}], ids=["transaction", "mixed"])


def read(site: Site, topic: str) -> list[Json]:
    return list(site.ask("GET", f"/topics/{topic}/queues/0/messages?offset=0&limit=9")["messages"])


def fill_in(window: Window, topic: str, fields: dict[str, str]) -> None:
    window.go(f"/console/messages/send?topic={topic}")
    for label, text in fields.items():
        window.fill(label, text)


def send(window: Window, topic: str, outcome: str, body: str = "paid") -> None:
    """Send a message that is a transaction, unless `outcome` is empty."""
    fill_in(window, topic, {"Body": body})
    window.page.find("select", id="outcome").choose(outcome)
    window.press("Send it")


# --- messages


@pytest.mark.parametrize(
    ("kind", "fields", "wanted"),
    [
        ("NORMAL", {}, {"message_type": "NORMAL"}),
        ("FIFO", {"Message group": "c-7"}, {"message_type": "FIFO", "message_group": "c-7"}),
        ("PRIORITY", {"Priority": "5"}, {"message_type": "PRIORITY", "priority": 5}),
        ("DELAY", {"Or delivered at": "2001-01-01T00:00:00"}, {"message_type": "DELAY"}),
    ],
)
def test_a_message_of_each_type_is_sent(
    window: Window, site: Site, name: str, kind: str, fields: dict[str, str], wanted: Json
) -> None:
    site.create_topic(name, type=kind)
    body, properties = "hello\n\u202ew\u00f6rld", "region=eu\n\nnote=a=b"
    window.go(f"/console/topics/{name}").follow("Send a test message")
    assert window.path == f"/console/messages/send?topic={name}"
    fill_in(window, name, {"Body": body, "Tag": "NEW", "Keys": "k1 k2", "User properties": properties, **fields})
    assert "was sent" in window.press("Send it").notice
    (message,) = read(site, name)
    assert base64.b64decode(message["body"]).decode() == body
    assert message["user_properties"] == {"region": "eu", "note": "a=b"}
    system = message["system_properties"]
    assert {field: system[field] for field in ("tag", "keys", *wanted)} == {"tag": "NEW", "keys": ["k1", "k2"]} | wanted
    window.follow(system["message_id"], window.region("Messages"))
    assert window.page.find("h1").text == f"Message {system['message_id']}"


def test_a_message_to_a_lite_topic_and_a_delayed_one_are_sent(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, type="LITE")
    fill_in(window, name, {"Body": "hello", "Lite topic": "chat-1"})
    assert found(window.press("Send it")) == ["hello"]
    site.create_topic(f"{name}-mixed", mixed=True)
    fill_in(window, f"{name}-mixed", {"Body": "later", "Delivered after": "12h"})
    assert "is listed here when it is due" in window.press("Send it").notice
    assert read(site, f"{name}-mixed") == []


@pytest.mark.parametrize(
    ("kind", "fields", "error"),
    [
        ("NORMAL", {"User properties": "a=1\nbad"}, "line 2 of the properties"),
        ("NORMAL", {"User properties": "a=1\na=2"}, "twice"),
        ("NORMAL", {"User properties": "TRACE_ON=1"}, "TRACE_ON"),
        ("FIFO", {}, "takes fifo messages"),
        ("DELAY", {"Delivered after": "soon"}, "no duration"),
        ("DELAY", {"Delivered after": "1h", "Or delivered at": "2999-01-01T00:00:01"}, "not both"),
        ("DELAY", {"Delivered after": "90d"}, "delivery"),
        ("DELAY", {"Delivered after": "99999999d"}, "too long"),
        ("DELAY", {"Delivered after": "99999999999999999999999d"}, "no duration"),
        ("PRIORITY", {"Priority": "99999999999"}, "99999999999"),
        ("LITE", {"Lite topic": "a b"}, "a b"),
    ],
)
def test_why_a_message_can_not_be_sent_is_said_beside_what_was_written(
    window: Window, site: Site, name: str, kind: str, fields: dict[str, str], error: str
) -> None:
    site.create_topic(name, type=kind)
    fields = {"Body": "x", **fields}
    fill_in(window, name, fields)
    assert error.lower() in window.press("Send it").error.lower()
    assert {label: window.field(label).value.replace("\r\n", "\n") for label in fields} == fields


def test_a_form_that_is_too_long_says_so(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    fill_in(window, name, {"Body": "x" * 70_000})
    assert "64.0 KiB at most" in window.text
    assert "65536 bytes at most" in window.press("Send it").error
    fill_in(window, name, {"Body": "x" * 60_000})
    assert "was sent" in window.press("Send it").notice
    assert len(base64.b64decode(read(site, name)[0]["body"])) == 60_000


# --- transactions


@KINDS
def test_a_committed_one_is_delivered_at_once(window: Window, site: Site, name: str, kind: Json) -> None:
    site.create_topic(name, **kind)
    send(window, name, "commit")
    assert re.fullmatch(r"Message \w+ was sent, and its transaction committed\.", window.notice)
    assert found(window) == ["paid"]
    assert site.list_transactions(name) == []


@KINDS
def test_one_that_is_rolled_back_is_seen_by_nobody(window: Window, site: Site, name: str, kind: Json) -> None:
    site.create_topic(name, **kind)
    send(window, name, "rollback")
    assert window.notice.endswith("was sent, and its transaction rolled back: it is never delivered.")
    assert re.search(r"State\s+rolled back", window.text)
    assert window.region("Body as text").text == "paid"
    assert "holds no message yet" in window.go(f"/console/messages?topic={name}").text
    assert site.list_transactions(name) == []


def test_one_that_is_left_open_is_found_among_others_and_committed(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, type="TRANSACTION")
    send(window, name, "open", "other")
    send(window, name, "open")
    sent = re.fullmatch(r"Half message (\w+) was sent, and its transaction is open\.", window.notice)
    assert sent
    assert window.column(0) == [sent[1]]
    window.fill("Message id", "")
    assert len(window.press("Show").rows()) == len(site.list_transactions(name)) == 2
    window.fill("Message id", sent[1])
    assert window.press("Show").column(0) == [sent[1]]
    window.follow(sent[1]).open("Commit")
    window.fill("Type the name of the topic to confirm", name)
    assert "committed" in window.press("Commit").notice
    assert found(window.go(f"/console/messages?topic={name}")) == ["paid"]


def test_the_transaction_of_a_message_is_found_behind_many(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, type="TRANSACTION")
    half = {"text": "other", "system_properties": {"message_type": "TRANSACTION"}}
    for _ in range(30):
        site.ask("POST", f"/topics/{name}/messages", half)
    send(window, name, "commit")
    assert "committed" in window.notice
    assert len(site.list_transactions(name)) == 30
    assert len(window.go(f"/console/transactions?topic={name}").follow("More").rows()) == 5


def test_a_message_of_a_mixed_topic_need_not_be_a_transaction(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, mixed=True)
    send(window, name, "")
    assert re.fullmatch(r"Message \w+ was sent\.", window.notice)
    assert found(window) == ["paid"]
    fill_in(window, name, {"Body": "x", "Message group": "c-7", "As a transaction": "commit"})
    error = "a transaction has neither a message group nor a time of delivery"
    assert error in window.press("Send it").error
    assert window.field("As a transaction").value == "commit"
    assert site.list_transactions(name) == []


def test_an_outcome_must_be_chosen_and_must_be_one(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, type="TRANSACTION")
    window.go(f"/console/messages/send?topic={name}")
    assert "required" in window.field("Outcome of its transaction").attributes
    for outcome in ("", "never", "COMMIT"):
        form = {"token": window.token, "topic": name, "body": "x", "outcome": outcome}
        assert window.post("/console/messages/send", form) == 400, outcome
    assert (site.list_transactions(name), site.count_messages(name)) == ([], 0)


@pytest.mark.parametrize(
    ("actions", "outcome", "why"),
    [("Pub,Get", "commit", "Update"), ("Pub,Get", "rollback", "Update"), ("Pub", "commit", "Get")],
)
def test_a_user_who_may_send_and_not_end_it_reads_that_it_stays_open(
    guest: Window, guarded: Site, name: str, actions: str, outcome: str, why: str
) -> None:
    guarded.create_topic(name, type="TRANSACTION")
    guarded.create_user(name, (f"Topic:{name}", "Pub,Get"))
    guest.go(f"/console/messages/send?topic={name}").sign_in(name, SECRET)
    guest.fill("Body", "paid")
    guest.fill("Outcome of its transaction", outcome)
    guarded.put_policy(name, f"Topic:{name}", actions)
    guest.press("Send it")
    verb = "committed" if outcome == "commit" else "rolled back"
    (transaction,) = guarded.list_transactions(name)
    for said in (
        f"was sent, and its transaction could not be {verb}",
        why,
        "may not do this",
        transaction["message_id"],
    ):
        assert said.lower() in guest.error.lower()
    guest.follow("Look for it among the open transactions")
    if "Get" in actions:
        assert guest.column(0) == [transaction["message_id"]]
    else:
        assert "may not do this" in guest.error


def test_a_user_who_may_only_send_does_not_see_the_form(guest: Window, guarded: Site, name: str) -> None:
    guarded.create_topic(name, type="TRANSACTION")
    guarded.create_user(name, (f"Topic:{name}", "Pub"))
    guest.go(f"/console/messages/send?topic={name}").sign_in(name)
    assert "may not do this" in guest.error
    assert guarded.list_transactions(name) == []
