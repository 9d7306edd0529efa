"""Dead letters in a real browser: which there are and why, delivered again, taken away as a file, and removed."""

import json
import re
import subprocess
import sys
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
from tests.console.test_messages import tab_to
from tests.console.test_signing_in import as_root, cookie_of, post, sign_in, token_of
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


def test_groups_with_dead_letters_are_listed(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, f"{name}-1", [b"a", b"b"])
    for number in range(30):
        ask(server.addresses["http"], "POST", "/groups", {"name": f"{name}-0-{number}"})
    window.go("/console/dead-letters")
    window.page.get_by_label("Part of a group's name").press_sequentially(name)
    rows = window.page.get_by_role("region", name="Groups with dead letters").locator("tbody tr")
    expect(rows).to_have_count(1)
    assert re.search(rf"{name}-1\s+2", rows.inner_text())
    window.go(f"/console/groups/{name}-1")
    window.page.get_by_role("link", name="2 messages").click()
    window.page.wait_for_url(f"**{path_of(f'{name}-1')}")


def test_a_letter_says_why_it_is_one_and_where_it_came_from(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"hello"], tag="NEW", keys=["k1", "k2"])
    window.go(path_of(name))
    row = window.page.get_by_role("region", name="Dead letters").locator("tbody tr")
    for wanted in (name, "never acknowledged", "NEW", "k1, k2", "5 bytes", "hello"):
        assert wanted in row.inner_text()
    assert row.locator("td:nth-child(5)").inner_text() == "1"
    row.get_by_role("link", name=name, exact=True).click()
    window.page.wait_for_url("**/messages?**")
    assert "hello" in window.page.get_by_role("region", name="Messages").inner_text()
    window.go(path_of(name))
    row.locator("th a").click()
    window.page.wait_for_url("**/messages/one?**")
    assert f"of {name}" in window.page.get_by_role("region", name="System properties").inner_text()
    assert "DLQ_REASON" in window.page.get_by_role("region", name="User properties").inner_text()


def test_the_newest_come_first_in_pages_and_are_searched(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"%d" % number for number in range(30)])
    window.go(path_of(name))
    first = letter_rows(window)
    assert len(first) == 25
    window.page.get_by_role("link", name="More").click()
    expect(window.page.locator("tbody tr")).to_have_count(5)
    assert sorted(map(int, [*first, *letter_rows(window)])) == list(range(30))
    window.page.get_by_role("link", name="From the beginning").click()
    expect(window.page.locator("tbody tr")).to_have_count(25)
    for fields, wanted in (({"Key": "k17"}, ["17"]), ({"Dead from": "2999-01-01T00:00:00"}, [])):
        window.go(path_of(name))
        for label, text in fields.items():
            window.fill(label, text)
        window.press("Find")
        window.page.wait_for_url("**key=**")
        assert letter_rows(window) == wanted
    window.go(path_of(name, key="k17", before="2001-01-01T00:00:00"))
    assert letter_rows(window) == []
    window.go(path_of(name, before="never"))
    assert "no time" in window.error


# --- delivered again


def test_those_that_are_chosen_come_to_the_group_again(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"0", b"1", b"2"])
    window.go(path_of(name))
    for offset in (0, 2):
        window.page.get_by_label(f"Choose offset {offset} on").check()
    window.press("Resend the chosen")
    assert window.notice == "2 letters were sent."
    assert outcomes(window) == ["sent", "sent"]
    assert received(server, name, name, 2) == [b"0", b"2"]
    window.page.get_by_role("link", name="Back to the dead letters").click()
    window.page.wait_for_url(f"**{path_of(name)}")
    assert sorted(letter_rows(window)) == ["0", "1", "2"], "they stay"


def test_they_are_sent_to_another_topic(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"0", b"1"])
    ask(server.addresses["http"], "POST", "/topics", {"name": f"{name}-repaired", "queues": 1})
    window.go(path_of(name))
    window.page.get_by_label("All on this page").check()
    window.fill("Send the chosen ones to", f"{name}-repaired")
    window.press("Resend the chosen")
    assert window.notice == f"2 letters were sent to {name}-repaired."
    assert count_of(server, f"{name}-repaired") == 2


def test_what_becomes_of_each_is_said(browser: Browser, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"0", b"1"])
    with visit(browser, server.addresses["http"]) as window:
        window.go(path_of(name))
        window.page.get_by_label("Choose offset 0").check()
        window.page.locator("input[name=letter]").first.evaluate(
            "box => { box.value = 'broker-0/77'; box.checked = true; }"
        )
        window.press("Resend the chosen")
        assert window.notice == "1 letter was sent."
        assert "1 letter could not be sent." in window.error
        assert ["has no message at offset 77" in each for each in outcomes(window)] == [True, False]
        window.go(path_of(name))
        window.page.get_by_label("All on this page").check()
        window.fill("Send the chosen ones to", f"{name}-missing")
        window.press("Resend the chosen")
        assert "2 letters could not be sent." in window.error


