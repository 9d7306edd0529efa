"""Users, policies and quotas: what each page says, and what comes of its forms."""

import logging
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.console_site import ROOT, SECRET, Json, Site
from tests.support.console_window import Window

ANOTHER_SECRET = "another-secret-of-a-test"
HOSTILE = ("<script>alert(1)</script>", '"><img/src=x/onerror=alert(1)>', "{{7+7}}", "'><b>bold</b>")


def confirm(window: Window, name: str) -> None:
    window.fill("Type the name of the user to confirm", name)


def policies_of(site: Site, name: str) -> list[tuple[str, str, bool, list[str]]]:
    policies = site.get_user(name)["policies"]
    return [(each["resource"], each["actions"], each["deny"], each["sources"]) for each in policies]


def quota_of(site: Site, name: str) -> Json:
    return next((each for each in site.ask("GET", "/quotas")["quotas"] if each["name"] == name), None)


# --- users


def test_a_user_from_creation_to_deletion(root: Window, guarded: Site, name: str) -> None:
    root.go("/console/users").follow("New user")
    root.fill("Name", name)
    root.fill("Secret", SECRET)
    root.press("Create the user")
    assert (root.path, root.notice) == (f"/console/users/{name}", f"User {name} was created.")
    assert "may do nothing yet" in root.text
    assert guarded.accepts_secret(name, SECRET)
    root.open("Disable")
    assert "are refused from their next call on" in root.text
    root.press("Disable")
    assert root.notice == f"User {name} is an ordinary user now, and disabled."
    assert not guarded.accepts_secret(name, SECRET)
    root.open("Enable")
    root.press("Enable")
    assert guarded.accepts_secret(name, SECRET)
    root.open("Make a super user")
    assert "No policy counts, not even one that denies" in root.text
    root.press("Make a super user")
    assert root.notice == f"User {name} is a super user now, and enabled."
    assert guarded.get_user(name)["super"]
    root.open("Make an ordinary user")
    root.press("Make an ordinary user")
    assert not guarded.get_user(name)["super"]
    root.open("Delete the user")
    confirm(root, f"{name}x")
    root.press("Delete the user")
    assert f"type the name, {name}, to confirm" in root.error
    guarded.get_user(name)
    root.open("Delete the user")
    confirm(root, name)
    root.press("Delete the user")
    assert (root.path, root.notice) == ("/console/users", f"User {name} was deleted.")
    guarded.ask("GET", f"/users/{name}", status=404)


def test_the_last_super_user_stays(own_window: Window, own: Site) -> None:
    own_window.go("/console/users").sign_in(ROOT)
    for act in ("Disable", "Make an ordinary user", "Delete the user"):
        own_window.go(f"/console/users/{ROOT}").open(act)
        if act == "Delete the user":
            confirm(own_window, ROOT)
        own_window.press(act)
        assert "the last enabled super user" in own_window.error
    user = own.get_user(ROOT)
    assert (user["super"], user["enabled"]) == (True, True)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"Name": "a/b"}, "letters, digits"),
        ({"Name": "good-name", "Secret": "short"}, "12 to 256 ASCII characters"),
        ({"Name": ROOT}, "exists"),
    ],
)
def test_why_a_user_can_not_be_created_is_said_and_no_secret_is(
    root: Window, fields: dict[str, str], error: str
) -> None:
    root.go("/console/new/user")
    for label, text in fields.items():
        root.fill(label, text)
    root.press("Create the user")
    assert error in root.error
    assert root.field("Name").value == fields["Name"]
    assert root.field("Secret").value == ""
    assert "short" not in root.source


def test_many_users_come_in_pages(own_window: Window, own: Site, name: str) -> None:
    names = [f"0-{name}-{number:02}" for number in range(30)]
    for each in names:
        own.create_user(each)
    own_window.go("/console/users").sign_in(ROOT)
    assert own_window.column(0) == names[:25]
    assert own_window.follow("More").column(0) == [*names[25:], ROOT]
    assert own_window.follow("From the beginning").column(0) == names[:25]


# --- secrets


