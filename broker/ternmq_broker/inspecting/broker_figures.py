"""The figures of one broker, for metrics and pages."""

from typing import TYPE_CHECKING

from ternmq_broker.consumption.lags import LagCounter
from ternmq_runtime.observability.figures import BrokerFigures, GroupLag, MessageCounts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.consumption.redelivery import Redelivery
    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.store.journal.progress_journal import ProgressJournal
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.timers import TimerDelivery
    from ternmq_broker.transactions.transactions import Transactions
    from ternmq_broker.upkeep.disk_room import DiskSpaceWatch
    from ternmq_common.receiving.poll_queues import PollQueues

TIMERS_COUNTED_MAX = 1_000_000


class BrokerFigureSource:
    """Collects the figures of one broker; the broker itself updates `counts`."""

    def __init__(
        self,
        store: "MessageStore",
        flusher: "LogFlusher",
        consumption: "Consumption",
        redelivery: "Redelivery",
        pollers: "PollQueues",
        timers: "TimerDelivery",
        transactions: "Transactions",
        room: "DiskSpaceWatch",
        journal: "ProgressJournal",
        now_ms: "Callable[[], int]",
    ) -> None:
        self.counts = MessageCounts()
        self._store = store
        self._flusher = flusher
        self._consumption = consumption
        self._redelivery = redelivery
        self._pollers = pollers
        self._timers = timers
        self._transactions = transactions
        self._room = room
        self._journal = journal
        self._lags = LagCounter(store, consumption, now_ms)

    def current_figures(self) -> BrokerFigures:
        """The present figures; may be called in any thread."""
        store = self._store
        return BrokerFigures(
            messages=self.counts,
            retries=self._redelivery.retries,
            dead_letters=self._redelivery.dead_letters.copy_counts(),
            lost=self._consumption.reader.lost_count,
            accepts=self._flusher.failure is None,
            polls_waiting=self._pollers.waiting_count,
            transactions=len(self._transactions.halves.waiting),
            log_bytes=store.log.log_end - store.log.log_start,
            segments=store.log.segment_count,
            records=store.log.appended_records,
            skipped_bytes=store.recovery.skipped_bytes,
            torn_bytes=store.recovery.torn_bytes,
            damaged_bytes=store.damage.damaged_bytes,
            repaired_bytes=store.damage.repaired_bytes,
            journal_lines_skipped=self._journal.skipped_lines,
            files_set_aside=store.files_set_aside,
            disk_used=self._room.used_share,
            disk_free_bytes=self._room.free_bytes,
            disk_free_min_bytes=self._room.free_min_bytes,
            disk_refuses=self._room.refuses,
            syncs=self._flusher.syncs,
        )

    def count_lags(self) -> "AsyncIterator[GroupLag]":
        """See `Lags.count`."""
        return self._lags.count_lags()

    async def count_timers(self) -> int:
        """How many timers are pending; counted up to a million."""
        return await self._timers.count_pending(TIMERS_COUNTED_MAX)
