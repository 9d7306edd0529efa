"""Pages and JSON API below a path that a reverse proxy gave to this server, as it passes that on or takes it away."""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from ternmq_common.server_settings import ServerSettings
from tests.support.console_site import ROOT, SECRET, Site
from tests.support.console_window import Window
from tests.support.json_api import PREFIX as API
from tests.support.ports import ANY_PORT
from tests.system.console.conftest import serving

PREFIX = "/ops/mq"
LEADING = ("href", "action", "formaction", "src", "hx-get", "data-plots")


def settings_of(folder: Path, **more: object) -> ServerSettings:
    settings: dict[str, object] = {"data_dir": folder, "grpc": ANY_PORT, "http": ANY_PORT, "console_prefix": PREFIX}
    return ServerSettings(**settings | more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serves everybody below PREFIX."""
    with serving(settings_of(tmp_path_factory.mktemp("below"))) as running:
        yield running


@pytest.fixture(scope="module")
def guarded_below(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serves users below PREFIX."""
    folder = tmp_path_factory.mktemp("guarded-below")
    with serving(settings_of(folder, access_control=True, init_user=ROOT, init_secret=SECRET)) as running:
        yield running


def fill(site: Site, name: str) -> None:
    """Have something on each page that lists something."""
    site.create_letters(name, b"0", b'{"a": 1}')
    site.create_topic(f"{name}-later", type="DELAY")
    site.send(f"{name}-later", b"later", delay=timedelta(hours=1))
    site.create_topic(f"{name}-tx", type="TRANSACTION")
    site.begin_transaction(f"{name}-tx")
    site.ask("PUT", f"/quotas/topic/{name}", {"messages_in": 100})


def crawl(window: Window, start: str) -> set[str]:
    """Go wherever pages lead, once for each path; the paths. All that leads anywhere has to begin with PREFIX."""
    waiting, seen = [start], set[str]()
    while waiting:
        path = waiting.pop()
        seen.add(urlsplit(path).path)
        answer = window.fetch(path)
        assert answer.status < 400, path
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        for element in window.go(path).page:
            for name in LEADING:
                target = element.attributes.get(name, "")
                assert not target or target.startswith((f"{PREFIX}/", "#", "?")), (path, element.tag, target)
                is_read = element.tag != "form" or element.attributes["method"] == "get"
                follows = urljoin(path, target).partition("#")[0]
                if target and is_read and name != "formaction" and urlsplit(follows).path not in seen:
                    seen.add(urlsplit(follows).path)
                    waiting.append(follows)
    return seen


@pytest.mark.parametrize("start", [f"{PREFIX}/console/topics", "/console/topics"], ids=["passed on", "taken away"])
def test_whatever_a_page_leads_to_is_below_the_prefix(below: Site, name: str, start: str) -> None:
    fill(below, name)
    seen = crawl(Window(below), start)
    for path in ("topics", "groups", "messages/tail", "timers", "transactions", "quotas", "rates", "static/console.js"):
        assert f"{PREFIX}/console/{path}" in seen
    assert len(seen) > 30


def test_forms_lead_below_it(below: Site, name: str) -> None:
    window = Window(below).go(f"{PREFIX}/")
    assert window.path == f"{PREFIX}/console/topics"
    assert Window(below).go(PREFIX).path == window.path
    window.follow("New topic").fill("Name", name)
    assert window.press("Create the topic").path == f"{PREFIX}/console/topics/{name}"
    assert window.notice == f"Topic {name} was created."


def test_one_signs_in_below_it_and_goes_on_there(guarded_below: Site) -> None:
    window = Window(guarded_below).go(f"{PREFIX}/console/groups?search=a")
    assert window.path == f"{PREFIX}/console/login?next=%2Fconsole%2Fgroups%3Fsearch%3Da"
    window.fill("Access key", ROOT)
    window.fill("Secret", SECRET)
    answer = window.fetch(*window.request_of("Sign in"), x_forwarded_prefix="/evil", x_forwarded_host="evil")
    assert (answer.status, answer.headers["location"]) == (303, f"{PREFIX}/console/groups?search=a")
    assert f"; Path={PREFIX}/console;" in answer.headers["set-cookie"]
    assert window.go(answer.headers["location"]).path == f"{PREFIX}/console/groups?search=a"
    answer = window.fetch(f"{PREFIX}/console/logout", [("token", window.token)])
    assert answer.headers["location"] == f"{PREFIX}/console/login"
    assert f"; Path={PREFIX}/console;" in answer.headers["set-cookie"]
    asked = {"hx_request": "true", "hx_current_url": f"https://ops.example{PREFIX}/console/topics?search=a"}
    answer = window.fetch(f"{PREFIX}/console/topics", None, **asked)
    assert answer.headers["hx-redirect"] == f"{PREFIX}/console/login?next=%2Fconsole%2Ftopics%3Fsearch%3Da"


@pytest.mark.parametrize("before", [PREFIX, ""], ids=["passed on", "taken away"])
def test_the_json_api_is_below_it_and_says_so(below: Site, before: str) -> None:
    window = Window(below)
    assert window.fetch(f"{before}{API}/topics").status == 200
    assert window.fetch(f"{before}{API}/topics/").headers["location"] == f"{PREFIX}{API}/topics"
    specification = json.loads(window.fetch(f"{before}{API}/openapi.json").body)
    assert specification["servers"] == [{"url": PREFIX}]
    assert f"{PREFIX}{API}/openapi.json" in window.fetch(f"{before}{API}/nothing").json["error"]["message"]


def test_health_and_metrics_are_not_below_it(below: Site) -> None:
    window = Window(below)
    assert [window.fetch(f"{before}/health/ready").status for before in ("", PREFIX)] == [200, 404]
    assert window.fetch(f"{PREFIX}x/console/topics").status == 404


def test_a_server_without_one_leads_to_paths_and_to_no_name(window: Window) -> None:
    for path in ("/console/topics", f"{API}/topics"):
        assert window.fetch(f"{path}/?limit=1", x_forwarded_prefix="/evil").headers["location"] == f"{path}?limit=1"
    assert "servers" not in json.loads(window.fetch(f"{API}/openapi.json").body)
    assert window.fetch(f"{PREFIX}/console/topics").status == 404


def test_the_log_says_where_the_console_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), serving(settings_of(tmp_path)) as running:
        assert f"the console is at http://{running.http}{PREFIX}/" in caplog.messages
