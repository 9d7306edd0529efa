"""Turns on the event loop: who has much to do lets others go on after every two milliseconds of it."""

import asyncio
import time

TURN_S = 0.002


class Turns:
    """To be asked after each small step of a long work, where its state allows that others change theirs."""

    __slots__ = ("_end_s",)

    def __init__(self) -> None:
        self._end_s = time.perf_counter() + TURN_S

    async def next(self) -> None:
        """Let others go on if this turn has lasted long enough."""
        if time.perf_counter() >= self._end_s:
            await asyncio.sleep(0)
            self._end_s = time.perf_counter() + TURN_S
