"""Replays the log into the indexes when a store is opened, from where their files end.

Mostly that is a fraction of a second's messages. When an index was lost it is the whole commit log: then all cores read
it (`stretches`), what was read is moved to disk, so that memory does not grow, and a log line every two seconds shows
the progress.
"""

import logging
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_broker.store.log.log_walk import READ_BYTES
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.replaying.plain_records import PlainRecords
from ternmq_broker.store.replaying.stretches import StretchReaders

if TYPE_CHECKING:
    from ternmq_broker.store.derived_indexes import DerivedIndexes
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.log.log_recovery import LogRecovery
    from ternmq_broker.store.operations.applied_operations import AppliedOperations

_log = logging.getLogger(__name__)
_PROGRESS_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySizes:
    """Sizes of a replay: how many entries are moved to disk together, how many bytes of the log are read together, from
    how many bytes on several processes read the log, and in stretches of how many.

    The processes take a fifth of a second to begin.
    """

    spill_entries: int = 262_144
    read_bytes: int = READ_BYTES
    parallel_bytes: int = 256 << 20
    stretch_bytes: int = 8 << 20


REPLAY_SIZES = ReplaySizes()


class LogReplay:
    """One pass over the log. `count` is how many records it had, `stored_ms` when the newest was stored, 0 for none."""

    def __init__(
        self,
        log: "CommitLog",
        derived: "DerivedIndexes",
        operations: "AppliedOperations",
        sizes: ReplaySizes = REPLAY_SIZES,
        *,
        spill_limit: int = NO_LIMIT,
        whole: bool = False,
    ) -> None:
        """Nothing above `spill_limit` is moved to disk; with `whole` the log is read from its start."""
        self._log = log
        self._sizes = sizes
        self._derived = derived
        self._operations = operations
        self._spill_limit = spill_limit
        self._plain = PlainRecords(derived.queues, log.layouts.key)
        self._begin = log.log_start if whole else max(derived.covered_offset, log.log_start)
        self._began = self._logged_at = time.monotonic()
        self._stretches: StretchReaders | None = None
        self._can_spill = True
        self.count = self.stored_ms = 0
        self.was_long = False
        """Whether something was moved to disk: a checkpoint saves the next start from doing it again."""

    def run_replay(self, recovery: "LogRecovery") -> None:
        """Replay the log. Raises the errors of `LogRecovery.recover_records`."""
        log, begin, sizes = self._log, self._begin, self._sizes
        is_much = log.log_end - begin >= sizes.parallel_bytes and self._derived.queues.covered_offset <= begin
        with StretchReaders(log, begin, sizes.stretch_bytes) if is_much else nullcontext() as self._stretches:
            self._replay_records(recovery)

    def _replay_records(self, recovery: "LogRecovery") -> None:
        for placed in recovery.recover_records(self._begin, self._take_plain, self._sizes.read_bytes):
            self._derived.replay_record(placed)
            if placed.record.kind is RecordKind.OPERATION:
                self._operations.replay_record(placed, self._derived.queues)
            self.stored_ms = max(self.stored_ms, placed.record.stored_ms)
            self.count += 1
            self._keep_up(placed.log_offset + placed.size)
        if self.was_long and self._can_spill:
            self._spill_below(self._log.synced)
        if self._logged_at > self._began:
            _log.info("%d records were read from the commit log in %.1f s", self.count, time.monotonic() - self._began)

    def _take_plain(self, window: bytes, at: int, log_offset: int) -> int:
        if self._stretches is not None:
            stretch, limit = self._stretches.stretch_at(log_offset)
            if stretch is not None and stretch.records and self._derived.queues.add_stretch(stretch):
                self.stored_ms = max(self.stored_ms, stretch.stored_ms)
                self.count += stretch.records
                self._keep_up(stretch.end)
                return at + stretch.end - log_offset
            window = window[: at + limit - log_offset]
        end, count = self._plain.add_plain(window, at, log_offset)
        self.stored_ms = max(self.stored_ms, self._plain.stored_ms)
        self.count += count
        self._keep_up(log_offset + end - at)
        return end

    def _keep_up(self, log_offset: int) -> None:
        """Spill and log the progress, now that all below is in the indexes, and whole."""
        if self._derived.entries_in_memory >= self._sizes.spill_entries and self._can_spill:
            self._spill_below(log_offset)
        now = time.monotonic()
        if now - self._logged_at >= _PROGRESS_INTERVAL_S:
            self._logged_at = now
            done, whole = log_offset - self._begin, max(1, self._log.log_end - self._begin)
            left_s = (now - self._began) * (whole - done) / max(1, done)
            _log.info(
                "reading the commit log: %.0f %% of %.1f GB, %.0f records/s, about %.0f s to go",
                100 * done / whole,
                whole / 1e9,
                self.count / (now - self._began),
                left_s,
            )

    def _spill_below(self, log_offset: int) -> None:
        """Move entries to disk. A full disk must not prevent the start: only a running broker can make room."""
        log_offset = min(log_offset, self._spill_limit)
        self._log.sync_below(log_offset)
        while job := self._derived.prepare_spill(self._log.segment_bases, log_offset):
            try:
                job.write()
            except OSError as error:
                self._derived.give_up_spill(job)
                self._can_spill = False
                _log.warning("index entries from the commit log can't be moved to disk, and stay in memory: %s", error)
                return
            for _ in self._derived.finish_spill(job):
                pass
        self._plain.forget_queues()
        self.was_long = True
