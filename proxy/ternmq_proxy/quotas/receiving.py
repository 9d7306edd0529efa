"""Receives and pulls under a quota: they get fewer messages, or wait, but are never refused."""

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_proxy.quotas.meter import QuotaMeter

T = TypeVar("T")


async def take_within(
    meters: "Sequence[QuotaMeter]",
    batch: int,
    poll_s: float,
    take: "Callable[[int, float], Awaitable[T]]",
    count: "Callable[[T], int]",
    now: "Callable[[], float]",
) -> T | None:
    """Return what `take` returns for at most so many messages and seconds, whose number `count` returns; None if the
    quotas allow nothing in that time.

    Available messages are counted before they are taken, so that many concurrent receives do not exceed the quota. A
    receive that waits for messages takes nothing from others, and is counted when they arrive.
    """
    end = now() + poll_s
    while True:
        at = now()
        wait_s = max(meter.wait_out_s(at) for meter in meters)
        if not wait_s:
            break
        for meter in meters:
            meter.wanted_messages_out += batch
        if wait_s >= end - at:
            await asyncio.sleep(max(0.0, end - at))
            return None
        await asyncio.sleep(wait_s)
    room = max(1, min(meter.room_out(batch, at) for meter in meters))
    taken = await _take_available(meters, room, take, count, now)
    left_s = end - now()
    if count(taken) or left_s <= 0:
        return taken
    taken = await take(room, left_s)
    for meter in meters:
        meter.take_out(count(taken), 0, now())
    return taken


async def _take_available(
    meters: "Sequence[QuotaMeter]",
    room: int,
    take: "Callable[[int, float], Awaitable[T]]",
    count: "Callable[[T], int]",
    now: "Callable[[], float]",
) -> T:
    for meter in meters:
        meter.take_out(room, 0, now())
    number = 0
    try:
        taken = await take(room, 0.0)
        number = count(taken)
        return taken
    finally:
        for meter in meters:
            meter.give_back(room - number)


def count_sent_bytes(meters: "Sequence[QuotaMeter]", size: int, now: float) -> None:
    """Count the bytes of delivered messages."""
    for meter in meters:
        meter.take_out(0, size, now)
