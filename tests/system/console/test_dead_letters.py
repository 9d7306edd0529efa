"""Pages of dead letters: which there are and why, and what comes of resending, export and removal."""

import json
from urllib.parse import urlencode

import pytest

from ternmq_common.limits import MIB
from tests.support.command_line import CommandLine
from tests.support.console_site import Site
from tests.support.console_window import Window


def path_of(group: str, **more: str) -> str:
    return f"/console/dead-letters/{group}" + (f"?{urlencode(more)}" if more else "")


def letters(window: Window) -> list[str]:
    """What the letters begin with, from above."""
    return window.column(-1, "Dead letters") if window.page.find_all("tbody") else []


def export(window: Window, link: str = "Export all as JSON lines") -> bytes:
    return window.fetch(window.address_of(window.link(link))).body


def confirm(window: Window, summary: str, name: str, button: str) -> Window:
    window.open(summary)
    window.fill("Type the name of the group to confirm", name)
    return window.press(button)


def test_groups_with_dead_letters_are_listed(window: Window, site: Site, name: str) -> None:
    site.create_letters(f"{name}-1", b"a", b"b")
    for number in range(30):
        site.create_group(f"{name}-0-{number}")
    window.go("/console/dead-letters").fill("Part of a group's name", name)
    (row,) = window.press("Find").rows("Groups with dead letters")
    assert row[:2] == [f"{name}-1", "2"]
    assert window.go(f"/console/groups/{name}-1").follow("2 messages").path == path_of(f"{name}-1")


def test_a_letter_says_why_it_is_one_and_where_it_came_from(window: Window, site: Site, name: str) -> None:
    site.create_letters(name, b"hello", tag="NEW", keys=["k1", "k2"])
    (row,) = window.go(path_of(name)).rows()
    assert row[3:5] == [name, "1"]
    assert "never acknowledged" in row[5]
    assert row[6:] == ["NEW", "k1, k2", "broker-0", "0", "5 bytes", "hello"]
    window.follow(name, window.region("Dead letters"))
    assert window.column(-1, "Messages") == ["hello"]
    (cells,) = window.go(path_of(name)).region("Dead letters").rows()
    window.follow("", cells[1])
    assert f"of {name}" in window.region("System properties").text
    assert "DLQ_REASON" in window.region("User properties").text


def test_the_newest_come_first_in_pages_and_are_searched(window: Window, site: Site, name: str) -> None:
    site.create_letters(name, *(b"%d" % number for number in range(30)))
    first = letters(window.go(path_of(name)))
    assert len(first) == 25
    rest = letters(window.follow("More"))
    assert sorted(map(int, [*first, *rest])) == list(range(30))
    assert letters(window.follow("From the beginning")) == first
    for label, text, wanted in (("Key", "k17", ["17"]), ("Dead from", "2999-01-01T00:00:00", [])):
        window.go(path_of(name)).fill(label, text)
        assert letters(window.press("Find")) == wanted
    assert letters(window.go(path_of(name, key="k17", before="2001-01-01T00:00:00"))) == []
    assert "no time" in window.go(path_of(name, before="never")).error


# --- resent


def test_chosen_letters_come_to_the_group_again_and_stay(window: Window, site: Site, name: str) -> None:
    site.create_letters(name, b"0", b"1", b"2")
    window.go(path_of(name)).check("Choose offset 0 on", "Choose offset 2 on")
    assert window.press("Resend the chosen").notice == "2 letters were sent."
    assert window.column(2, "Outcomes") == ["sent", "sent"]
    assert site.receive(name, name, 2) == [b"0", b"2"]
    window.follow("Back to the dead letters")
    assert window.path == path_of(name)
    assert sorted(letters(window)) == ["0", "1", "2"]


def test_the_outcome_of_each_is_said(window: Window, site: Site, name: str) -> None:
    site.create_letters(name, b"0", b"1")
    window.go(path_of(name)).check("Choose offset 0", "Choose offset 1")
    window.page.find("input", value="broker-0/1").attributes["value"] = "broker-0/77"
    window.press("Resend the chosen")
    assert window.notice == "1 letter was sent."
    assert "1 letter could not be sent." in window.error
    assert sorted("has no message at offset 77" in each for each in window.column(2, "Outcomes")) == [False, True]
    window.go(path_of(name)).check("Choose offset 0", "Choose offset 1")
    window.fill("Send the chosen ones to", f"{name}-missing")
    assert "2 letters could not be sent." in window.press("Resend the chosen").error
    assert "choose letters first" in window.go(path_of(name)).press("Resend the chosen").error


def test_all_of_a_search_are_resent_when_the_name_is_typed(window: Window, site: Site, name: str) -> None:
    site.create_letters(name, *(b"%d" % number for number in range(30)))
    window.go(path_of(name, key="k7"))
    assert "type the name" in confirm(window, "Resend all", "another", "Resend all").error
    assert letters(window) == ["7"], "the search is still there"
    assert confirm(window, "Resend all", name, "Resend all").notice == "1 letter was sent."
    assert site.receive(name, name, 1) == [b"7"]
    window.go(path_of(name))
    assert confirm(window, "Resend all", name, "Resend all").notice == "30 letters were sent."
    assert site.receive(name, name, 30) == sorted(b"%d" % number for number in range(30))
    window.go(path_of(name, before="2001-01-01T00:00:00"))
    assert "there is no such letter" in confirm(window, "Resend all", name, "Resend all").error


