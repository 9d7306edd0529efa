"""Reads of a follower's copy, for proxies that read a cold backlog and need not the leader for it.

Readable is what the leader reported as acknowledged and this copy has: no later leader removes that. A message that
can't be read here may be whole at the leader: the proxy is sent there (HA_NOT_AVAILABLE), and gets no answer with a
gap.

Closing  each read is one step on the loop, and the files are closed or cut off only after `close`. The result of a
         thread that still waits for the disk is dropped then.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.cold_reads import run_when_read
from ternmq_broker.consumption.queue_reader import QueueReader
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import PULL_ROWS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.message_store import MessageStore
    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.shard.model import PulledMessages, QueueRef

# Fewer than the threads of the default executor on the smallest machine: the copy and its lease need some too.
READS_MAX = 4
WAITING_MAX = 256


def not_readable_here(why: str) -> MessagingError:
    """The error that sends a proxy to the leader."""
    return MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"this replica gives no messages now: {why}")


class CopyReads:
    """The reads of one store, from its opening to `close`.

    The log may be read up to `readable_end`; `log_start` is where the leader's log begins, as far as is known.
    """

    def __init__(
        self,
        store: "MessageStore",
        readable_end: "Callable[[], int]",
        log_start: "Callable[[], int]",
        *,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._waiting_max = waiting_max
        self._reader = QueueReader(store, readable_end)
        self._log_start = log_start
        self._turns = asyncio.Semaphore(READS_MAX)
        self._read_count = 0
        self._is_closed = False

    def close(self) -> None:
        """Refuse all later reads."""
        self._is_closed = True

    async def pull_messages(
        self, queue: "QueueRef", offset: int, passing: "MessageFilter", limit: int
    ) -> "PulledMessages":
        """Answer a pull as a leader does that does not wait; HA_NOT_AVAILABLE if it can't be read here."""
        if self._read_count >= self._waiting_max:
            raise not_readable_here("too many reads wait")
        self._read_count += 1
        try:
            async with self._turns:
                return await run_when_read(
                    lambda: self._read_messages(queue, offset, passing, min(limit, PULL_ROWS_MAX))
                )
        finally:
            self._read_count -= 1

    def _read_messages(self, queue: "QueueRef", offset: int, passing: "MessageFilter", limit: int) -> "PulledMessages":
        if self._is_closed:
            raise not_readable_here("its files are being opened again, or it becomes the leader")
        first = self._reader.locate_messages(queue.topic, queue.queue_id, offset, 1)
        if first and first[0].log_offset < self._log_start():
            raise not_readable_here("retention has removed these messages")
        try:
            pulled = self._reader.pull_messages(queue, offset, passing, limit)
        except AwaitsRepair as damaged:
            raise not_readable_here("a message is damaged here") from damaged
        if self._reader.lost_offsets(queue.topic, queue.queue_id, range(offset, pulled.next_offset)):
            raise not_readable_here("a message is damaged here")
        return pulled
