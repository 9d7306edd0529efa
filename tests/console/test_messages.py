"""Messages in a real browser: found, looked at, seen as they come and sent, whatever is in them."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from ternmq import Message
from ternmq.blocking import Producer
from ternmq_common.limits import MIB
from tests.console.api import Json, ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
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


def body_text(window: Visit) -> str:
    return window.page.get_by_role("region", name="Body as").inner_text()


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


# --- one message


def downloaded(window: Visit) -> bytes:
    with window.page.expect_download() as waiting:
        window.page.get_by_role("link", name="Download").click()
    return Path(waiting.value.path()).read_bytes()


@pytest.mark.parametrize("kind", ["script", "deep JSON"])
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


# --- sent


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
