"""Maintains the log of an open store: finds damage before readers do, and repairs it from other replicas.

Reports  of reads that met damage are handled within a tenth of a second.
Repair   each damaged stretch is requested from one replica after the other; the first whole copy is taken. A replica
         that is away is requested again soon: no stretch is given up that some replica may have.
Scrub    a slow walk through the whole log, which begins again every `scrub_days` (`scrubbing`).
"""

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.store.repairing.damage import ignore_damage
from ternmq_broker.store.repairing.log_repair import REPLICA_READ_BYTES_MAX
from ternmq_broker.upkeep.scrubbing import LogScrubber
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.backoff import RETRY_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_broker.store.message_store import MessageStore

    Ask = Callable[[int, int], Awaitable[bytes]]

_log = logging.getLogger(__name__)
# While there is damage, and while there is none.
_LOOK_S, _IDLE_S = 0.1, 1.0
_GIVEN_UP_S = 60.0
# So much is fetched before it is written, unless one record is longer.
_ENOUGH_BYTES = 1 << 20
_RECORD_BYTES_MAX = 64 << 20
T = TypeVar("T")


class SourceAway(Exception):
    """Another replica can't be reached now, or has not that part of the log now."""


class RepairSources(NamedTuple):
    """Other replicas that can be reached now, each by a function that returns bytes of the log from an offset on.

    A function returns at most GIVEN_BYTES_MAX bytes, and none if its replica has them not and could get them only from
    here; it raises SourceAway. `are_all`: there is no other replica.
    """

    fetchers: "Sequence[Ask]" = ()
    are_all: bool = True


class LogUpkeep:
    """The log upkeep of one store, from `start` to `stop`. `may_write` is false while files are gone.

    `on_repaired` is called when readers that waited for a repair may go on, also when the repair is given up.
    """

    def __init__(
        self,
        store: "MessageStore",
        *,
        scrub_days: float,
        may_write: "Callable[[], bool]" = lambda: True,
        seconds: "Callable[[], float] | None" = None,
        idle_s: float = _IDLE_S,
    ) -> None:
        """`seconds` replaces the store's clock. Without damage it looks every `idle_s` seconds."""
        self._store = store
        self._may_write = may_write
        self._seconds = seconds or store.seconds
        self._idle_s = idle_s
        self.sources: Callable[[], RepairSources] = RepairSources
        self.on_repaired: Callable[[int, int], None] = _do_nothing
        self._threads = BackgroundTasks()
        self._loop = BackgroundLoop(
            self._handle_damage, name="log repair", what="damage of the log could not be repaired", every_s=_LOOK_S
        )
        self._scrubbing = LogScrubber(store, days=scrub_days, in_thread=self._in_thread, may_read=may_write)

    def start(self) -> None:
        self._store.damage.on_damage = partial(asyncio.get_running_loop().call_soon_threadsafe, self._loop.wake)
        self._loop.start()
        self._scrubbing.start()

    async def stop(self) -> None:
        """End, when no thread reads or writes files any more."""
        self._store.damage.on_damage = ignore_damage
        await self._loop.stop()
        await self._scrubbing.stop()
        await self._threads.wait_until_done()

    async def _in_thread(self, work: "Callable[[], T]") -> T:
        """Run the work in a thread to its end, even if the caller is cancelled."""
        return await self._threads.run_to_end(asyncio.to_thread(work))

    async def _handle_damage(self) -> None:
        damage, repair = self._store.damage, self._store.repair
        if not self._may_write():
            return
        for log_offset, size in damage.open_reports():
            with contextlib.suppress(BadRecord):  # retention has removed it meanwhile
                await self._in_thread(partial(repair.check_report, log_offset, size))
            if not damage.awaits_repair(log_offset):
                self.on_repaired(log_offset, log_offset + size)
        damage.drop_outside(self._store.log.log_start, self._store.log.log_end)
        try:
            for begin, end in damage.ranges_to_repair(self._seconds()):
                await self._repair_stretch(begin, end)
        finally:
            if repair.is_unsaved:
                await self._in_thread(repair.save_damage)
            self._loop.every_s = _LOOK_S if damage.is_known or damage.open_reports() else self._idle_s

    async def _repair_stretch(self, begin: int, end: int) -> None:
        """Repair a part of that stretch, or put it off."""
        store = self._store
        sources = self.sources()
        are_all = sources.are_all
        for ask in sources.fetchers:
            try:
                data = await self._fetch_records(ask, begin, end)
            except SourceAway:
                are_all = False
                continue
            if data:
                await self._write_repair(begin, data)
                return
        again_s = self._seconds() + (_GIVEN_UP_S if are_all else RETRY_S)
        if store.damage.postpone_repair(begin, again_s, is_given_up=are_all):
            if store.damage.may_be_repaired:
                _log.error(
                    "damage of the commit log from log offset %d up to %d can't be repaired: no other replica "
                    "has it whole; it is tried again each minute",
                    *(begin, end),
                )
            self.on_repaired(begin, end)

    async def _write_repair(self, begin: int, data: bytes) -> None:
        try:
            await self._in_thread(partial(self._store.repair.write_repair, begin, data))
        except BadRecord:
            return  # retention has removed it meanwhile
        except OSError:
            self._store.damage.postpone_repair(begin, self._seconds() + RETRY_S, is_given_up=False)
            raise
        _log.info("%d damaged bytes of the commit log were repaired, at log offset %d", len(data), begin)
        self.on_repaired(begin, begin + len(data))

    async def _fetch_records(self, ask: "Ask", begin: int, end: int) -> bytes:
        """Fetch whole records from a replica; no bytes if the first one is not whole. SourceAway."""
        repair = self._store.repair
        data = b""
        while len(data) < min(end - begin, _RECORD_BYTES_MAX):
            piece = await ask(begin + len(data), min(REPLICA_READ_BYTES_MAX, end - begin - len(data)))
            if not piece:
                break
            data += piece
            if len(data) >= _ENOUGH_BYTES and (
                whole := await self._in_thread(partial(repair.count_fitting, begin, data))
            ):
                return data[:whole]
        return data[: await self._in_thread(partial(repair.count_fitting, begin, data))]


def _do_nothing(_begin: int, _end: int) -> None:
    """Do nothing."""
