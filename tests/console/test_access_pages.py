"""Users, policies, quotas and the audit log in a real browser, at a server that wants to know who comes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.console.conftest import ROOT, SECRET
from tests.console.test_signing_in import as_root, cookie_of, post, sign_in, token_of
from tests.support.stack import ServerProcess

ANOTHER_SECRET = "another-secret-of-a-test"
HOSTILE = ("<script>alert(1)</script>", '"><img/src=x/onerror=alert(1)>', "{{7+7}}", "'><b>bold</b>")


@pytest.fixture
def root(guest: Visit) -> Visit:
    """A window of a super user."""
    guest.go("/console/users")
    sign_in(guest)
    return guest


@pytest.fixture
def clerk(browser: Browser, guarded: ServerProcess, name: str) -> Iterator[Visit]:
    """A window of a user who may read one topic, and is called as the test's name."""
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": f"Topic:{name}", "actions": "Get"})
    with visit(browser, guarded.addresses["http"]) as window:
        window.go("/console/topics")
        sign_in(window, name)
        yield window


def user_of(server: ServerProcess, name: str) -> dict[str, object]:
    told = as_root(server, "GET", f"/users/{name}")
    assert isinstance(told, dict)
    return dict(told["user"])


def may_sign_in(server: ServerProcess, name: str, secret: str) -> bool:
    """Whether that is a user's secret; what he may do is another thing."""
    return ask_status(server, name, secret) != 401


def ask_status(server: ServerProcess, name: str, secret: str) -> int:
    for status in (200, 401, 403):
        try:
            ask(server.addresses["http"], "GET", f"/users/{name}", user=name, secret=secret, status=status)
        except AssertionError:
            continue
        return status
    raise AssertionError("the server answers otherwise")


def audit_file(server: ServerProcess) -> Path:
    return server.log.parent / "data" / "audit.log"


def everywhere(server: ServerProcess) -> str:
    """All that the server has written but its registry, in which secrets are encrypted."""
    return server.log.read_text() + audit_file(server).read_text(errors="replace")


def confirm(window: Visit, name: str) -> None:
    window.page.get_by_label("Type the name of the user to go on").locator("visible=true").fill(name)


# --- every page


