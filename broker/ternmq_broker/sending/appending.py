"""Appends messages: all requests of one turn of the event loop are one write to the log, and wait for one sync.

Each request is stored whole or not at all, and gets its own result. Some topics have a flush mode of their own, and in
a shard with replicas some topics do not wait for these: their requests are answered earlier or later than the others,
and become readable with the others.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.store.files import WriteNotUndone
from ternmq_broker.store.message_store import AppendBatch
from ternmq_common.callbacks import tell, wait_until_stored
from ternmq_common.cluster import FlushMode
from ternmq_common.errors import MessagingError
from ternmq_common.model import Stored
from ternmq_common.names import is_lite_queue, lite_parent
from ternmq_common.turn_end import TurnEnd, turn_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.disk_room import DiskErrors
    from ternmq_broker.sending.flusher import Flusher
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_common.clock import Clock
    from ternmq_common.model import NewMessage, QueueRef
    from ternmq_common.pollers import Pollers
    from ternmq_runtime.observability.figures import ByName

_Came = list[tuple[AppendBatch, Stored]]
_Way = tuple[bool, FlushMode | None]
"""When a topic's requests are answered: whether that does not wait for other replicas, and the topic's flush mode."""
_AS_ALL: _Way = (False, None)
# More is written at once, so that one write keeps the loop busy for a few milliseconds only.
_GATHERED_BYTES_MAX = 256 << 10


class Appending:
    """Appends to the queues of one broker. `check` raises while messages of a topic are refused."""

    def __init__(
        self,
        store: "MessageStore",
        flusher: "Flusher",
        pollers: "Pollers",
        clock: "Clock",
        errors: "DiskErrors",
        sent: "ByName",
        check: Callable[[str], None],
    ) -> None:
        self._store = store
        self._flusher = flusher
        self._pollers = pollers
        self._clock = clock
        self._errors = errors
        self._sent = sent
        self._check = check
        self._came: _Came = []
        self._bytes = 0
        self.answers_alone: Callable[[str], bool] = _never
        """Whether requests of that topic do not wait for other replicas; called only if there are any."""
        self.flush_of: Callable[[str], FlushMode | None] = _broker_s
        """The flush mode of that topic, None: the broker's."""
        self.lite_refusal: Callable[[str], MessagingError | None] = _none
        """The error that refuses a new lite topic whose queue has that topic, or None."""
        self._turn_end: TurnEnd

    def start(self) -> None:
        self._turn_end = turn_end()

    def append_nowait(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: Stored) -> None:
        """Store the messages, in order, by the end of this turn; `done` is called with the result."""
        if is_lite_queue(queue.topic):
            refusal = self.lite_refusal(queue.topic)
            if refusal is not None:
                tell(done, 0, refusal)
                return
        if not self._came:
            self._turn_end.work(self._store_all)
        self._came.append((AppendBatch(queue.topic, queue.queue_id, messages), done))
        for message in messages:
            self._bytes += len(message.rest)
        if self._bytes > _GATHERED_BYTES_MAX:
            self._store_all()

    async def append(self, queue: "QueueRef", messages: "Sequence[NewMessage]") -> int:
        """Store the messages, in order; returns the queue offset of the first when they may be acknowledged."""
        return await wait_until_stored(partial(self.append_nowait, queue, messages))

    def _store_all(self) -> None:
        came, self._came, self._bytes = self._came, [], 0
        if came:
            self._store_together(came)

    def _store_together(self, came: _Came) -> None:
        before = self._store.end
        try:
            for topic in {lite_parent(batch.topic) for batch, _ in came}:
                self._check(topic)
            with self._errors:
                firsts = self._store.append_all([batch for batch, _ in came], self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 - the caller gets it, and logs it if unexpected
            is_undone = not isinstance(error.__cause__, WriteNotUndone)
            self._refuse(came, error, apart=is_undone and self._store.end == before)
            return
        for batch, _ in came:
            self._sent.add(lite_parent(batch.topic), len(batch.messages))
        ways = {topic: self._way_of(topic) for topic in {batch.topic for batch, _ in came}}
        if any(way != _AS_ALL for way in ways.values()):
            self._answer_apart(came, firsts, ways)
            return
        self._flusher.when_acknowledged(self._store.end, partial(self._acknowledged, came, firsts))

    def _way_of(self, topic: str) -> _Way:
        topic = lite_parent(topic)
        return self._flusher.is_limited and self.answers_alone(topic), self.flush_of(topic)

    def _answer_apart(self, came: _Came, firsts: list[int], ways: dict[str, _Way]) -> None:
        """Answer the requests of each topic when its flush mode and replication allow it."""
        end = self._store.end
        for way in set(ways.values()):
            numbers = [number for number, (batch, _) in enumerate(came) if ways[batch.topic] == way]
            some, theirs = [came[number] for number in numbers], [firsts[number] for number in numbers]
            if way == _AS_ALL:
                self._flusher.when_acknowledged(end, partial(self._acknowledged, some, theirs))
            else:
                alone, mode = way
                self._flusher.when_acknowledged(end, partial(self._answer, some, theirs), alone=alone, mode=mode)
                self._flusher.when_readable(end, partial(self._wake, some))

    def _refuse(self, came: _Came, error: Exception, *, apart: bool) -> None:
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
            tell(done, 0, error)

    def _acknowledged(self, came: _Came, firsts: list[int], error: MessagingError | None) -> None:
        readable: dict[str, int] = {}
        for (batch, done), first in zip(came, firsts, strict=True):
            tell(done, first, error)
            readable[batch.topic] = readable.get(batch.topic, 0) + len(batch.messages)
        if error is None:
            for topic, messages in readable.items():
                self._pollers.wake_topic(topic, messages)

    def _answer(self, came: _Came, firsts: list[int], error: MessagingError | None) -> None:
        for (_, done), first in zip(came, firsts, strict=True):
            tell(done, first, error)

    def _wake(self, came: _Came) -> None:
        for batch, _ in came:
            self._pollers.wake_topic(batch.topic, len(batch.messages))


def _never(_topic: str) -> bool:
    return False


def _broker_s(_topic: str) -> FlushMode | None:
    return None


def _none(_topic: str) -> MessagingError | None:
    return None
