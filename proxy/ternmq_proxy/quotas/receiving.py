"""Receives and pulls of those that have a quota: fewer messages, or a wait for them, never a refusal."""

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
    """What `take` gives of at most so many messages and within so many seconds, of which `count` says the number; None
    if the quotas let nothing pass in that time.

    What is there at once is counted before it is taken, so that many who come together do not take more than may pass.
    Who waits for something to come holds nothing from others, and is counted when it came.
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
    """So many bytes of messages go out to who received them."""
    for meter in meters:
        meter.take_out(0, size, now)
