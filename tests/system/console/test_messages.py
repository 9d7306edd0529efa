"""Pages of messages: finding, looking at one, its body in any form, and the list of those that come."""

import base64
import gzip
import re
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote, urlencode

import pytest

from ternmq.blocking import SimpleConsumer
from ternmq_common.limits import MIB
from tests.support.console_site import Site
from tests.support.console_window import Window

BODIES = {
    "script": (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
    "escapes": (b"a\x1b[31mred\x1b[0m", "U+001B[31mred"),
    "RTL": ("\u202egnp.exe".encode(), "U+202Egnp.exe"),
    "no UTF-8": (b"a\xff\xfe\xed\xa0\x80", "byte FF"),
    "text of 4 MiB": ((b"<b>line</b>\n" * (MIB // 3))[: 4 * MIB], "<b>line</b>"),
    "zeros of 4 MiB": (bytes(4 * MIB), "U+0000, 1,024 times"),
    "deep JSON": (b"[" * 100_000 + b"]" * 100_000, "[[[["),
    "huge number": (b'{"n": 1' + b"0" * 60_000 + b"}", "10000"),
}


def path_of(topic: str, offset: int, **more: str) -> str:
    place = {"topic": topic, "broker": "broker-0", "queue": 0, "offset": offset, **more}
    return f"/console/messages/one?{urlencode(place)}"


def find(topic: str, **more: object) -> str:
    return f"/console/messages?{urlencode({'topic': topic, **more})}"


def times(window: Window) -> list[str]:
    return [each.attributes["datetime"] for each in window.main.find_all("time")]


def found(window: Window) -> list[str]:
    """What the messages of the list begin with, from above."""
    return window.column(-1, "Messages") if window.page.find_all("tbody") else []


def body_text(window: Window) -> str:
    (body,) = [each for each in window.page.find_all(role="region") if each.name.startswith("Body as")]
    return body.text


# --- finding


def test_the_newest_come_first_over_all_queues_and_in_pages(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, queues=3)
    site.send(name, *(b"%d" % number for number in range(60)))
    window.go(f"/console/messages?search={name}")
    assert len(window.rows()) == 1
    window.follow("find")
    seen: list[str] = []
    stored: list[str] = []
    first = found(window)
    for length in (25, 25, 10):
        assert len(found(window)) == length
        seen += found(window)
        stored += times(window)
        assert window.has_link("More") == (length == 25)
        if length == 25:
            window.follow("More")
    assert sorted(map(int, seen)) == list(range(60))
    assert stored == sorted(stored, reverse=True)
    assert found(window.follow("From the beginning")) == first


def test_messages_are_found_by_every_field(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, queues=2)
    ids = [
        site.send(name, b"%d" % number, tag="ODD" if number % 2 else "EVEN", keys=[f"k{number % 3}"])[0]
        for number in range(6)
    ]
    everything = ["0", "1", "2", "3", "4", "5"]

    def search(**fields: str) -> list[str]:
        window.go(find(name))
        for label, text in fields.items():
            window.fill(label.replace("_", " "), text)
        window.press("Find")
        return sorted(found(window))

    assert search(Key="k1") == ["1", "4"]
    assert search(Message_id=ids[3]) == ["3"]
    assert search(Tag="ODD") == ["1", "3", "5"]
    assert search(Tag="ODD || EVEN") == everything
    in_first = search(Queue="0", Offset="0")
    assert search(Queue="0") == in_first
    in_second = search(Queue="1", Offset="0")
    assert sorted([*in_first, *in_second]) == everything
    assert search(Queue="1", Offset="1") == in_second[1:]
    assert search(Stored_from="2999-01-01T00:00:00") == []
    assert search(Stored_before="2999-01-01T00:00:00") == everything
    assert search(Stored_before="2001-01-01T00:00:00") == []
    assert search(Stored_from="2001-01-01T00:00:00", Tag="EVEN") == ["0", "2", "4"]
    assert search(Stored_before="2001-01-01T00:00:00", Key="k1") == []
    for fields, error in (
        ({"Queue": "9"}, "queues 0 to 1"),
        ({"Offset": "1"}, "an offset needs a queue"),
        ({"Key": "a", "Tag": "b"}, "can't be combined"),
    ):
        assert search(**fields) == []
        assert error in window.error
    assert "is outdated" in window.go(find(name, at="1.2.3")).error


def test_times_are_taken_as_they_are_shown_or_with_their_distance_from_utc(
    window: Window, site: Site, name: str
) -> None:
    site.create_topic(name)
    site.send(name, b"one")
    shown = window.go(find(name)).region("Messages").find("time").text
    at = datetime.fromisoformat(shown.removesuffix(" UTC")).replace(tzinfo=UTC)
    in_field = at.strftime("%Y-%m-%dT%H:%M:%S.%f").removesuffix("000")
    for text in (shown, in_field, at.isoformat(), at.astimezone(timezone(timedelta(hours=-5))).isoformat()):
        assert found(window.go(find(name, **{"from": text}))) == ["one"], text
        field = window.field("Stored from (UTC)").attributes
        assert (field["value"], field["step"]) == (in_field, "0.001"), "it can be sent again"
        assert found(window.go(find(name, before=text))) == [], text
    assert "no time" in window.go(find(name, before="0001-01-01T00:00:00+14:00")).error


def test_messages_of_a_lite_topic_are_found_and_have_their_address(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, type="LITE")
    site.send(name, b"one", b"two", lite_topic="chat-1", keys=["k"])
    site.send(name, b"other", lite_topic="chat-2")
    window.go(find(name)).fill("Lite topic", "chat-1")
    window.press("Find")
    assert found(window) == ["one", "two"]
    (row,) = [row for row in window.region("Messages").rows() if row[-1].text == "two"]
    window.follow("", row[0])
    assert "lite=chat-1" in window.path
    assert body_text(window) == "two"
    assert "name a lite topic" in window.go(find(name, key="k")).error


def test_a_tag_is_found_page_by_page(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, queues=2)
    site.send(name, *(b"%d" % number for number in range(60)), tag="A")
    seen = found(window.go(find(name, tag="A")))
    for _ in range(2):
        seen += found(window.follow("More"))
    assert sorted(map(int, seen)) == list(range(60))


# --- one message


def test_a_message_says_all_of_itself(window: Window, site: Site, name: str) -> None:
    site.create_topic(name, type="FIFO")
    body = b'{"order": 17, "price": 1.10, "lines": [{"n": 1}]}'
    site.send(name, b"first", body, tag="NEW", keys=["k1", "k2"], properties={"region": "eu"}, message_group="c-7")
    window.go(find(name)).follow("", window.region("Messages"))
    assert window.path == path_of(name, 1)
    told = window.region("System properties").text
    for wanted in ("NEW", "k1", "k2", "fifo", "c-7", "127.0.0.1", "identity"):
        assert wanted in told
    assert window.rows("User properties") == [["region", "eu"]]
    assert re.search(rf"Body\s+{len(body)} bytes", window.text)
    tree = window.region("Body as JSON")
    assert '"price": 1.10' in tree.text
    assert any('"lines"' in each for each in window.summaries)
    assert body_text(window.follow("Text")) == body.decode()
    assert body_text(window.follow("Hex")).startswith("00000000 7b 22 6f 72 64 65 72 22 3a")
    assert window.follow("Offset 0").region("Body as text").text == "first"


def test_a_message_says_how_it_stands_with_each_group(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    site.create_group(name, consume_from="earliest", max_attempts=1)
    site.send(name, b"done", b"held", b"dead", b"ahead")
    assert "No group has received messages of this topic" in window.go(path_of(name, 0)).text
    with SimpleConsumer(site.grpc, name, {name: "*"}) as consumer:
        views = {view.body: view for view in consumer.receive(3, timedelta(seconds=60))}
        consumer.ack(views[b"done"])
        consumer.change_invisible_duration(views[b"dead"], timedelta(0))
        states = [window.go(path_of(name, offset)).rows("Groups")[0] for offset in range(4)]
    assert states[0] == [name, "finished: acknowledged, filtered out or skipped", "\u2013", "\u2013"]
    assert states[1][:3] == [name, "a consumer has it", "1"]
    assert states[1][3].endswith(" UTC")
    assert states[2][:2] == [name, "a dead letter"]
    assert states[3][:2] == [name, "not delivered yet"]
    window.go(path_of(name, 2)).follow("a dead letter")
    assert body_text(window) == "dead"
    assert f"topic={quote(f'%DLQ%{name}')}" in window.path


def test_a_packed_body_is_inflated(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    body = b"hello " * 10_000
    packed = base64.b64encode(gzip.compress(body)).decode()
    said = {"body": packed, "system_properties": {"body_encoding": "GZIP"}}
    site.ask("POST", f"/topics/{name}/messages", said)
    window.go(path_of(name, 0))
    assert body_text(window).startswith("hello hello")
    assert "58.6 KiB" in window.text
    assert window.fetch(window.address_of(window.link("Download"))).body == body


def test_the_whole_body_is_downloaded_and_never_shown(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    body = b"<script>alert(1)</script>" + bytes(range(256)) * 10_000
    site.send(name, body)
    answer = window.fetch(window.address_of(window.go(path_of(name, 0)).link("Download")))
    assert answer.body == body
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+\.bin"', answer.headers["content-disposition"])


@pytest.mark.parametrize("kind", BODIES)
def test_a_hostile_body_stays_text_and_within_bounds(window: Window, site: Site, name: str, kind: str) -> None:
    body, shown = BODIES[kind]
    site.create_topic(name)
    site.send(name, body)
    for path in (find(name), *(path_of(name, 0, **{"as": form}) for form in ("", "json", "hex", "text"))):
        assert window.go(path).status == 200
        assert len(window.source.encode()) < 700_000
        assert not window.main.find_all("script", "img")
        assert {each.attributes.get("class") for each in window.main.find_all("b")} <= {"hidden-character"}
        assert not re.search("[\x00\x1b\u202e]", window.source)
    assert shown in body_text(window)
    assert window.fetch(window.address_of(window.link("Download"))).body == body


def test_hostile_names_stay_text(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    text = "<script>alert(1)</script>"
    site.send(name, b"x", tag="<i>t</i>", keys=["<img src=x>"], properties={"<b>n</b>": f"{text}\u202e"})
    window.go(find(name))
    assert "<i>t</i>" in window.text
    assert "<img src=x>" in window.text
    window.go(path_of(name, 0))
    assert window.rows("User properties") == [["<b>n</b>", f"{text}U+202E"]]
    assert not window.main.find_all("i", "img", "script")
    for field in ("topic", "key", "id", "tag", "lite", "broker", "queue", "offset", "from", "at"):
        window.go(f"/console/messages?{urlencode({'topic': name} | {field: text})}")
        assert not window.main.find_all("script")
        assert "alert" in window.source.partition("<main")[2]
    for query in (
        "", "topic=a", f"topic={name}&queue=0&offset=9223372036854775807&broker={quote(text)}",
        f"topic={name}&queue=99999999999999999999&offset=1&broker=a", f"topic={name}&queue=0&offset=-1",
    ):  # fmt: skip
        assert 400 <= window.fetch(f"/console/messages/one?{query}").status < 500, query


# --- as they come


def test_those_that_came_since_are_listed_and_what_is_too_much_is_counted(
    window: Window, site: Site, name: str
) -> None:
    site.create_topic(name)
    site.send(name, b"before")
    window.go(f"/console/messages/tail?topic={name}")
    assert window.page.find(id="arrived").attributes["data-most"] == "200"

    def arrived() -> list[str]:
        return [each.text for each in window.follow("What came since").page.find(id="arrived").find_all("li")]

    site.send(name, b"one", b"two")
    assert [each.split("\n")[-1] for each in arrived()] == ["two", "one"]
    site.send(name, *(b"%d" % number for number in range(60)))
    newest = arrived()
    assert len(newest) == 51
    assert "10 messages came faster" in newest[-1]
    assert newest[0].endswith("59")
    assert arrived() == []


def test_only_those_with_the_tag_are_listed(window: Window, site: Site, name: str) -> None:
    site.create_topic(name)
    window.go(f"/console/messages/tail?topic={name}").fill("Only with the tag", "NEW")
    window.press("Show these")
    site.send(name, b"other", tag="OLD")
    site.send(name, b"wanted", tag="NEW")
    (message,) = window.follow("What came since").page.find(id="arrived").find_all("li")
    assert message.text.endswith("wanted")
    window.go(f"/console/messages/tail?{urlencode({'topic': name, 'at': '1.2'})}")
    assert "is outdated" in window.error


# --- with few rights


def test_a_user_without_sub_sees_all_but_bodies(guest: Window, guarded: Site, name: str) -> None:
    for topic in (f"{name}-own", f"{name}-other"):
        guarded.create_topic(topic)
        guarded.ask("POST", f"/topics/{topic}/messages", {"text": "secret", "tag": "NEW"})
    guarded.create_user(name, (f"Topic:{name}-own", "Get"))
    # The address of a message leads there after signing in.
    guest.go(path_of(f"{name}-own", 0)).sign_in(name)
    assert guest.path == path_of(f"{name}-own", 0)
    assert "You may not see it: that needs SUB" in guest.text
    assert "NEW" in guest.text
    assert not guest.has_link("Download")
    for path, said in {
        find(f"{name}-own"): "you may not see it",
        path_of(f"{name}-own", 0).replace("one?", "one/body?"): "You may not see the bodies",
        find(f"{name}-other"): "may not do this",
        path_of(f"{name}-other", 0): "may not do this",
        f"/console/messages/tail?topic={name}-own": "may not do this",
        f"/console/messages/tail?topic={name}-other": "may not do this",
        f"/console/messages/send?topic={name}-other": "may not do this",
    }.items():
        assert said in guest.go(path).text, path
        assert "secret" not in guest.source, path
    guest.go(f"/console/messages/send?topic={name}-own").fill("Body", "x")
    assert "may not do this" in guest.press("Send it").error
    assert guarded.count_messages(f"{name}-own") == 1
