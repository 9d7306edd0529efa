"""The store of one broker: the commit log, its indexes, and the checkpoint, as one thing that opens, appends and reads.

Layout of the store's folder: `commitlog/`, `index/`, `timers/`, `checkpoint`, `forgotten`, `lock` (design section 5).
Checkpoint  what was known durable, and what the indexes have beside their files, as JSON. Absent or stale it is never
            wrong, only slower and less watchful.
Forgotten   for topics that were deleted, where the log ended then, as JSON: their timers below that never appear.
Threads     one thread owns the store. `sync` and `read_cold` may run in others.
"""

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ternmq_broker.store.commit_log import CommitLog
from ternmq_broker.store.derived import Derived, Spill, keys_of
from ternmq_broker.store.queue_index import Location
from ternmq_broker.store.record import HEADER_BYTES, BadRecord, Kind, Origin, Record, decode, stored_ms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_broker.store.files import Folder
    from ternmq_broker.store.half_index import HalfIndex
    from ternmq_broker.store.timer_index import TimerIndex
    from ternmq_common.model import HeldTopic

_CHECKPOINT = "checkpoint"
_FORGOTTEN = "forgotten"
# A batch's records are read as one piece while the gaps between them cost less than reading each by itself.
_SPAN_FACTOR = 4


class StoreFolders(Protocol):
    """Where a store keeps its files."""

    @property
    def root(self) -> "Folder": ...
    @property
    def commit_log(self) -> "Folder": ...
    @property
    def index(self) -> "Folder": ...
    @property
    def timers(self) -> "Folder": ...


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message to be stored; see `ternmq_common.model.NewMessage` for `system`, `rest` and `keys`."""

    tag_hash: int
    system: bytes
    rest: bytes
    keys: "tuple[str, ...]"


NO_MESSAGE = Incoming(0, b"", b"", ())
"""What an operation or a tombstone holds."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that is to be stored; see `record` for the kinds, the origin and the sender. `due_ms` is a timer's."""

    kind: Kind
    topic: str
    queue_id: int
    message: Incoming
    due_ms: int = 0
    origin: Origin | None = None
    sender: str = ""


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """The queue offset of a batch's first message, and where the log ends behind its last."""

    first_offset: int
    log_end: int


