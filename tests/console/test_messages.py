"""Messages in a real browser: found, looked at, seen as they come and sent, whatever is in them."""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, expect

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq_common.limits import MIB
from tests.console.api import Json, ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.console.conftest import ROOT, SECRET
from tests.console.test_signing_in import as_root, sign_in
from tests.support.stack import ServerProcess

BROKER = "broker-0"
DEEP = b"[" * 100_000 + b"]" * 100_000
HOSTILE = {
    "script": b"<script>alert(1)</script>",
    "escapes": b"a\x1b[31mred\x1b[0m",
    "RTL": "\u202egnp.exe".encode(),
    "no UTF-8": b"a\xff\xfe\xed\xa0\x80",
    "text of 4 MiB": (b"<b>line</b>\n" * (MIB // 3))[: 4 * MIB],
    "zeros of 4 MiB": bytes(4 * MIB),
    "deep JSON": DEEP,
    "huge number": b'{"n": 1' + b"0" * 60_000 + b"}",
}


def path_of(topic: str, offset: int, queue: int = 0, *, shown: str = "") -> str:
    said = {"topic": topic, "broker": BROKER, "queue": queue, "offset": offset} | ({"as": shown} if shown else {})
    return f"/console/messages/one?{urlencode(said)}"


def find(topic: str, **more: object) -> str:
    return f"/console/messages?{urlencode({'topic': topic, **more})}"


def make_topic(server: ServerProcess, name: str, **settings: object) -> None:
    ask(server.addresses["http"], "POST", "/topics", {"name": name, "queues": 1, **settings})


def send(server: ServerProcess, topic: str, bodies: Sequence[bytes], **fields: Json) -> None:
    with Producer(server.addresses["grpc"], topics=[topic]) as producer:
        for body in bodies:
            producer.send(Message(topic, body, **fields))


def offsets(window: Visit) -> list[int]:
    """Those of the list, from above."""
    cells = window.page.get_by_role("region", name="Messages").locator("tbody td:nth-child(5)")
    return [int(text.replace(",", "")) for text in cells.all_inner_texts()]


def body_text(window: Visit) -> str:
    return window.page.get_by_role("region", name="Body as").inner_text()


def read(server: ServerProcess, topic: str, offset: int = 0) -> Json:
    return ask(server.addresses["http"], "GET", f"/topics/{topic}/queues/0/messages?offset={offset}&limit=1")


# --- every page


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, server: ServerProcess, name: str, theme: str, width: int, height: int
) -> None:
    make_topic(server, name)
    make_topic(server, f"{name}-lite", type="LITE")
    make_topic(server, f"{name}-half", type="TRANSACTION")
    value = {"a": [{"b": number} for number in range(5)], "long": "x" * 500, "deep": [[[[[]]]]]}
    send(server, name, [json.dumps(value).encode()], tag="NEW", keys=["k1", "k2"], properties={"region": "eu"})
    send(server, name, [b"\x00\x01\x02"])
    with visit(browser, server.addresses["http"], theme=theme, width=width, height=height) as window:
        found = {}
        for path, wanted in {
            "/console/messages": "Topics",
            "/console/messages?search=nobody-has-this": "No topic has",
            find(name): "The newest first",
            find(name, key="nobody"): "No message of the topic is like that",
            find(name, key="a", id="b"): "don't go together",
            find(f"{name}-lite"): "in its lite topics",
            find(f"{name}-half"): "holds no message yet",
            find("nobody-has-this"): "There is no such thing",
            path_of(name, 0): "k1",
            path_of(name, 0, shown="text"): "region",
            path_of(name, 1): "00000000",
            path_of(name, 7): "has no message at offset 7",
            f"/console/messages/tail?topic={name}": "What comes from now on",
            f"/console/messages/send?topic={name}": "User properties",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            window.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            found[path] = window.violations()
        assert {path: told for path, told in found.items() if told} == {}


# --- finding


def test_the_newest_come_first_over_all_queues_and_in_pages(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, queues=3)
    send(server, name, [b"%d" % number for number in range(60)])
    window.go("/console/messages")
    window.fill("Part of a topic's name", name)
    expect(window.page.locator("tbody tr")).to_have_count(1)
    window.page.get_by_role("link", name="find", exact=True).click()
    seen: list[str] = []
    times: list[str] = []
    for length, leads_on in ((25, True), (25, True), (10, False)):
        rows = window.page.get_by_role("region", name="Messages").locator("tbody td:last-child")
        expect(rows).to_have_count(length)
        seen += rows.all_inner_texts()
        times += window.page.locator("tbody time").evaluate_all("all => all.map(each => each.dateTime)")
        more = window.page.get_by_role("link", name="More")
        assert more.count() == leads_on
        if leads_on:
            more.click()
            window.page.wait_for_url(f"**at=*{'.' if len(seen) == 25 else ''}*")
            expect(rows.first).not_to_have_text(seen[-1])
            expect(rows.first).not_to_have_text(seen[-25])
    assert sorted(map(int, seen)) == list(range(60))
    assert times == sorted(times, reverse=True)
    window.page.get_by_role("link", name="From the beginning").click()
    expect(rows.first).to_have_text(seen[0])  # of two that were stored in the same millisecond either is the first


def test_messages_are_found_by_every_field(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, queues=2)
    with Producer(server.addresses["grpc"], topics=[name]) as producer:
        receipts = [
            producer.send(Message(name, b"%d" % number, tag="ODD" if number % 2 else "EVEN", keys=[f"k{number % 3}"]))
            for number in range(6)
        ]
    window.go(find(name))
    rows = window.page.get_by_role("region", name="Messages").locator("tbody td:last-child")

    def found(**fields: str) -> list[str]:
        window.go(find(name))
        for label, text in fields.items():
            window.page.get_by_label(label.replace("_", " "), exact=False).first.fill(text)
        window.press("Find")
        window.page.wait_for_url("**id=**")
        return sorted(rows.all_inner_texts())

    assert found(Key="k1") == ["1", "4"]
    assert found(Message_id=receipts[3].message_id) == ["3"]
    assert found(Tag="ODD") == ["1", "3", "5"]
    assert found(Tag="ODD || EVEN") == ["0", "1", "2", "3", "4", "5"]
    assert found(Queue="0", Tag="") == sorted(found(Queue="0", Offset="0"))
    assert len(found(Queue="1", Offset="1")) == 2
    assert found(Stored_from="2999-01-01T00:00:00") == []
    assert found(Stored_before="2999-01-01T00:00:00") == ["0", "1", "2", "3", "4", "5"]
    assert found(Stored_before="2001-01-01T00:00:00") == []
    assert found(Stored_from="2001-01-01T00:00:00", Tag="EVEN") == ["0", "2", "4"]
    assert found(Stored_before="2001-01-01T00:00:00", Key="k1") == []
    for fields, error in (
        ({"Queue": "9"}, "queues 0 to 1"),
        ({"Offset": "1"}, "say which"),
        ({"Key": "a", "Tag": "b"}, "don't go together"),
    ):
        assert found(**fields) == []
        assert error in window.error
    window.go(find(name, at="1.2.3"))
    assert "begins elsewhere now" in window.error


def test_messages_of_a_lite_topic_are_found_and_have_their_address(
    window: Visit, server: ServerProcess, name: str
) -> None:
    make_topic(server, name, type="LITE")
    send(server, name, [b"one", b"two"], lite_topic="chat-1", keys=["k"])
    send(server, name, [b"other"], lite_topic="chat-2")
    window.go(find(name))
    window.fill("Lite topic", "chat-1")
    window.press("Find")
    rows = window.page.get_by_role("region", name="Messages").locator("tbody tr")
    expect(rows.locator("td:last-child")).to_have_text(["one", "two"])
    rows.filter(has_text="two").get_by_role("link").click()
    window.page.wait_for_url("**/one?**lite=chat-1**")
    assert body_text(window) == "two"
    window.go(find(name, key="k"))
    assert "name a lite topic" in window.error


def test_a_tag_is_found_page_by_page(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, queues=2)
    send(server, name, [b"%d" % number for number in range(60)], tag="A")
    window.go(find(name, tag="A"))
    rows = window.page.get_by_role("region", name="Messages").locator("tbody td:last-child")
    seen = rows.all_inner_texts()
    for _ in range(2):
        window.page.get_by_role("link", name="More").click()
        expect(rows.first).not_to_have_text(seen[-25])
        seen += rows.all_inner_texts()
    assert sorted(map(int, seen)) == list(range(60))


# --- one message


def test_a_message_says_all_of_itself(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, type="FIFO")
    body = b'{"order": 17, "price": 1.10, "lines": [{"n": 1}]}'
    send(server, name, [b"first", body], tag="NEW", keys=["k1", "k2"], properties={"region": "eu"}, message_group="c-7")
    window.go(find(name))
    window.page.get_by_role("region", name="Messages").locator("tbody a").first.click()
    window.page.wait_for_url("**/messages/one?**")
    assert window.path == path_of(name, 1)
    told = window.page.get_by_role("region", name="System properties").inner_text()
    for wanted in ("NEW", "k1", "k2", "fifo", "c-7", "127.0.0.1", "identity"):
        assert wanted in told
    assert re.search(r"region\s+eu", window.page.get_by_role("region", name="User properties").inner_text())
    assert re.search(rf"Body\s+{len(body)} bytes", window.text)
    tree = window.page.get_by_role("region", name="Body as JSON")
    assert '"price": 1.10' in tree.inner_text()
    tree.locator("summary").filter(has_text="lines").click()
    expect(tree.get_by_text('"n"')).to_be_hidden()
    window.page.get_by_role("link", name="Text").click()
    window.page.wait_for_url("**as=text**")
    assert body_text(window) == body.decode()
    window.page.get_by_role("link", name="Hex").click()
    window.page.wait_for_url("**as=hex**")
    assert body_text(window).startswith("00000000  7b 22 6f 72 64 65 72 22 3a")
    window.page.get_by_role("link", name="Offset 0").click()
    expect(window.page.get_by_role("region", name="Body as text")).to_have_text("first")


def test_a_message_says_how_it_stands_with_each_group(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    ask(server.addresses["http"], "POST", "/groups", {"name": name, "consume_from": "earliest", "max_attempts": 1})
    send(server, name, [b"done", b"held", b"dead", b"ahead"])

    def rows() -> str:
        return window.page.get_by_role("region", name="Groups").locator("tbody").inner_text()

    window.go(path_of(name, 0))
    assert "No group has taken messages of this topic" in window.text
    with SimpleConsumer(server.addresses["grpc"], name, {name: "*"}) as consumer:
        views = {view.body: view for view in consumer.receive(3, timedelta(seconds=60))}
        consumer.ack(views[b"done"])
        consumer.change_invisible_duration(views[b"dead"], timedelta(0))
        window.go(path_of(name, 0))
        assert re.fullmatch(rf"{name}\s+finished: acknowledged, filtered out or skipped\s+\S\s+\S", rows().strip())
        window.go(path_of(name, 1))
        assert re.match(rf"{name}\s+a consumer has it\s+1\s+\w", rows())
        window.go(path_of(name, 3))
        assert re.match(rf"{name}\s+not delivered yet", rows())
        window.go(path_of(name, 2))
        assert re.match(rf"{name}\s+a dead letter", rows())
        window.page.get_by_role("link", name="a dead letter").click()
        assert body_text(window) == "dead"
        assert f"%DLQ%{name}" in window.page.url.replace("%25", "%")


def test_a_packed_body_is_inflated(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    body = b"hello " * 10_000
    said = {"body": _base64(gzip.compress(body)), "system_properties": {"body_encoding": "GZIP"}}
    ask(server.addresses["http"], "POST", f"/topics/{name}/messages", said)
    window.go(path_of(name, 0))
    assert body_text(window).startswith("hello hello")
    assert "58.6 KiB" in window.text
    assert downloaded(window) == body


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def downloaded(window: Visit) -> bytes:
    with window.page.expect_download() as waiting:
        window.page.get_by_role("link", name="Download").click()
    return Path(waiting.value.path()).read_bytes()


def test_the_whole_body_is_downloaded_and_never_shown(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    body = b"<script>alert(1)</script>" + bytes(range(256)) * 10_000
    send(server, name, [body])
    window.go(path_of(name, 0))
    assert downloaded(window) == body
    link = window.page.get_by_role("link", name="Download").get_attribute("href")
    answer = window.page.request.get(f"http://{window.address}{link}")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+\.bin"', answer.headers["content-disposition"])


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_body_does_nothing(window: Visit, server: ServerProcess, name: str, kind: str) -> None:
    body = HOSTILE[kind]
    make_topic(server, name)
    send(server, name, [body])
    for path in (find(name), *(path_of(name, 0, shown=form) for form in ("", "text", "json", "hex"))):
        answer = window.page.request.get(f"http://{window.address}{path}")
        assert answer.status == 200
        assert len(answer.body()) < 700_000
        window.go(path)
        assert window.page.locator("main script, main img, main b:not(.hidden-character)").count() == 0
        assert not re.search("[\x00\x1b\u202e]", window.text)
    window.go(path_of(name, 0, shown="text"))
    shown = body_text(window)
    assert {
        "script": "<script>alert(1)</script>",
        "escapes": "U+001B[31mred",
        "RTL": "U+202Egnp.exe",
        "no UTF-8": "byte FF",
        "zeros of 4 MiB": "U+0000, 1,024 times",
        "text of 4 MiB": "<b>line</b>",
        "deep JSON": "[[[[",
        "huge number": "10000",
    }[kind] in shown
    assert downloaded(window) == body


def test_hostile_names_stay_text(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    text = "<script>alert(1)</script>"
    send(server, name, [b"x"], tag="<i>t</i>", keys=["<img src=x>"], properties={"<b>n</b>": f"{text}\u202e"})
    window.go(find(name))
    assert "<i>t</i>" in window.text
    assert "<img src=x>" in window.text
    window.go(path_of(name, 0))
    assert f"{text}U+202E" in window.text
    assert "<b>n</b>" in window.text
    assert window.page.locator("main i, main img, main script").count() == 0
    for field in ("topic", "key", "id", "tag", "lite", "broker", "queue", "offset", "from", "at"):
        window.page.goto(f"http://{window.address}/console/messages?{urlencode({'topic': name} | {field: text})}")
        assert window.page.locator("main script").count() == 0
        assert "alert" in window.page.locator("main").inner_html()
    for query in (
        "", "topic=a", f"topic={name}&queue=0&offset=9223372036854775807&broker={quote(text)}",
        f"topic={name}&queue=99999999999999999999&offset=1&broker=a", f"topic={name}&queue=0&offset=-1",
    ):  # fmt: skip
        answer = window.page.request.get(f"http://{window.address}/console/messages/one?{query}")
        assert 400 <= answer.status < 500, query


# --- as they come


def test_messages_are_shown_as_they_come(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    send(server, name, [b"before"])
    window.go(f"/console/messages/tail?topic={name}")
    arrived = window.page.locator("#arrived > li")
    assert arrived.count() == 0
    send(server, name, [b"one", b"two"])
    expect(arrived.locator("div")).to_have_text(["two", "one"])
    send(server, name, [b"three"])
    expect(arrived.locator("div")).to_have_text(["three", "two", "one"])


def test_only_those_with_the_tag_are_shown(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    window.go(f"/console/messages/tail?topic={name}")
    window.fill("Only with the tag", "NEW")
    window.press("Show these")
    window.page.wait_for_url("**tag=NEW**")
    send(server, name, [b"other"], tag="OLD")
    send(server, name, [b"wanted"], tag="NEW")
    arrived = window.page.locator("#arrived > li div")
    expect(arrived).to_have_text(["wanted"])
    window.go(f"/console/messages/tail?{urlencode({'topic': name, 'at': '1.2'})}")
    assert "begins elsewhere now" in window.error


def test_a_live_page_asks_for_nothing_while_it_is_paused_or_out_of_sight(
    window: Visit, server: ServerProcess, name: str
) -> None:
    make_topic(server, name)
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url) if "/tail/new" in request.url else None)
    window.page.clock.install()
    window.go(f"/console/messages/tail?topic={name}")
    send(server, name, [b"one"])
    window.page.clock.run_for(2500)
    expect(window.page.locator("#arrived > li")).to_have_count(1)
    window.press("Pause")
    asked.clear()
    window.page.clock.run_for(20_000)
    assert asked == []
    window.press("Go on")
    send(server, name, [b"two"])
    window.page.clock.run_for(2500)
    expect(window.page.locator("#arrived > li div")).to_have_text(["two", "one"])
    window.page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true})")
    asked.clear()
    window.page.clock.run_for(20_000)
    assert asked == []


def test_a_live_page_keeps_what_is_new_alone(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    window.go(f"/console/messages/tail?topic={name}")
    arrived = window.page.locator("#arrived")
    assert arrived.get_attribute("data-most") == "200"
    arrived.evaluate("list => list.dataset.most = '3'")
    send(server, name, [b"%d" % number for number in range(5)])
    expect(arrived.locator("li").first).to_contain_text("4")
    expect(arrived.locator("li")).to_have_count(3)


def test_what_comes_too_fast_is_counted(browser: Browser, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    with visit(browser, server.addresses["http"], scripts=False) as window:
        window.go(f"/console/messages/tail?topic={name}")
        send(server, name, [b"%d" % number for number in range(60)])
        window.page.get_by_role("link", name="What came since").click()
        arrived = window.page.locator("#arrived > li")
        assert arrived.count() == 51
        assert "10 messages came faster" in arrived.last.inner_text()
        assert "59" in arrived.first.inner_text()
        window.page.get_by_role("link", name="What came since").click()
        assert arrived.count() == 0


# --- sent


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
    window: Visit, server: ServerProcess, name: str, kind: str, fields: dict[str, str], wanted: Json
) -> None:
    make_topic(server, name, type=kind)
    window.go(f"/console/topics/{name}")
    window.page.get_by_role("link", name="Send a test message").click()
    window.fill("Body", "hello\n\u202ew\u00f6rld")
    window.fill("Tag", "NEW")
    window.fill("Keys", "k1 k2")
    window.fill("User properties", "region=eu\n\nnote=a=b")
    for label, text in fields.items():
        window.fill(label, text)
    window.press("Send it")
    assert "was sent" in window.notice
    (message,) = read(server, name)["messages"]
    assert base64.b64decode(message["body"]).decode() == "hello\n\u202ew\u00f6rld"
    assert message["user_properties"] == {"region": "eu", "note": "a=b"}
    system = message["system_properties"]
    assert (system["tag"], system["keys"]) == ("NEW", ["k1", "k2"])
    assert {field: system[field] for field in wanted} == wanted
    window.page.get_by_role("region", name="Messages").get_by_role("link", name=system["message_id"]).click()
    expect(window.page.locator("h1")).to_contain_text(system["message_id"])


def test_a_message_to_a_lite_topic_and_a_delayed_one_are_sent(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name, type="LITE")
    window.go(f"/console/messages/send?topic={name}")
    window.fill("Body", "hello")
    window.fill("Lite topic", "chat-1")
    window.press("Send it")
    assert "hello" in window.page.get_by_role("region", name="Messages").inner_text()
    make_topic(server, f"{name}-mixed", mixed=True)
    window.go(f"/console/messages/send?topic={name}-mixed")
    window.fill("Body", "later")
    window.fill("Delivered after", "12h")
    window.press("Send it")
    assert "is here when its time has come" in window.notice
    assert read(server, f"{name}-mixed")["messages"] == []


@pytest.mark.parametrize(
    ("kind", "fields", "error"),
    [
        ("NORMAL", {"Body": "x", "User properties": "a=1\nbad"}, "line 2 of the properties"),
        ("NORMAL", {"Body": "x", "User properties": "a=1\na=2"}, "twice"),
        ("NORMAL", {"Body": "x", "User properties": "TRACE_ON=1"}, "TRACE_ON"),
        ("FIFO", {"Body": "x"}, "takes fifo messages"),
        ("DELAY", {"Body": "x", "Delivered after": "soon"}, "no duration"),
        ("DELAY", {"Body": "x", "Delivered after": "1h", "Or delivered at": "2999-01-01T00:00:01"}, "not both"),
        ("DELAY", {"Body": "x", "Delivered after": "90d"}, "delivery"),
        ("DELAY", {"Body": "x", "Delivered after": "99999999d"}, "too long"),
        ("DELAY", {"Body": "x", "Delivered after": "99999999999999999999999d"}, "no duration"),
        ("PRIORITY", {"Body": "x", "Priority": "99999999999"}, "99999999999"),
        ("LITE", {"Body": "x", "Lite topic": "a b"}, "a b"),
    ],
)
def test_what_can_not_be_sent_is_said_beside_what_was_written(
    window: Visit, server: ServerProcess, name: str, kind: str, fields: dict[str, str], error: str
) -> None:
    make_topic(server, name, type=kind)
    window.go(f"/console/messages/send?topic={name}")
    for label, text in fields.items():
        window.fill(label, text)
    window.press("Send it")
    assert error.lower() in window.error.lower()
    for label, text in fields.items():
        assert window.page.get_by_label(label).first.input_value() == text


def test_a_form_that_is_too_long_says_so(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    window.go(f"/console/messages/send?topic={name}")
    assert "64.0 KiB at most" in window.text
    window.fill("Body", "x" * 70_000)
    window.press("Send it")
    assert "65536 bytes at most" in window.error
    window.go(f"/console/messages/send?topic={name}")
    window.fill("Body", "x" * 60_000)
    window.press("Send it")
    assert "was sent" in window.notice
    assert len(base64.b64decode(read(server, name)["messages"][0]["body"])) == 60_000


# --- by keyboard, without a script, with few rights


def tab_to(window: Visit, script: str) -> None:
    for _ in range(60):
        window.page.keyboard.press("Tab")
        if window.page.evaluate(script):
            return
    raise AssertionError(f"the keyboard does not come to {script}")


def test_a_message_is_sent_and_looked_at_by_keyboard_alone(window: Visit, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    window.go(f"/console/messages/send?topic={name}")
    tab_to(window, "document.activeElement.id === 'text'")
    window.page.keyboard.type('{"a": [1, 2]}')
    tab_to(window, "document.activeElement.textContent.trim() === 'Send it'")
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/messages?**")
    tab_to(window, "document.activeElement.matches('tbody a')")
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/messages/one?**")
    tab_to(
        window, "document.activeElement.matches('.json summary') && document.activeElement.textContent.includes('a')"
    )
    window.page.keyboard.press("Enter")
    expect(window.page.get_by_text("1", exact=True).last).to_be_hidden()


def test_everything_works_without_a_script(browser: Browser, server: ServerProcess, name: str) -> None:
    make_topic(server, name)
    with visit(browser, server.addresses["http"], scripts=False) as window:
        window.go(f"/console/messages/send?topic={name}")
        window.fill("Body", '{"a": {"b": 1}}')
        window.press("Send it")
        assert " UTC" in window.text
        window.page.get_by_role("region", name="Messages").get_by_role("link").click()
        tree = window.page.get_by_role("region", name="Body as JSON")
        assert '"b": 1' in tree.inner_text()
        tree.locator("summary").filter(has_text='"a"').click()
        expect(tree.get_by_text('"b"')).to_be_hidden()
        assert downloaded(window) == b'{"a": {"b": 1}}'
        window.go(find(name, tag="nobody"))
        assert "No message of the topic is like that" in window.text


def test_who_may_not_read_a_topic_sees_all_but_bodies(guest: Visit, guarded: ServerProcess, name: str) -> None:
    for topic in (f"{name}-own", f"{name}-other"):
        as_root(guarded, "POST", "/topics", {"name": topic, "queues": 1})
        as_root(guarded, "POST", f"/topics/{topic}/messages", {"text": "secret", "tag": "NEW"})
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": f"Topic:{name}-own", "actions": "Get"})
    # The address of a message leads there once one has signed in.
    guest.go(path_of(f"{name}-own", 0))
    sign_in(guest, name)
    assert guest.path == path_of(f"{name}-own", 0)
    assert "You may not see it: that needs SUB" in guest.text
    assert "NEW" in guest.text
    assert guest.page.get_by_role("link", name="Download").count() == 0
    for path, said in {
        find(f"{name}-own"): "you may not see it",
        path_of(f"{name}-own", 0).replace("one?", "one/body?"): "You may not see the bodies",
        find(f"{name}-other"): "may not do this",
        path_of(f"{name}-other", 0): "may not do this",
        f"/console/messages/tail?topic={name}-own": "may not do this",
        f"/console/messages/tail?topic={name}-other": "may not do this",
        f"/console/messages/send?topic={name}-other": "may not do this",
    }.items():
        guest.go(path)
        assert said in guest.text, path
        assert "secret" not in guest.page.content(), path
    guest.go(f"/console/messages/send?topic={name}-own")
    guest.fill("Body", "x")
    guest.press("Send it")
    assert "may not do this" in guest.error
    answer = ask(guarded.addresses["http"], "GET", f"/topics/{name}-own", user=ROOT, secret=SECRET)
    assert answer["queues"][0]["max_offset"] == 1