def test_the_secret_of_before_ends_without_an_overlap_and_the_other_is_in_no_log(
    root: Window, guarded: Site, guarded_folder: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    guarded.create_user(name)
    root.go(f"/console/users/{name}").open("Give another secret")
    for secret, overlap, error in (("short", "0s", "12 to 256 ASCII"), ("", "soon", "no duration")):
        root.fill("Secret", secret)
        root.fill("Overlap", overlap)
        root.press("Give another secret")
        assert error in root.error
        assert root.field("Overlap").value == overlap
    root.fill("Secret", ANOTHER_SECRET)
    root.fill("Overlap", "0s")
    root.press("Give another secret")
    assert (root.path, root.notice) == (f"/console/users/{name}", f"User {name} has a new secret.")
    assert ANOTHER_SECRET not in root.source
    assert guarded.accepts_secret(name, ANOTHER_SECRET)
    assert not guarded.accepts_secret(name, SECRET)
    for log in (caplog.text, (guarded_folder / "audit.log").read_text(errors="replace")):
        assert [name in log, ANOTHER_SECRET in log, SECRET in log] == [True, False, False]


def test_a_user_gives_himself_another_secret_and_stays_signed_in(clerk: Window, guarded: Site, name: str) -> None:
    clerk.go("/console/users")
    assert "Only super users may see all users" in clerk.text
    assert clerk.follow("What you may do yourself").path == f"/console/users/{name}"
    clerk.open("Give another secret")
    clerk.fill("Overlap", "0s")
    clerk.press("Give another secret")
    rotated = clerk.page.find(id="secret").text
    assert not guarded.accepts_secret(name, SECRET)
    assert clerk.follow("It is noted, go on").path == f"/console/users/{name}"
    assert guarded.accepts_secret(name, rotated)


# --- policies


def test_a_policy_from_creation_to_deletion(root: Window, guarded: Site, name: str) -> None:
    guarded.create_user(name)
    root.go(f"/console/users/{name}").open("Add or replace a policy")
    root.fill("Resource", "Topic:orders-*")
    root.press("Set the policy")
    assert "choose at least one action" in root.error
    root.check("Pub", "Sub")
    root.fill("Only from these addresses", "10.0.0.0/8, nowhere")
    root.press("Set the policy")
    assert "this is no source range" in root.error
    assert root.field("Pub").is_checked
    root.fill("Only from these addresses", "10.0.0.0/8, ::1")
    root.press("Set the policy")
    assert root.notice == f"User {name} has a policy that allows Topic:orders-*."
    assert policies_of(guarded, name) == [("Topic:orders-*", "Pub,Sub", False, ["10.0.0.0/8", "::1/128"])]
    root.follow("Change what allows Topic:orders-*")
    assert root.field("Sub").is_checked
    assert root.field("Only from these addresses").value == "10.0.0.0/8, ::1/128"
    root.check("Sub", is_checked=False)
    root.fill("Only from these addresses", "")
    root.press("Set the policy")
    assert policies_of(guarded, name) == [("Topic:orders-*", "Pub", False, [])]
    root.open("Add or replace a policy")
    root.fill("Decision", "deny")
    root.fill("Resource", "Topic:orders-*")
    root.check("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
    root.press("Set the policy")
    assert root.notice == f"User {name} has a policy that denies Topic:orders-*."
    assert sorted(policies_of(guarded, name)) == [
        ("Topic:orders-*", "All", True, []),
        ("Topic:orders-*", "Pub", False, []),
    ]
    root.press("Take away what allows Topic:orders-*")
    assert root.notice == f"User {name} has no policy any more that allows Topic:orders-*."
    root.press("Take away what denies Topic:orders-*")
    assert policies_of(guarded, name) == []
    root.go(f"/console/audit?resource=users/{name}")
    assert root.column(2)[-2:] == ["PutPolicy", "CreateUser"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_resource_of_a_policy_stays_text(root: Window, guarded: Site, name: str, hostile: str) -> None:
    guarded.create_user(name)
    root.go(f"/console/users/{name}").open("Add or replace a policy")
    root.fill("Resource", f"Topic:{hostile}")
    root.check("Get")
    root.press("Set the policy")
    assert hostile in root.notice
    assert root.column(0) == [f"Topic:{hostile}"]
    root.follow("Change what allows")
    assert root.field("Resource").value == f"Topic:{hostile}"
    assert not root.main.find_all("img", "script", "b")
    root.press(f"Take away what allows Topic:{hostile}")
    assert policies_of(guarded, name) == []


# --- few rights


def test_a_user_with_few_rights_sees_what_he_may_and_changes_nothing(clerk: Window, guarded: Site, name: str) -> None:
    for path, said in {
        "/console/users": "Only super users may see all users",
        f"/console/users/{ROOT}": "it is for super users only",
        "/console/audit": "Only super users may see the audit log",
        "/console/quotas": "You may not see the quotas",
    }.items():
        assert said in clerk.go(path).text, path
    clerk.go(f"/console/users/{name}")
    assert clerk.column(0) == [f"Topic:{name}"]
    assert clerk.summaries == ["Give another secret"]
    users = [guarded.get_user(each) for each in (name, ROOT)]
    for path, form in {
        f"/users/{name}/change": {"super": "yes"},
        f"/users/{ROOT}/change": {"enabled": "no"},
        f"/users/{ROOT}/secret": {"secret": ANOTHER_SECRET, "overlap": "0s"},
        f"/users/{ROOT}/delete": {"confirmation": ROOT},
        f"/users/{name}/policies": {"resource": "*", "action-Pub": "yes", "decision": "allow"},
        f"/users/{name}/policies/delete": {"of": f"Topic:{name}", "decision": "allow"},
        "/new/user": {"name": f"{name}-2", "super": "yes"},
        "/new/quota": {"kind": "user", "name": name, "messages_in": "5"},
        "/quotas/remove": {"kind": "user", "name": name},
    }.items():
        assert clerk.post(f"/console{path}", {**form, "token": clerk.token}) in (400, 403), path
    assert [guarded.get_user(each) for each in (name, ROOT)] == users
    guarded.ask("GET", f"/users/{name}-2", status=404)
    assert quota_of(guarded, name) is None
    clerk.go("/console/new/user")
    clerk.fill("Name", f"{name}-2")
    assert "it is for super users only" in clerk.press("Create the user").error


def test_forms_need_the_token_of_the_session(root: Window, guarded: Site, name: str) -> None:
    guarded.create_user(name)
    for path, form in {
        f"/users/{name}/change": {"super": "yes"},
        f"/users/{name}/secret": {},
        f"/users/{name}/delete": {"confirmation": name},
        f"/users/{name}/policies": {"resource": "*", "action-Pub": "yes"},
        "/new/user": {"name": f"{name}-2"},
        "/new/quota": {"kind": "user", "name": name, "messages_in": "5"},
    }.items():
        assert root.post(f"/console{path}", form) == 403
    user = guarded.get_user(name)
    assert (user["super"], user["policies"], quota_of(guarded, name)) == (False, [], None)
    assert guarded.accepts_secret(name, SECRET)
    guarded.ask("GET", f"/users/{name}-2", status=404)


# --- quotas


def test_the_open_server_has_quotas_and_no_users(window: Window, site: Site, name: str) -> None:
    pages = [each.text for each in window.go("/console/quotas").page.find("nav").find_all("a")]
    assert "Quotas" in pages
    assert not {"Users", "Audit log"} & set(pages)
    window.follow("New quota")
    assert "all clients are one user" in window.text
    window.fill("What it is of", "topic")
    window.fill("Name", name)
    window.fill("Messages in flight", "7")
    assert window.press("Set the quota").notice == f"Quota topic:{name} was created."
    assert [window.go(f"/console/{path}").status for path in ("users", "audit", "new/user")] == [404] * 3
    site.ask("DELETE", f"/quotas/topic/{name}")


def test_a_quota_from_creation_to_deletion(root: Window, guarded: Site, name: str) -> None:
    root.go("/console/new/quota")
    root.fill("Name", name)
    assert "sets no limit" in root.press("Set the quota").error
    root.fill("Bytes sent, per second", "much")
    assert "'much' is no size" in root.press("Set the quota").error
    root.fill("Bytes sent, per second", "10MiB")
    root.fill("Messages sent, per second", "1,000")
    root.fill("Messages in flight", "5")
    assert "a user has no in_flight" in root.press("Set the quota").error
    root.fill("Messages in flight", "")
    root.fill("Burst", "2s")
    root.press("Set the quota")
    assert (root.path, root.notice) == ("/console/quotas", f"Quota user:{name} was created.")
    fields = {"kind": "user", "name": name, "messages_in": 1000, "burst": "2s"}
    assert quota_of(guarded, name) == {**fields, "bytes_in": 10 << 20}
    (row,) = [row for row in root.go(f"/console/quotas?search={name}").rows("Quotas") if name in row[0]]
    assert "Bytes sent, per second: 10MiB" in row[1]
    root.follow(f"Change user:{name}")
    assert root.field("Bytes sent, per second").value == "10MiB"
    root.fill("Bytes sent, per second", "")
    assert root.press("Set the quota").notice == f"Quota user:{name} was changed."
    assert quota_of(guarded, name) == fields
    root.go(f"/console/quotas?search={name}").press(f"Remove user:{name}")
    assert root.notice == f"Quota user:{name} was removed."
    assert quota_of(guarded, name) is None


def test_many_quotas_come_in_pages_and_are_searched(root: Window, guarded: Site, name: str) -> None:
    names = [f"{name}-{number:02}" for number in range(55)]
    for each in names:
        guarded.ask("PUT", f"/quotas/client/{each}", {"connections": 4})
    root.go(f"/console/quotas?search={name}")
    assert root.column(0, "Quotas") == [f"client: {each}" for each in names[:50]]
    assert root.follow("More").column(0, "Quotas") == [f"client: {each}" for each in names[50:]]


@pytest.mark.parametrize("hostile", [*HOSTILE, "\u202egnp.exe", "a/b c"])
def test_the_name_of_a_quota_stays_text(root: Window, guarded: Site, hostile: str) -> None:
    guarded.ask("PUT", f"/quotas/client/{quote(hostile, safe='')}", {"connections": 4})
    root.go(f"/console/quotas?search={quote(hostile)}")
    assert root.column(0, "Quotas") == [f"client: {hostile}".replace("\u202e", "U+202E")]
    assert not root.main.find_all("img", "script")
    root.follow(f"Change client:{hostile}")
    assert root.field("Name").value == hostile
    root.go(f"/console/quotas?search={quote(hostile)}").press(f"Remove client:{hostile}")
    assert re.fullmatch("Quota client:.* was removed.", root.notice)
    assert quota_of(guarded, hostile) is None
