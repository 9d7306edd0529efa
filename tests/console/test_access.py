"""What one does at a server that wants to know who comes: signing in, users, their secrets, and what others wrote."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from tests.console.browsing import MISSING, Visit, visit
from tests.console.test_journeys import HOSTILE, look
from tests.support.console_site import ROOT, SECRET, Site, audit_line
from tests.support.stack import ServerProcess

GUARDED = {"TERNMQ_INIT_USER": ROOT, "TERNMQ_INIT_SECRET": SECRET}


@pytest.fixture(scope="module")
def guarded_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def guarded(guarded_folder: Path) -> Iterator[Site]:
    """Serves users."""
    options = ("--data-dir", str(guarded_folder / "data"), "--access-control")
    names = ("grpc", "http")
    with ServerProcess(guarded_folder, "up", *options, addresses=names, environment=GUARDED) as running:
        yield Site(running.addresses["grpc"], running.addresses["http"], ROOT, SECRET)


@pytest.fixture
def guest(browser: Browser, guarded: Site) -> Iterator[Visit]:
    """At the guarded server, and not signed in."""
    with visit(browser, guarded.http) as visiting:
        yield visiting


def test_pages_of_users_quotas_and_the_audit_log(browser: Browser, guest: Visit, guarded: Site, name: str) -> None:
    guarded.create_user(name, ("Topic:orders-*", "Pub,Sub"))
    policy = {"resource": "Topic:orders-*", "actions": "Pub,Sub", "sources": ["10.0.0.0/8"]}
    for each in (policy, {"resource": "*", "actions": "All", "deny": True}):
        guarded.ask("PUT", f"/users/{name}/policies", each)
    guarded.ask("POST", "/users", {"name": f"{name}-off", "super": True})
    guarded.ask("PATCH", f"/users/{name}-off", {"enabled": False})
    guarded.ask("PUT", f"/quotas/user/{name}", {"messages_in": 100_000, "bytes_out": 1 << 20, "connections": 9})
    guarded.ask("GET", "/users", user=name, status=403)
    guest.go("/console/users")
    guest.sign_in()
    guest.look_at(
        {
            "/console/users": "Newest secret created",
            f"/console/users/{name}": "Policies",
            f"/console/users/{name}?resource=*&deny": "Add or replace a policy",
            f"/console/users/{name}-off": "so",
            f"/console/users/{ROOT}": "This is you",
            "/console/users/nobody": MISSING,
            "/console/new/user": "New user",
            "/console/quotas": "Quota of",
            "/console/quotas?search=nobody-has-this": "No quota has",
            "/console/new/quota": "New quota",
            f"/console/new/quota?kind=user&name={name}": "Change a quota",
            "/console/audit": "Outcome",
            "/console/audit?user=nobody": "no such entry",
            "/console/audit?since=yesterday": "is no time",
        }
    )
    guest.go("/console/new/user")
    guest.fill("Name", f"{name}-new")
    guest.press("Create the user")
    assert guest.violations() == []
    with visit(browser, guarded.http) as window:
        window.go("/console/topics")
        window.sign_in(name)
        window.look_at(
            {
                "/console/users": "Only super users may see all users",
                f"/console/users/{ROOT}": "it is for super users only",
                "/console/audit": "Only super users may see the audit log",
                "/console/quotas": "You may not see the quotas",
            }
        )


def test_one_signs_in_goes_on_where_one_wanted_and_again_when_the_session_is_over(guest: Visit) -> None:
    guest.go("/console/groups")
    assert guest.path == "/console/login?next=%2Fconsole%2Fgroups"
    assert guest.violations() == []
    guest.sign_in(secret="wrong")
    assert "No user of this server" in guest.error
    assert guest.page.get_by_label("Secret").input_value() == ""
    guest.sign_in()
    assert guest.path == "/console/groups"
    (cookie,) = guest.page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/console")
    guest.page.get_by_role("button", name="Sign out").click()
    assert guest.path == "/console/login"
    guest.go("/console/topics")
    assert guest.path.startswith("/console/login")
    guest.sign_in()
    guest.page.context.clear_cookies()
    guest.page.get_by_label("Part of a topic's name").press_sequentially("a")
    guest.page.wait_for_url("**/console/login?**")  # a page that asks by itself is led there


def test_a_secret_that_the_server_made_is_shown_once_and_is_nowhere_else(
    guest: Visit, guarded: Site, guarded_folder: Path, name: str
) -> None:
    urls: list[str] = []
    guest.page.on("request", lambda request: urls.append(request.url))
    guest.go("/console/new/user")
    guest.sign_in()
    guest.fill("Name", name)
    guest.press("Create the user")
    made = guest.page.locator("#secret").inner_text()
    assert "It is not shown again" in guest.text
    assert guest.notice == f"User {name} was created."
    assert guarded.accepts_secret(name, made)
    guest.follow("It is noted, go on")
    guest.page.wait_for_url(f"**/users/{name}")
    assert made not in guest.page.content()
    guest.open("Give another secret")
    guest.fill("Overlap", "1h")
    guest.press("Give another secret")
    rotated = guest.page.locator("#secret").inner_text()
    assert rotated != made
    assert guarded.accepts_secret(name, made), "the one before is valid for the overlap"
    assert guarded.accepts_secret(name, rotated)
    secrets = (made, rotated, SECRET)
    for path in ("/console/topics", "/console/users", f"/console/users/{name}", "/console/audit", "/console/audit"):
        guest.go(path)
        assert not [secret for secret in secrets if secret in guest.page.content()], path
    guest.page.go_back()
    # All that the server has written but its registry, in which secrets are encrypted.
    written = [
        file.read_text(errors="replace") for file in map(guarded_folder.joinpath, ("server.log", "data/audit.log"))
    ]
    assert not [secret for secret in secrets if any(secret in text for text in [*written, *urls])]


def test_hostile_text_of_users_policies_quotas_and_the_audit_log_does_nothing(
    guest: Visit, guarded: Site, guarded_folder: Path, name: str
) -> None:
    fields = dict.fromkeys(("user", "source", "client", "why", "resource"), HOSTILE) | {"call": name}
    with (guarded_folder / "data" / "audit.log").open("a") as file:
        file.write(f"{audit_line(**fields)}\n")
    guarded.put_policy(ROOT, f"Topic:{name}", "Get")
    guest.go("/console/users")
    guest.sign_in()
    look(guest, f"/console/audit?{urlencode({'call': name})}", HOSTILE)
    look(guest, f"/console/audit?{urlencode({'user': HOSTILE, 'since': HOSTILE})}")
    look(guest, f"/console/users?{urlencode({'search': HOSTILE})}")
    look(guest, f"/console/users/{ROOT}?{urlencode({'resource': HOSTILE})}")
    look(guest, f"/console/new/quota?{urlencode({'kind': 'user', 'name': HOSTILE})}")
