"""Users, policies, quotas and the audit log in a real browser, at a server that wants to know who comes."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.api import ask
from tests.console.browsing import DARK_AND_NARROW, LIGHT_AND_WIDE, Visit, visit
from tests.console.conftest import ROOT, SECRET
from tests.console.test_signing_in import as_root, sign_in
from tests.support.stack import ServerProcess

ANOTHER_SECRET = "another-secret-of-a-test"


@pytest.fixture
def root(guest: Visit) -> Visit:
    """A window of a super user."""
    guest.go("/console/users")
    sign_in(guest)
    return guest


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
    with visit(browser, guarded.addresses["http"], theme=theme, width=width, height=height) as window:
        window.go("/console/topics")
        sign_in(window, name)
        for path, refusal in {
            "/console/users": "Only super users may see all users",
            f"/console/users/{ROOT}": "it is for super users only",
            "/console/audit": "Only super users may see who did what",
            "/console/quotas": "You may not see the quotas",
        }.items():
            window.go(path)
            assert refusal in window.text, path
            found[f"{path} without a right"] = window.violations()
        assert {path: told for path, told in found.items() if told} == {}


# --- users


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


# --- policies


def policies_of(server: ServerProcess, name: str) -> list[tuple[str, str, bool, list[str]]]:
    policies = user_of(server, name)["policies"]
    assert isinstance(policies, list)
    return [(each["resource"], each["actions"], each["deny"], each["sources"]) for each in policies]


# --- who may


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
