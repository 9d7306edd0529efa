"""Resets of groups whose members keep the next offset of a queue themselves.

Such a member continues from where it reads, and commits that again and again, regardless of resets. So a reset of a
queue that a member reads is remembered until a member reads from the new offset, or asks where to begin. Until then
members are sent there, and what they commit is not taken.

A member counts for a while after its last read. A restart forgets resets: a member that was not sent to the new offset
by then continues from where it was, like a member that was away from the network.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

READER_S: Final = 120.0
"""How long a member counts as a reader of a queue after its last pull: clients give up a queue then."""
RESET_S: Final = 600.0
QUEUES_MAX: Final = 100_000
_QueueKey = tuple[str, str, int]
"""Group, topic, queue id."""


class OffsetResets:
    """The resets of one broker that members have not followed yet. `seconds` is a monotonic clock."""

    def __init__(self, seconds: "Callable[[], float]") -> None:
        self._seconds = seconds
        self._readers: dict[_QueueKey, float] = {}  # when a member read last, the oldest first
        self._resets: dict[_QueueKey, tuple[int, float]] = {}  # offset, end

    def follow_reader(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Note that a member reads a queue from an offset; return where it must go on instead, None for right there."""
        key = (group, topic, queue_id)
        self._readers.pop(key, None)
        self._readers[key] = self._seconds()
        if len(self._readers) > QUEUES_MAX:
            del self._readers[next(iter(self._readers))]
        pending = self._find_reset(key)
        if pending == offset:
            del self._resets[key]
            return None
        return pending

    def note_reset(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Note that an operator moved the group; return whether a member reads the queue, and must be sent there."""
        key = (group, topic, queue_id)
        now = self._seconds()
        read_at = self._readers.get(key)
        if read_at is None or now - read_at > READER_S:
            self._resets.pop(key, None)
            return False
        self._resets[key] = offset, now + RESET_S
        return True

    def may_commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether an offset that a member commits is to be taken."""
        return self._find_reset((group, topic, queue_id)) in (None, offset)

    def is_pending(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether the group's members are to be sent elsewhere in the queue."""
        return self._find_reset((group, topic, queue_id)) is not None

    def begin_queue(self, group: str, topic: str, queue_id: int) -> None:
        """Note that a member queried where to begin: it knows the new offset."""
        self._resets.pop((group, topic, queue_id), None)

    def forget_group(self, group: str) -> None:
        """Forget a group that is deleted."""
        for known in (self._readers, self._resets):
            for key in [key for key in known if key[0] == group]:
                del known[key]

    def _find_reset(self, key: _QueueKey) -> int | None:
        pending = self._resets.get(key)
        if pending is None:
            return None
        offset, end = pending
        if self._seconds() < end:
            return offset
        del self._resets[key]
        return None
