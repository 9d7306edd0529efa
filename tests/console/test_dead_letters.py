"""Dead letters in a real browser: which there are and why, delivered again, taken away as a file, and removed."""

import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.console.api import Json, ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.console.test_messages import tab_to
from tests.support.stack import ServerProcess

HELD_MS = timedelta(seconds=30)


def make_letters(server: ServerProcess, name: str, bodies: Sequence[bytes], **fields: Json) -> None:
    """A topic and a group of that name; the group gives up each of its messages at once."""
    ask(server.addresses["http"], "POST", "/topics", {"name": name, "queues": 1})
    ask(server.addresses["http"], "POST", "/groups", {"name": name, "max_attempts": 1, "consume_from": "earliest"})
    with Producer(server.addresses["grpc"], topics=[name]) as producer:
        for number, body in enumerate(bodies):
            said: dict[str, Json] = {"keys": [f"k{number}"]} | fields
            producer.send(Message(name, body, **said))
    left = len(bodies)
    with SimpleConsumer(server.addresses["grpc"], name, {name: "*"}) as consumer:
        while left:
            for each in consumer.receive(16, HELD_MS):
                each.nack()
                left -= 1


def path_of(group: str, **more: str) -> str:
    return f"/console/dead-letters/{group}" + (f"?{urlencode(more)}" if more else "")


def count_of(server: ServerProcess, topic: str) -> int:
    described = ask(server.addresses["http"], "GET", f"/topics/{quote(topic, safe='')}")
    return sum(queue["max_offset"] - queue["min_offset"] for queue in described["queues"])


def letter_rows(window: Visit) -> list[str]:
    """What the letters begin with, from above."""
    return window.page.get_by_role("region", name="Dead letters").locator("tbody td:last-child").all_inner_texts()


def outcomes(window: Visit) -> list[str]:
    return window.page.get_by_role("region", name="Outcomes").locator("tbody td:nth-child(3)").all_inner_texts()


def received(server: ServerProcess, group: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with SimpleConsumer(server.addresses["grpc"], group, {topic: "*"}) as consumer:
        while len(found) < count:
            taken = consumer.receive(16, HELD_MS)
            found += [each.body for each in taken]
            consumer.ack(taken)
    return sorted(found)


def command_export(server: ServerProcess, group: str, *options: str) -> bytes:
    """What `ternmq dlq export` writes."""
    command = [sys.executable, "-m", "ternmq_command.main", "dlq", "export", group, "-", *options]
    return subprocess.run(
        [*command, "--endpoint", server.addresses["grpc"]], check=True, capture_output=True, timeout=60
    ).stdout


def exported(window: Visit, press: str) -> bytes:
    with window.page.expect_download() as waiting:
        window.page.get_by_text(press, exact=True).click()
    return Path(waiting.value.path()).read_bytes()


# --- every page


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, server: ServerProcess, name: str, theme: str, width: int, height: int
) -> None:
    make_letters(server, name, [b"hello", b'{"a": 1}', b"\x00"], tag="NEW")
    ask(server.addresses["http"], "POST", "/groups", {"name": f"{name}-none"})
    with visit(browser, server.addresses["http"], theme=theme, width=width, height=height) as window:
        found = {}
        for path, wanted in {
            f"/console/dead-letters?search={name}": name,
            "/console/dead-letters?search=nobody-has-this": "has dead letters",
            path_of(name): "never acknowledged",
            path_of(name, key="nobody"): "No dead letter of the group is like that",
            path_of(f"{name}-none"): "The group has no dead letters",
            path_of("nobody-has-this"): "There is no such thing",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            window.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            found[path] = window.violations()
        window.go(path_of(name))
        window.press("Resend the chosen")
        assert "choose letters first" in window.error
        window.page.get_by_label("Choose offset 0").check()
        window.press("Resend the chosen")
        found["resent"] = window.violations()
        assert {path: told for path, told in found.items() if told} == {}


# --- delivered again


def test_they_are_sent_to_another_topic(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"0", b"1"])
    ask(server.addresses["http"], "POST", "/topics", {"name": f"{name}-repaired", "queues": 1})
    window.go(path_of(name))
    window.page.get_by_label("All on this page").check()
    window.fill("Send the chosen ones to", f"{name}-repaired")
    window.press("Resend the chosen")
    assert window.notice == f"2 letters were sent to {name}-repaired."
    assert count_of(server, f"{name}-repaired") == 2


# --- taken away, removed


# --- hostile, by keyboard, without a script, with few rights


def test_a_letter_is_sent_by_keyboard_alone(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"0"])
    window.go(path_of(name))
    tab_to(window, "document.activeElement.name === 'letter'")
    window.page.keyboard.press("Space")
    tab_to(window, "document.activeElement.textContent.trim() === 'Resend the chosen'")
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/resend")
    assert window.notice == "1 letter was sent."


def test_everything_works_without_a_script(browser: Browser, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"0", b"1"])
    with visit(browser, server.addresses["http"], scripts=False) as window:
        window.go(f"/console/dead-letters?search={name}")
        window.page.get_by_role("link", name=name).click()
        assert window.page.get_by_label("All on this page").is_hidden()
        window.page.get_by_label("Choose offset 0").check()
        assert len(exported(window, "Export the chosen").splitlines()) == 1
        window.press("Resend the chosen")
        assert window.notice == "1 letter was sent."
