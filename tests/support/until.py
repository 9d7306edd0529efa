"""Waiting for what nobody tells of, as a counter of the other side. Who waits sets the limit, by a timeout around."""

import asyncio
from collections.abc import Awaitable, Callable

_LOOK_S = 0.005


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_S)


async def until_answered(ask: Callable[[], Awaitable[object]], answer: object) -> None:
    """Ask until this is the answer."""
    while await ask() != answer:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_S)
