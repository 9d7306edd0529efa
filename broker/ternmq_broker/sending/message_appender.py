"""Appends messages: all requests of one turn of the event loop are one write to the log, and wait for one sync.

Each request is stored whole or not at all, and gets its own result. Some topics have a flush mode of their own, and in
a shard with replicas some topics do not wait for these: their requests are answered earlier or later than the others,
and become readable with the others.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.disk.files import WouldBlock, WriteNotUndone
from ternmq_broker.store.record_writer import AppendBatch
from ternmq_common.catalog.cluster import FlushMode
from ternmq_common.errors import MessagingError
from ternmq_common.event_loop.callbacks import call_back, wait_until_stored
from ternmq_common.event_loop.turn_end import TurnEnd, turn_end
from ternmq_common.names import is_lite_queue, lite_parent
from ternmq_common.shard.model import Stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.upkeep.disk_room import DiskErrors
    from ternmq_common.clock import SystemClock
    from ternmq_common.receiving.poll_queues import PollQueues
    from ternmq_common.shard.model import NewMessage, QueueRef
    from ternmq_runtime.observability.name_counts import NameCounts

_Requests = list[tuple[AppendBatch, Stored]]
_AnswerMode = tuple[bool, FlushMode | None]
"""When a topic's requests are answered: whether that does not wait for other replicas, and the topic's flush mode."""
_DEFAULT_MODE: Final[_AnswerMode] = (False, None)
# More is written at once, so that one write keeps the loop busy for a few milliseconds only.
GATHERED_BYTES_MAX: Final = 256 << 10


class MessageAppender:
    """Appends to the queues of one broker. `check` raises while messages of a topic are refused."""

    def __init__(
        self,
        store: "MessageStore",
        flusher: "LogFlusher",
        pollers: "PollQueues",
        clock: "SystemClock",
        errors: "DiskErrors",
        sent: "NameCounts",
        check: Callable[[str], None],
    ) -> None:
        self._log = store.log
        self._writer = store.writer
        self._queues = store.indexes.queues
        self._flusher = flusher
        self._pollers = pollers
        self._clock = clock
        self._errors = errors
        self._sent = sent
        self._check = check
        self._pending_requests: _Requests = []
        self._bytes = 0
        self.answers_alone: Callable[[str], bool] = _waits_for_replicas
        """Whether requests of that topic do not wait for other replicas; called only if there are any."""
        self.flush_of: Callable[[str], FlushMode | None] = _use_broker_mode
        """The flush mode of that topic, None: the broker's."""
        self.lite_refusal: Callable[[str], MessagingError | None] = _allow_lite_topic
        """The error that refuses a new lite topic whose queue has that topic, or None."""
        self._turn_end: TurnEnd

    def start(self) -> None:
        self._turn_end = turn_end()

    def append_nowait(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: Stored) -> None:
        """Store the messages, in order, by the end of this turn; `done` is called with the result."""
        if is_lite_queue(queue.topic):
            refusal = self.lite_refusal(queue.topic)
            if refusal is not None:
                call_back(done, 0, refusal)
                return
        if not self._pending_requests:
            self._turn_end.add_work(self._store_all)
        self._pending_requests.append((AppendBatch(queue.topic, queue.queue_id, messages), done))
        for message in messages:
            self._bytes += len(message.rest)
        if self._bytes > GATHERED_BYTES_MAX:
            self._store_all()

    async def append(self, queue: "QueueRef", messages: "Sequence[NewMessage]") -> int:
        """Store the messages, in order; returns the queue offset of the first when they may be acknowledged."""
        return await wait_until_stored(partial(self.append_nowait, queue, messages))

    def find_log_offsets(self, queue: "QueueRef", first: int, count: int) -> list[int]:
        """Return the log offsets of messages that were stored a moment ago, -1 for those that would need a read."""
        try:
            located = self._queues.locate_messages(queue.topic, queue.queue_id, first, count, may_block=False)
        except WouldBlock:
            located = []
        return [each.log_offset for each in located] + [-1] * (count - len(located))

    def _store_all(self) -> None:
        came, self._pending_requests, self._bytes = self._pending_requests, [], 0
        if came:
            self._store_together(came)

    def _store_together(self, came: _Requests) -> None:
        before = self._log.log_end
        try:
            for topic in {lite_parent(batch.topic) for batch, _ in came}:
                self._check(topic)
            firsts = self._writer.append_batches([batch for batch, _ in came], self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 - the caller gets it, and logs it if unexpected
            is_undone = not isinstance(error, WriteNotUndone)
            self._refuse_requests(
                came, self._errors.make_refusal(error), apart=is_undone and self._log.log_end == before
            )
            return
        for batch, _ in came:
            self._sent.add_count(lite_parent(batch.topic), len(batch.messages))
        ways = {topic: self._answer_mode_of(topic) for topic in {batch.topic for batch, _ in came}}
        if any(way != _DEFAULT_MODE for way in ways.values()):
            self._answer_apart(came, firsts, ways)
            return
        self._flusher.when_acknowledged(self._log.log_end, partial(self._acknowledge_all, came, firsts))

    def _answer_mode_of(self, topic: str) -> _AnswerMode:
        topic = lite_parent(topic)
        return self._flusher.is_limited and self.answers_alone(topic), self.flush_of(topic)

    def _answer_apart(self, came: _Requests, firsts: list[int], ways: dict[str, _AnswerMode]) -> None:
        """Answer the requests of each topic when its flush mode and replication allow it."""
        end = self._log.log_end
        for way in set(ways.values()):
            numbers = [number for number, (batch, _) in enumerate(came) if ways[batch.topic] == way]
            some, theirs = [came[number] for number in numbers], [firsts[number] for number in numbers]
            if way == _DEFAULT_MODE:
                self._flusher.when_acknowledged(end, partial(self._acknowledge_all, some, theirs))
            else:
                alone, mode = way
                self._flusher.when_acknowledged(
                    end, partial(self._answer_requests, some, theirs), alone=alone, mode=mode
                )
                self._flusher.when_readable(end, partial(self._wake_pollers, some))

    def _refuse_requests(self, came: _Requests, error: Exception, *, apart: bool) -> None:
        """Refuse requests that could not be stored together; with `apart` try each by itself first.

        `apart` says that nothing was written: the disk may have room for one request where it had none for all, and an
        error in one request must not fail the others.
        """
        is_refusal = isinstance(error, MessagingError) and not isinstance(error.__cause__, OSError)
        if apart and len(came) > 1 and not is_refusal:
            for each in came:
                self._store_together([each])
            return
        for _, done in came:
            call_back(done, 0, error)

    def _acknowledge_all(self, came: _Requests, firsts: list[int], error: MessagingError | None) -> None:
        readable: dict[str, int] = {}
        for (batch, done), first in zip(came, firsts, strict=True):
            call_back(done, first, error)
            readable[batch.topic] = readable.get(batch.topic, 0) + len(batch.messages)
        if error is None:
            for topic, messages in readable.items():
                self._pollers.wake_topic(topic, messages)
            if self._pollers.has_pulls:
                for batch, _ in came:
                    self._pollers.wake_pulls(batch.topic, batch.queue_id)

    def _answer_requests(self, came: _Requests, firsts: list[int], error: MessagingError | None) -> None:
        for (_, done), first in zip(came, firsts, strict=True):
            call_back(done, first, error)

    def _wake_pollers(self, came: _Requests) -> None:
        for batch, _ in came:
            self._pollers.wake_queue(batch.topic, batch.queue_id, len(batch.messages))


def _waits_for_replicas(_topic: str) -> bool:
    return False


def _use_broker_mode(_topic: str) -> FlushMode | None:
    return None


def _allow_lite_topic(_topic: str) -> MessagingError | None:
    return None