def test_all_of_a_search_are_sent_when_the_name_is_typed(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"%d" % number for number in range(30)])
    window.go(path_of(name, key="k7"))
    window.open("Resend all")
    confirmation = window.page.get_by_label("Type the name of the group to go on").locator("visible=true")
    confirmation.fill("another")
    window.press("Resend all")
    assert "type the name" in window.error
    assert letter_rows(window) == ["7"], "the search is still there"
    window.open("Resend all")
    confirmation.fill(name)
    window.press("Resend all")
    assert window.notice == "1 letter was sent."
    assert received(server, name, name, 1) == [b"7"]
    window.go(path_of(name))
    window.open("Resend all")
    confirmation.fill(name)
    window.press("Resend all")
    assert window.notice == "30 letters were sent."
    assert received(server, name, name, 30) == sorted(b"%d" % number for number in range(30))
    window.go(path_of(name, before="2001-01-01T00:00:00"))
    window.open("Resend all")
    confirmation.fill(name)
    window.press("Resend all")
    assert "there is no such letter" in window.error


# --- taken away, removed


def test_the_file_is_that_of_the_command(window: Visit, server: ServerProcess, name: str) -> None:
    bodies = [b"hello", "\u202ew\u00f6rld\x7f\x1b".encode(), b"\xff\x00", b'{"a": 1}', bytes(MIB)]
    properties = {"region": "eu", "note": "<b>"}
    make_letters(server, name, bodies, tag="NEW", properties=properties)
    window.go(path_of(name))
    file = exported(window, "Export all as JSON lines")
    assert len(file.splitlines()) == len(bodies)
    assert file == command_export(server, name)
    for offset in (1, 3):
        window.page.get_by_label(f"Choose offset {offset} on").check()
    assert sorted(exported(window, "Export the chosen").splitlines()) == sorted(
        command_export(server, name, "--offset", "1", "--offset", "3").splitlines()
    )
    window.go(path_of(name, key="k3"))
    assert exported(window, "Export all as JSON lines") == command_export(server, name, "--key", "k3")


def test_many_letters_are_exported_whole(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"%d" % number for number in range(200)])
    window.go(path_of(name))
    lines = [json.loads(line) for line in exported(window, "Export all as JSON lines").splitlines()]
    assert [line["offset"] for line in lines] == list(range(200))


def test_letters_are_removed_when_the_name_is_typed(window: Visit, server: ServerProcess, name: str) -> None:
    make_letters(server, name, [b"0", b"1"])
    window.go(path_of(name))
    window.open("Remove")
    confirmation = window.page.get_by_label("Type the name of the group to go on").locator("visible=true")
    confirmation.fill("another")
    window.press("Remove dead letters")
    assert "type the name" in window.error
    assert count_of(server, f"%DLQ%{name}") == 2
    for before, removed in (("2001-01-01T00:00:00", 0), ("", 2)):
        window.open("Remove")
        confirmation.fill(name)
        window.page.locator("#until").fill(before)
        window.press("Remove dead letters")
        assert window.notice == f"{removed} dead letters of group {name} were removed."
        assert count_of(server, f"%DLQ%{name}") == 2 - removed
    assert "The group has no dead letters" in window.text


# --- hostile, by keyboard, without a script, with few rights


def test_what_others_write_stays_text(window: Visit, server: ServerProcess, name: str) -> None:
    text = "<script>alert(1)</script>"
    make_letters(server, name, [f"{text}\u202e".encode(), bytes(4 * MIB)], tag="<i>t</i>", keys=["<img src=x>"])
    window.go(path_of(name))
    assert f"{text}U+202E" in window.text
    assert "<i>t</i>" in window.text
    assert window.page.locator("main i, main img, main script").count() == 0
    for field in ("from", "before", "key", "at"):
        window.go(path_of(name, **{field: text}))
        assert window.page.locator("main script").count() == 0
    for letter in (text, "broker-0/x", "/1", "broker-0/" + "9" * 30, "broker-0/999999999999999999"):
        window.go(path_of(name))
        box = window.page.locator("input[name=letter]").first
        box.evaluate("(box, value) => { box.value = value; box.checked = true; }", letter)
        window.press("Resend the chosen")
        assert window.error
        assert window.page.locator("main script").count() == 0


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


def test_a_user_does_what_his_policies_say(guest: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/groups", {"name": name})
    as_root(guarded, "POST", "/groups", {"name": f"{name}-other"})
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": f"Group:{name}", "actions": "Get,List"})
    guest.go(path_of(name))
    sign_in(guest, name)
    assert guest.path == path_of(name)
    assert "The group has no dead letters" in guest.text
    guest.go(path_of(f"{name}-other"))
    assert "may not do this" in guest.error
    guest.go(path_of(name))
    form = {"token": token_of(guest), "confirmation": name, "letter": "broker-0/0"}
    cookie = str(cookie_of(guest)["value"])
    for act, status in (("purge", 400), ("resend", 400), ("resend-all", 400)):
        assert post(guarded, f"{path_of(name)}/{act}", cookie, form) == status, act
    assert post(guarded, f"{path_of(name)}/purge", cookie, {**form, "token": "another"}) == 403
    described = ask(guarded.addresses["http"], "GET", f"/groups/{name}", user=ROOT, secret=SECRET)
    assert described["group"]["name"] == name
