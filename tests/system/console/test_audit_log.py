"""The page of the audit log: what was done, what is found, and what others wrote into it."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.support.console_site import ROOT, SECRET, Site, audit_line
from tests.support.console_window import Window
from tests.system.console.test_access import HOSTILE


def columns(window: Window) -> list[list[str]]:
    """User, call, resource and outcome of each row."""
    return [row[1:5] for row in window.rows()]


def test_what_was_done_is_in_the_log_under_the_name_of_who_did_it(
    root: Window, guarded_folder: Path, name: str
) -> None:
    root.go("/console/new/topic").fill("Name", name)
    assert root.press("Create the topic").notice == f"Topic {name} was created."
    log = (guarded_folder / "audit.log").read_text()
    (line,) = [json.loads(line) for line in log.splitlines() if name in line]
    assert (line["call"], line["user"]) == ("CreateTopic", ROOT)
    assert SECRET not in log


def test_entries_are_found_by_every_field(root: Window, guarded: Site, name: str) -> None:
    guarded.create_topic(name)
    guarded.create_user(name)
    guarded.ask("DELETE", f"/topics/{name}", user=name, status=403)
    root.go("/console/audit")

    def find(**fields: str) -> list[str]:
        for label, text in fields.items():
            root.fill(label.replace("_", " "), text)
        root.press("Show")
        return [call for _, call, _, _ in columns(root)]

    find(Part_of_the_resource=name.upper())
    assert columns(root) == [
        [name, "DeleteTopic", f"Topic:{name}", "refused"],
        [ROOT, "CreateUser", f"Cluster:users/{name}", "allowed"],
        [ROOT, "CreateTopic", f"Topic:{name}", "allowed"],
    ]
    assert "no policy allows it" in root.text
    assert "What broker-0 wrote" in root.text
    assert all(row[0].endswith(" UTC") for row in root.rows())
    assert find(Outcome="refused") == ["DeleteTopic"]
    assert root.field("Part of the resource").value == name.upper()
    assert find(Outcome="", Call="createuser") == ["CreateUser"]
    assert find(Call="", Access_key=name) == ["DeleteTopic"]
    assert find(**{"Before (UTC)": "2020-01-01T00:00:00"}) == []
    assert "There is no such entry." in root.text
    assert find(**{"Before (UTC)": "", "Since (UTC)": "2020-01-01T00:00:00"}) == ["DeleteTopic"]
    assert len(columns(root.follow("Show all"))) > 1


def test_many_entries_come_in_pages(root: Window, guarded: Site, name: str) -> None:
    for number in range(60):
        guarded.ask("PUT", f"/quotas/client/{name}-{number:02}", {"connections": 4})
    wanted = [f"Cluster:quotas/{name}-{number:02}" for number in reversed(range(60))]
    root.go(f"/console/audit?{urlencode({'resource': name, 'call': 'PutQuota'})}")
    assert root.column(3) == wanted[:50]
    assert root.follow("Older").column(3) == wanted[50:]
    assert parse_qs(urlsplit(root.path).query)["call"] == ["PutQuota"]
    assert root.follow("From the newest").column(3) == wanted[:50]


@pytest.mark.parametrize("hostile", [*HOSTILE, "\u202egnp.exe", "a\x1b[31m", "half a pair \ud800", "x" * 5000])
def test_what_others_wrote_into_it_stays_text(root: Window, guarded_folder: Path, name: str, hostile: str) -> None:
    fields = dict.fromkeys(("user", "source", "client", "why"), hostile)
    with (guarded_folder / "audit.log").open("a") as file:
        file.write(f"{audit_line(**fields, call=name, resource=f'Topic:{hostile}', left_out=3)}\n")
    root.go(f"/console/audit?{urlencode({'call': name})}")
    shown = hostile.replace("\u202e", "U+202E").replace("\x1b", "U+001B").replace("\ud800", "\\ud800")
    assert columns(root) == [[shown, name, f"Topic:{shown}", "allowed, and 3 times before"]]
    assert not root.main.find_all("img", "script")


def test_lines_that_are_no_entries_are_counted(own_window: Window, own_folder: Path, name: str) -> None:
    own_window.go("/console/topics").sign_in(ROOT)
    with (own_folder / "audit.log").open("ab") as file:
        file.write(
            b"\xff\x00 garbage\n" + b"y" * 200_000 + b"\n" + audit_line(call=name).encode() + b'\n{"time": "now"}\n'
        )
    own_window.go(f"/console/audit?{urlencode({'call': name})}")
    assert "3 lines of what was read are no entries" in own_window.error
    assert own_window.column(2) == [name]


def test_a_long_log_is_read_as_far_as_one_likes(own_window: Window, own_folder: Path) -> None:
    """A page reads so much and no more; there is nothing like it in the first five megabytes."""
    filler = audit_line(call="Filler", why="x" * 1000)
    with (own_folder / "audit.log").open("w") as file:
        file.write(f"{audit_line(call='Wanted')}\n")
        file.writelines(f"{filler}\n" for _ in range(5 * (1 << 20) // len(filler)))
    own_window.go("/console/audit?call=Wanted").sign_in(ROOT)
    own_window.go("/console/audit?call=Wanted")
    assert "Nothing like that back to" in own_window.text
    assert own_window.follow("Look further back").column(2) == ["Wanted"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_is_searched_stays_text(root: Window, hostile: str) -> None:
    root.go(f"/console/audit?{urlencode(dict.fromkeys(('user', 'call', 'resource', 'outcome', 'since'), hostile))}")
    assert "is no time" in root.error
    assert root.field("Access key").value == hostile
    root.go(f"/console/audit?{urlencode({'page': hostile})}")
    assert "what the answer before gave is needed" in root.error
    assert not root.main.find_all("img", "script")
