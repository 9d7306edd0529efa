"""One browser, and servers that all tests of this folder share: names are never used twice."""

import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.browsing import Visit, chromium, visit
from tests.support.stack import ServerProcess

ROOT, SECRET = "root", "a-secret-of-a-test"


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
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Serves users."""
    folder = tmp_path_factory.mktemp("guarded")
    options = ("--data-dir", str(folder / "data"), "--access-control")
    environment = {"TERNMQ_INIT_USER": ROOT, "TERNMQ_INIT_SECRET": SECRET}
    with ServerProcess(folder, "up", *options, addresses=("grpc", "http"), environment=environment) as running:
        yield running


@pytest.fixture
def window(browser: Browser, server: ServerProcess) -> Iterator[Visit]:
    """At the open server."""
    with visit(browser, server.addresses["http"]) as visiting:
        yield visiting


@pytest.fixture
def guest(browser: Browser, guarded: ServerProcess) -> Iterator[Visit]:
    """At the guarded server, and not signed in."""
    with visit(browser, guarded.addresses["http"]) as visiting:
        yield visiting


@pytest.fixture
def name() -> str:
    return f"console-{uuid.uuid4().hex[:12]}"
