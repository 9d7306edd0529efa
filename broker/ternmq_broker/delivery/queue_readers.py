"""Tracks which member of a group reads a queue by offset: the last that pulled, and since when it does.

A member counts for `READER_S` after its last pull, or until it leaves. A restart forgets readers until their next
pulls. Operators are shown them; nothing else depends on them.
"""

from typing import TYPE_CHECKING, Final

from ternmq_broker.delivery.offset_resets import READER_S
from ternmq_common.shard.model import QueueReader

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES_MAX: Final = 100_000
_QueueKey = tuple[str, int]
"""Topic, queue id."""


class _Reads:
    __slots__ = ("client_id", "pulled_ms", "since_ms")

    def __init__(self, client_id: str, now_ms: int) -> None:
        self.client_id = client_id
        self.since_ms = now_ms
        self.pulled_ms = now_ms


class QueueReaders:
    """The readers of all queues of a broker, of at most `queues_max`; beyond that new ones are not noted. `now_ms` is
    the time in milliseconds since the epoch."""

    def __init__(self, now_ms: "Callable[[], int]", *, queues_max: int = QUEUES_MAX) -> None:
        self._now_ms = now_ms
        self._queues_max = queues_max
        self._groups: dict[str, dict[_QueueKey, _Reads]] = {}
        self._count = 0

    def note_pull(self, group: str, client_id: str, topic: str, queue_id: int) -> None:
        """Note that a member pulls from a queue."""
        queues = self._groups.get(group)
        known = None if queues is None else queues.get((topic, queue_id))
        if known is not None and known.client_id == client_id:
            known.pulled_ms = self._now_ms()
            return
        if known is None:
            if self._count >= self._queues_max:
                self._drop_silent()
            if self._count >= self._queues_max:
                return
            self._count += 1
        self._groups.setdefault(group, {})[topic, queue_id] = _Reads(client_id, self._now_ms())

    def find_reader(self, group: str, topic: str, queue_id: int) -> QueueReader | None:
        """Return the member that reads the queue."""
        known = self._groups.get(group, {}).get((topic, queue_id))
        if known is None or self._is_silent(known, self._now_ms()):
            return None
        return QueueReader(client_id=known.client_id, since_ms=known.since_ms, pulled_ms=known.pulled_ms)

    def list_queues(self, group: str) -> list[_QueueKey]:
        """Return the queues that members of the group read."""
        now_ms = self._now_ms()
        return [key for key, known in self._groups.get(group, {}).items() if not self._is_silent(known, now_ms)]

    def release_member(self, group: str, client_id: str) -> None:
        """Forget a member that has left the group."""
        for key in [key for key, known in self._groups.get(group, {}).items() if known.client_id == client_id]:
            self._drop_reader(group, key)

    def forget_group(self, group: str) -> None:
        """Forget a group that is deleted."""
        self._count -= len(self._groups.pop(group, {}))

    def forget_topic(self, topic: str) -> None:
        """Forget a topic that is deleted."""
        for group, queues in list(self._groups.items()):
            for key in [key for key in queues if key[0] == topic]:
                self._drop_reader(group, key)

    def _is_silent(self, known: _Reads, now_ms: int) -> bool:
        return now_ms - known.pulled_ms > READER_S * 1000

    def _drop_silent(self) -> None:
        now_ms = self._now_ms()
        for group, queues in list(self._groups.items()):
            for key in [key for key, known in queues.items() if self._is_silent(known, now_ms)]:
                self._drop_reader(group, key)

    def _drop_reader(self, group: str, key: _QueueKey) -> None:
        queues = self._groups[group]
        del queues[key]
        self._count -= 1
        if not queues:
            del self._groups[group]
