"""What a broker shows of itself to whoever watches it."""

import os
from typing import TYPE_CHECKING

from ternmq_common.model import RETRY_QUEUE_ID
from ternmq_common.observability.figures import BrokerFigures, Lag, MessageCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ternmq_broker.consumption import Consumption, QueueState
    from ternmq_broker.disk_room import DiskRoom
    from ternmq_broker.flusher import Flusher
    from ternmq_broker.redelivery import Redelivery
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store.progress_journal import ProgressJournal
    from ternmq_broker.timers import Timers
    from ternmq_broker.transactions import Transactions
    from ternmq_common.pollers import Pollers

TIMERS_COUNTED_MAX = 1_000_000


class Figures:
    """The figures of one broker; the broker itself keeps `counts`."""

    def __init__(
        self,
        folder: "Path",
        store: "MessageStore",
        flusher: "Flusher",
        consumption: "Consumption",
        redelivery: "Redelivery",
        pollers: "Pollers",
        timers: "Timers",
        transactions: "Transactions",
        room: "DiskRoom",
        journal: "ProgressJournal",
    ) -> None:
        self.counts = MessageCounts()
        self._folder = folder
        self._store = store
        self._flusher = flusher
        self._consumption = consumption
        self._redelivery = redelivery
        self._pollers = pollers
        self._timers = timers
        self._transactions = transactions
        self._room = room
        self._journal = journal

    def now(self) -> BrokerFigures:
        """For any thread."""
        store = self._store
        return BrokerFigures(
            messages=self.counts,
            retries=self._redelivery.retries,
            dead_letters=self._redelivery.dead_letters,
            lost=self._consumption.reader.lost,
            accepts=self._flusher.failure is None,
            polls_waiting=self._pollers.waiting,
            transactions=len(self._transactions.pending),
            log_bytes=store.end - store.start,
            segments=store.segments,
            records=store.records,
            skipped_bytes=store.skipped_bytes,
            torn_bytes=store.torn_bytes,
            journal_lines_skipped=self._journal.skipped_lines,
            files_set_aside=store.files_set_aside,
            disk_used=disk_used(self._folder),
            disk_free_bytes=self._room.free_bytes,
            disk_free_min_bytes=self._room.free_min_bytes,
            disk_refuses=self._room.refuses,
            syncs=self._flusher.syncs,
        )

    def lags(self) -> "Iterator[Lag]":
        """For the loop's thread, which may go on between two of them."""
        for group, topic in self._consumption.pairs():
            lag = _lag(group, topic, self._consumption.states(group, topic), self._store)
            if lag is not None:
                yield lag

    async def pending_timers(self) -> int:
        """How many timers are pending; counted up to a million."""
        return await self._timers.count(TIMERS_COUNTED_MAX)


def _lag(group: str, topic: str, states: "Mapping[int, QueueState]", store: "MessageStore") -> Lag | None:
    """None for a topic of which the group has nothing, as after a change of its settings."""
    if not states:
        return None
    waiting = in_flight = 0
    for queue_id, state in states.items():
        in_flight += state.in_flight
        if queue_id != RETRY_QUEUE_ID:
            first, end = store.bounds(topic, queue_id)
            waiting += max(0, end - max(first, state.cursor))
    return Lag(group, topic, waiting + in_flight, in_flight)


def disk_used(folder: "Path") -> float:
    """The share of the disk that is used, as `df` counts it."""
    disk = os.statvfs(folder)
    used, usable = disk.f_blocks - disk.f_bfree, disk.f_blocks - disk.f_bfree + disk.f_bavail
    return used / usable if usable else 0.0
