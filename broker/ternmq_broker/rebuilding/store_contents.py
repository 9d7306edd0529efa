"""The topics and groups of a store that no process has open, for a registry that has lost them.

Topics      Those of the index, with the queues up to the last used one; timers and half messages, which are in
            no queue yet, are all read.
Type        That of the newest message, among the first and the last of each queue: reading the whole log would take
            hours, and all messages of a topic have its type.
Lite        Queues of lite topics belong to their LITE topic, which is LITE regardless of its own messages.
Groups      Those of the consumption journal, and of the names of retry and dead letter topics. No file says whether a
            group is FIFO: it counts as FIFO if all topics that it consumed are, and nothing of it was ever retried. One
            that consumed lite topics counts as a lite group, bound to the LITE topic of most of them.
"""

from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from ternmq_broker.store.disk.overlay import OverlayFolders
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store_opening import startup_errors
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.names import RETRY_PREFIX, group_of_derived, is_lite_queue, is_system_topic, lite_parent
from ternmq_common.shard.model import MIXED, RETRY_QUEUE_ID
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.store.journal.progress_journal import QueueKey
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.timers.timer_run import Key

_SCAN_BATCH = 4096


@dataclass(slots=True)
class StoredTopic:
    """A topic as the store has it.

    `waiting` counts timers and half messages; `first_ms` is when the oldest of the messages that were read was stored.
    One with messages of several types takes all that such a topic does. One with lite topics (`has_lite`) is LITE.
    """

    name: str
    queues: int = 1
    messages: int = 0
    waiting: int = 0
    first_ms: int = 0
    has_lite: bool = False
    _type: "MessageType" = MessageType.NORMAL
    _newest_ms: int = -1
    _types: "set[MessageType]" = field(default_factory=set)

    @property
    def type(self) -> "MessageType":
        return MessageType.LITE if self.has_lite else self._type

    @property
    def is_mixed(self) -> bool:
        return not self.has_lite and len(self._types) > 1 and self._types <= set(MIXED)

    def learn_from(self, record: "Record") -> None:
        """Take type and time from one of its messages."""
        self.first_ms = min(self.first_ms or record.stored_ms, record.stored_ms)
        kind = _type_of(record)
        self._types.add(kind)
        if record.stored_ms > self._newest_ms:
            self._type, self._newest_ms = kind, record.stored_ms


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as the store has it; `is_fifo` is a guess, as is the LITE topic to which it is bound (`bind`)."""

    name: str
    is_fifo: bool
    bind: str | None = None


@dataclass(frozen=True, slots=True)
class StoreContents:
    """The topics and groups of a store, in the order of their names."""

    topics: list[StoredTopic]
    groups: list[StoredGroup]


@contextmanager
def open_contents(settings: "BrokerSettings") -> "Iterator[StoreContents]":
    """Read the contents of the store, without a change; no other process can open it until the block ends. Blocks.
    StartupError as for a start.
    """
    folder = settings.folder
    with ExitStack() as held:
        with startup_errors(folder):
            held.enter_context(StoreLock(folder))
            folders = held.enter_context(OverlayFolders(folder))
            store = MessageStore(
                folders, segment_bytes=settings.segment_bytes, accept_corruption=settings.accept_corruption
            )
            progress = ProgressJournal(folders.consumption).queue_snapshots()
        topics = stored_topics(store)
        yield StoreContents(
            [topic for name, topic in sorted(topics.items()) if group_of_derived(name) is None],
            stored_groups(topics, progress),
        )


def stored_topics(store: "MessageStore") -> dict[str, StoredTopic]:
    """Return all topics that have anything left, with the retry and dead letter topics of groups."""
    topics: dict[str, StoredTopic] = {}
    for name, held in store.indexes.queues.held_topics().items():
        if not is_system_topic(name):
            topic = topics[name] = StoredTopic(name, held.queues, held.messages)
            for record in _first_and_last(store, name, held.queues):
                topic.learn_from(record)
    for lite_queue in store.indexes.queues.lite_topics():
        if lite_parent(lite_queue) in topics:  # else nothing is left of any of them
            topic = _topic_of(lite_queue, topics)
            for record in _first_and_last(store, lite_queue, 1):
                topic.learn_from(record)
    for record in _waiting_records(store):
        topic = _topic_of(record.topic, topics)
        topic.queues = max(topic.queues, record.queue_id + 1)
        topic.waiting += 1
        topic.learn_from(record)
    return topics


def _topic_of(stored: str, topics: dict[str, StoredTopic]) -> StoredTopic:
    """Return the registry's topic to which that topic of the store belongs."""
    name = lite_parent(stored)
    topic = topics.setdefault(name, StoredTopic(name))
    topic.has_lite |= is_lite_queue(stored)
    return topic


def stored_groups(topics: "dict[str, StoredTopic]", progress: "Iterable[QueueKey]") -> list[StoredGroup]:
    """Return the groups of the journal's progress, and of the retry and dead letter topics."""
    consumed: dict[str, set[str]] = {}
    retrying = {name.removeprefix(RETRY_PREFIX) for name in topics if name.startswith(RETRY_PREFIX)}
    for name in topics:
        if (group := group_of_derived(name)) is not None:
            consumed.setdefault(group, set())
    for group, topic, queue_id in progress:
        consumed.setdefault(group, set()).add(topic)
        if queue_id == RETRY_QUEUE_ID:
            retrying.add(group)
    return [
        StoredGroup(
            group,
            bool(names) and group not in retrying and all(_is_fifo(topics.get(name)) for name in names),
            _bound_to(names),
        )
        for group, names in sorted(consumed.items())
    ]


def _bound_to(consumed: "Iterable[str]") -> str | None:
    """Return the LITE topic of most of the lite topics among them, None if there are none."""
    counted = Counter(lite_parent(name) for name in sorted(consumed) if is_lite_queue(name))
    return max(counted, key=counted.__getitem__, default=None)


def _is_fifo(topic: StoredTopic | None) -> bool:
    return topic is not None and topic.type == MessageType.FIFO


def _first_and_last(store: "MessageStore", topic: str, queues: int) -> "Iterator[Record]":
    for queue_id in range(queues):
        first, end = store.indexes.queues.queue_bounds(topic, queue_id)
        for offset in sorted({first, end - 1}) if first < end else ():
            located = store.indexes.queues.locate_messages(topic, queue_id, offset, 1, may_block=True)
            yield from filter(None, store.reader.read_records(located, may_block=True))


def _waiting_records(store: "MessageStore") -> "Iterator[Record]":
    """Yield pending timers, and half messages."""
    position: Key | None = (0, 0)
    while position is not None:
        job = store.indexes.timers.prepare_scan(store.log.log_end, start=position, limit=_SCAN_BATCH)
        job.run_job()
        entries, position = store.indexes.timers.finish_scan(job)
        yield from _existing_records(store, (entry.log_offset for entry in entries))
    yield from _existing_records(store, list(store.indexes.halves.waiting))


def _existing_records(store: "MessageStore", log_offsets: "Iterable[int]") -> "Iterator[Record]":
    for log_offset in log_offsets:
        record = store.reader.read_record_at(log_offset)
        if record is not None and not store.deletions.is_forgotten(record.topic, log_offset):
            yield record


def _type_of(record: "Record") -> "MessageType":
    """Return the message's type; NORMAL if it has none that is known."""
    properties = definition_pb2.SystemProperties()
    with suppress(DecodeError):
        properties.ParseFromString(record.system)
    return MessageType(properties.message_type or MessageType.NORMAL)
