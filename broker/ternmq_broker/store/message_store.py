"""The store of one broker: opens, recovers, writes and reads the commit log with its indexes and checkpoint.

`STORE.md`, in the broker's folder, has the layout of every file.
Checkpoint  says what was known durable, and what the indexes have beside their files. An absent or stale checkpoint is
            never wrong; recovery is only slower and detects less.
Deletions   `forgotten` has the deleted topics, each with the log's end at that time: their timers below it never
            appear.
Replicas    A leader's store appends; a follower's takes the bytes of its leader's log (`copying`). Another leader may
            take back what is not acknowledged (`truncating`): files beside the log say nothing of the log above
            `spill_limit`.
Threads     One thread owns the store. `sync` and `read_cold` may run in others.
"""

import contextlib
import errno
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ternmq_broker.store import side_files, store_format
from ternmq_broker.store.applied_operations import FORGOTTEN, AppliedOperations
from ternmq_broker.store.catch_up_state import CatchUpState
from ternmq_broker.store.copy_start import JOINED, JoinState, check_finished
from ternmq_broker.store.damage import AwaitsRepair, LogDamage
from ternmq_broker.store.derived_indexes import DerivedIndexes, IndexSpill, keys_of
from ternmq_broker.store.index.key_search import KeySearch
from ternmq_broker.store.index.key_table import do_not_pause
from ternmq_broker.store.index.queue_index import MessageLocation, QueueIndex
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.log.commit_log import NO_LIMIT, CommitLog
from ternmq_broker.store.log.durable_watermarks import DurableWatermarks
from ternmq_broker.store.log.log_recovery import LogRecovery
from ternmq_broker.store.log.record import BadRecord, Record, RecordKind, RecordOrigin, to_unplaced, with_reference
from ternmq_broker.store.log.record_layouts import RecordLayouts
from ternmq_broker.store.log_copy import AcceptedRanges, CopyResult, LogCopy, count_whole_bytes
from ternmq_broker.store.log_repair import DAMAGE, SCRUB, LogRepair
from ternmq_broker.store.missing_files import find_missing_files, log_missing_durable_file, log_missing_files
from ternmq_broker.store.operations import OperationKind, StoreOperation
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.store.record_overwriting import RecordOverwriting
from ternmq_broker.store.replaying.replay import REPLAY_SIZES, LogReplay, ReplaySizes
from ternmq_broker.store.set_aside import SetAsideFolder
from ternmq_broker.store.side_files import SideFileReader
from ternmq_broker.store.store_format import StoreFormat
from ternmq_common.model import NewMessage
from ternmq_common.names import lite_parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq_broker.store.files import StoreFolders
    from ternmq_broker.store.half_index import HalfIndex
    from ternmq_broker.store.log.record import RestReference, UnplacedRecord
    from ternmq_broker.store.timers.timer_index import TimerIndex
    from ternmq_common.cluster import RegistryDeletion
    from ternmq_common.model import HeldTopic

_log = logging.getLogger(__name__)
_CHECKPOINT = "checkpoint"
_MESSAGE = RecordKind.MESSAGE.value
_ACCEPTED = "accepted-damage"
# A batch's records are read as one piece while the gaps between them cost less than reading each by itself.
_SPAN_FACTOR = 4
_EVERYTHING = 1 << 63
_ROWS_FOR_QUEUE = 3
_SPILL_ENTRIES_MAX = 262_144


@dataclass(frozen=True, slots=True)
class SegmentRemoval:
    """The removal of the oldest segments, in two steps: a thread calls `write`, which makes durable that their messages
    are gone; then `MessageStore.finish_removal` drops the segments.
    """

    count: int
    write: Callable[[], None]


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """Where a batch was stored: the queue offset of its first message, and the log's end behind its last."""

    first_offset: int
    log_end: int


class AppendBatch(NamedTuple):
    """Messages of one request, for one queue."""

    topic: str
    queue_id: int
    messages: Sequence[NewMessage]


