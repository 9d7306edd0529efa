"""Walks slowly through the whole log of a store, again and again, to find damage before a consumer does.

Pace      a pass takes half of its `days`, with at least MIN_BYTES_PER_S and at most MAX_BYTES_PER_S; then it pauses
          until the next one is due. A log that is too long for that takes longer.
Restarts  the position is saved, so that a broker that is restarted often gets through the whole log.
Disk      it reads from the disk, not from the page cache.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.store.log.record import BadRecord
from ternmq_common.event_loop.background_loop import BackgroundLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_broker.store.log.log_check import CheckedPiece
    from ternmq_broker.store.message_store import MessageStore

DAY_S = 86_400.0
MIN_BYTES_PER_S = 1 << 20
MAX_BYTES_PER_S = 16 << 20
PIECE_BYTES = 256 << 10
_SAVED_EVERY_BYTES = 64 << 20
_REST_S = 10.0


class LogScrubber(BackgroundLoop):
    """Scrubs the log of one store. `in_thread` runs what reads files; `may_read` is false while they are gone."""

    def __init__(
        self,
        store: "MessageStore",
        *,
        days: float,
        in_thread: "Callable[[Callable[[], object]], Awaitable[object]]",
        may_read: "Callable[[], bool]",
        now_s: "Callable[[], float] | None" = None,
    ) -> None:
        super().__init__(self._check_and_pause, name="scrub", what="the log could not be checked")
        self._store = store
        self._days_s = days * DAY_S
        self._in_thread = in_thread
        self._may_read = may_read
        self._now_s = now_s or store.wall_s
        position, self._began_s = _parse_saved(store.scrub_position)
        self._position = None if position is None else store.repair.record_before(position)
        self._unsaved_bytes = 0

    def start(self) -> None:
        if self._days_s:
            super().start()

    async def _check_and_pause(self) -> None:
        await asyncio.sleep(await self.check_next())

    async def check_next(self) -> float:
        """Check a piece, if one is due; returns how many seconds to pause then."""
        repair, now_s = self._store.repair, self._now_s()
        if not self._may_read():
            return _REST_S
        if self._position is None:
            # A clock that was set back must not put the next pass off for ever.
            if 0 <= now_s - self._began_s < self._days_s:
                return _REST_S
            self._position, self._began_s = repair.log_start, now_s
        position = max(self._position, repair.log_start)
        if position >= repair.checked_end:
            self._position = None
            await self._save_position(repair.checked_end)
            return _REST_S
        following = await self._check_piece(position)
        self._position = following if following > position else repair.checked_end
        self._unsaved_bytes += following - position
        if self._unsaved_bytes >= _SAVED_EVERY_BYTES:
            await self._save_position(following)
        return (following - position) / self.bytes_per_s

    async def _check_piece(self, position: int) -> int:
        checked: list[CheckedPiece] = []
        try:
            await self._in_thread(lambda: checked.append(self._store.repair.check_piece(position, PIECE_BYTES)))
        except BadRecord:
            return max(position, self._store.repair.log_start)  # retention has removed it meanwhile
        return checked[0].following

    async def _save_position(self, position: int) -> None:
        self._unsaved_bytes = 0
        await self._in_thread(lambda: self._store.repair.save_scrub(position, self._began_s))

    @property
    def bytes_per_s(self) -> float:
        """How many bytes a second it checks."""
        repair = self._store.repair
        wanted = 2 * (repair.checked_end - repair.log_start) / self._days_s
        return min(MAX_BYTES_PER_S, max(MIN_BYTES_PER_S, wanted))


def _parse_saved(scrubbed: object) -> tuple[int | None, float]:
    """The position of the last pass, and when it began."""
    if not isinstance(scrubbed, list) or len(scrubbed) != 2:
        return None, float("-inf")
    position, began_s = scrubbed
    return int(position), float(began_s)
