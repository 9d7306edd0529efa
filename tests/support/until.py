"""Waiting for what nobody tells of, as a counter of the other side. Who waits sets the limit, by a timeout around."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq.testing import Stack

_LOOK_S = 0.005
# A client must get to prolonging its deliveries between two steps of the server's clock.
_STEP_S = 0.02
_LOGGED_S = 30.0


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_S)


async def until_late(stack: "Stack", step_s: float, is_true: Callable[[], bool]) -> None:
    """Let the server's clock go on until it is so; nobody tells when what waits on that clock has seen it."""
    while not is_true():
        stack.advance(step_s)
        await asyncio.sleep(_STEP_S)


async def until_in_thread(is_true: Callable[[], bool]) -> None:
    """The same for what takes a while to find out, as a database does."""
    while not await asyncio.to_thread(is_true):  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_S)


async def until_answered(ask: Callable[[], Awaitable[object]], answer: object) -> None:
    """Ask until this is the answer."""
    while await ask() != answer:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_S)


def read_until_text(read: Callable[[], str], text: str) -> str:
    """Read again until `text` is in what is read, and return that: a log that a thread of its process writes."""
    deadline = time.monotonic() + _LOGGED_S
    while text not in (found := read()):
        assert time.monotonic() < deadline, f"{text!r} is not in\n{found}"
        time.sleep(_LOOK_S)
    return found
