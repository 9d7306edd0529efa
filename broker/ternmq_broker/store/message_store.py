"""The store of one broker: opens and recovers the commit log with its indexes and checkpoint.

`STORE.md`, in the broker's folder, has the layout of every file.
Parts       `log`, the commit log; `indexes`, of queues, timers and half messages; `writer` and `reader` of records;
            `checkpoints`, which move indexes to disk; `deletions`; `replica_log`, what replicas exchange; `damage` and
            `repair` of the log.
Threads     One thread owns the store. `CommitLog.sync_segments`, and what says so, may run in others.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ternmq_broker.store import store_format
from ternmq_broker.store.checkpoints import CHECKPOINT, Checkpoints
from ternmq_broker.store.copying.catch_up_state import CatchUpState
from ternmq_broker.store.copying.copy_start import JOINED, check_finished
from ternmq_broker.store.copying.log_copy import AcceptedRanges
from ternmq_broker.store.copying.replica_log import ReplicaLog
from ternmq_broker.store.derived_indexes import DerivedIndexes
from ternmq_broker.store.disk import side_files
from ternmq_broker.store.disk.set_aside import SetAsideFolder
from ternmq_broker.store.disk.side_files import SideFileReader
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.log.commit_log import NO_LIMIT, CommitLog
from ternmq_broker.store.log.durable_watermarks import DurableWatermarks
from ternmq_broker.store.log.log_recovery import LogRecovery
from ternmq_broker.store.log.record_layouts import RecordLayouts
from ternmq_broker.store.operations.applied_operations import FORGOTTEN, AppliedOperations
from ternmq_broker.store.operations.deletions import Deletions
from ternmq_broker.store.record_reader import RecordReader, list_records_between
from ternmq_broker.store.record_writer import RecordWriter
from ternmq_broker.store.repairing.damage import LogDamage
from ternmq_broker.store.repairing.log_repair import DAMAGE, SCRUB, LogRepair
from ternmq_broker.store.repairing.missing_files import find_missing_files, log_missing_durable_file, log_missing_files
from ternmq_broker.store.repairing.record_overwriting import RecordOverwriting
from ternmq_broker.store.replaying.replay import REPLAY_SIZES, LogReplay, ReplaySizes
from ternmq_broker.store.store_format import StoreFormat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.disk.files import StoreFolders

_log = logging.getLogger(__name__)
_ACCEPTED = "accepted-damage"
_EVERYTHING = 1 << 63


class MessageStore:
    """One broker's messages on disk, recovered when it is opened; its parts read and write them."""

    def __init__(
        self,
        folders: "StoreFolders",
        *,
        segment_bytes: int,
        accept_corruption: bool = False,
        replay_sizes: ReplaySizes = REPLAY_SIZES,
        spill_limit: int = NO_LIMIT,
        seconds: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """Open or create the store, and recover it.

        In a store with replicas `spill_limit` is 0 at first; recovery raises it to what the files knew as acknowledged
        when the store was last open. Raises CommitLogCorrupted, DamagedFile, NewerFormat, UnfinishedCopy, OSError.
        """
        self.seconds, self.wall_s = seconds, wall_s
        """The clocks: a monotonic one, and the wall clock."""
        self._replay_sizes = replay_sizes
        self._root = folders.root
        check_finished(self._root)
        self._set_aside = SetAsideFolder(folders.set_aside)
        known = store_format.read_format(folders.root, folders.commit_log)
        is_layout_1 = known is None and any(name.isdigit() for name in folders.commit_log.names())
        found = known or StoreFormat(store_format.draw_key())
        if known is None and not is_layout_1:
            found.write_format(self._root)
        files = SideFileReader(self._set_aside, accept_damage=accept_corruption, may_be_plain=is_layout_1)
        operations = self._operations = AppliedOperations(self._root, files)
        self._catching_up = CatchUpState(self._root, files)
        self._is_durable_missing = known is not None and durable_watermarks.NAME not in self._root.names()
        self._durable_watermarks = DurableWatermarks(self._root)
        layouts = RecordLayouts(found.key, _EVERYTHING if is_layout_1 else found.layout_1_below)
        # Each part has its type, since mypyc can't infer it where modules import each other.
        log = CommitLog(folders.commit_log, layouts, segment_bytes=segment_bytes)
        self.log: CommitLog = log
        overwriting = RecordOverwriting(self._root, log)
        overwriting.finish_interrupted(files)

        replay = self._recover_twice(folders, files, found, spill_limit, accept=accept_corruption)
        self.replayed_records = replay.count
        indexes = self.indexes
        if indexes.spill_limit < NO_LIMIT:
            indexes.spill_limit = min(indexes.spill_limit, log.log_end)
        indexes.queues.load_low_watermarks(files)
        indexes.queues.drop_lite_topics_of(operations.forgotten)
        self.writer: RecordWriter = RecordWriter(log, indexes, operations, self._recovered_ms)
        self.checkpoints: Checkpoints = Checkpoints(
            self._root, self.writer, log, indexes, operations, self._durable_watermarks
        )
        if self._has_newly_accepted:
            self.checkpoints.save_checkpoint()
            self._durable_watermarks.clear()
        elif replay.was_long:
            self._save_after(replay)
        operations.drop_missing_marks(log)

        accepted = AcceptedRanges(self.recovery.accepted.items())
        self.damage: LogDamage = LogDamage(_ranges(files.read_derived(self._root, DAMAGE)), now_s=seconds())
        """The known damage of the log."""
        self.replica_log: ReplicaLog = ReplicaLog(
            self.writer,
            log,
            indexes,
            operations,
            self._catching_up,
            self.damage,
            accepted,
            self.recovery.skipped_bytes,
            _as_dict(files.read_needed(self._root, JOINED)),
        )
        self.deletions: Deletions = Deletions(self.writer, log, indexes, operations)
        self.reader: RecordReader = RecordReader(log, indexes.queues, self.damage)
        if is_layout_1:
            self._bring_up_to_date(found.key)
        self.files_set_aside = len(self._set_aside.file_names())
        """How many files of cut-off or stepped-over bytes there were at the start, from this or earlier recoveries."""
        self.damage.drop_outside(log.log_start, log.log_end)  # what was cut off may come again, whole
        self.repair: LogRepair = LogRepair(
            self._root, log, overwriting, self.damage, accepted, self._unchanging_end, seconds
        )
        """Finds and repairs damage of the log."""
        self.scrub_position = files.read_derived(self._root, SCRUB)
        """How far the log was checked before, as `LogRepair.save_scrub` wrote it."""

    def _recover_twice(
        self, folders: "StoreFolders", files: SideFileReader, found: StoreFormat, spill_limit: int, *, accept: bool
    ) -> LogReplay:
        """Recover; and once more, without the indexes' files, if damage was accepted that they contradict."""
        self._recovered_ms = 0
        durable = max(min(found.layout_1_below, self._catching_up.since), self._durable_watermarks.highest)
        replay = self._recover(folders, files, durable, spill_limit, accept=accept)
        self._has_newly_accepted = bool(self.recovery.newly_accepted)
        if self.log.log_end < self.indexes.highest_covered:
            # Damage was accepted at the end of the log, and the indexes refer to records that are gone.
            self.indexes.close()
            DerivedIndexes.remove_files(folders.index, folders.timers)
            if CHECKPOINT in folders.root.names():
                folders.root.remove(CHECKPOINT)
            replay = self._recover(folders, files, 0, self.indexes.spill_limit, accept=True)
        return replay

    def _recover(
        self, folders: "StoreFolders", files: SideFileReader, durable: int, spill_limit: int, *, accept: bool
    ) -> LogReplay:
        """Open the indexes, and replay the log from where their files end."""
        log = self.log
        checkpoint = _as_dict(files.read_derived(self._root, CHECKPOINT))
        self._recovered_ms = max(self._recovered_ms, checkpoint.get("stored_ms", 0))
        indexes = DerivedIndexes(folders.index, folders.timers)
        self.indexes: DerivedIndexes = indexes
        indexes.queues.get_log_end = self._log_end
        indexes.queues.list_records_between = self._list_records_between
        indexes.load_files(checkpoint, log.segment_bases, log.log_end)
        durable = max(durable, checkpoint.get("durable", 0), indexes.durable_offset)
        indexes.spill_limit = max(spill_limit, durable)
        if self._is_durable_missing and log.log_end > log.log_start:
            log_missing_durable_file(max(0, log.log_end - durable))
            self._is_durable_missing = False
        recovery = self.recovery = LogRecovery(
            log,
            self._set_aside,
            durable=durable,
            disbelieved_from=self._catching_up.since,
            accepted=_ranges(files.read_derived(self._root, _ACCEPTED)),
            accept=accept,
            contradicts=indexes.find_contradiction,
        )
        operations = self._operations
        replay = LogReplay(
            log,
            indexes,
            operations,
            self._replay_sizes,
            spill_limit=indexes.spill_limit,
            whole=operations.is_damaged or (operations.is_lost and checkpoint.get("epochs", 0) > 0),
        )
        gone = find_missing_files(checkpoint, indexes, log.log_end)
        replay.run_replay(recovery)
        log_missing_files(gone, replay.count)
        self._recovered_ms = max(self._recovered_ms, replay.stored_ms)
        if recovery.newly_accepted:
            side_files.write_side_file(self._root, _ACCEPTED, sorted(recovery.accepted.items()))
        return replay

    def _log_end(self) -> int:
        return self.log.log_end

    def _list_records_between(self, begin: int, end: int, pause: "Callable[[], None]") -> "Iterable[int]":
        return list_records_between(self.log, begin, end, pause)

    def _unchanging_end(self) -> int:
        return min(self.log.synced, self.indexes.spill_limit)

    def _save_after(self, replay: LogReplay) -> None:
        try:
            self.checkpoints.save_checkpoint()
        except OSError as error:
            _log.warning("the next start reads the %d records once more: %s", replay.count, error)

    def _bring_up_to_date(self, key: int) -> None:
        """Convert a store of layout 1 to the current layout; the file `format` is written last."""
        side_files.write_side_file(self._root, FORGOTTEN, self._operations.forgotten)
        self.indexes.queues.save_low_watermarks()()
        self.checkpoints.save_checkpoint()
        StoreFormat(key, self.log.log_end).write_format(self._root)
        self.log.layouts = RecordLayouts(key, self.log.log_end)
        _log.info("the store was brought up to date, from layout 1 to %d", store_format.LAYOUT)

    def close(self) -> None:
        """Sync the log, write the whole index, and close the files, so that the next start has nothing to recover.

        OSError: something was not written. The store is still open; close it again when there is room, or abandon it.
        """
        self.log.sync_segments()
        while job := self.checkpoints.prepare_spill(entries_min=0):
            try:
                job.write()
            except OSError:
                self.checkpoints.give_up_spill(job)
                raise
            self.checkpoints.finish_spill(job)
        self.checkpoints.save_checkpoint()
        self.abandon_files()

    def abandon_files(self) -> None:
        """Close the files as they are. After a failed sync nothing may be promised: a second sync would succeed, though
        the kernel has dropped what the first could not write.
        """
        self.log.close()
        self.indexes.close()
        self._durable_watermarks.close()


def _as_dict(content: object) -> dict[str, Any]:
    return content if isinstance(content, dict) else {}


def _ranges(content: object) -> list[tuple[int, int]]:
    return [(begin, end) for begin, end in content] if isinstance(content, list) else []
