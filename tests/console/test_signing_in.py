"""Sessions in a real browser: who signs in, what he sees, and which requests are refused."""

import http.client
import json
from contextlib import closing
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from tests.console.api import ask
from tests.console.browsing import Visit, visit
from tests.console.conftest import ROOT, SECRET
from tests.support.stack import ServerProcess


def sign_in(window: Visit, name: str = ROOT, secret: str = SECRET) -> None:
    window.fill("Access key", name)
    window.fill("Secret", secret)
    window.press("Sign in")


def as_root(server: ServerProcess, method: str, path: str, body: object = None) -> object:
    return ask(server.addresses["http"], method, path, body, user=ROOT, secret=SECRET)


def cookie_of(window: Visit) -> dict[str, object]:
    (cookie,) = window.page.context.cookies()
    return dict(cookie)


def post(server: ServerProcess, path: str, cookie: str, form: dict[str, str], **headers: str) -> int:
    """The status of a form that was sent without a browser."""
    sent = {"content-type": "application/x-www-form-urlencoded", "cookie": f"ternmq_session={cookie}", **headers}
    with closing(http.client.HTTPConnection(server.addresses["http"], timeout=20)) as connection:
        connection.request("POST", path, urlencode(form), sent)
        return connection.getresponse().status


def token_of(window: Visit) -> str:
    return str(window.page.locator("input[name=token]").first.input_value())


def test_who_is_nobody_signs_in_and_goes_on_where_he_wanted(guest: Visit) -> None:
    guest.go("/console/groups")
    assert guest.path == "/console/login?next=%2Fconsole%2Fgroups"
    assert guest.violations() == []
    sign_in(guest, ROOT, "wrong")
    assert "No user of this server" in guest.error
    assert guest.page.get_by_label("Secret").input_value() == ""
    sign_in(guest)
    assert guest.path == "/console/groups"
    cookie = cookie_of(guest)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/console")
    guest.page.get_by_role("button", name="Sign out").click()
    assert guest.path == "/console/login"
    guest.go("/console/topics")
    assert guest.path.startswith("/console/login")


def test_what_is_no_form_of_people_is_refused(guarded: ServerProcess) -> None:
    for form in ({"name": "x" * 70_000}, {f"field-{number}": "" for number in range(300)}):
        assert post(guarded, "/console/login", "", form) == 401


@pytest.mark.parametrize("following", ["https://evil.example/", "//evil.example/", "/\\evil.example", "/api/v1/topics"])
def test_signing_in_leads_nowhere_else(guest: Visit, following: str) -> None:
    guest.page.goto(f"http://{guest.address}/console/login?{urlencode({'next': following})}")
    sign_in(guest)
    assert guest.path == "/console/topics"


def test_a_user_sees_and_does_what_his_policies_say(guest: Visit, guarded: ServerProcess, name: str) -> None:
    for topic in (f"{name}-own", f"{name}-other"):
        as_root(guarded, "POST", "/topics", {"name": topic, "queues": 1})
    as_root(guarded, "POST", "/users", {"name": name, "secret": SECRET})
    as_root(guarded, "PUT", f"/users/{name}/policies", {"resource": f"Topic:{name}-own", "actions": "Get,List"})
    guest.go("/console/topics")
    sign_in(guest, name)
    assert guest.page.locator("tbody th").all_inner_texts() == [f"{name}-own"]
    guest.go(f"/console/topics/{name}-other")
    assert "may not do this" in guest.error
    guest.go(f"/console/topics/{name}-own")
    guest.open("Delete the topic")
    guest.page.get_by_label("Type the name of the topic to go on").locator("visible=true").fill(f"{name}-own")
    guest.press("Delete the topic")
    assert "may not do this" in guest.error
    as_root(guarded, "GET", f"/topics/{name}-own")
    as_root(guarded, "PATCH", f"/users/{name}", {"enabled": False})
    guest.go("/console/topics")
    assert guest.path.startswith("/console/login"), "a user who is disabled is signed out"


def test_a_form_that_is_not_of_the_session_does_nothing(
    browser: Browser, guest: Visit, guarded: ServerProcess, name: str
) -> None:
    guest.go("/console/new/topic")
    sign_in(guest)
    guest.go("/console/new/topic")
    cookie, token = str(cookie_of(guest)["value"]), token_of(guest)
    with visit(browser, guarded.addresses["http"]) as another:
        another.go("/console/new/topic")
        sign_in(another)
        another.go("/console/new/topic")
        foreign = token_of(another)
    assert foreign != token
    form = {"name": name}
    for sent, headers, status in (
        (form, {}, 403),
        ({**form, "token": foreign}, {}, 403),
        ({**form, "token": token}, {"origin": "http://evil.example"}, 403),
        ({**form, "token": token}, {"sec-fetch-site": "cross-site"}, 403),
        ({**form, "token": "ü"}, {}, 403),
    ):
        assert post(guarded, "/console/new/topic", cookie, sent, **headers) == status
    assert post(guarded, "/console/new/topic", "nobody's", {**form, "token": token}) == 303
    ask(guarded.addresses["http"], "GET", f"/topics/{name}", user=ROOT, secret=SECRET, status=404)
    assert post(guarded, "/console/new/topic", cookie, {**form, "token": token}) == 303
    as_root(guarded, "GET", f"/topics/{name}")


def test_what_was_done_is_in_the_audit_log_under_who_did_it(guest: Visit, guarded: ServerProcess, name: str) -> None:
    guest.go("/console/new/topic")
    sign_in(guest)
    guest.fill("Name", name)
    guest.press("Make the topic")
    assert guest.notice == f"Topic {name} was made."
    lines = [line for line in _audit(guarded).splitlines() if name in line]
    assert [("CreateTopic" in line, ROOT in line) for line in lines] == [(True, True)]
    assert SECRET not in _audit(guarded)


def _audit(server: ServerProcess) -> str:
    return (server.log.parent / "data" / "audit.log").read_text()


def test_a_page_that_asks_by_itself_is_led_to_sign_in_when_the_session_is_over(guest: Visit) -> None:
    guest.go("/console/topics")
    sign_in(guest)
    guest.page.context.clear_cookies()
    guest.page.get_by_label("Part of a topic's name").press_sequentially("a")
    guest.page.wait_for_url("**/console/login?**")


def test_answers_are_for_nobody_elses_page(guarded: ServerProcess) -> None:
    with closing(http.client.HTTPConnection(guarded.addresses["http"], timeout=20)) as connection:
        connection.request("GET", "/console/login")
        response = connection.getresponse()
        response.read()
        headers = {key.lower(): value for key, value in response.getheaders()}
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["cache-control"] == "no-store"
    assert json.dumps(headers).count("nosniff") == 1
