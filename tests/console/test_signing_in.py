"""Sessions in a real browser: who signs in, what he sees, and which requests are refused."""

import http.client
from contextlib import closing
from urllib.parse import urlencode

from tests.console.api import ask
from tests.console.browsing import Visit
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


def test_a_page_that_asks_by_itself_is_led_to_sign_in_when_the_session_is_over(guest: Visit) -> None:
    guest.go("/console/topics")
    sign_in(guest)
    guest.page.context.clear_cookies()
    guest.page.get_by_label("Part of a topic's name").press_sequentially("a")
    guest.page.wait_for_url("**/console/login?**")