# --- exported, removed


def test_the_file_is_that_of_the_command(window: Window, site: Site, name: str) -> None:
    bodies = [b"hello", "\u202ew\u00f6rld\x7f\x1b".encode(), b"\xff\x00", b'{"a": 1}', bytes(MIB)]
    site.create_letters(name, *bodies, tag="NEW", properties={"region": "eu", "note": "<b>"})

    def export_by_command(*options: str) -> bytes:
        return CommandLine(site.grpc)("dlq", "export", name, "-", *options).stdout_bytes

    whole = export_by_command()
    assert len(whole.splitlines()) == len(bodies)
    assert export(window.go(path_of(name))) == whole
    window.check("Choose offset 1 on", "Choose offset 3 on")
    chosen = window.fetch(*window.request_of("Export the chosen")).body.splitlines()
    assert sorted(chosen) == sorted(whole.splitlines()[offset] for offset in (1, 3))
    assert sorted(chosen) == sorted(export_by_command("--offset", "1", "--offset", "3").splitlines())
    assert export(window.go(path_of(name, key="k3"))).splitlines() == [whole.splitlines()[3]]
    assert export_by_command("--key", "k3").splitlines() == [whole.splitlines()[3]]


def test_many_letters_are_exported_whole(window: Window, site: Site, name: str) -> None:
    site.create_letters(name, *(b"%d" % number for number in range(200)))
    lines = [json.loads(line) for line in export(window.go(path_of(name))).splitlines()]
    assert [line["offset"] for line in lines] == list(range(200))


def test_letters_are_removed_when_the_name_is_typed(window: Window, site: Site, name: str) -> None:
    site.create_letters(name, b"0", b"1")
    window.go(path_of(name))
    assert "type the name" in confirm(window, "Remove", "another", "Remove dead letters").error
    assert site.count_messages(f"%DLQ%{name}") == 2
    for before, removed in (("2001-01-01T00:00:00", 0), ("", 2)):
        window.page.find("input", id="until").attributes["value"] = before
        confirm(window, "Remove", name, "Remove dead letters")
        assert window.notice == f"{removed} dead letters of group {name} were removed."
        assert site.count_messages(f"%DLQ%{name}") == 2 - removed
    assert "The group has no dead letters" in window.text


# --- hostile, with few rights


def test_what_others_write_stays_text(window: Window, site: Site, name: str) -> None:
    text = "<script>alert(1)</script>"
    site.create_letters(name, f"{text}\u202e".encode(), bytes(4 * MIB), tag="<i>t</i>", keys=["<img src=x>"])
    window.go(path_of(name))
    assert f"{text}U+202E" in window.text
    assert "<i>t</i>" in window.text
    assert not window.main.find_all("i", "img", "script")
    for field in ("from", "before", "key", "at"):
        assert not window.go(path_of(name, **{field: text})).main.find_all("script")
    for letter in (text, "broker-0/x", "/1", "broker-0/" + "9" * 30, "broker-0/999999999999999999"):
        assert window.go(path_of(name)).press("Resend the chosen", letter=letter).error
        assert not window.main.find_all("script")


def test_a_user_does_what_his_policies_say(guest: Window, guarded: Site, name: str) -> None:
    guarded.create_group(name)
    guarded.create_group(f"{name}-other")
    guarded.create_user(name, (f"Group:{name}", "Get,List"))
    guest.go(path_of(name)).sign_in(name)
    assert guest.path == path_of(name)
    assert "The group has no dead letters" in guest.text
    assert "may not do this" in guest.go(path_of(f"{name}-other")).error
    form = {"token": guest.token, "confirmation": name, "letter": "broker-0/0"}
    for act in ("purge", "resend", "resend-all"):
        assert guest.post(f"{path_of(name)}/{act}", form) == 400, act
    assert guest.post(f"{path_of(name)}/purge", {**form, "token": "another"}) == 403
    assert guarded.ask("GET", f"/groups/{name}")["group"]["name"] == name


@pytest.mark.parametrize("with_letters", [False, True], ids=["kept", "deleted"])
def test_letters_of_a_deleted_group_stay_unless_they_are_to_go(
    window: Window, site: Site, name: str, with_letters: bool
) -> None:
    site.create_letters(name, b"a", b"b")
    window.go(f"/console/groups/{name}").open("Delete the group")
    if with_letters:
        window.check("Delete its dead letters too (2)")
    window.fill("Type the name of the group to confirm", name)
    window.press("Delete the group")
    site.create_group(name)
    assert letters(window.go(path_of(name))) == ([] if with_letters else ["b", "a"])
