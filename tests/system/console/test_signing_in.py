"""Sessions: where one goes on after signing in, what policies let one do, and which requests are refused."""

from urllib.parse import urlencode

import pytest

from tests.support.console_site import ROOT, Site
from tests.support.console_window import Window


def test_a_form_with_too_much_in_it_is_refused(guest: Window) -> None:
    for form in ({"name": "x" * 70_000}, {f"field-{number}": "" for number in range(300)}):
        assert guest.post("/console/login", form) == 401


@pytest.mark.parametrize("following", ["https://evil.example/", "//evil.example/", "/\\evil.example", "/api/v1/topics"])
def test_signing_in_leads_nowhere_else(guest: Window, following: str) -> None:
    guest.go(f"/console/login?{urlencode({'next': following})}").sign_in(ROOT)
    assert guest.path == "/console/topics"


def test_a_user_sees_and_does_what_his_policies_say(guest: Window, guarded: Site, name: str) -> None:
    for topic in (f"{name}-own", f"{name}-other"):
        guarded.create_topic(topic)
    guarded.create_user(name, (f"Topic:{name}-own", "Get,List"))
    guest.go("/console/topics").sign_in(name)
    assert guest.column(0) == [f"{name}-own"]
    assert "may not do this" in guest.go(f"/console/topics/{name}-other").error
    guest.go(f"/console/topics/{name}-own").open("Delete the topic")
    guest.fill("Type the name of the topic to confirm", f"{name}-own")
    assert "may not do this" in guest.press("Delete the topic").error
    guarded.ask("GET", f"/topics/{name}-own")
    guarded.ask("PATCH", f"/users/{name}", {"enabled": False})
    assert guest.go("/console/topics").path.startswith("/console/login"), "a user who is disabled is signed out"


def test_a_form_that_is_not_of_the_session_does_nothing(root: Window, guarded: Site, name: str) -> None:
    path, form = "/console/new/topic", {"name": name}
    another = Window(guarded)
    another.go(path).sign_in(ROOT)
    token, foreign = root.go(path).token, another.token
    assert foreign != token
    for sent, headers in (
        (form, {}),
        ({**form, "token": foreign}, {}),
        ({**form, "token": token}, {"origin": "http://evil.example"}),
        ({**form, "token": token}, {"sec_fetch_site": "cross-site"}),
        ({**form, "token": "ü"}, {}),
    ):
        assert root.post(path, sent, **headers) == 403
    stranger = Window(guarded)
    stranger.cookies = {"ternmq_session": "nobody's"}
    assert stranger.post(path, {**form, "token": token}) == 303
    guarded.ask("GET", f"/topics/{name}", status=404)
    assert root.post(path, {**form, "token": token}) == 303
    guarded.ask("GET", f"/topics/{name}")


def test_answers_are_for_nobody_elses_page(guest: Window) -> None:
    headers = guest.fetch("/console/login").headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    own = dict.fromkeys(("script-src", "style-src", "img-src", "connect-src", "form-action"), "'self'")
    assert policy == own | dict.fromkeys(("default-src", "base-uri", "frame-ancestors"), "'none'")
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
