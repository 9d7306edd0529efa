"""The services of a stack without a front, for tests that call operations with plain values."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ternmq_proxy.services import Services
from tests.support.operations import Stack, opened_stack


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    async with AsyncExitStack() as exits:
        yield await opened_stack(tmp_path, exits)


@pytest.fixture
def services(stack: Stack) -> Services:
    return stack.services
