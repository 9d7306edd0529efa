import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.unit.client.scripted_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
def unused_tcp_port() -> Iterator[int]:
    """One at which nobody listens and that nobody else is given while the test runs; servers of gRPC can have it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port
