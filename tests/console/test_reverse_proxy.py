"""The console and the JSON API below a path of a reverse proxy, which answers itself whatever leaves that path."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browsing import visit
from tests.console.test_access import GUARDED
from tests.console.test_journeys import download
from tests.support.console_site import ROOT, SECRET, Site
from tests.support.console_window import Window
from tests.support.json_api import PREFIX as API
from tests.support.json_api import basic
from tests.support.nginx import Nginx, nginx
from tests.support.stack import Stack
from tests.system.console.test_prefix import PREFIX, crawl

WAYS = pytest.mark.parametrize("way", Nginx._fields)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The server itself."""
    options = ("--console-prefix", PREFIX, "--access-control")
    with Stack(tmp_path_factory.mktemp("below"), *options, environment=GUARDED) as running:
        yield Site(running.grpc, running.http, ROOT, SECRET)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Nginx]:
    with nginx(tmp_path_factory.mktemp("nginx"), site.http, PREFIX) as running:
        yield running


def test_the_console_is_used_below_the_path(browser: Browser, proxy: Nginx, site: Site, name: str) -> None:
    answers: dict[str, int] = {}
    with visit(browser, proxy.taking) as window:
        window.page.on("response", lambda response: answers.update({response.url: response.status}))
        window.page.clock.install()
        window.go(PREFIX)
        assert window.path == f"{PREFIX}/console/login?next=%2Fconsole%2Ftopics"
        window.sign_in()
        (cookie,) = window.page.context.cookies()
        assert (window.path, cookie["path"]) == (f"{PREFIX}/console/topics", f"{PREFIX}/console")
        window.follow("New topic")
        window.fill("Name", name)
        window.press("Create the topic")
        assert window.path == f"{PREFIX}/console/topics/{name}"
        window.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics").click()
        window.page.get_by_label("Part of a topic's name").press_sequentially(name)
        window.page.clock.run_for(1000)
        expect(window.page.locator("tbody th")).to_have_text([name])
        window.page.wait_for_url(f"**{PREFIX}/console/topics?search={name}")
        window.go(f"{PREFIX}/console/messages/send?topic={name}")
        window.fill("Body", "hello")
        window.press("Send it")
        window.region("Messages").get_by_role("link").click()
        assert download(window, window.page.get_by_role("link", name="Download")) == b"hello"
        window.follow("Live")
        site.ask("POST", f"/topics/{name}/messages", {"text": "as it comes"})
        window.page.clock.run_for(2500)
        expect(window.page.locator("#arrived li")).to_contain_text("as it comes")
        window.page.context.clear_cookies()
        window.page.clock.run_for(2500)
        window.page.wait_for_url(f"**{PREFIX}/console/login?next=%2Fconsole%2Fmessages%2Ftail**")
        window.sign_in()
        assert window.path == f"{PREFIX}/console/messages/tail?topic={name}"
        window.page.get_by_role("button", name="Sign out").click()
        assert window.path == f"{PREFIX}/console/login"
    assert [each for each in answers if not each.startswith(f"http://{proxy.taking}{PREFIX}")] == []
    assert {url: status for url, status in answers.items() if status >= 400} == {}


@WAYS
def test_whatever_a_page_leads_to_is_below_the_path(proxy: Nginx, site: Site, name: str, way: str) -> None:
    site.create_topic(name)
    site.ask("POST", f"/topics/{name}/messages", {"text": "hello"})
    window = Window(Site(site.grpc, getattr(proxy, way)))
    window.go(f"{PREFIX}/").sign_in(ROOT)
    seen = crawl(window, window.path)
    assert {f"{PREFIX}/console/{page}" for page in ("topics", "users", "audit", "static/htmx-2.0.11.min.js")} <= seen


@WAYS
def test_the_json_api_is_used_below_the_path(proxy: Nginx, name: str, site: Site, way: str) -> None:
    site.create_topic(name)
    window = Window(Site(site.grpc, getattr(proxy, way)))
    (server,) = json.loads(window.fetch(f"{PREFIX}{API}/openapi.json").body)["servers"]
    user = basic(ROOT, SECRET)
    answer = window.fetch(f"{server['url']}{API}/topics/{name}/", None, **user)
    assert answer.headers["location"] == f"{PREFIX}{API}/topics/{name}"
    assert window.fetch(answer.headers["location"], None, **user).json["topic"]["name"] == name
