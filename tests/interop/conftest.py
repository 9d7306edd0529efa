"""A server for the official clients of all languages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.clients import build_all
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