class MessageStore:
    """One broker's messages on disk: appends batches, finds and reads messages.

    What `append` wrote is durable once `synced` has passed its end.
    """

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
        self._replay_sizes = replay_sizes
        self.seconds, self.wall_s = seconds, wall_s
        """The clocks: a monotonic one, and the wall clock."""
        self.spill_limit = spill_limit
        """The log offset up to which index, checkpoint and side files may describe the log. In a store with replicas it
        is what was acknowledged, and the owner raises it."""
        self.is_replicated = False
        """Whether operations are written, for other replicas."""
        self._root = folders.root
        check_finished(self._root)
        self._set_aside = SetAsideFolder(folders.set_aside)
        known = store_format.read_format(folders.root, folders.commit_log)
        is_layout_1 = known is None and any(name.isdigit() for name in folders.commit_log.names())
        found = known or StoreFormat(store_format.draw_key())
        if known is None and not is_layout_1:
            found.write_format(self._root)
        files = SideFileReader(self._set_aside, accept_damage=accept_corruption, may_be_plain=is_layout_1)
        self._operations = AppliedOperations(self._root, files)
        self._catching_up = CatchUpState(self._root, files)
        self._last_ms = 0
        self._is_durable_missing = known is not None and durable_watermarks.NAME not in self._root.names()
        self._durable_watermarks = DurableWatermarks(self._root)
        layouts = RecordLayouts(found.key, _EVERYTHING if is_layout_1 else found.layout_1_below)
        self._log = CommitLog(folders.commit_log, layouts, segment_bytes=segment_bytes)
        durable = max(min(found.layout_1_below, self._catching_up.since), self._durable_watermarks.highest)
        overwriting = RecordOverwriting(self._root, self._log)
        overwriting.finish_interrupted(files)
        replay = self._recover(folders, files, durable, accept=accept_corruption)
        newly_accepted = self._recovery.newly_accepted
        if self._log.log_end < self._derived.highest_covered:
            # Damage was accepted at the end of the log, and the indexes refer to records that are gone.
            self._derived.close()
            DerivedIndexes.remove_files(folders.index, folders.timers)
            if _CHECKPOINT in folders.root.names():
                folders.root.remove(_CHECKPOINT)
            replay = self._recover(folders, files, 0, accept=True)
        if self.spill_limit < NO_LIMIT:
            self.spill_limit = min(self.spill_limit, self._log.log_end)
        self.replayed_records = replay.count
        self._index.load_low_watermarks(files)
        self._index.drop_lite_topics_of(self._operations.forgotten)
        if newly_accepted:
            self.save_checkpoint()
            self._durable_watermarks.clear()
        elif replay.was_long:
            self._save_after(replay)
        self._operations.drop_missing_marks(self._log)
        self._join_state = _as_dict(files.read_needed(self._root, JOINED))
        self._apply_join_state(self._log.log_end)
        self._copy_taking: LogCopy | None = None
        if is_layout_1:
            self._bring_up_to_date(found.key)
        self._set_aside_files = len(self._set_aside.file_names())
        self._accepted = AcceptedRanges(self._recovery.accepted.items())
        self.damage = LogDamage(_ranges(files.read_derived(self._root, DAMAGE)), now_s=seconds())
        """The known damage of the log."""
        self.damage.drop_outside(self._log.log_start, self._log.log_end)  # what was cut off may come again, whole
        self.repair = LogRepair(
            self._root, self._log, overwriting, self.damage, self._accepted, self._unchanging_end, seconds
        )
        """Finds and repairs damage of the log."""
        self.scrub_position = files.read_derived(self._root, SCRUB)
        """How far the log was checked before, as `LogRepair.save_scrub` wrote it."""

    def _recover(self, folders: "StoreFolders", files: SideFileReader, durable: int, *, accept: bool) -> LogReplay:
        """Open the indexes, and replay the log from where their files end."""
        checkpoint = _as_dict(files.read_derived(self._root, _CHECKPOINT))
        self._last_ms = max(self._last_ms, checkpoint.get("stored_ms", 0))
        self._derived = DerivedIndexes(folders.index, folders.timers)
        self._index = self._derived.index
        self._index.get_log_end = self._log_end
        self._index.list_records_between = self._records_between
        self._derived.load_files(checkpoint, self._log.segment_bases, self._log.log_end)
        durable = max(durable, checkpoint.get("durable", 0), self._derived.durable_offset)
        self.spill_limit = max(self.spill_limit, durable)
        if self._is_durable_missing and self._log.log_end > self._log.log_start:
            log_missing_durable_file(max(0, self._log.log_end - durable))
            self._is_durable_missing = False
        recovery = self._recovery = LogRecovery(
            self._log,
            self._set_aside,
            durable=durable,
            disbelieved_from=self._catching_up.since,
            accepted=_ranges(files.read_derived(self._root, _ACCEPTED)),
            accept=accept,
            contradicts=self._derived.find_contradiction,
        )
        operations = self._operations
        replay = LogReplay(
            self._log,
            self._derived,
            operations,
            self._replay_sizes,
            spill_limit=self.spill_limit,
            whole=operations.is_damaged or (operations.is_lost and checkpoint.get("epochs", 0) > 0),
        )
        gone = find_missing_files(checkpoint, self._derived, self._log.log_end)
        replay.run_replay(recovery)
        log_missing_files(gone, replay.count)
        self._last_ms = max(self._last_ms, replay.stored_ms)
        if recovery.newly_accepted:
            side_files.write_side_file(self._root, _ACCEPTED, sorted(recovery.accepted.items()))
        return replay

    def _log_end(self) -> int:
        return self._log.log_end

    def _unchanging_end(self) -> int:
        return min(self._log.synced, self.spill_limit)

    def _save_after(self, replay: LogReplay) -> None:
        try:
            self.save_checkpoint()
        except OSError as error:
            _log.warning("the next start reads the %d records once more: %s", replay.count, error)

    def _bring_up_to_date(self, key: int) -> None:
        """Convert a store of layout 1 to the current layout; the file `format` is written last."""
        side_files.write_side_file(self._root, FORGOTTEN, self._operations.forgotten)
        self._index.write_low_watermarks()
        self.save_checkpoint()
        StoreFormat(key, self._log.log_end).write_format(self._root)
        self._log.layouts = RecordLayouts(key, self._log.log_end)
        _log.info("the store was brought up to date, from layout 1 to %d", store_format.LAYOUT)

    # --- what is durable

    def mark_durable(self) -> None:
        """Note in the file `durable` that the whole log is synced. While nothing is appended, no later record vouches
        for the last ones.
        """
        synced = self._log.synced
        if synced == self._log.log_end and self._durable_watermarks.highest < synced <= self.spill_limit:
            self._durable_watermarks.add_watermark(synced)

    @property
    def timers(self) -> "TimerIndex":
        return self._derived.timers

    @property
    def halves(self) -> "HalfIndex":
        return self._derived.halves

    # --- writing

    def append_batch(
        self,
        topic: str,
        queue_id: int,
        messages: "Sequence[NewMessage]",
        now_ms: int,
        references: "Sequence[RestReference | None]" = (),
    ) -> AppendedBatch:
        """Store the messages at the end of the queue. OSError: none of them was stored.

        A message with a reference shares the rest of an earlier record; its own rest is empty.
        """
        [first] = self.append_batches([AppendBatch(topic, queue_id, messages)], now_ms, references)
        return AppendedBatch(first, self._log.log_end)

    def append_batches(
        self, batches: "Sequence[AppendBatch]", now_ms: int, references: "Sequence[RestReference | None]" = ()
    ) -> list[int]:
        """Store batches, each at the end of its queue, in one write, and return the queue offset of each batch's first
        message.

        `references` has one entry for each message of all batches, or is empty. OSError: nothing was stored.
        """
        stored_ms = self._last_ms = max(now_ms, self._last_ms)
        firsts: list[int] = []
        ends: dict[QueueIndex, int] = {}
        records: list[UnplacedRecord] = []
        for topic, queue_id, messages in batches:
            queue = self._index.get_queue(topic, queue_id)
            first = offset = ends.get(queue, queue.end)
            name = queue.topic_bytes
            queue.last_ms = stored_ms
            for message in messages:
                system, rest = message.system, message.rest
                records.append(
                    (_MESSAGE, queue_id, offset, stored_ms, message.tag_hash, len(name), 0, name, system, rest)
                )
                offset += 1
            firsts.append(first)
            ends[queue] = offset
        if references:
            records = [with_reference(*pair) for pair in zip(records, references, strict=True)]
        self._index_batches(batches, self._log.append_records(records))
        return firsts

    def _index_batches(self, batches: "Sequence[AppendBatch]", began: list[int]) -> None:
        """Enter the messages of the batches into the index."""
        began.append(self._log.log_end)
        number = 0
        for topic, queue_id, messages in batches:
            following = number + len(messages)
            self._index.add_messages(self._index.get_queue(topic, queue_id), messages, began[number : following + 1])
            number = following

    def append_drafts(self, drafts: "Sequence[RecordDraft]", now_ms: int) -> list[MessageLocation]:
        """Store records of any kind, of any queues, in order, and return where each is. OSError: none of them was
        stored.
        """
        stored_ms = self._last_ms = max(now_ms, self._last_ms)
        ends: dict[tuple[str, int], int] = {}
        records = [self._record_of_draft(draft, stored_ms, ends) for draft in drafts]
        began = self._log.append_records(list(map(to_unplaced, records)))
        located: list[MessageLocation] = []
        for draft, record, log_offset, end in zip(drafts, records, began, [*began[1:], self._log.log_end], strict=True):
            size = end - log_offset
            if record.kind is RecordKind.MESSAGE:
                queue = self._index.get_queue(record.topic, record.queue_id)
                self._index.add_message(queue, log_offset, size, record.tag_hash, draft.message.keys)
            self._derived.note_record(record, log_offset, size)
            located.append(MessageLocation(log_offset, size, record.tag_hash))
        return located

    def _record_of_draft(self, draft: RecordDraft, stored_ms: int, ends: dict[tuple[str, int], int]) -> Record:
        place = draft.due_ms
        if draft.kind is RecordKind.MESSAGE:
            key = (draft.topic, draft.queue_id)
            place = ends.get(key) or self._index.get_queue(*key).end
            ends[key] = place + 1
        message = draft.message
        return Record(
            draft.kind,
            draft.topic,
            draft.queue_id,
            place,
            stored_ms,
            message.tag_hash,
            message.system,
            message.rest,
            draft.origin,
            draft.sender,
        )

    @property
    def log_end(self) -> int:
        return self._log.log_end

    @property
    def synced(self) -> int:
        return self._log.synced

    def sync_log(self) -> int:
        """Make durable what was appended before the call, and return the log offset up to which it is. For the
        flusher's thread.
        """
        return self._log.sync_segments()

    # --- reading

    def used_queues(self) -> list[tuple[str, int]]:
        """Return topic and id of every queue that was ever used, as far as is known."""
        return self._index.used_queues()

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of the topic's queues that were ever used, as far as is known. Do not change the list."""
        return self._index.queue_ids(topic)

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the first queue offset that is held, and the one after the last."""
        return self._index.queue_bounds(topic, queue_id)

    def held_topics(self) -> "dict[str, HeldTopic]":
        """Return all topics that have messages left; records that are in no queue yet do not count."""
        return self._index.held_topics()

    def topic_names(self) -> list[str]:
        """Return all topics that were ever used, as far as is known, without lite topics."""
        return self._index.topic_names()

    def lite_topics(self) -> list[str]:
        """Return the names under which lite topics have their queues."""
        return self._index.lite_topics()

    @property
    def lite_count(self) -> int:
        """How many lite topics there are."""
        return self._index.lite_queues

    def lite_origin(self, topic: str) -> int:
        """Return the first offset of the lite topic since it was last created, as far as is known."""
        queue = self._index.lite_queue(topic)
        return 0 if queue is None else queue.origin

    def lite_sent_ms(self, topic: str) -> int:
        """Return when the lite topic last received a message; 0: not since the start, see `read_lite_sent_ms`."""
        queue = self._index.lite_queue(topic)
        return 0 if queue is None else queue.last_ms

    def read_lite_sent_ms(self, topics: "Sequence[str]") -> None:
        """Read from the log when these lite topics last received a message, where that is not known. For a thread."""
        for topic in topics:
            queue = self._index.lite_queue(topic)
            if queue is not None and not queue.last_ms:
                sent_ms = self._first_stored_from(topic, 0, max(queue.first, queue.end - 1), queue.end)[1]
                queue.last_ms = queue.last_ms or sent_ms or 1

    def drop_lite_topic(self, topic: str) -> None:
        """Drop a lite topic. A restart may find it again, until retention has removed its records."""
        self._index.drop_lite_topic(topic)

    def queue_origin(self, topic: str, queue_id: int) -> int:
        """Return the offset at which the queue began when its topic was created, or last emptied by a purge."""
        return self._index.queue_origin(topic, queue_id)

    def is_complete(self, topic: str, queue_id: int) -> bool:
        """Tell whether the queue still has every message since its topic was created."""
        return self._index.is_complete(topic, queue_id)

    def locate_messages(
        self, topic: str, queue_id: int, offset: int, count: int, *, may_block: bool
    ) -> list[MessageLocation]:
        """Return where up to `count` messages from `offset` on are. With `may_block` false it raises WouldBlock instead
        of waiting.
        """
        return self._index.locate_messages(topic, queue_id, offset, count, may_block=may_block)

    def read_records(self, locations: "Sequence[MessageLocation]", *, may_block: bool) -> list[Record | None]:
        """Return the records in order; None where one was lost or can't be read.

        With `may_block` false it raises WouldBlock as `locate_messages` does, and AwaitsRepair where a record is
        damaged that another replica may have whole.
        """
        held = [location for location in locations if location.size]
        if not held:
            return [None] * len(locations)
        start = held[0].log_offset
        span = held[-1].log_offset + held[-1].size - start
        window = b""
        if span <= _SPAN_FACTOR * sum(location.size for location in held):
            with contextlib.suppress(BadRecord, OSError):
                window = self._log.read_bytes(start, span, may_block=may_block)
        return [self._read_record(location, start, window, may_block=may_block) for location in locations]

    def _read_record(self, location: MessageLocation, start: int, window: bytes, *, may_block: bool) -> Record | None:
        if not location.size:
            return None
        at = location.log_offset - start
        data = window[at : at + location.size]
        try:
            if len(data) < location.size:
                data = self._log.read_bytes(location.log_offset, location.size, may_block=may_block)
            record = self._log.layouts.decode_record(data, location.log_offset)
        except (BadRecord, OSError) as error:
            self._report_unreadable(location.log_offset, location.size, error, may_block=may_block)
            return None
        with contextlib.suppress(BadRecord):
            return record if record.reference is None else self._resolve_reference(record, may_block=may_block)
        return None

    def _resolve_reference(self, record: Record, *, may_block: bool) -> Record:
        """Return the record with the rest that it shares with an earlier one; BadRecord if that is gone."""
        reference = record.reference
        if reference is not None:
            try:
                data = self._log.read_bytes(reference.log_offset, reference.size, may_block=may_block)
                referred = self._log.layouts.decode_record(data, reference.log_offset)
            except (BadRecord, OSError) as error:
                self._report_unreadable(reference.log_offset, reference.size, error, may_block=may_block)
                raise BadRecord(str(error)) from error
            record.rest, record.rest_stored_ms = referred.rest, referred.stored_ms
        return record

    def _report_unreadable(self, log_offset: int, size: int, error: Exception, *, may_block: bool) -> None:
        """Report damage. Raises AwaitsRepair if the reader is to wait for a repair, and the OSError of a disk that may
        yet return the bytes.
        """
        if self._log.log_start <= log_offset < self._log.log_end:
            is_of_disk = isinstance(error, OSError)
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise error
            if self.damage.report_damage(log_offset, size):
                if not may_block:
                    raise AwaitsRepair
            elif is_of_disk:
                raise error

    def has_expired(self, location: MessageLocation) -> bool:
        """Tell whether the record there is whole, but shares its rest with one that retention has removed."""
        try:
            reference = self._log.record_at(location.log_offset).reference
        except BadRecord:
            return False
        return reference is not None and reference.log_offset < self._log.log_start

    def find_offset_at(self, topic: str, queue_id: int, time_ms: int) -> int:
        """Return the first offset that was stored at or after that time; the queue's end if there is none. Reads, so
        for a thread.
        """
        low, high = self.queue_bounds(topic, queue_id)
        while low < high:
            middle = (low + high) // 2
            readable, stored_ms = self._first_stored_from(topic, queue_id, middle, high)
            if stored_ms is not None and stored_ms < time_ms:
                low = readable + 1
            else:
                high = middle
        return low

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Return when the message at that offset, or the first one that is left behind it, was stored. Reads, so for a
        thread.
        """
        first, end = self.queue_bounds(topic, queue_id)
        return self._first_stored_from(topic, queue_id, max(first, offset), end)[1]

    def _first_stored_from(self, topic: str, queue_id: int, offset: int, end: int) -> tuple[int, int | None]:
        """Return the first offset from there on whose record can be read, and when it was stored; None as time if there
        is none.
        """
        while offset < end:
            for location in self.locate_messages(topic, queue_id, offset, end - offset, may_block=True):
                if location.size:
                    with contextlib.suppress(BadRecord):  # a read of the message will report the damage
                        return offset, self._log.head_at(location.log_offset).stored_ms
                offset += 1
        return end, None

    def find_by_key(self, topic: str, key: str, limit: int, pause: "Callable[[], None]" = do_not_pause) -> list[Record]:
        """Return the newest messages of the topic and its lite topics with that key or message id. Reads, so for a
        thread.

        `pause` is called between steps of less than a millisecond; what it raises ends the search. BadRecord: neither
        the keys of a part of the log nor that part itself can be read.
        """
        found: list[Record] = []
        for log_offset in self._index.find_candidates(
            KeySearch(topic, key, lambda: self._lite_topics_of(topic), pause)
        ):
            with contextlib.suppress(BadRecord):
                record = self._resolve_reference(self._log.record_at(log_offset), may_block=True)
                is_held = record.queue_offset >= self.queue_bounds(record.topic, record.queue_id)[0]
                if lite_parent(record.topic) == topic and is_held and key in keys_of(record.system):
                    found.append(record)
            if len(found) == limit:
                break
            pause()
        return found

    def _lite_topics_of(self, topic: str) -> list[str]:
        return [each for each in self.lite_topics() if lite_parent(each) == topic] if self.lite_count else []

    def _records_between(self, begin: int, end: int, pause: "Callable[[], None]") -> "Iterable[int]":
        """Return the log offsets of the messages in that range, the last first. BadRecord."""
        log_offsets: list[int] = []
        while begin < end:
            head = self._log.head_at(begin)
            if head.kind == _MESSAGE:  # what waits for its time can't be found by key
                log_offsets.append(begin)
            begin += head.size
            pause()
        return reversed(log_offsets)

    def read_record_at(self, log_offset: int) -> Record | None:
        """Return the record of any kind that begins there, None if none does. Reads, so for a thread."""
        try:
            if not 0 <= log_offset < self._log.log_end:
                return None
            return self._resolve_reference(self._log.record_at(log_offset), may_block=True)
        except BadRecord:
            return None

    def find_descendant(self, topic: str, key: str, origin: int) -> Record | None:
        """Return the message of the topic with that key or id that was created from the record at log offset
        `origin`. Reads, so for a thread.
        """
        for log_offset in self._index.find_candidates(KeySearch(topic, key)):
            record = self.read_record_at(log_offset)
            if record is not None and record.topic == topic and record.origin == RecordOrigin(origin):
                return record
        return None

    def segment_end(self, count: int) -> int:
        """Return where the log would begin without its oldest `count` segments."""
        return self._log.segment_bases[count]

    # --- housekeeping

    def prepare_spill(self, *, entries_min: int) -> IndexSpill | None:
        """Return what is to be written of the indexes, once at least `entries_min` entries are in memory; else None.

        Unless `entries_min` is 0 or 1, some entries for each queue are required too; blocks would else hold little more
        than the names of queues.
        """
        derived = self._derived
        if entries_min > 1:
            entries_min = max(entries_min, min(_SPILL_ENTRIES_MAX, _ROWS_FOR_QUEUE * derived.index.queues_in_memory))
        if derived.entries_in_memory < entries_min:
            return None
        return derived.prepare_spill(self._log.segment_bases, min(self._log.synced, self.spill_limit))

    def finish_spill(self, spill: IndexSpill) -> None:
        """Release the memory of what `spill.write` has written."""
        for _ in self._derived.finish_spill(spill):
            pass

    def finish_spill_slowly(self, spill: IndexSpill) -> "Iterator[None]":
        """Do the same as `finish_spill`, in steps of about a millisecond, between which other tasks may run."""
        return self._derived.finish_spill(spill)

    def give_up_spill(self, spill: IndexSpill) -> None:
        self._derived.give_up_spill(spill)

    def prepare_checkpoint(self) -> "Callable[[], None]":
        """Return a function that writes how far the log and the indexes are durable, for a thread."""
        durable = min(self._log.synced, self.spill_limit)
        checkpoint: dict[str, Any] = {
            "durable": durable,
            "stored_ms": self._last_ms,
            **self._derived.checkpoint_content(),
        }
        if self._operations.epoch_marks:
            checkpoint["epochs"] = len(self._operations.epoch_marks)
        # These are written first: no replay will reach what lies below the checkpoint.
        write_files = self._operations.prepare_files(self._index, self.spill_limit)

        def write() -> None:
            if write_files is not None:
                write_files()
            side_files.write_side_file(self._root, _CHECKPOINT, checkpoint)

        return write

    def save_checkpoint(self) -> None:
        self.prepare_checkpoint()()

    def expired_segments(self, before_ms: int) -> int:
        """Return how many of the oldest segments hold only messages stored before that time. Reads, so for a thread."""
        expired = 0
        for count, following in enumerate(self._log.segment_bases[1:], start=1):
            if following > self.spill_limit:
                break  # the index does not cover all that would be removed
            try:
                is_empty = following == self._log.log_end
                first_ms = self._last_ms if is_empty else self._log.head_at(following).stored_ms
            except BadRecord:
                continue  # the next one says whether this one is old too
            if first_ms >= before_ms:
                break
            expired = count
        return expired

    @property
    def last_stored_ms(self) -> int:
        return self._last_ms

    @property
    def log_start(self) -> int:
        return self._log.log_start

    @property
    def segment_count(self) -> int:
        return len(self._log.segment_bases)

    @property
    def appended_records(self) -> int:
        """Return how many records were appended since the store was opened."""
        return self._log.appended_records

    @property
    def skipped_bytes(self) -> int:
        """Return how many bytes recovery stepped over."""
        return self._recovery.skipped_bytes

    @property
    def torn_bytes(self) -> int:
        """Return how many bytes recovery cut off as a torn tail."""
        return self._recovery.torn_bytes

    @property
    def files_set_aside(self) -> int:
        """Return how many files of cut-off or stepped-over bytes there were at the start, from that recovery or earlier
        ones.
        """
        return self._set_aside_files

    def roll_segment(self) -> None:
        self._log.roll_segment()

    def prepare_removal(self, count: int) -> SegmentRemoval:
        """Hide the messages of the oldest segments. The segments stay until that is durable: else a queue without
        messages would begin again at 0.
        """
        return SegmentRemoval(count, self._index.prepare_drop(self.segment_end(count), self.spill_limit))

    def finish_removal(self, removal: SegmentRemoval) -> list[tuple[str, int]]:
        """Drop the segments after `removal.write` is done, and return the lite topics whose last messages went with
        them, and where their queues ended.

        Their files wait for `delete_removed`.
        """
        self._log.detach_segments(removal.count)
        return self._derived.drop_before(self._log.log_start)

    def delete_removed(self) -> None:
        """Delete the files of what was removed. For a thread. OSError: those that are left are deleted the next time.

        The log's files go first: a start drops index files without a segment, but must read a segment without an index.
        """
        self._log.delete_detached()
        self._index.delete_detached()

    def forget_topic(self, topic: str, version: int = 0) -> "Callable[[], None]":
        """Hide all messages of a deleted topic, and return a function that makes that durable, for a thread.

        Its timers never appear; the caller settles its half messages. `version` is the registry's. In a replicated
        store the deletion is durable as soon as the log is acknowledged up to its present end. OSError.
        """
        if self.is_replicated:
            self._write_operation(StoreOperation(OperationKind.TOPIC_FORGOTTEN, version, topic))
            return _do_nothing
        finish_topic = self._operations.forget_topic(topic, self._log.log_start, self._log.log_end)
        finish_index = self._index.forget_topic(topic)

        def finish() -> None:
            finish_topic()
            finish_index()

        return finish

    def purge_queue(self, topic: str, queue_id: int, below: int) -> "Callable[[], None]":
        """Hide all messages of the queue below that offset, and return a function that makes that durable, for a
        thread.

        Timers and half messages are in no queue yet and stay. A crash while several queues are purged leaves each
        purged or not purged. In a replicated store it is durable as with `forget_topic`.
        """
        if not self.is_replicated:
            return self._index.purge_queue(topic, queue_id, below)
        if self.queue_bounds(topic, queue_id)[0] < below:
            self._write_operation(StoreOperation(OperationKind.PURGED, below, topic, queue_id))
        return _do_nothing

    def forget_group(self, group: str, version: int) -> None:
        """Write to the log of a replicated store that the group was deleted in that version of the registry, so that
        other replicas note it. OSError.
        """
        if self.is_replicated:
            self._write_operation(StoreOperation(OperationKind.GROUP_FORGOTTEN, version, group))

    def _write_operation(self, operation: StoreOperation) -> None:
        """Write the operation to the log, and apply it."""
        [location] = self.append_drafts([operation.to_draft()], self._last_ms)
        self._operations.apply_operation(operation, location.log_offset, self._log.log_end, self._index)

    def continue_queue_at(self, topic: str, queue_id: int, end: int) -> None:
        """Have the queue continue at `end` at least, so that no offset is given twice. For a repair."""
        self._index.continue_queue_at(topic, queue_id, end, max(self._log.log_start, self._log.log_end - 1))

    def begin_queues_at(self, low_watermarks: "Iterable[tuple[str, int, int, int]]") -> None:
        """Set low watermarks, for a repair: topic, queue id, the offset below which nothing is left, and the one where
        the queue began.
        """
        for low_watermark in low_watermarks:
            self._index.set_low_watermark(*low_watermark)
        self._index.write_low_watermarks()

    def is_forgotten(self, topic: str, log_offset: int) -> bool:
        """Tell whether the topic was deleted after the record at that log offset was stored for it."""
        return log_offset < self._operations.forgotten.get(topic, 0)

    # --- replicas

    @property
    def key(self) -> int:
        """The log's key: the same in all replicas, different in other stores."""
        return self._log.layouts.key

    @property
    def vouch_limit(self) -> int:
        """The log offset up to which appended records vouch for the log: what all in-sync replicas have durable."""
        return self._log.vouch_limit

    @vouch_limit.setter
    def vouch_limit(self, log_offset: int) -> None:
        self._log.vouch_limit = log_offset

    @property
    def on_append(self) -> "Callable[[], None] | None":
        """The callback that runs after each append, in the appending thread."""
        return self._log.on_append

    @on_append.setter
    def on_append(self, tell: "Callable[[], None] | None") -> None:
        self._log.on_append = tell

    @property
    def epoch_marks(self) -> list[tuple[int, int]]:
        """The epochs and the log offsets where their marks begin; the newest thousand, in the log's order."""
        return list(self._operations.epoch_marks)

    def begin_epoch(self, epoch: int) -> "Callable[[], None]":
        """Begin this replica's leadership: what is appended behind the epoch mark is its own.

        Returns a function that makes the mark and all that was copied durable, for a thread. The caller has noted all
        deletions of the log before (`pending_deletions`). OSError.
        """
        assert not self._operations.epoch_marks or self._operations.epoch_marks[-1][0] < epoch
        self._apply_join_state(NO_LIMIT)
        self._write_operation(StoreOperation(OperationKind.EPOCH, epoch))
        self._operations.confirm_noted()
        write_marks = self._operations.prepare_epochs()
        believe = self._catching_up.end_catching_up() if self._catching_up.is_under_way else None

        def finish() -> None:
            self.sync_log()
            write_marks()
            if believe is not None:
                believe()

        return finish

    def pending_deletions(self) -> "list[RegistryDeletion]":
        """Return all deletions in the log, acknowledged or not, that are not known to be noted."""
        return self._operations.take_unnoted_deletions()

    def join_state(self) -> JoinState:
        """Return what another store must know to begin as a copy of this one."""
        return JoinState(
            key=self._log.layouts.key,
            layout_1_below=self._log.layouts.layout_1_below,
            log_start=self._log.log_start,
            log_end=self._log.log_end,
            low_watermarks=self._index.low_watermarks(self.spill_limit),
            forgotten=self._operations.acknowledged_forgotten(self.spill_limit),
            accepted=self._accepted.sorted_ranges(),
            epochs=self.epoch_marks,
        )

    def _apply_join_state(self, log_end: int) -> None:
        """Apply what the leader knew when this copy began, as soon as the log has reached that point."""
        if self._join_state and self._join_state["end"] <= log_end:
            # JSON has lists where there were tuples.
            floors = [(topic, queue_id, first, origin) for topic, queue_id, first, origin in self._join_state["floors"]]
            self._index.raise_low_watermarks(floors)
            for topic, end in self._operations.forgotten.items():
                if end > self._log.log_start:  # for queues that only the watermarks mention
                    self._index.forget_topic_at(topic, end, end)
            self._join_state = {}
            self._operations.require_files(min(self._log.log_end, self.spill_limit))

    def log_bytes(self, log_offset: int, size_max: int, *, may_block: bool) -> tuple[int, bytes]:
        """Return, for a follower, where the segment with that log offset begins, and up to `size_max` bytes from the
        offset on.

        The bytes end at the segment's end at most; none at the log's end. BadRecord if retention has removed them.
        WouldBlock.
        """
        try:
            return self._log.bytes_at(log_offset, size_max, may_block=may_block)
        except OSError:
            self.damage.report_damage(log_offset, 0)
            raise

    def whole_bytes(self, data: bytes) -> int:
        """Return how many of these bytes, which continue the log at its end, are whole records; keep the rest until
        more arrive. BadRecord: they are no records.
        """
        return count_whole_bytes(data, self._log.log_end, self._log.layouts, self._accepted)

    def append_copied(self, base: int, data: bytes) -> CopyResult:
        """Append whole records of the leader's log, which continue this log at its end. `base` is where their segment
        begins there.

        OSError: nothing was appended. BadCopy: they can't be right; the log is unchanged, and the store must be
        reopened.
        """
        taking = self._copy_taking
        if taking is None:
            skipped = self._recovery.skipped_bytes
            taking = LogCopy(self._log, self._derived, self._operations, self._accepted, skipped)
            self._copy_taking = taking
        self._operations.confirm_noted()
        count = taking.append_copied(base, data)
        self._last_ms = max(self._last_ms, taking.stored_ms)
        self._apply_join_state(self._log.log_end)
        return CopyResult(self._log.log_end, count, self._operations.take_unnoted_deletions(self.spill_limit))

    def begin_catching_up(self) -> "Callable[[], None]":
        """Note that the leader does not count this replica in sync, and return a function that makes that durable; a
        thread calls it before any bytes are taken.

        Records from the log's end on say nothing about what is durable here.
        """
        return self._catching_up.begin_catching_up(self._log.log_end)

    def end_catching_up(self) -> "Callable[[], None]":
        """End the catching up, and return a function that makes that durable, for a thread.

        The caller knows that all earlier bytes are durable here, and that later ones were written while this replica
        was in sync.
        """
        return self._catching_up.end_catching_up()

    @property
    def is_catching_up(self) -> bool:
        return self._catching_up.is_under_way

    def count_removable(self, log_start: int) -> int:
        """Return, for a follower, how many of the oldest segments lie below the leader's log start and can be removed
        now (`prepare_removal`, after a spill of everything).
        """
        limit = min(log_start, self._log.synced, self.spill_limit)
        return sum(following <= limit for following in self._log.segment_bases[1:])

    def close(self) -> None:
        """Sync the log, write the whole index, and close the files, so that the next start has nothing to recover.

        OSError: something was not written. The store is still open; close it again when there is room, or abandon it.
        """
        self._log.sync_segments()
        while job := self.prepare_spill(entries_min=0):
            try:
                job.write()
            except OSError:
                self.give_up_spill(job)
                raise
            self.finish_spill(job)
        self.save_checkpoint()
        self.abandon_files()

    def abandon_files(self) -> None:
        """Close the files as they are. After a failed sync nothing may be promised: a second sync would succeed, though
        the kernel has dropped what the first could not write.
        """
        self._log.close()
        self._derived.close()
        self._durable_watermarks.close()


def _do_nothing() -> None:
    """Do nothing: the log has the operation already."""


def _as_dict(content: object) -> dict[str, Any]:
    return content if isinstance(content, dict) else {}


def _ranges(content: object) -> list[tuple[int, int]]:
    return [(begin, end) for begin, end in content] if isinstance(content, list) else []
