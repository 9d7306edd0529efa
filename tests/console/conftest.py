"""One browser, and servers that all tests of this folder share: names are never used twice."""

import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.browsing import Visit, chromium, visit
from tests.support.console_site import ROOT, SECRET, Site
from tests.support.stack import ServerProcess

GUARDED = {"TERNMQ_INIT_USER": ROOT, "TERNMQ_INIT_SECRET": SECRET}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serves everybody."""
    folder = tmp_path_factory.mktemp("open")
    with ServerProcess(folder, "up", "--data-dir", str(folder / "data"), addresses=("grpc", "http")) as running:
        yield running


@pytest.fixture(scope="session")
def site(server: ServerProcess) -> Site:
    return Site(server.addresses["grpc"], server.addresses["http"])


@pytest.fixture
def window(browser: Browser, site: Site) -> Iterator[Visit]:
    """At the open server."""
    with visit(browser, site.http) as visiting:
        yield visiting


@pytest.fixture
def name() -> str:
    return f"console-{uuid.uuid4().hex[:12]}"
