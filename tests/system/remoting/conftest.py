"""A 4.x client of the server that all tests of the fronts share."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.embedded import Embedded
from tests.support.remoting_client import RemotingClient


@pytest_asyncio.fixture(loop_scope="session")
async def remoting(server: Embedded) -> AsyncIterator[RemotingClient]:
    async with await RemotingClient.connect(server.remoting) as connected:
        yield connected