@pytest.mark.parametrize(("theme", "width", "height"), [LIGHT_AND_WIDE, DARK_AND_NARROW], ids=["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: Browser, guarded: ServerProcess, name: str, theme: str, width: int, height: int
) -> None:
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    as_root(guarded, "POST", "/users", {"name": f"{name}-off", "super": True})
    as_root(guarded, "PATCH", f"/users/{name}-off", {"enabled": False})
    policy = {"resource": "Topic:orders-*", "actions": "Pub,Sub", "sources": ["10.0.0.0/8"]}
    as_root(guarded, "PUT", f"/users/{name}/policies", policy)
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": "*", "actions": "All", "deny": True})
    as_root(guarded, "PUT", f"/quotas/user/{name}", {"messages_in": 100_000, "bytes_out": 1 << 20, "connections": 9})
    ask(guarded.addresses["http"], "GET", "/users", user=name, secret=SECRET, status=403)
    with visit(browser, guarded.addresses["http"], theme=theme, width=width, height=height) as window:
        window.go("/console/users")
        sign_in(window)
        found = {}
        for path, wanted in {
            "/console/users": "Newest secret made",
            f"/console/users/{name}": "Policies",
            f"/console/users/{name}?resource=*&deny": "Add or replace a policy",
            f"/console/users/{name}-off": "so",
            f"/console/users/{ROOT}": "This is you",
            "/console/users/nobody": "There is no such thing",
            "/console/new/user": "New user",
            "/console/quotas": "Quota of",
            "/console/quotas?search=nobody-has-this": "No quota has",
            "/console/new/quota": "New quota",
            f"/console/new/quota?kind=user&name={name}": "Change a quota",
            "/console/audit": "Outcome",
            "/console/audit?user=nobody": "no such entry",
            "/console/audit?since=yesterday": "is no time",
        }.items():
            window.go(path)
            assert wanted in window.text, path
            for summary in window.page.locator("summary").all():
                if not summary.evaluate("summary => summary.parentElement.open"):
                    summary.click()
            found[path] = window.violations()
        window.go("/console/new/user")
        window.fill("Name", f"{name}-{theme}")
        window.press("Make the user")
        found["secret"] = window.violations()
        assert {path: told for path, told in found.items() if told} == {}


def test_the_open_server_has_quotas_and_no_users(window: Visit, server: ServerProcess, name: str) -> None:
    window.go("/console/quotas")
    pages = window.page.get_by_role("navigation", name="Pages").inner_text().split("\n")
    assert "Quotas" in pages
    assert not {"Users", "Audit log"} & set(pages)
    window.page.get_by_role("link", name="New quota").click()
    assert "everybody is one user" in window.text
    window.page.get_by_label("What it is of").select_option("topic")
    window.fill("Name", name)
    window.fill("Messages in flight", "7")
    window.press("Set the quota")
    assert window.notice == f"Quota topic:{name} was made."
    for path in ("/console/users", "/console/audit", "/console/new/user"):
        response = window.page.goto(f"http://{window.address}{path}")
        assert response is not None
        assert response.status == 404
    ask(server.addresses["http"], "DELETE", f"/quotas/topic/{name}")
    window.said.clear()


# --- users


def test_a_user_from_his_making_to_his_end(root: Visit, guarded: ServerProcess, name: str) -> None:
    root.go("/console/users")
    root.page.get_by_role("link", name="New user").click()
    root.fill("Name", name)
    root.fill("Secret", SECRET)
    root.press("Make the user")
    assert (root.path, root.notice) == (f"/console/users/{name}", f"User {name} was made.")
    assert "may do nothing yet" in root.text
    assert may_sign_in(guarded, name, SECRET)
    root.open("Disable")
    assert "are refused from their next call on" in root.text
    root.press("Disable")
    assert root.notice == f"User {name} is an ordinary user now, and disabled."
    assert not may_sign_in(guarded, name, SECRET)
    root.open("Enable")
    root.press("Enable")
    assert may_sign_in(guarded, name, SECRET)
    root.open("Make a super user")
    assert "No policy counts, not even one that denies" in root.text
    root.press("Make a super user")
    assert root.notice == f"User {name} is a super user now, and enabled."
    assert user_of(guarded, name)["super"]
    root.open("Make an ordinary user")
    root.press("Make an ordinary user")
    assert not user_of(guarded, name)["super"]
    root.open("Delete the user")
    confirm(root, f"{name}x")
    root.press("Delete the user")
    assert f"type the name, {name}, to go on" in root.error
    user_of(guarded, name)
    root.open("Delete the user")
    confirm(root, name)
    root.press("Delete the user")
    assert (root.path, root.notice) == ("/console/users", f"User {name} was deleted.")
    as_root_missing(guarded, f"/users/{name}")


def as_root_missing(server: ServerProcess, path: str) -> None:
    ask(server.addresses["http"], "GET", path, user=ROOT, secret=SECRET, status=404)


def test_the_last_super_user_stays(root: Visit, guarded: ServerProcess) -> None:
    for name in [each["name"] for each in users_of(guarded) if each["super"] and each["name"] != ROOT]:
        as_root(guarded, "DELETE", f"/users/{name}")
    for act in ("Disable", "Make an ordinary user"):
        root.go(f"/console/users/{ROOT}")
        root.open(act)
        root.press(act)
        assert "the last super user" in root.error
    root.open("Delete the user")
    confirm(root, ROOT)
    root.press("Delete the user")
    assert "the last super user" in root.error
    assert (user_of(guarded, ROOT)["super"], user_of(guarded, ROOT)["enabled"]) == (True, True)


def users_of(server: ServerProcess) -> list[dict[str, object]]:
    told = as_root(server, "GET", "/users?limit=1000")
    assert isinstance(told, dict)
    return list(told["users"])


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"Name": "a/b"}, "letters, digits"),
        ({"Name": "good-name", "Secret": "short"}, "12 to 256 ASCII characters"),
        ({"Name": ROOT}, "exists"),
    ],
)
def test_what_can_be_no_user_is_said_and_no_secret_is(root: Visit, fields: dict[str, str], error: str) -> None:
    root.go("/console/new/user")
    for label, text in fields.items():
        root.fill(label, text)
    root.press("Make the user")
    assert error in root.error
    assert root.page.get_by_label("Name").input_value() == fields["Name"]
    assert root.page.get_by_label("Secret").input_value() == ""
    assert "short" not in root.page.content()


