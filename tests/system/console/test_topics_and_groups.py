"""Pages of topics and groups: what they say, and what comes of their forms."""

import re
from datetime import timedelta
from urllib.parse import quote, urlencode

import pytest

from ternmq.blocking import PullConsumer, SimpleConsumer
from tests.support.console_site import Site
from tests.support.console_window import Window

HOSTILE = ("<script>alert(1)<script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "\u202egnp.exe", "a\x1b[31m")


def confirm(window: Window, what: str, name: str, button: str, summary: str = "") -> Window:
    window.open(summary or button)
    window.fill(f"Type the name of the {what} to confirm", name)
    return window.press(button)


# --- topics


def test_a_topic_from_creation_to_deletion(window: Window, site: Site, name: str) -> None:
    window.go("/console/topics").follow("New topic")
    window.fill("Name", name)
    window.fill("What its messages are", "FIFO")
    window.fill("Queues on each broker", "2")
    window.fill("Retention", "12h")
    window.press("Create the topic")
    assert (window.path, window.notice) == (f"/console/topics/{name}", f"Topic {name} was created.")
    assert re.search(r"Type\s+fifo", window.text)
    assert re.search(r"Retention\s+12 h", window.text)
    window.open("Queues, retention and what clients may do")
    window.fill("Queues on each broker", "3")
    window.fill("Clients may", "READ")
    assert window.press("Change").notice == f"Topic {name} was changed."
    assert re.search(r"Clients may\s+read\s", window.text)
    topic = site.ask("GET", f"/topics/{name}")["topic"]
    assert (topic["queues"], topic["permission"]) == (3, "READ")
    confirm(window, "topic", f"{name}x", "Delete the topic")
    assert f"type the name, {name}, to confirm" in window.error
    site.ask("GET", f"/topics/{name}")
    confirm(window, "topic", name, "Delete the topic")
    assert (window.path, window.notice) == ("/console/topics", f"Topic {name} was deleted.")
    site.ask("GET", f"/topics/{name}", status=404)


def test_messages_are_removed(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    site.send(name, b"0", b"1", b"2")
    confirm(window.go(f"/console/topics/{name}"), "topic", name, "Remove messages")
    assert window.notice == f"3 messages of topic {name} were removed."
    assert re.search(r"Messages held\s+0", window.text)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"Name": "a b"}, "a b"),
        ({"Name": "good-name", "Retention": "soon"}, "no duration"),
        ({"Name": "good-name", "Queues on each broker": "100000"}, "100000"),
    ],
)
def test_why_a_topic_can_not_be_created_is_said_beside_what_was_written(
    window: Window, fields: dict[str, str], error: str
) -> None:
    window.go("/console/new/topic")
    for label, text in fields.items():
        window.fill(label, text)
    assert error in window.press("Create the topic").error
    assert window.field("Name").value == fields["Name"]


def test_many_topics_come_in_pages_and_are_searched(window: Window, site: Site, name: str) -> None:
    names = [f"{name}-{number:02}" for number in range(30)]
    for each in names:
        site.create_topic(each)
    window.go("/console/topics").fill("Part of a topic's name", name.upper())
    assert window.press("Find").column(0) == names[:25]
    assert window.follow("More").column(0) == names[25:]
    assert window.follow("From the beginning").column(0) == names[:25]


# --- groups


def test_a_group_is_seen_and_moved(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    site.send(name, *(b"%d" % number for number in range(5)))
    window.go("/console/new/group").fill("Name", name)
    window.fill("Attempts before a message is a dead letter", "4")
    window.fill("Where it begins", "earliest")
    assert window.press("Create the group").notice == f"Group {name} was created."
    with SimpleConsumer(site.grpc, name, {name: "*"}) as consumer:
        consumer.ack(consumer.receive(2, timedelta(seconds=30)))
        consumer.receive(1, timedelta(seconds=60))
        window.go(f"/console/groups/{name}")
        for fact in (r"Lag\s+3 messages", r"In flight\s+1 messages", r"Attempts\s+4"):
            assert re.search(fact, window.text)
        ((client_id, kind, *others),) = window.rows("Members")
        assert (client_id, kind) == (consumer.client_id, "simple consumer")
        assert "PYTHON" in others
        assert any("127.0.0.1" in each for each in others)

    def preview(target: str, offset: str = "") -> Window:
        window.open("Move to another offset")
        window.fill("To", target)
        window.fill("Offset, if it is by offset", offset)
        return window.press("Show what it would do")

    assert re.search(r"Lost unread\s+none", window.text)
    assert "2 messages would come again." in preview("earliest").notice
    window.fill("Type the name of the group to confirm", name)
    assert window.press("Move the group").notice == f"Group {name} was moved in topic {name}."
    assert re.search(r"Lag\s+5 messages", window.text)
    assert "no whole number" in preview("offset").error
    assert "4 messages would be skipped." in preview("offset", "4").notice
    site.ask("POST", f"/topics/{name}/purge", {})
    window.go(f"/console/groups/{name}")
    assert re.search(r"Lost unread\s+5 messages, removed by retention or a purge", window.text)
    assert "lost 5 unread" in window.go(f"/console/groups?search={name}").text
    confirm(window.go(f"/console/groups/{name}"), "group", name, "Delete the group")
    assert window.notice == f"Group {name} was deleted."
    site.ask("GET", f"/groups/{name}", status=404)


def test_the_settings_of_a_group_are_changed(window: Window, site: Site, name: str) -> None:
    site.create_group(name, max_attempts=4)
    window.go(f"/console/groups/{name}").open("Attempts, and where it begins")
    window.fill("Attempts before a message is a dead letter", "7")
    window.fill("Where it begins in a queue", "latest")
    assert "was changed" in window.press("Change").notice
    changed = site.ask("GET", f"/groups/{name}")["group"]
    assert (changed["max_attempts"], changed["consume_from"]) == (7, "latest")
    window.open("Attempts, and where it begins")
    window.fill("Waits between attempts", "whenever")
    assert "whenever" in window.press("Change").error
    assert site.ask("GET", f"/groups/{name}")["group"] == changed


# --- what is hostile


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_write_stays_text(window: Window, text: str) -> None:
    shown = text.replace("\u202e", "U+202E").replace("\x1b", "U+001B")
    for path in ("/console/topics", "/console/groups"):
        window.go(f"{path}?{urlencode({'search': text, 'page': text})}")
        assert shown in window.text
        assert not window.main.find_all("img", "script")
    window.go(f"/console/topics/{quote(text, safe='')}")
    assert window.page.find("h1").text in ("There is no such thing", "That can't be done")


def test_the_page_of_a_group_shows_who_pulls_from_a_queue(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, queues=1)
    site.create_group(name, consume_from="earliest", queue_lock_hold="30s")
    site.send(name, b"before")
    with PullConsumer(site.grpc, group=name, subscriptions={name: "*"}) as consumer:
        consumer.poll(timeout=1)  # nothing comes after what was there before
        (row,) = window.go(f"/console/groups/{name}").rows("Progress")
        (member,) = window.rows("Members")
    reader, last_pull, holder, since = row[-4:]
    assert member[2] == "grpc"
    assert reader == holder == member[0]
    assert last_pull.endswith(" UTC")
    assert since.endswith(" UTC")
