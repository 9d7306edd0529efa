from collections.abc import AsyncIterator

import pytest

from tests.unit.client.scripted_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running
