"""Waits for conditions that other tasks of the demo fulfil."""

import asyncio
from collections.abc import Callable

LOOK_INTERVAL_S = 0.005


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true; it reads counters that change thousands of times per second."""
    while not condition():  # noqa: ASYNC110 - an event per change would cost more than this look now and then
        await asyncio.sleep(LOOK_INTERVAL_S)
