"""Finds the reader of a group's queue, and the member that has locked it.

Some clients lock queues that they consume in order (`ClientLocks`), and some groups have the broker give each queue to
one reader (`QueueLocks`). Either is a lock to operators.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.shard.model import LockHolder, QueueProgress, QueueRef

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_broker.consumption.locks.client_locks import ClientLocks
    from ternmq_broker.consumption.locks.queue_locks import QueueLocks
    from ternmq_broker.delivery.queue_readers import QueueReaders


class QueueHolders:
    """The readers and locks of the broker `name`. `now_ms` is the time in milliseconds since the epoch."""

    def __init__(
        self,
        name: str,
        readers: "QueueReaders",
        client_locks: "ClientLocks",
        queue_locks: "QueueLocks",
        now_ms: "Callable[[], int]",
    ) -> None:
        self._name = name
        self._readers = readers
        self._client_locks = client_locks
        self._queue_locks = queue_locks
        self._now_ms = now_ms

    def find_others(self, group: str, known: "Sequence[QueueRef]") -> list[QueueRef]:
        """Return the queues that members of the group read and that are not among these."""
        seen = {(queue.topic, queue.queue_id) for queue in known}
        return [
            QueueRef(topic, self._name, number)
            for topic, number in self._readers.list_queues(group)
            if (topic, number) not in seen
        ]

    def add_holders(self, group: str, row: QueueProgress) -> QueueProgress:
        """Return the row with the reader of the queue, and the member that has locked it."""
        queue = row.queue
        reader = self._readers.find_reader(group, queue.topic, queue.queue_id)
        lock = self._find_lock(group, queue)
        return row if reader is None and lock is None else replace(row, reader=reader, lock=lock)

    def _find_lock(self, group: str, queue: QueueRef) -> LockHolder | None:
        held = self._client_locks.find_lock(group, queue) or self._queue_locks.find_lock(group, queue)
        if held is None:
            return None
        now_ms = self._now_ms()
        return LockHolder(client_id=held.client_id, since_ms=now_ms - held.held_ms, until_ms=now_ms + held.left_ms)