def test_many_users_come_in_pages(root: Visit, guarded: ServerProcess, name: str) -> None:
    names = [f"!{name}-{number:02}".replace("!", "0") for number in range(30)]
    for each in names:
        as_root(guarded, "POST", "/users", {"name": each, "secret": SECRET})
    root.go("/console/users")
    assert root.page.locator("tbody th").all_inner_texts() == sorted(names)[:25]
    root.page.get_by_role("link", name="More").click()
    expect(root.page.locator("tbody th").first).to_have_text(names[25])
    root.page.get_by_role("link", name="From the beginning").click()
    expect(root.page.locator("tbody th").first).to_have_text(names[0])
    for each in names:
        as_root(guarded, "DELETE", f"/users/{each}")


# --- secrets


def test_a_secret_that_the_server_made_is_shown_once_and_is_nowhere_else(
    root: Visit, guarded: ServerProcess, name: str
) -> None:
    urls: list[str] = []
    root.page.on("request", lambda request: urls.append(request.url))
    root.go("/console/new/user")
    root.fill("Name", name)
    root.press("Make the user")
    made = root.page.locator("#secret").inner_text()
    assert "It is not shown again" in root.text
    assert root.notice == f"User {name} was made."
    assert may_sign_in(guarded, name, made)
    root.page.get_by_role("link", name="It is noted, go on").click()
    root.page.wait_for_url(f"**/users/{name}")
    assert made not in root.page.content()
    root.open("Give another secret")
    root.fill("Overlap", "1h")
    root.press("Give another secret")
    rotated = root.page.locator("#secret").inner_text()
    assert rotated != made
    assert may_sign_in(guarded, name, made), "the one before is valid for the overlap"
    assert may_sign_in(guarded, name, rotated)
    pages = ("/console/topics", "/console/users", f"/console/users/{name}", "/console/audit", "/console/audit")
    for path in pages:
        root.go(path)
        assert not [secret for secret in (made, rotated, SECRET) if secret in root.page.content()], path
    root.page.go_back()
    for secret in (made, rotated, SECRET):
        assert secret not in everywhere(guarded)
        assert not [url for url in urls if secret in url]


