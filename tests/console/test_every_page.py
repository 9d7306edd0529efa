"""Pages of a server that serves everybody: each says what it is for, and can be used by everybody."""

import json
from datetime import timedelta

from ternmq.blocking import SimpleConsumer
from tests.console.browsing import MISSING, Visit
from tests.support.console_site import Site
from tests.system.console.test_messages import find, path_of


def test_pages_of_topics_and_groups(window: Visit, site: Site, name: str) -> None:
    site.create_topic(name)
    site.create_group(name)
    site.send(name, b"0", b"1")
    with SimpleConsumer(site.grpc, name, {name: "*"}) as consumer:
        assert consumer.receive(1, timedelta(seconds=30))
        window.look_at(
            {
                "/": "Topics",
                f"/console/topics/{name}": "Queues",
                "/console/topics/nobody": MISSING,
                "/console/topics?search=nobody-has-this": "No topic has",
                "/console/new/topic": "New topic",
                "/console/groups": "Groups",
                f"/console/groups/{name}": "Members that are connected",
                "/console/groups?search=nobody-has-this": "No group has",
                "/console/new/group": "New group",
            }
        )


def test_pages_of_messages(window: Visit, site: Site, name: str) -> None:
    site.create_topic(name)
    site.create_topic(f"{name}-lite", type="LITE")
    site.create_topic(f"{name}-half", type="TRANSACTION")
    site.create_topic(f"{name}-mixed", mixed=True)
    value = {"a": [{"b": number} for number in range(5)], "long": "x" * 500, "deep": [[[[[]]]]]}
    site.send(name, json.dumps(value).encode(), tag="NEW", keys=["k1", "k2"], properties={"region": "eu"})
    site.send(name, b"\x00\x01\x02")
    sending = "/console/messages/send?topic="
    window.look_at(
        {
            "/console/messages": "Topics",
            "/console/messages?search=nobody-has-this": "No topic has",
            find(name): "The newest first",
            find(name, key="nobody"): "No message of the topic is like that",
            find(name, key="a", id="b"): "can't be combined",
            find(f"{name}-lite"): "in its lite topics",
            find(f"{name}-half"): "holds no message yet",
            find("nobody-has-this"): MISSING,
            path_of(name, 0): "k1",
            path_of(name, 0, **{"as": "text"}): "region",
            path_of(name, 1): "00000000",
            path_of(name, 7): "has no message at offset 7",
            f"/console/messages/tail?topic={name}": "What comes from now on",
            f"{sending}{name}": "User properties",
            f"{sending}{name}-half": "Outcome of its transaction",
            f"{sending}{name}-mixed": "No: an ordinary message",
            f"/console/transactions?topic={name}-half&message_id=nobody": "with message nobody",
        }
    )
    window.go(f"{sending}{name}-half")
    window.fill("Body", "paid")
    window.page.locator("#outcome").select_option("open")
    window.press("Send it")
    assert window.violations() == []


def test_pages_of_dead_letters_and_of_what_waits(window: Visit, site: Site, name: str) -> None:
    letters, later, open_ones = f"/console/dead-letters/{name}", f"{name}-later", f"{name}-tx"
    site.create_letters(name, b"hello", b'{"a": 1}', b"\x00", tag="NEW")
    site.create_group(f"{name}-none")
    site.create_topic(later, type="DELAY")
    for hours in (1, 2):
        site.send(later, b"later", tag=f"in-{hours}", delay=timedelta(hours=hours))
    site.create_topic(open_ones, type="TRANSACTION")
    site.begin_transaction(open_ones)
    (transaction,) = site.list_transactions(open_ones)
    window.look_at(
        {
            f"/console/dead-letters?search={name}": name,
            "/console/dead-letters?search=nobody-has-this": "has dead letters",
            letters: "never acknowledged",
            f"{letters}?key=nobody": "No dead letter of the group is like that",
            f"{letters}-none": "The group has no dead letters",
            "/console/dead-letters/nobody-has-this": MISSING,
            "/console/timers": "Timed messages",
            f"/console/timers?topic={later}": "in-1",
            f"/console/timers?topic={open_ones}": "No timed message waits",
            "/console/transactions": "Open transactions",
            "/console/transactions?state=DISCARDED": "No transaction is discarded",
            f"/console/transactions?topic={open_ones}": open_ones,
            f"/console/transactions/{transaction['transaction_id']}": "End it in the place of its producer",
            "/console/transactions/nobody": "That can't be done",
        }
    )
    window.go(letters)
    window.press("Resend the chosen")
    assert "choose letters first" in window.error
    window.page.get_by_label("Choose offset 0").check()
    window.press("Resend the chosen")
    assert window.violations() == []
