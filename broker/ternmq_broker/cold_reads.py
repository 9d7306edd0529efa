"""Reads that may have to wait for the disk: tried on the event loop first, where nearly all of them are done."""

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ternmq_broker.store.files import WouldBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_broker.store.index.queue_index import Location
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.message_store import MessageStore

T = TypeVar("T")


async def done_when_read(step: "Callable[[], T]") -> T:
    """What the step returns. It reads and decides on the loop's thread, and changes nothing before it has read: where
    it would wait for the disk (WouldBlock), a thread does, and it runs again."""
    while True:
        try:
            return step()
        except WouldBlock as reading:
            await asyncio.to_thread(reading.wait)


async def records_at(store: "MessageStore", locations: "Sequence[Location]") -> "list[Record | None]":
    """The records there, in order; None where one is lost. Many places at once are one wait."""
    try:
        return store.read(locations, may_block=False)
    except WouldBlock:
        return await asyncio.to_thread(store.read, locations, may_block=True)
