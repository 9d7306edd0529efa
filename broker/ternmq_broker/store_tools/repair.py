"""Repairs a store that no broker has open: rebuilds what is derived from the log, and sets aside what is broken.

Log         Bytes that hold no whole record are copied to `set-aside` and remembered as accepted damage, so that starts
            step over them; at the end of the log they are cut off, too. A message that was there is lost, and its
            offset is not given again.
Newer       Records of a layout that this program does not know, at the end of the log, are left alone unless
            `cut_newer`; then they are set aside and cut off.
Derived     Index, timer runs and checkpoint are removed where they are wrong, and rebuilt from the log.
Format      The key of the log is recovered from its records (`key_search`).
Watermarks  The groups' progress tells where a queue was that retention emptied; `forgotten` does for a deleted topic.
Deletions   are in no other file: timers of deleted topics may appear.
Journal     What a start can't use of it is set aside; no group stays beyond the end of its queue.
Order       Nothing is removed or overwritten before it is set aside, and a damaged file that alone has some information
            stays until it is replaced; after a crash the repair is run again. Only the ends of queues whose last
            message was lost may be lost then.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.delivery.claims import ClaimHole, ClaimsSnapshot
from ternmq_broker.store import store_format
from ternmq_broker.store.disk import side_files
from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.disk.set_aside import SetAsideFolder
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.index.log_index import LogIndex
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store_tools.checking import side_check
from ternmq_broker.store_tools.checking.findings import StorePart
from ternmq_broker.store_tools.checking.log_walk import ACCEPTED, accepted_ranges
from ternmq_broker.store_tools.checking.verification import VerificationResult, verify_store
from ternmq_broker.store_tools.progress import Progress, no_progress
from ternmq_broker.store_tools.store_view import SEGMENT_BYTES, open_view, store_folder
from ternmq_common.clock import now_ms
from ternmq_common.errors import StartupError
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ternmq_broker.store.disk.files import Folder, StoreFile
    from ternmq_broker.store.log.log_recovery import Range
    from ternmq_broker.store.store_format import StoreFormat

_PIECE_BYTES = 1 << 20
_CHECKPOINT, _FORGOTTEN = "checkpoint", "forgotten"
_DERIVED = {StorePart.INDEX, StorePart.TIMERS, StorePart.HALVES}
QueueId = tuple[str, int]


@dataclass(slots=True)
class RepairResult:
    """The findings before and after a repair, and what it did, in sentences."""

    before: VerificationResult
    after: VerificationResult
    done: list[str] = field(default_factory=list)


def plan_repair(before: VerificationResult, *, cut_newer: bool) -> list[str]:
    """Return what a repair would do about those findings, in sentences."""
    plan: list[str] = []
    parts = {part for part, count in before.findings.problems.items() if count}
    if before.newer_from is not None:
        what = "set aside and cut off" if cut_newer else "refuse, without --cut-newer, because of"
        plan.append(f"{what} the records of a newer layout from log offset {before.newer_from} on")
    plan += [f"set aside and step over {end - begin} bytes at log offset {begin}" for begin, end in before.damage]
    if StorePart.FORMAT in parts:
        plan.append("rewrite the files format and format.copy")
    if StorePart.SIDE_FILE in parts:
        plan.append("set aside the damaged side files, and rebuild what is known from elsewhere")
    if _DERIVED & parts:
        plan.append("rebuild from the log: " + ", ".join(sorted(_DERIVED & parts)))
    if StorePart.JOURNAL in parts:
        plan.append("set aside the consumption journal, and continue with what can be read of it")
    return plan


def repair_store(directory: "Path", progress: Progress = no_progress, *, cut_newer: bool = False) -> RepairResult:
    """Repair the store of that directory. StartupError: a broker has it open, or it is of a newer version. OSError."""
    path = store_folder(directory)
    with StoreLock(path):
        before = verify_store(directory, progress, is_ours=True)
        if before.newer_from is not None and not cut_newer:
            raise StartupError(
                f"from log offset {before.newer_from} on the log has records of a layout that this version does not "
                "know; use the version that wrote them, or give --cut-newer to set them aside and cut them off"
            )
        if before.findings.is_sound and not before.torn_bytes:
            return RepairResult(before, before)
        repair = _RepairRun(path, before)
        repair.run()
        return RepairResult(before, verify_store(directory, progress, is_ours=True), repair.done)


class _RepairRun:
    """One repair, step by step; `done` describes the steps that were done."""

    def __init__(self, path: "Path", before: VerificationResult) -> None:
        self.done: list[str] = []
        self._path = path
        self._before = before
        self._parts = {part for part, count in before.findings.problems.items() if count}
        self._files = {finding.place for finding in before.findings.kept_findings if finding.is_problem}
        self._folders = DiskFolders(path)
        self._set_aside = SetAsideFolder(self._folders.set_aside)
        self._format, self._ends, self._accepted = self._read_known()

    def _read_known(self) -> "tuple[StoreFormat | None, dict[QueueId, int], list[Range]]":
        """Read the files that may have to be removed."""
        with open_view(self._path, is_ours=True) as view:
            if view.format is None and view.format_problem is not None and view.log_bytes:
                raise StartupError(f"in {self._path} {view.format_problem}, and no record has its content")
            index = LogIndex(view.folders.index)
            segments = [base for base, _ in view.log_segments()]
            if segments:
                index.load_files(segments, 1 << 63)
            ends = {queue: index.queue_bounds(*queue)[1] for queue in index.used_queues()}
            return view.format, ends, accepted_ranges(view)

    def run(self) -> None:
        self._rewrite_format()
        is_cut = self._cut_newer()
        self._accept_damage()
        low_watermarks_lost = f"index/{side_check.LOW_WATERMARKS}" in self._files
        self._drop_side_files()
        self._drop_derived(everything=is_cut)
        journal = self._open_journal()
        store = MessageStore(self._folders, segment_bytes=SEGMENT_BYTES, accept_corruption=True)
        try:
            self._keep_ends(store)
            # The opening has set these aside; they stay damaged until they are replaced, in case of a crash in between.
            if low_watermarks_lost:
                self._guess_low_watermarks(store, journal)
            if _FORGOTTEN in self._files:
                side_files.write_side_file(self._folders.root, _FORGOTTEN, {})
                self.done.append("deletions are in no other file: timers of topics that were deleted may appear")
            for name in side_check.OF_COPIES:
                if name in self._files:
                    side_files.write_side_file(self._folders.root, name, None)
                    self.done.append(
                        f"the content of {name} is in no other file: have this replica copied again from its leader"
                    )
            self._clamp_progress(store, journal)
            if store.recovery.torn_bytes:
                self.done.append(
                    f"set aside and cut off {store.recovery.torn_bytes} bytes of a torn tail, which a crash left"
                )
            store.close()
        except BaseException:
            store.abandon_files()
            raise
        finally:
            journal.close()

    # --- before the store is opened

    def _rewrite_format(self) -> None:
        if StorePart.FORMAT in self._parts and self._format is not None:
            for name in (store_format.NAME, store_format.COPY):
                self._keep_copy(self._folders.root, name)
            self._format.write_format(self._folders.root)
            self.done.append("rewrote the files format and format.copy")

    def _cut_newer(self) -> bool:
        newer_from = self._before.newer_from
        if newer_from is None:
            return False
        folder = self._folders.commit_log
        names = sorted(name for name in folder.names() if name.isdigit())
        kept = []
        for name in reversed(names):
            base, file = int(name), folder.open(name)
            end = base + file.size
            if end > newer_from:
                begin = max(base, newer_from)
                pieces = _read_pieces(file, begin - base)
                kept.append(self._set_aside.keep_copy(f"commitlog-{begin:020d}-{end:020d}", pieces))
                if base >= newer_from and name != names[0]:
                    file.close()
                    folder.remove(name)
                    continue
                file.truncate(begin - base)
                file.sync()
            file.close()
        folder.sync_names()
        self.done.append(
            f"cut off the records of a newer layout from log offset {newer_from} on; they are in {_list_copies(kept)}"
        )
        return True

    def _accept_damage(self) -> None:
        """Accept damage that has whole records behind it; other damage is cut off when the store is opened."""
        accepted = dict(self._accepted)
        for begin, end in self._before.damage:
            if end <= self._before.log_end:
                name = self._set_aside.keep_copy(f"commitlog-{begin:020d}-{end:020d}", self._log_pieces(begin, end))
                accepted[begin] = end
                self.done.append(f"set aside {end - begin} bytes at log offset {begin}, as set-aside/{name}")
            else:
                self.done.append(f"set aside and cut off the damaged end of the log from log offset {begin} on")
        if accepted != dict(self._accepted) or ACCEPTED in self._files:
            self._keep_if_damaged(self._folders.root, ACCEPTED)
            side_files.write_side_file(self._folders.root, ACCEPTED, sorted(accepted.items()))

    def _log_pieces(self, begin: int, end: int) -> "Iterator[bytes]":
        folder = self._folders.commit_log
        bases = sorted(int(name) for name in folder.names() if name.isdigit())
        for base, following in zip(bases, [*bases[1:], end], strict=True):
            first, last = max(begin, base), min(end, following)
            if first < last:
                file = folder.open(f"{base:020d}")
                yield from _read_pieces(file, first - base, last - base)
                file.close()

    def _drop_side_files(self) -> None:
        for name in (_CHECKPOINT, durable_watermarks.NAME):
            if name in self._files:
                self._drop_file(self._folders.root, name)
                if name == durable_watermarks.NAME:
                    self._folders.root.replace(name, b"")  # the next start would report it missing

    def _drop_derived(self, *, everything: bool) -> None:
        """Remove derived files, so that the next opening rebuilds them."""
        dropped = []
        if everything or StorePart.INDEX in self._parts:
            _remove_numbered(self._folders.index)
            dropped.append("the index")
        if everything or {StorePart.TIMERS, StorePart.HALVES} & self._parts:
            _remove_numbered(self._folders.timers)
            dropped.append("the timer index")
        if dropped and _CHECKPOINT in self._folders.root.names():
            self._folders.root.remove(_CHECKPOINT)
            self._folders.root.sync_names()
        if everything and durable_watermarks.NAME in self._folders.root.names():
            self._folders.root.replace(durable_watermarks.NAME, b"")
        if dropped:
            self.done.append(f"rebuilt {' and '.join(dropped)} from the log")

    def _open_journal(self) -> ProgressJournal:
        if any(place.startswith("consumption/") for place in self._files):
            name = self._keep_copy(self._folders.consumption, side_check.JOURNAL)
            self.done.append(f"copied the consumption journal to set-aside/{name}; what can be read of it is kept")
        return ProgressJournal(self._folders.consumption)

    # --- with the store

    def _keep_ends(self, store: MessageStore) -> None:
        """Keep the ends of queues: an offset is not given again, though its message is lost."""
        for (topic, queue_id), end in self._ends.items():
            if store.indexes.queues.queue_bounds(topic, queue_id)[1] < end:
                store.indexes.queues.continue_queue_at(
                    topic, queue_id, end, max(store.log.log_start, store.log.log_end - 1)
                )

    def _guess_low_watermarks(self, store: MessageStore, journal: ProgressJournal) -> None:
        low_watermarks: dict[QueueId, tuple[int, int]] = {}
        for (group, topic, queue_id), snapshot in journal.queue_snapshots().items():
            queue = _queue_of(group, topic, queue_id)
            first, end = store.indexes.queues.queue_bounds(*queue)
            if first == end and snapshot.cursor > max(end, low_watermarks.get(queue, (0, 0))[0]):
                low_watermarks[queue] = (snapshot.cursor, 0)
        for topic, queue_id in store.indexes.queues.used_queues():
            low_watermark = _first_not_forgotten(store, topic, queue_id)
            if low_watermark > store.indexes.queues.queue_bounds(topic, queue_id)[0]:
                low_watermarks[topic, queue_id] = (low_watermark, low_watermark)
        for (topic, queue_id), (first, origin) in low_watermarks.items():
            store.indexes.queues.set_low_watermark(topic, queue_id, first, origin)
        store.indexes.queues.save_low_watermarks()()
        self.done.append(
            f"rebuilt the low watermarks of {len(low_watermarks)} queues from the groups' progress and deletions; a "
            "queue that retention emptied, and that no group read, begins again at 0"
        )

    def _clamp_progress(self, store: MessageStore, journal: ProgressJournal) -> None:
        behind = []
        for key, snapshot in journal.queue_snapshots().items():
            end = store.indexes.queues.queue_bounds(*_queue_of(*key))[1]
            if snapshot.cursor > end:
                behind.append((key, _clamp_snapshot(snapshot, end)))
                self.done.append(
                    f"moved group {key[0]} back to offset {end} of {_describe_queue(*_queue_of(*key))}, its end"
                )
        journal.write_progress(behind, now_ms())  # a write also stores what the opening has corrected

    # --- files

    def _keep_copy(self, folder: "Folder", name: str) -> str:
        """Copy a file to `set-aside`; return the name that it has there."""
        content = folder.content(name)
        return name if content is None else self._set_aside.keep_copy(name, [content])

    def _keep_if_damaged(self, folder: "Folder", name: str) -> None:
        if name in self._files:
            kept = self._keep_copy(folder, name)
            self.done.append(f"rewrote the file {name}; the damaged one is set-aside/{kept}")

    def _drop_file(self, folder: "Folder", name: str) -> None:
        if name in folder.names():
            kept = self._keep_copy(folder, name)
            folder.remove(name)
            folder.sync_names()
            self.done.append(f"moved the damaged file {name} to set-aside/{kept}")


def _remove_numbered(folder: "Folder") -> None:
    for name in folder.names():
        if name[:1].isdigit():
            folder.remove(name)
    folder.sync_names()


def _read_pieces(file: "StoreFile", begin: int, end: int | None = None) -> "Iterator[bytes]":
    end = file.size if end is None else min(end, file.size)
    while begin < end:
        piece = file.read(begin, min(_PIECE_BYTES, end - begin))
        yield piece
        begin += len(piece)


def _first_not_forgotten(store: MessageStore, topic: str, queue_id: int) -> int:
    """Return the first offset of the queue that was stored after the topic was last deleted."""
    offset, end = store.indexes.queues.queue_bounds(topic, queue_id)
    while offset < end:
        for location in store.indexes.queues.locate_messages(topic, queue_id, offset, end - offset, may_block=True):
            if not store.deletions.is_forgotten(topic, location.log_offset):
                return offset
            offset += 1
    return end


def _queue_of(group: str, topic: str, queue_id: int) -> QueueId:
    return (retry_topic(group), 0) if queue_id == RETRY_QUEUE_ID else (topic, queue_id)


def _describe_queue(topic: str, queue_id: int) -> str:
    return f"queue {queue_id} of topic {topic}"


def _clamp_snapshot(snapshot: ClaimsSnapshot, end: int) -> ClaimsSnapshot:
    holes = [
        ClaimHole(hole.first, min(hole.count, end - hole.first), hole.claim)
        for hole in snapshot.holes
        if hole.first < end
    ]
    return ClaimsSnapshot(min(snapshot.cursor, end), snapshot.generation, holes)


def _list_copies(names: list[str]) -> str:
    return ", ".join(f"set-aside/{name}" for name in sorted(names))
