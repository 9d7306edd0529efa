"""Group commit: one sync of the log makes everything durable that was appended before it.

While a sync runs in its thread, the loop goes on appending; the next sync covers what came meanwhile. No send waits a
fixed time for others, but the loop first works off what it has at hand, so that this is in the same sync.

In a shard with replicas, `limit` is the log offset up to which they allow acknowledging.
"""

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ternmq_broker.sending.sync_thread import SyncThread
from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.callbacks import call_back
from ternmq_common.server_settings import FlushMode
from ternmq_runtime.observability.durations import DurationHistogram

if TYPE_CHECKING:
    from collections.abc import Callable

    Done = Callable[[MessagingError | None], None]
    """Called when something may be acknowledged, or with the error for which it never will be."""

    from ternmq_broker.sending.sync_thread import SyncWorker
    from ternmq_broker.store.message_store import MessageStore

_log = logging.getLogger(__name__)
_Waiting = deque[tuple[int, "Done"]]
_ASYNC_FLUSH_INTERVAL_S: Final = 0.5
# An idle loop takes so many turns in less than a tenth of a millisecond. A busy one works off in them what it has at
# hand, mostly further sends: measured with 16 senders, a sync covers twice the messages.
TURNS_BEFORE_SYNC: Final = 16
# Turns may be long when other tasks have much to do: a send must not wait for all of that.
_BEFORE_SYNC_S: Final = 0.003