def test_the_secret_of_before_ends_without_an_overlap(root: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    root.go(f"/console/users/{name}")
    root.open("Give another secret")
    root.fill("Secret", "short")
    root.fill("Overlap", "0s")
    root.press("Give another secret")
    assert "12 to 256 ASCII" in root.error
    assert root.page.get_by_label("Overlap").input_value() == "0s"
    root.fill("Overlap", "soon")
    root.press("Give another secret")
    assert "no duration" in root.error
    root.fill("Secret", ANOTHER_SECRET)
    root.fill("Overlap", "0s")
    root.press("Give another secret")
    assert (root.path, root.notice) == (f"/console/users/{name}", f"User {name} has another secret.")
    assert ANOTHER_SECRET not in root.page.content()
    assert may_sign_in(guarded, name, ANOTHER_SECRET)
    assert not may_sign_in(guarded, name, SECRET)
    assert ANOTHER_SECRET not in everywhere(guarded)


def test_who_gives_himself_another_secret_stays_signed_in(clerk: Visit, guarded: ServerProcess, name: str) -> None:
    clerk.go("/console/users")
    assert "Only super users may see all users" in clerk.text
    clerk.page.get_by_role("link", name="What you may do yourself").click()
    clerk.page.wait_for_url(f"**/users/{name}")
    clerk.open("Give another secret")
    clerk.fill("Overlap", "0s")
    clerk.press("Give another secret")
    rotated = clerk.page.locator("#secret").inner_text()
    assert not may_sign_in(guarded, name, SECRET)
    clerk.page.get_by_role("link", name="It is noted, go on").click()
    clerk.page.wait_for_url(f"**/users/{name}")
    assert may_sign_in(guarded, name, rotated)


# --- policies


def test_a_policy_from_its_making_to_its_end(root: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    root.go(f"/console/users/{name}")
    root.open("Add or replace a policy")
    root.fill("Resource", "Topic:orders-*")
    root.press("Set the policy")
    assert "choose what the policy is about" in root.error
    root.page.get_by_label("Pub", exact=True).check()
    root.page.get_by_label("Sub", exact=True).check()
    root.fill("Only from these addresses", "10.0.0.0/8, nowhere")
    root.press("Set the policy")
    assert "this is no source range" in root.error
    assert root.page.get_by_label("Pub", exact=True).is_checked()
    root.fill("Only from these addresses", "10.0.0.0/8, ::1")
    root.press("Set the policy")
    assert root.notice == f"User {name} has a policy that allows Topic:orders-*."
    assert user_of(guarded, name)["policies"] == [
        {"resource": "Topic:orders-*", "actions": "Pub,Sub", "deny": False, "sources": ["10.0.0.0/8", "::1/128"]}
    ]
    root.page.get_by_role("link", name="Change what allows Topic:orders-*").click()
    assert root.page.get_by_label("Sub", exact=True).is_checked()
    assert root.page.get_by_label("Only from these addresses").input_value() == "10.0.0.0/8, ::1/128"
    root.page.get_by_label("Sub", exact=True).uncheck()
    root.fill("Only from these addresses", "")
    root.press("Set the policy")
    assert policies_of(guarded, name) == [("Topic:orders-*", "Pub", False, [])]
    root.open("Add or replace a policy")
    root.page.get_by_label("Decision").select_option("deny")
    root.fill("Resource", "Topic:orders-*")
    for box in root.page.get_by_role("group", name="Actions").get_by_role("checkbox").all():
        box.check()
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


def policies_of(server: ServerProcess, name: str) -> list[tuple[str, str, bool, list[str]]]:
    policies = user_of(server, name)["policies"]
    assert isinstance(policies, list)
    return [(each["resource"], each["actions"], each["deny"], each["sources"]) for each in policies]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_a_policy_is_about_stays_text(root: Visit, guarded: ServerProcess, name: str, hostile: str) -> None:
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    root.go(f"/console/users/{name}")
    root.open("Add or replace a policy")
    root.fill("Resource", f"Topic:{hostile}")
    root.page.get_by_label("Get", exact=True).check()
    root.press("Set the policy")
    assert hostile in root.notice
    assert root.page.locator("tbody th").inner_text() == f"Topic:{hostile}"
    root.page.get_by_role("link", name="Change what allows").click()
    assert root.page.get_by_label("Resource").input_value() == f"Topic:{hostile}"
    assert root.page.locator("img, main script").count() == 0
    assert root.violations() == []
    root.press(f"Take away what allows Topic:{hostile}")
    assert policies_of(guarded, name) == []


# --- who may


def test_a_user_with_few_rights_sees_what_he_may_and_changes_nothing(
    clerk: Visit, guarded: ServerProcess, name: str
) -> None:
    for path, said in {
        "/console/users": "Only super users may see all users",
        f"/console/users/{ROOT}": "it is for super users only",
        "/console/audit": "Only super users may see who did what",
        "/console/quotas": "You may not see the quotas",
    }.items():
        clerk.go(path)
        assert said in clerk.text, path
        assert clerk.violations() == []
    clerk.go(f"/console/users/{name}")
    assert clerk.page.locator("tbody th").inner_text() == f"Topic:{name}"
    assert clerk.page.locator("summary").all_inner_texts() == ["Give another secret"]
    before = (users_of(guarded), as_root(guarded, "GET", "/quotas"))
    cookie, token = str(cookie_of(clerk)["value"]), token_of(clerk)
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
        assert post(guarded, f"/console{path}", cookie, {**form, "token": token}) in (400, 403), path
    assert (users_of(guarded), as_root(guarded, "GET", "/quotas")) == before
    clerk.go("/console/new/user")
    clerk.fill("Name", f"{name}-2")
    clerk.press("Make the user")
    assert "it is for super users only" in clerk.error


def test_acts_need_the_sessions_token(root: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    cookie = str(cookie_of(root)["value"])
    for path, form in {
        f"/users/{name}/change": {"super": "yes"},
        f"/users/{name}/secret": {},
        f"/users/{name}/delete": {"confirmation": name},
        f"/users/{name}/policies": {"resource": "*", "action-Pub": "yes"},
        "/new/user": {"name": f"{name}-2"},
        "/new/quota": {"kind": "user", "name": name, "messages_in": "5"},
    }.items():
        assert post(guarded, f"/console{path}", cookie, form) == 403
    assert (user_of(guarded, name)["super"], user_of(guarded, name)["policies"]) == (False, [])
    as_root_missing(guarded, f"/users/{name}-2")


def test_everything_works_without_a_script(browser: Browser, guarded: ServerProcess, name: str) -> None:
    with visit(browser, guarded.addresses["http"], scripts=False) as window:
        window.go("/console/new/user")
        sign_in(window)
        window.fill("Name", name)
        window.fill("Secret", SECRET)
        window.press("Make the user")
        window.open("Add or replace a policy")
        window.fill("Resource", "Topic:a")
        window.page.get_by_label("Get", exact=True).check()
        window.press("Set the policy")
        assert policies_of(guarded, name) == [("Topic:a", "Get", False, [])]
        window.go("/console/audit")
        window.fill("Part of the resource", f"users/{name}")
        window.press("Show")
        assert window.page.locator("tbody td:nth-child(3)").all_inner_texts() == ["PutPolicy", "CreateUser"]
        assert " UTC" in window.text


# --- quotas


def test_a_quota_from_its_making_to_its_end(root: Visit, guarded: ServerProcess, name: str) -> None:
    root.go("/console/new/quota")
    root.fill("Name", name)
    root.press("Set the quota")
    assert "sets no limit" in root.error
    root.fill("Bytes sent, a second", "much")
    root.press("Set the quota")
    assert "'much' is no size" in root.error
    root.fill("Bytes sent, a second", "10MiB")
    root.fill("Messages sent, a second", "1,000")
    root.fill("Messages in flight", "5")
    root.press("Set the quota")
    assert "a user has no in_flight" in root.error
    root.fill("Messages in flight", "")
    root.fill("Burst", "2s")
    root.press("Set the quota")
    assert (root.path, root.notice) == ("/console/quotas", f"Quota user:{name} was made.")
    assert quota_of(guarded, name) == {
        "kind": "user",
        "name": name,
        "bytes_in": 10 << 20,
        "messages_in": 1000,
        "burst": "2s",
    }
    row = root.page.locator("tbody tr").filter(has_text=name)
    assert re.search(r"Bytes sent, a second: 10MiB", row.inner_text())
    root.page.get_by_role("link", name=f"Change user:{name}").click()
    assert root.page.get_by_label("Bytes sent, a second").input_value() == "10MiB"
    root.fill("Bytes sent, a second", "")
    root.press("Set the quota")
    assert root.notice == f"Quota user:{name} was changed."
    assert quota_of(guarded, name) == {"kind": "user", "name": name, "messages_in": 1000, "burst": "2s"}
    root.press(f"Remove user:{name}")
    assert root.notice == f"Quota user:{name} was removed."
    assert quota_of(guarded, name) is None


def quota_of(server: ServerProcess, name: str) -> object:
    told = as_root(server, "GET", "/quotas")
    assert isinstance(told, dict)
    return next((each for each in told["quotas"] if each["name"] == name), None)


def test_who_takes_most_is_seen(root: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/topics", {"name": name, "queues": 1})
    as_root(guarded, "PUT", f"/quotas/topic/{name}", {"messages_in": 1})
    root.go("/console/quotas")
    for _ in range(3):
        ask_any(guarded, name)
    row = root.page.get_by_role("region", name="Who takes most").locator("tr").filter(has_text=name)
    expect(row).to_contain_text("its own")  # the list renews itself
    as_root(guarded, "DELETE", f"/quotas/topic/{name}")


def ask_any(server: ServerProcess, topic: str) -> None:
    """Send, whether or not that is refused."""
    for status in (201, 429):
        try:
            ask(
                server.addresses["http"],
                "POST",
                f"/topics/{topic}/messages",
                {"text": "x"},
                user=ROOT,
                secret=SECRET,
                status=status,
            )
        except AssertionError:
            continue
        return


def test_many_quotas_come_in_pages_and_are_searched(root: Visit, guarded: ServerProcess, name: str) -> None:
    names = [f"{name}-{number:02}" for number in range(55)]
    for each in names:
        as_root(guarded, "PUT", f"/quotas/client/{each}", {"connections": 4})
    root.go(f"/console/quotas?search={name}")
    rows = root.page.get_by_role("region", name="Quotas").locator("tbody th")
    assert rows.count() == 50
    root.page.get_by_role("link", name="More").click()
    expect(rows).to_have_text([f"client: {each}" for each in names[50:]])
    for each in names:
        as_root(guarded, "DELETE", f"/quotas/client/{each}")


@pytest.mark.parametrize("hostile", [*HOSTILE, "\u202egnp.exe", "a/b c"])
def test_the_name_of_a_quota_stays_text(root: Visit, guarded: ServerProcess, hostile: str) -> None:
    as_root(guarded, "PUT", f"/quotas/client/{quote(hostile, safe='')}", {"connections": 4})
    root.go("/console/quotas")
    row = (
        root.page.get_by_role("region", name="Quotas")
        .locator("tbody tr")
        .filter(has_text=hostile.replace("\u202e", "U+202E"))
    )
    assert root.page.locator("img, main script").count() == 0
    row.get_by_role("link").click()
    assert root.page.get_by_label("Name").input_value() == hostile
    root.go("/console/quotas")
    row.get_by_role("button").click()
    assert root.notice.startswith("Quota client:")
    assert quota_of(guarded, hostile) is None


# --- the audit log


def test_who_did_what_is_found(root: Visit, guarded: ServerProcess, name: str) -> None:
    as_root(guarded, "POST", "/topics", {"name": name, "queues": 1})
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    ask(guarded.addresses["http"], "DELETE", f"/topics/{name}", user=name, secret=SECRET, status=403)
    root.go("/console/audit")
    root.fill("Part of the resource", name.upper())
    root.press("Show")
    assert columns(root) == [
        [name, "DeleteTopic", f"Topic:{name}", "refused"],
        [ROOT, "CreateUser", f"Cluster:users/{name}", "allowed"],
        [ROOT, "CreateTopic", f"Topic:{name}", "allowed"],
    ]
    assert "no policy allows it" in root.text
    assert "What broker-0 wrote" in root.text
    root.page.get_by_label("Outcome").select_option("refused")
    root.press("Show")
    assert [row[1] for row in columns(root)] == ["DeleteTopic"]
    assert root.page.get_by_label("Part of the resource").input_value() == name.upper()
    root.page.get_by_label("Outcome").select_option("")
    root.fill("Call", "createuser")
    root.press("Show")
    assert [row[1] for row in columns(root)] == ["CreateUser"]
    root.fill("Call", "")
    root.fill("Access key", name)
    root.press("Show")
    assert [row[1] for row in columns(root)] == ["DeleteTopic"]
    root.page.get_by_label("Before (UTC)").fill("2020-01-01T00:00:00")
    root.press("Show")
    assert "There is no such entry." in root.text
    root.page.get_by_label("Before (UTC)").fill("")
    root.page.get_by_label("Since (UTC)").fill("2020-01-01T00:00:00")
    root.press("Show")
    assert [row[1] for row in columns(root)] == ["DeleteTopic"]
    root.page.get_by_role("link", name="Show all").click()
    assert len(columns(root)) > 1


def columns(window: Visit) -> list[list[str]]:
    """User, call, resource and outcome of each row."""
    return [row.locator("td").all_inner_texts()[1:5] for row in window.page.locator("tbody tr").all()]


def test_many_entries_come_in_pages(root: Visit, guarded: ServerProcess, name: str) -> None:
    for number in range(60):
        as_root(guarded, "PUT", f"/quotas/client/{name}-{number:02}", {"connections": 4})
    root.go(f"/console/audit?{urlencode({'resource': name, 'call': 'PutQuota'})}")
    wanted = [f"Cluster:quotas/{name}-{number:02}" for number in reversed(range(60))]
    assert [row[2] for row in columns(root)] == wanted[:50]
    root.page.get_by_role("link", name="Older").click()
    root.page.wait_for_url("**page=**")
    assert [row[2] for row in columns(root)] == wanted[50:]
    assert dict(parse_qsl(urlsplit(root.page.url).query))["call"] == "PutQuota"
    root.page.get_by_role("link", name="From the newest").click()
    expect(root.page.locator("tbody tr")).to_have_count(50)
    for number in range(60):
        as_root(guarded, "DELETE", f"/quotas/client/{name}-{number:02}")


def entry(**fields: object) -> str:
    usual = {
        "time": "2026-01-02T03:04:05.678Z",
        "user": "u",
        "source": "10.0.0.7:1",
        "client": "c",
        "call": "DeleteTopic",
        "resource": "Topic:t",
        "allowed": True,
        "why": "a super user",
    }
    return json.dumps(usual | fields)


@pytest.mark.parametrize("hostile", [*HOSTILE, "\u202egnp.exe", "a\x1b[31m", "half a pair \ud800", "x" * 5000])
def test_what_others_wrote_into_it_stays_text(root: Visit, guarded: ServerProcess, name: str, hostile: str) -> None:
    fields = dict.fromkeys(("user", "source", "client", "why"), hostile)
    line = entry(**fields, call=name, resource=f"Topic:{hostile}", left_out=3)
    with audit_file(guarded).open("a") as file:
        file.write(f"{line}\n")
    root.go(f"/console/audit?{urlencode({'call': name})}")
    shown = hostile.replace("\u202e", "U+202E").replace("\x1b", "U+001B").replace("\ud800", "\\ud800")
    ((user, call, resource, outcome),) = columns(root)
    assert (user, call, resource) == (shown, name, f"Topic:{shown}")
    assert outcome == "allowed, and 3 times before"
    assert root.page.locator("img, main script").count() == 0
    assert root.violations() == []


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ServerProcess]:
    """One for this test alone, whose audit log may be spoilt."""
    environment = {"TERNMQ_INIT_USER": ROOT, "TERNMQ_INIT_SECRET": SECRET}
    options = ("--data-dir", str(tmp_path / "data"), "--access-control")
    with ServerProcess(tmp_path, "up", *options, addresses=("grpc", "http"), environment=environment) as running:
        yield running


def test_lines_that_are_no_entries_are_told_of(browser: Browser, own: ServerProcess, name: str) -> None:
    with visit(browser, own.addresses["http"]) as window:
        window.go("/console/topics")
        sign_in(window)
        with audit_file(own).open("ab") as file:
            file.write(
                b"\xff\x00 garbage\n" + b"y" * 200_000 + b"\n" + entry(call=name).encode() + b'\n{"time": "now"}\n'
            )
        window.go(f"/console/audit?{urlencode({'call': name})}")
        assert "3 lines of what was read are no entries" in window.error
        assert [row[1] for row in columns(window)] == [name]
        assert window.violations() == []


def test_a_long_log_is_read_as_far_as_one_likes(browser: Browser, own: ServerProcess) -> None:
    """A page reads so much and no more; there is nothing like it in the first five megabytes."""
    filler = entry(call="Filler", why="x" * 1000)
    with audit_file(own).open("w") as file:
        file.write(f"{entry(call='Wanted')}\n")
        file.writelines(f"{filler}\n" for _ in range(5 * (1 << 20) // len(filler)))
    with visit(browser, own.addresses["http"]) as window:
        window.go("/console/audit?call=Wanted")
        sign_in(window)
        window.go("/console/audit?call=Wanted")
        assert "Nothing like that back to" in window.text
        assert window.violations() == []
        window.page.get_by_role("link", name="Look further back").click()
        window.page.wait_for_url("**page=**")
        assert [row[1] for row in columns(window)] == ["Wanted"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_is_searched_stays_text(root: Visit, hostile: str) -> None:
    root.go(f"/console/audit?{urlencode(dict.fromkeys(('user', 'call', 'resource', 'outcome', 'since'), hostile))}")
    assert "is no time" in root.error
    assert root.page.get_by_label("Access key").input_value() == hostile
    root.go(f"/console/audit?{urlencode({'page': hostile})}")
    assert "what the answer before gave is needed" in root.error
    assert root.page.locator("img, main script").count() == 0
