"""A reader of a locked queue whose call waits counts as active, by a clock that the test moves."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ternmq_broker.consumption.locks.queue_locks import QueueLocks
from ternmq_common.shard.model import PulledMessages, QueueReaderId, QueueRef

pytestmark = pytest.mark.plain  # its messages are stand-ins

QUEUE = QueueRef("orders", "broker-0", 0)
HOLD_MS = 3_600_000
WAITS_S = 10 * HOLD_MS / 1000
NOTHING = PulledMessages([], 1)


class Readers:
    """Readers of a queue with one message, which wait for the next one until the test ends each wait."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.waits: asyncio.Queue[tuple[float, asyncio.Event]] = asyncio.Queue()
        self._locks = QueueLocks(lambda: self.now_ms)

    async def pull(self, client_id: str, offset: int, poll_s: float = 0.0) -> PulledMessages:
        reader = QueueReaderId("g", client_id, HOLD_MS)
        return await self._locks.pull_locked(reader, QUEUE, offset, committed=0, poll_s=poll_s, read=self._read)

    async def _read(self, offset: int, wait_s: float) -> PulledMessages:
        if offset == 0:
            return PulledMessages([cast("Any", SimpleNamespace(queue_offset=0))], 1)
        over = asyncio.Event()
        self.waits.put_nowait((wait_s, over))
        await over.wait()
        return PulledMessages([], offset)


async def test_an_owner_that_waits_in_a_pull_is_not_silent() -> None:
    readers = Readers()
    assert len((await readers.pull("owner", 0)).messages) == 1
    waiting = asyncio.create_task(readers.pull("owner", 1, WAITS_S))
    for _ in range(12):
        wait_s, over = await readers.waits.get()
        assert wait_s <= HOLD_MS / 1000 / 3
        readers.now_ms += int(wait_s * 1000)
        assert await readers.pull("second", 1) == NOTHING
        over.set()
    await readers.waits.get()
    readers.now_ms += HOLD_MS  # its process hangs
    assert len((await readers.pull("second", 1)).messages) == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