class LogFlusher:
    """Decides when appended messages may be acknowledged and read.

    SYNC: after the sync that covers them. ASYNC: at once; a sync follows within half a second. Both wait until `limit`
    is there too. When a sync fails, the contents of the disk are unknown, so everything is refused from then on.
    """

    def __init__(
        self,
        store: "MessageStore",
        mode: FlushMode,
        turns: int = TURNS_BEFORE_SYNC,
        worker: "Callable[[], SyncWorker]" = SyncThread,
    ) -> None:
        """`turns` is how many turns the loop takes before a sync; `worker` creates the sync worker."""
        self._log = store.log
        self._mode = mode
        self._turns = turns
        self.limit = NO_LIMIT
        """Other replicas allow acknowledging up to this log offset; `raise_limit` raises it."""
        self._waiting: _Waiting = deque()  # for this disk and the limit
        self._waiting_here: _Waiting = deque()  # for this disk
        self._waiting_there: _Waiting = deque()  # for the limit
        self._is_under_way = False
        self._later: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._stopping = False
        self._stopped: asyncio.Future[None]
        self._worker = worker()
        self.failure: MessagingError | None = None
        self.syncs = DurationHistogram()
        """Recorded by the worker."""

    @property
    def readable_end(self) -> int:
        """Consumers may read the log below this offset."""
        return min(self.limit, self._log.synced if self._mode is FlushMode.SYNC else self._log.log_end)

    @property
    def is_limited(self) -> bool:
        """Whether other replicas limit what may be acknowledged."""
        return self.limit < NO_LIMIT

    def raise_limit(self, limit: int) -> None:
        """Raise the log offset up to which other replicas allow acknowledging; it never falls."""
        self.limit = limit
        self._release_waiting()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        self._worker.start(self._sync_log, self._sync_ended)

    async def wait_until_acknowledged(self, log_end: int, then: "Callable[[], None]") -> None:
        """Wait until the log up to `log_end` may be acknowledged; `then` is called then, even after a cancel."""
        if self.failure is not None:
            raise self.failure
        if self._mode is FlushMode.SYNC:
            await self._wait_in(self._waiting, log_end, then)
            return
        self._start_sync_later()
        if self.limit >= log_end:
            then()
        else:
            await self._wait_in(self._waiting_there, log_end, then)

    def when_acknowledged(
        self, log_end: int, done: "Done", *, alone: bool = False, mode: FlushMode | None = None
    ) -> None:
        """Call `done` when the log up to `log_end` may be acknowledged, which may be at once.

        `alone` does not wait for other replicas. `mode` is the flush mode of a topic that has one of its own.
        """
        if self.failure is not None:
            done(self.failure)
        elif (mode or self._mode) is FlushMode.SYNC:
            (self._waiting_here if alone else self._waiting).append((log_end, done))
            self._start_sync()
        else:
            if self._mode is FlushMode.SYNC:
                self._start_sync()  # consumers read what is synced, and must not wait longer than for other topics
            else:
                self._start_sync_later()
            if alone or self.limit >= log_end:
                done(None)
            else:
                self._waiting_there.append((log_end, done))

    def when_readable(self, log_end: int, then: "Callable[[], None]") -> None:
        """Call `then` when consumers may read the log up to `log_end`; never if the disk fails first."""
        if self.failure is not None:
            return
        if self._mode is FlushMode.ASYNC and self.limit >= log_end:
            self._start_sync_later()
            then()
            return
        self.when_acknowledged(log_end, lambda error: then() if error is None else None)

    async def wait_until_durable(self, log_end: int) -> None:
        """Wait until the log up to `log_end` survives a power cut in any mode, and a change of the leader.

        After that the caller may remove the original of a copy, from the log or from the journal.
        """
        if self.failure is not None:
            raise self.failure
        if min(self._log.synced, self.limit) < log_end:
            await self._wait_in(self._waiting, log_end, _do_nothing)

    async def _wait_in(self, waiting: _Waiting, log_end: int, then: "Callable[[], None]") -> None:
        future = self._loop.create_future()

        def done(error: MessagingError | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(MessagingError(error.code, error.message))
            if error is None:
                then()

        waiting.append((log_end, done))
        if waiting is not self._waiting_there:
            self._start_sync()
        await future

    def _start_sync(self) -> None:
        """Start a sync, unless one runs: its end checks again."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if not self._is_under_way:
            self._is_under_way = True
            self._loop.call_soon(self._request_sync_after, self._turns, self._loop.time() + _BEFORE_SYNC_S)

    def _request_sync_after(self, turns: int, latest_s: float) -> None:
        if turns and self._loop.time() < latest_s:
            self._loop.call_soon(self._request_sync_after, turns - 1, latest_s)
        else:
            self._worker.request_work()

    def _start_sync_later(self) -> None:
        if self._later is None and not self._is_under_way:
            self._later = self._loop.call_later(_ASYNC_FLUSH_INTERVAL_S, self._start_sync)

    def _sync_log(self) -> None:
        began = time.perf_counter()
        try:
            self._log.sync_segments()
        except Exception as error:  # noqa: BLE001 - the outermost of its thread; the loop logs it
            self._error = error
        self.syncs.record_duration(time.perf_counter() - began)

    def _sync_ended(self) -> None:
        self._is_under_way = False
        if self._error is not None:
            self._fail_for_good(self._error)
        else:
            self._release_waiting()
        is_behind = self.failure is None and self._log.synced < self._log.log_end
        if is_behind and (self._waiting or self._waiting_here or self._stopping):
            self._start_sync()
        elif is_behind:
            self._start_sync_later()
        elif self._stopping and not self._stopped.done():
            self._stopped.set_result(None)

    def _release_waiting(self) -> None:
        synced = self._log.synced
        _answer_below(self._waiting, min(synced, self.limit))
        if self._waiting_here:
            _answer_below(self._waiting_here, synced)
        if self._waiting_there:
            _answer_below(self._waiting_there, self.limit)

    def _fail_for_good(self, error: Exception) -> None:
        _log.critical("cannot sync the commit log: the broker accepts nothing until it is restarted", exc_info=error)
        text = f"the broker can't make messages durable ({error}); whether this one is stored is not sure"
        self.failure = MessagingError(ErrorCode.INTERNAL_SERVER_ERROR, text)
        self._refuse_all(self.failure)

    def give_up(self, error: MessagingError) -> None:
        """Acknowledge nothing that waits, nor anything later: another replica leads."""
        if self.failure is None:
            self.failure = error
            self._refuse_all(error)

    def _refuse_all(self, error: MessagingError) -> None:
        for waiting in (self._waiting, self._waiting_here, self._waiting_there):
            refused = list(waiting)
            waiting.clear()
            for _, done in refused:
                call_back(done, error)

    async def stop(self) -> None:
        """Sync the rest, answer waiting sends, and end. Sends that wait for other replicas fail."""
        self._stopping = True
        if self.failure is None:
            self._start_sync()
            await self._stopped
            text = "the broker stopped before other replicas had the message; whether it is stored is not sure"
            self._refuse_all(MessagingError(ErrorCode.INTERNAL_SERVER_ERROR, text))
        await self._worker.stop()


def _answer_below(waiting: _Waiting, position: int) -> None:
    while waiting and waiting[0][0] <= position:
        _, done = waiting.popleft()
        call_back(done, None)


def _do_nothing() -> None:
    """Do nothing: the caller waits itself."""
