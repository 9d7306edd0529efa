"""Reads that may have to wait for the disk, tried on the event loop first, where nearly all of them succeed.

Some wait for the repair of a record that another replica may have whole.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ternmq_broker.store.disk.files import WouldBlock
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.errors import ErrorCode, MessagingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_broker.store.index.queue_index import MessageLocation
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.message_store import MessageStore

T = TypeVar("T")
REPAIR_PATIENCE_S: Final = 5.0
_LOOK_S: Final = 0.05


class NotRepaired(MessagingError):
    """A record is damaged here, and could not be fetched from another replica yet; it may be later."""


async def run_when_read(step: "Callable[[], T]", *, patience_s: float = REPAIR_PATIENCE_S) -> T:
    """Run the step until it needs no wait, and return its result. NotRepaired.

    The step reads and decides on the loop's thread, and changes nothing before it has read. When it raises WouldBlock,
    a thread waits for the disk, and the step runs again; when it raises AwaitsRepair, it runs again until `patience_s`
    is over.
    """
    loop = asyncio.get_running_loop()
    end_s: float | None = None
    while True:
        try:
            return step()
        except WouldBlock as reading:
            await asyncio.to_thread(reading.wait)
        except AwaitsRepair as damaged:
            end_s = loop.time() + patience_s if end_s is None else end_s
            if loop.time() >= end_s:
                raise NotRepaired(
                    ErrorCode.HA_NOT_AVAILABLE,
                    "a record that is needed is damaged on this replica, and waits for its repair from another one",
                ) from damaged
            await asyncio.sleep(_LOOK_S)


async def records_at(store: "MessageStore", locations: "Sequence[MessageLocation]") -> "list[Record | None]":
    """The records at these locations, in order; None where one is lost. All together are one wait. NotRepaired."""
    read = partial(store.reader.read_records, locations, may_block=False)
    try:
        return read()
    except WouldBlock:
        records = await asyncio.to_thread(store.reader.read_records, locations, may_block=True)
        if None not in records:
            return records
    except AwaitsRepair:
        pass
    return await run_when_read(read)
