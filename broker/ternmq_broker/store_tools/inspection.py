"""Inspects a store: its contents by its indexes, and what a start would recover; it reads no more of the log."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store import store_format
from ternmq_broker.store.disk.checked_file import DamagedFile
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.store_tools.checking.log_walk import accepted_ranges, durable_by_files
from ternmq_broker.store_tools.checking.timer_check import count_pending
from ternmq_broker.store_tools.store_view import open_view
from ternmq_common.errors import StartupError
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.log.log_recovery import Range
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store_tools.store_view import StoreView


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A segment of the log. `size_bytes` is its size on the disk; the times are those of its first record and, about,
    of its last.
    """

    log_offset: int
    size_bytes: int
    first_stored_ms: int | None
    last_stored_ms: int | None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A message queue: the offsets from `first` to before `end` are held."""

    topic: str
    queue_id: int
    first: int
    end: int
    first_stored_ms: int | None
    last_stored_ms: int | None


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group's progress in a queue, or, with `is_retry`, in its retries of that topic, by the journal."""

    group: str
    topic: str
    queue_id: int
    cursor: int
    unfinished: int
    end: int

    @property
    def is_retry(self) -> bool:
        return self.queue_id == RETRY_QUEUE_ID


@dataclass(frozen=True, slots=True)
class StoreInspection:
    """A store at one moment. `durable` is up to where the log is known to be durable, by the files beside it."""

    path: "Path"
    is_running: bool
    layout: int
    layout_1_below: int
    log_start: int
    log_end: int
    durable: int
    torn_bytes: int
    segments: list[SegmentFacts]
    queues: list[QueueFacts]
    groups: list[GroupFacts]
    pending_timers: int
    waiting_halves: int
    accepted: "list[Range]"
    newly_damaged: "list[Range]"
    set_aside: list[str]


def inspect_store(directory: "Path") -> StoreInspection:
    """Inspect the store of that directory. StartupError, NewerFormat, OSError."""
    with open_view(directory) as view:
        if view.format is None and view.format_problem is not None:
            raise StartupError(f"in {view.path} {view.format_problem}, and no record has its content")
        accepted, durable, set_aside = accepted_ranges(view), durable_by_files(view), view.folders.set_aside.names()
        layout, layout_1_below = (1, 0) if view.is_layout_1 else (store_format.LAYOUT, view.layouts.layout_1_below)
        try:
            store = view.recover_store()
        except DamagedFile as error:
            raise StartupError(f"in {view.path} {error}") from error
        return StoreInspection(
            view.path,
            view.is_running,
            layout,
            layout_1_below,
            store.log.log_start,
            store.log.log_end,
            durable,
            store.recovery.torn_bytes,
            _segment_facts(view, view.open_log(), store.writer.last_stored_ms),
            [
                _queue_facts(store, topic, queue_id)
                for topic, queue_id in store.indexes.queues.used_queues()
                if any(store.indexes.queues.queue_bounds(topic, queue_id))
            ],
            _group_facts(view, store),
            count_pending(store).count,
            len(store.indexes.halves.waiting),
            accepted,
            sorted(set(accepted_ranges(view)) - set(accepted)),
            set_aside,
        )


def _segment_facts(view: "StoreView", log: "CommitLog", last_ms: int) -> list[SegmentFacts]:
    files = view.log_segments()
    firsts = [_stored_ms(log, base) for base, _ in files]
    return [
        SegmentFacts(base, file.size, first, last)
        for (base, file), first, last in zip(files, firsts, [*firsts[1:], last_ms or None], strict=True)
        if file.size or len(files) == 1
    ]


def _stored_ms(log: "CommitLog", log_offset: int) -> int | None:
    try:
        return log.head_at(log_offset).stored_ms if log_offset < log.log_end else None
    except BadRecord:
        return None


def _queue_facts(store: "MessageStore", topic: str, queue_id: int) -> QueueFacts:
    first, end = store.indexes.queues.queue_bounds(topic, queue_id)
    last_ms = store.reader.stored_ms(topic, queue_id, end - 1) if end > first else None
    return QueueFacts(topic, queue_id, first, end, store.reader.stored_ms(topic, queue_id, first), last_ms)


def _group_facts(view: "StoreView", store: "MessageStore") -> list[GroupFacts]:
    found = []
    for (group, topic, queue_id), snapshot in sorted(
        ProgressJournal(view.folders.consumption).queue_snapshots().items()
    ):
        place = (retry_topic(group), 0) if queue_id == RETRY_QUEUE_ID else (topic, queue_id)
        unfinished = sum(hole.count for hole in snapshot.holes)
        found.append(
            GroupFacts(
                group, topic, queue_id, snapshot.cursor, unfinished, store.indexes.queues.queue_bounds(*place)[1]
            )
        )
    return found
