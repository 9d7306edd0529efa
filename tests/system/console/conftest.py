"""Servers in a thread of this process that all tests of this folder share, for tests and their clients wait in theirs:
names are never used twice."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from ternmq_common.server_settings import ServerSettings
from tests.support.console_site import ROOT, SECRET, Site
from tests.support.console_window import Window
from tests.support.embedded import Embedded, local_settings
from tests.system.conftest import MANY


@contextmanager
def serving(settings: ServerSettings) -> Iterator[Site]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Embedded(settings)) as running:
        yield Site(running.grpc, running.http, settings.init_user or "", settings.init_secret or "")


def guarded_settings(folder: Path) -> ServerSettings:
    return local_settings(folder, access_control=True, init_user=ROOT, init_secret=SECRET)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serves everybody."""
    folder = tmp_path_factory.mktemp("console")
    settings = local_settings(folder, auto_create_per_minute=MANY)
    with serving(settings) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded-console")


@pytest.fixture(scope="session")
def guarded(guarded_folder: Path) -> Iterator[Site]:
    """Serves users."""
    with serving(guarded_settings(guarded_folder)) as running:
        yield running


@pytest.fixture
def window(site: Site) -> Window:
    """At the open server."""
    return Window(site)


@pytest.fixture
def guest(guarded: Site) -> Window:
    """At the guarded server, and not signed in."""
    return Window(guarded)


@pytest.fixture
def root(guest: Window) -> Window:
    """A super user."""
    guest.go("/console/users").sign_in(ROOT)
    return guest


@pytest.fixture
def clerk(guarded: Site, name: str) -> Window:
    """A user who may read one topic, and is called as the test's name."""
    guarded.create_user(name, (f"Topic:{name}", "Get"))
    window = Window(guarded)
    window.go("/console/topics").sign_in(name)
    return window


@pytest.fixture
def name() -> str:
    return f"console-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    """Where `own` has its data."""
    return tmp_path / "data"


@pytest.fixture
def own(own_folder: Path) -> Iterator[Site]:
    """A guarded server for one test alone, which lists all users or spoils the audit log."""
    with serving(guarded_settings(own_folder)) as running:
        yield running


@pytest.fixture
def own_window(own: Site) -> Window:
    return Window(own)
