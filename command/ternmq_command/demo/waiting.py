"""Waiting for what other tasks of the demo do."""

import asyncio
from collections.abc import Callable

LOOK_INTERVAL_S = 0.005


async def until(condition: Callable[[], bool]) -> None:
    """Return soon after `condition` became true. It reads counters that change thousands of times a second."""
    while not condition():  # noqa: ASYNC110 - an event per change would cost more than this look now and then
        await asyncio.sleep(LOOK_INTERVAL_S)