class MessageStore:
    """Appends batches, finds and reads messages. What `append` wrote is durable once `synced` has passed its end."""

    def __init__(self, folders: StoreFolders, *, segment_bytes: int, accept_corruption: bool = False) -> None:
        self._root = folders.root
        checkpoint = self._json(_CHECKPOINT)
        self._forgotten: dict[str, int] = self._json(_FORGOTTEN)
        self._log = CommitLog(folders.commit_log, segment_bytes=segment_bytes)
        self._derived = Derived(folders.index, folders.timers)
        self._index = self._derived.index
        self._last_ms: int = checkpoint.get("stored_ms", 0)
        self._derived.load(checkpoint, self._log.segment_bases, self._log.end)
        self.recovered = self._recover(checkpoint.get("durable", 0), accept_corruption=accept_corruption)

    def _recover(self, durable: int, *, accept_corruption: bool) -> int:
        covered = self._derived.covered
        count = 0
        durable = max(durable, covered)
        for placed in self._log.recover(since=covered, durable=durable, accept_corruption=accept_corruption):
            self._derived.replay(placed)
            self._last_ms = max(self._last_ms, placed.record.stored_ms)
            count += 1
        self._index.load_floors()
        return count

    def _json(self, name: str) -> dict[str, Any]:
        content = self._root.content(name)
        if content is not None:
            with contextlib.suppress(ValueError):
                found = json.loads(content)
                if isinstance(found, dict):
                    return found
        return {}

    @property
    def timers(self) -> "TimerIndex":
        return self._derived.timers

    @property
    def halves(self) -> "HalfIndex":
        return self._derived.halves

    # --- writing

    def append(self, topic: str, queue_id: int, messages: "Sequence[Incoming]", now_ms: int) -> AppendedBatch:
        """Store the messages at the end of the queue; OSError: none of them was stored."""
        stored_ms = self._last_ms = max(now_ms, self._last_ms)
        queue = self._index.queue(topic, queue_id)
        first = queue.end
        records = [
            Record(
                Kind.MESSAGE,
                topic,
                queue_id,
                first + number,
                stored_ms,
                message.tag_hash,
                message.system,
                message.rest,
            )
            for number, message in enumerate(messages)
        ]
        began = self._log.append(records)
        ends = [*began[1:], self._log.end]
        for message, log_offset, end in zip(messages, began, ends, strict=True):
            self._index.add(queue, log_offset, end - log_offset, message.tag_hash, message.keys)
        return AppendedBatch(first, self._log.end)

    def append_drafts(self, drafts: "Sequence[Draft]", now_ms: int) -> list[Location]:
        """Store records of any kind, of any queues, in order; where each is. OSError: none of them was stored."""
        stored_ms = self._last_ms = max(now_ms, self._last_ms)
        ends: dict[tuple[str, int], int] = {}
        records = [self._drafted(draft, stored_ms, ends) for draft in drafts]
        began = self._log.append(records)
        located: list[Location] = []
        for draft, record, log_offset, end in zip(drafts, records, began, [*began[1:], self._log.end], strict=True):
            size = end - log_offset
            if record.kind is Kind.MESSAGE:
                queue = self._index.queue(record.topic, record.queue_id)
                self._index.add(queue, log_offset, size, record.tag_hash, draft.message.keys)
            self._derived.note(record, log_offset, size)
            located.append(Location(log_offset, size, record.tag_hash))
        return located

    def _drafted(self, draft: Draft, stored_ms: int, ends: dict[tuple[str, int], int]) -> Record:
        queue_offset = draft.due_ms
        if draft.kind is Kind.MESSAGE:
            key = (draft.topic, draft.queue_id)
            queue_offset = ends.get(key) or self._index.queue(*key).end
            ends[key] = queue_offset + 1
        message = draft.message
        return Record(
            draft.kind,
            draft.topic,
            draft.queue_id,
            queue_offset,
            stored_ms,
            message.tag_hash,
            message.system,
            message.rest,
            draft.origin,
            draft.sender,
        )

    @property
    def end(self) -> int:
        return self._log.end

    @property
    def synced(self) -> int:
        return self._log.synced

    def sync(self) -> int:
        """Make durable what was appended before the call; returns up to which log offset. For the flusher's thread."""
        return self._log.sync()

    # --- reading

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first queue offset that is held, and the one after the last."""
        return self._index.bounds(topic, queue_id)

    def topics(self) -> "dict[str, HeldTopic]":
        """All topics of which messages are left, with those that are in no queue yet left out."""
        return self._index.topics()

    def is_complete(self, topic: str, queue_id: int) -> bool:
        """Whether the queue still has every message since its topic was made."""
        return self._index.is_complete(topic, queue_id)

    def locate(self, topic: str, queue_id: int, offset: int, count: int, *, may_block: bool) -> list[Location]:
        """Where up to `count` messages from `offset` on are; with `may_block` false, WouldBlock instead of waiting."""
        return self._index.locate(topic, queue_id, offset, count, may_block=may_block)

    def read(self, locations: "Sequence[Location]", *, may_block: bool) -> list[Record | None]:
        """The records, in order; None where one was lost or can't be read. WouldBlock as in `locate`."""
        held = [location for location in locations if location.size]
        if not held:
            return [None] * len(locations)
        start = held[0].log_offset
        span = held[-1].log_offset + held[-1].size - start
        window = b""
        if span <= _SPAN_FACTOR * sum(location.size for location in held):
            with contextlib.suppress(BadRecord):
                window = self._log.read(start, span, may_block=may_block)
        return [self._record(location, start, window, may_block=may_block) for location in locations]

    def _record(self, location: Location, start: int, window: bytes, *, may_block: bool) -> Record | None:
        if not location.size:
            return None
        at = location.log_offset - start
        data = window[at : at + location.size]
        try:
            if len(data) < location.size:
                data = self._log.read(location.log_offset, location.size, may_block=may_block)
            return decode(data)
        except BadRecord:
            return None

    def offset_at(self, topic: str, queue_id: int, time_ms: int) -> int:
        """The first offset stored at or after that time, the end if there is none. Reads, so for a thread."""
        low, high = self.bounds(topic, queue_id)
        while low < high:
            middle = (low + high) // 2
            (location,) = self.locate(topic, queue_id, middle, 1, may_block=True)
            if stored_ms_of(self._log.read(location.log_offset, HEADER_BYTES)) < time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """When the message at that offset, or the first one that is left, was stored. Reads, so for a thread."""
        first, end = self.bounds(topic, queue_id)
        at = max(first, offset)
        found = self.locate(topic, queue_id, at, 1, may_block=True) if at < end else []
        return stored_ms_of(self._log.read(found[0].log_offset, HEADER_BYTES)) if found and found[0].size else None

    def find_by_key(self, topic: str, key: str, limit: int) -> list[Record]:
        """The newest messages of the topic with that key or message id. Reads, so for a thread."""
        found: list[Record] = []
        for log_offset in self._index.candidates(topic, key):
            with contextlib.suppress(BadRecord):
                record = self._log.record_at(log_offset)
                is_held = record.queue_offset >= self.bounds(topic, record.queue_id)[0]
                if record.topic == topic and is_held and key in keys_of(record.system):
                    found.append(record)
            if len(found) == limit:
                break
        return found

    def record_at(self, log_offset: int) -> Record | None:
        """The record of any kind that begins there, None if none does. Reads, so for a thread."""
        try:
            return self._log.record_at(log_offset) if 0 <= log_offset < self._log.end else None
        except BadRecord:
            return None

    def descendant(self, topic: str, key: str, origin: int) -> Record | None:
        """The message of the topic with that key or id that came of the record at log offset `origin`. Reads, so for a
        thread."""
        for log_offset in self._index.candidates(topic, key):
            record = self.record_at(log_offset)
            if record is not None and record.topic == topic and record.origin == Origin(origin):
                return record
        return None

    def segment_end(self, count: int) -> int:
        """Where the log would begin without its oldest `count` segments."""
        return self._log.segment_bases[count]

    # --- housekeeping

    def prepare_spill(self, *, entries_min: int) -> Spill | None:
        """What is to be written of the indexes, when at least that many entries are in memory."""
        if self._derived.entries_in_memory < entries_min:
            return None
        return self._derived.prepare_spill(self._log.segment_bases, self._log.synced)

    def finish_spill(self, spill: Spill) -> None:
        self._derived.finish_spill(spill)

    def give_up_spill(self, spill: Spill) -> None:
        self._derived.give_up_spill(spill)

    def prepare_checkpoint(self) -> "Callable[[], None]":
        """What is returned remembers how far the log is durable, and how far the indexes are; in a thread."""
        checkpoint = {"durable": self._log.synced, "stored_ms": self._last_ms, **self._derived.checkpoint()}
        return lambda: self._root.replace(_CHECKPOINT, json.dumps(checkpoint).encode())

    def save_checkpoint(self) -> None:
        self.prepare_checkpoint()()

    def expired_segments(self, before_ms: int) -> int:
        """How many of the oldest segments hold only messages stored before that time. Reads, so for a thread."""
        bases = self._log.segment_bases
        count = 0
        for following in bases[1:]:
            try:
                head = self._log.read(following, HEADER_BYTES)
                first_ms = stored_ms_of(head) if len(head) == HEADER_BYTES else self._last_ms
            except BadRecord:
                break
            if first_ms >= before_ms:
                break
            count += 1
        return count

    @property
    def last_stored_ms(self) -> int:
        return self._last_ms

    @property
    def start(self) -> int:
        return self._log.start

    @property
    def segments(self) -> int:
        return len(self._log.segment_bases)

    @property
    def records(self) -> int:
        """How many were appended since the store was opened."""
        return self._log.records

    @property
    def skipped_bytes(self) -> int:
        """What recovery stepped over."""
        return self._log.skipped_bytes

    def roll(self) -> None:
        self._log.roll()

    def remove_segments(self, count: int) -> "Callable[[], None]":
        """Forget the oldest segments at once; what is returned deletes their files, in a thread."""
        delete_segments = self._log.detach_segments(count)
        finish_index = self._derived.drop_before(self._log.start)

        def finish() -> None:
            finish_index()
            delete_segments()

        return finish

    def forget_topic(self, topic: str) -> "Callable[[], None]":
        """No message of the topic can be found any more, and its timers never appear; half messages are the caller's to
        settle. What is returned makes that last, in a thread."""
        self._forgotten = {name: end for name, end in self._forgotten.items() if end > self._log.start}
        self._forgotten[topic] = self._log.end
        content = json.dumps(self._forgotten).encode()
        finish_index = self._index.forget_topic(topic)

        def finish() -> None:
            self._root.replace(_FORGOTTEN, content)
            finish_index()

        return finish

    def is_forgotten(self, topic: str, log_offset: int) -> bool:
        """Whether the topic was deleted after the record at that place was stored for it."""
        return log_offset < self._forgotten.get(topic, 0)

    def close(self) -> None:
        """Leave nothing to be recovered: everything durable, the whole index on disk."""
        self._log.sync()
        while job := self.prepare_spill(entries_min=0):
            job.write()
            self.finish_spill(job)
        self.save_checkpoint()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are. After a failed sync nothing may be promised: a second one would succeed,
        though the kernel has dropped what the first could not write."""
        self._log.close()
        self._derived.close()
