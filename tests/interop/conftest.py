"""Servers for the official clients of all languages."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.interop.clients import build_all
from tests.interop.remoting.running import Remoting, RemotingStack
from tests.interop.server import Server
from tests.support.stack import Stack


@pytest.fixture
def options() -> list[str]:
    """Those of the server's command line."""
    return []


@pytest.fixture
async def server(options: list[str], tmp_path: Path) -> AsyncIterator[Server]:
    build_all()
    with Stack(tmp_path / "server", *options) as stack:
        async with Server(stack, tmp_path) as server:
            yield server


@pytest.fixture(scope="module")
def remoting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remoting]:
    """A server with the remoting protocol, for all tests of a module; each uses names of its own."""
    folder = tmp_path_factory.mktemp("remoting")
    with RemotingStack(folder / "server") as stack:
        yield Remoting(stack, folder)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Remoting]:
    """A server with the remoting protocol, for one test."""
    with RemotingStack(tmp_path / "server") as stack:
        yield Remoting(stack, tmp_path)
