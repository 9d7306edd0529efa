"""Counts the messages that groups lost: retention or a purge removed them before the group had read them.

Pending   a group whose offset is below a queue's first offset has lost the messages in between. Both offsets outlive a
          restart, so it is computed for each query, and costs nothing before.
Noted     when the group goes on past the first offset, or a purge moves it on, the number is added to the earlier
          ones, and written to the consumption journal with the group's new offset.
Read      is what was delivered or committed: what a reader by offset read without a commit counts as lost.
Lite      topics are counted by their LITE topic. An empty lite topic is forgotten, so that what groups lost with its
          last messages is noted when these go.
Not lost  what went with a topic that was deleted: a queue's `queue_origin` is where the present one began.
Purges    by an operator are noted by queue, so that a reader by offset can tell them from retention.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.journal.journal_marks import LostMark, Mark, PurgeMark, key_of
from ternmq_common.names import is_lite_queue, lite_parent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.delivery.claims import QueueClaims
    from ternmq_broker.store.message_store import MessageStore


class LostMessages:
    """The losses of one broker; for the event loop's thread."""

    def __init__(self, store: "MessageStore", marks: "Iterable[Mark]") -> None:
        """`marks` are those of the journal."""
        self._store = store
        self._lost: dict[tuple[str, str], dict[int, int]] = {}
        self._purged: dict[str, dict[int, int]] = {}
        self._changed: dict[tuple[str | int, ...], Mark] = {}
        for mark in marks:
            self._keep_mark(mark)

    def note_passed_over(
        self, group: str, topic: str, queue_id: int, state: "QueueClaims", first: int, *, origin: int | None = None
    ) -> None:
        """Note what the group has not read below `first`, where the queue begins and it goes on.

        `origin` is the queue's, if that has changed since.
        """
        unread = self._count_pending(topic, queue_id, state, first, origin)
        if unread > 0:
            self.add_lost(group, topic, queue_id, unread)

    def add_lost(self, group: str, topic: str, queue_id: int, messages: int) -> None:
        """Note so many more lost messages."""
        if is_lite_queue(topic):
            topic, queue_id = lite_parent(topic), 0
        before = self._lost.get((group, topic), {}).get(queue_id, 0)
        self._note_mark(LostMark(group, topic, queue_id, before + messages))

    def note_purge(self, topic: str, queue_id: int, below: int) -> None:
        """Note that a purge removed all messages below that offset from the queue."""
        self._note_mark(PurgeMark(topic, queue_id, below))

    def purged_below(self, topic: str, queue_id: int) -> int:
        """The offset below which the last purge emptied the queue; 0 if there was none."""
        return self._purged.get(topic, {}).get(queue_id, 0)

    # --- what was lost

    def lost_in_queue(self, group: str, topic: str, queue_id: int, states: "Iterable[QueueClaims]", first: int) -> int:
        """Count the messages that the group lost in a queue that now begins at `first`, by its states in the queue."""
        return self.noted_losses(group, topic, queue_id) + sum(
            self.pending_losses(topic, queue_id, state, first) for state in states
        )

    def noted_losses(self, group: str, topic: str, queue_id: int) -> int:
        """The noted losses of a queue."""
        of_topic = self._lost.get((group, topic))
        return 0 if of_topic is None else of_topic.get(queue_id, 0)

    def pending_losses(self, topic: str, queue_id: int, state: "QueueClaims", first: int) -> int:
        """The losses of a group with that state that are not noted yet."""
        return self._count_pending(topic, queue_id, state, first, None)

    def pending_losses_at(self, topic: str, queue_id: int, at: int, first: int) -> int:
        """The same of a group that has no state, and goes on at offset `at`."""
        return first - max(at, self._store.indexes.queues.queue_origin(topic, queue_id)) if at < first else 0

    def _count_pending(self, topic: str, queue_id: int, state: "QueueClaims", first: int, origin: int | None) -> int:
        unread = state.unread_below(first)
        if not unread:
            return 0
        if origin is None:
            origin = self._store.indexes.queues.queue_origin(topic, queue_id)
        return unread - state.unread_below(min(origin, first))

    # --- deletions, and the journal

    def forget_topic(self, topic: str) -> None:
        """Drop the losses of a deleted topic."""
        for (group, its), of_queues in list(self._lost.items()):
            if its == topic:
                for queue_id in list(of_queues):
                    self._note_mark(LostMark(group, topic, queue_id, 0))
        for queue_id in list(self._purged.get(topic, ())):
            self._note_mark(PurgeMark(topic, queue_id, 0))

    def forget_group(self, group: str) -> None:
        """Drop the losses of a deleted group, which the journal has dropped."""
        for key in [key for key in self._lost if key[0] == group]:
            del self._lost[key]
        self._changed = {
            key: mark for key, mark in self._changed.items() if not (isinstance(mark, LostMark) and mark.group == group)
        }

    def take_changes(self) -> list[Mark]:
        """Return the marks to write to the journal since the last call."""
        changed, self._changed = self._changed, {}
        return list(changed.values())

    def restore_changes(self, marks: "Iterable[Mark]") -> None:
        """Let `take_changes` give these marks again: they could not be written."""
        for mark in marks:
            self._changed.setdefault(key_of(mark), mark)

    def _note_mark(self, mark: Mark) -> None:
        self._keep_mark(mark)
        self._changed[key_of(mark)] = mark

    def _keep_mark(self, mark: Mark) -> None:
        if isinstance(mark, LostMark):
            _set_count(self._lost.setdefault((mark.group, mark.topic), {}), mark.queue_id, mark.messages)
            if not self._lost[mark.group, mark.topic]:
                del self._lost[mark.group, mark.topic]
        else:
            _set_count(self._purged.setdefault(mark.topic, {}), mark.queue_id, mark.below)
            if not self._purged[mark.topic]:
                del self._purged[mark.topic]


def _set_count(counts: dict[int, int], queue_id: int, number: int) -> None:
    if number:
        counts[queue_id] = number
    else:
        counts.pop(queue_id, None)
