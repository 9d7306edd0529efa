"""Queues that clients lock for themselves, so that one member of a group consumes each of them in order.

A lock is its client's for `LOCK_MS` from its last request; then another client gets it. It is not tied to a
connection, so it survives the death of a proxy. A restart, or another leader, forgets all: clients ask every 20 s.
Messages are not guarded: any client that pulls gets them, and clients pull what they have locked.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_common.shard.model import QueueRef

LOCK_MS = 60_000
LOCKS_MAX = 100_000
# Looking at all locks takes some milliseconds.
_DROP_EVERY_MS = 1000


class _Lock(NamedTuple):
    client_id: str
    since_ms: int
    until_ms: int


class HeldLock(NamedTuple):
    """A lock: whose it is, for how long it has been that client's, and how long it lasts if that asks no more."""

    client_id: str
    held_ms: int
    left_ms: int


class ClientLocks:
    """The locks of all groups at one broker, at most `locks_max`. `now_ms` is a monotonic clock."""

    def __init__(self, now_ms: "Callable[[], int]", *, locks_max: int = LOCKS_MAX) -> None:
        self._now_ms = now_ms
        self._locks_max = locks_max
        self._locks: dict[str, dict[tuple[str, int], _Lock]] = {}  # group; topic and queue id
        self._count = 0
        self._dropped_ms = -_DROP_EVERY_MS

    def lock_queues(self, group: str, client_id: str, queues: "Sequence[QueueRef]") -> "list[QueueRef]":
        """Lock the queues for the client, again if it has them already; return those that it has now."""
        now_ms = self._now_ms()
        if self._count + len(queues) > self._locks_max and now_ms >= self._dropped_ms + _DROP_EVERY_MS:
            self._dropped_ms = now_ms
            self._drop_expired(now_ms)
        locked = []
        for queue in queues:
            held = self._locks.get(group, {}).get((queue.topic, queue.queue_id))
            if held is None and self._count >= self._locks_max:
                continue
            if held is None or held.client_id == client_id or held.until_ms <= now_ms:
                is_kept = held is not None and held.client_id == client_id and held.until_ms > now_ms
                since_ms = held.since_ms if held is not None and is_kept else now_ms
                lock = _Lock(client_id, since_ms, now_ms + LOCK_MS)
                self._locks.setdefault(group, {})[queue.topic, queue.queue_id] = lock
                self._count += held is None
                locked.append(queue)
        return locked

    def unlock_queues(self, group: str, client_id: str, queues: "Sequence[QueueRef]") -> None:
        """Release those of the queues that the client has."""
        for queue in queues:
            held = self._locks.get(group, {}).get((queue.topic, queue.queue_id))
            if held is not None and held.client_id == client_id:
                self._drop_lock(group, (queue.topic, queue.queue_id))

    def has_locks(self, group: str) -> bool:
        """Return whether a client of the group has a lock."""
        now_ms = self._now_ms()
        return any(lock.until_ms > now_ms for lock in self._locks.get(group, {}).values())

    def find_lock(self, group: str, queue: "QueueRef") -> HeldLock | None:
        """Return the lock of the queue, None if no client has it."""
        held, now_ms = self._locks.get(group, {}).get((queue.topic, queue.queue_id)), self._now_ms()
        if held is None or held.until_ms <= now_ms:
            return None
        return HeldLock(held.client_id, now_ms - held.since_ms, held.until_ms - now_ms)

    def forget_group(self, group: str) -> None:
        """Drop the locks of a group that was deleted."""
        self._count -= len(self._locks.pop(group, {}))

    def _drop_expired(self, now_ms: int) -> None:
        expired = [
            (group, key)
            for group, locks in self._locks.items()
            for key, lock in locks.items()
            if lock.until_ms <= now_ms
        ]
        for group, key in expired:
            self._drop_lock(group, key)

    def _drop_lock(self, group: str, key: tuple[str, int]) -> None:
        locks = self._locks[group]
        del locks[key]
        self._count -= 1
        if not locks:
            del self._locks[group]
