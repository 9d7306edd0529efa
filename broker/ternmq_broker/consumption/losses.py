"""What groups lost: messages that retention or a purge took before a group had read them.

Pending   a group that stands below a queue's first offset has lost what lies between. That is seen whenever somebody
          looks, costs nothing before, and is there after a restart, as both offsets are.
Noted     when the group goes on past it, or a purge moves it on, the number is added to those of before, and written
          to the consumption journal with the group's new place.
Read      is what was handed out, or committed: a reader by offset that had read on without a commit lost it too.
Lite      topics are counted by their LITE topic. One that is empty is known no more, so that what groups lost with its
          last messages is noted when these go.
Not lost  what went with a topic that was deleted: a queue's `origin` says where the one of today began.
Purges    by an operator are noted by queue, so that who reads by offset can tell them from retention.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.journal_marks import LostMark, Mark, PurgeMark, key_of
from ternmq_common.names import is_lite_queue, lite_parent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.delivery.claims import Claims
    from ternmq_broker.store.message_store import MessageStore


class Losses:
    """Of one broker; for the event loop's thread."""

    def __init__(self, store: "MessageStore", marks: "Iterable[Mark]") -> None:
        """`marks` are those of the journal."""
        self._store = store
        self._lost: dict[tuple[str, str], dict[int, int]] = {}
        self._purged: dict[str, dict[int, int]] = {}
        self._changed: dict[tuple[str | int, ...], Mark] = {}
        for mark in marks:
            self._keep(mark)

    def passed_over(
        self, group: str, topic: str, queue_id: int, state: "Claims", first: int, *, origin: int | None = None
    ) -> None:
        """The group goes on at `first`, where the queue begins, or behind it: note what it has not read of before.
        `origin` is the queue's, if that has changed since."""
        unread = self._pending(topic, queue_id, state, first, origin)
        if unread > 0:
            self.add(group, topic, queue_id, unread)

    def add(self, group: str, topic: str, queue_id: int, messages: int) -> None:
        """Note so many more."""
        if is_lite_queue(topic):
            topic, queue_id = lite_parent(topic), 0
        before = self._lost.get((group, topic), {}).get(queue_id, 0)
        self._note(LostMark(group, topic, queue_id, before + messages))

    def purged(self, topic: str, queue_id: int, below: int) -> None:
        """A purge had the queue hold nothing below that offset."""
        self._note(PurgeMark(topic, queue_id, below))

    def purged_below(self, topic: str, queue_id: int) -> int:
        """Below which offset the last purge emptied the queue; 0 if there was none."""
        return self._purged.get(topic, {}).get(queue_id, 0)

    # --- what was lost

    def of_queue(self, group: str, topic: str, queue_id: int, states: "Iterable[Claims]", first: int) -> int:
        """What the group lost in a queue that begins at `first` now, in which it has these states."""
        return self.noted(group, topic, queue_id) + sum(self.pending(topic, queue_id, state, first) for state in states)

    def noted(self, group: str, topic: str, queue_id: int) -> int:
        """What was noted of a queue."""
        of_topic = self._lost.get((group, topic))
        return 0 if of_topic is None else of_topic.get(queue_id, 0)

    def pending(self, topic: str, queue_id: int, state: "Claims", first: int) -> int:
        """What a group has lost by now that stands there, and is not noted yet."""
        return self._pending(topic, queue_id, state, first, None)

    def pending_at(self, topic: str, queue_id: int, at: int, first: int) -> int:
        """The same of a group that holds nothing, and goes on at that offset."""
        return first - max(at, self._store.origin(topic, queue_id)) if at < first else 0

    def _pending(self, topic: str, queue_id: int, state: "Claims", first: int, origin: int | None) -> int:
        unread = state.unread_below(first)
        if not unread:
            return 0
        if origin is None:
            origin = self._store.origin(topic, queue_id)
        return unread - state.unread_below(min(origin, first))

    # --- forgetting, remembering

    def forget_topic(self, topic: str) -> None:
        """It was deleted."""
        for (group, its), of_queues in list(self._lost.items()):
            if its == topic:
                for queue_id in list(of_queues):
                    self._note(LostMark(group, topic, queue_id, 0))
        for queue_id in list(self._purged.get(topic, ())):
            self._note(PurgeMark(topic, queue_id, 0))

    def forget_group(self, group: str) -> None:
        """It was deleted, and the journal has dropped it."""
        for key in [key for key in self._lost if key[0] == group]:
            del self._lost[key]
        self._changed = {
            key: mark for key, mark in self._changed.items() if not (isinstance(mark, LostMark) and mark.group == group)
        }

    def take_changes(self) -> list[Mark]:
        """What the journal must hear since the last call."""
        changed, self._changed = self._changed, {}
        return list(changed.values())

    def changed_again(self, marks: "Iterable[Mark]") -> None:
        """What `take_changes` gave could not be written."""
        for mark in marks:
            self._changed.setdefault(key_of(mark), mark)

    def _note(self, mark: Mark) -> None:
        self._keep(mark)
        self._changed[key_of(mark)] = mark

    def _keep(self, mark: Mark) -> None:
        if isinstance(mark, LostMark):
            _set(self._lost.setdefault((mark.group, mark.topic), {}), mark.queue_id, mark.messages)
            if not self._lost[mark.group, mark.topic]:
                del self._lost[mark.group, mark.topic]
        else:
            _set(self._purged.setdefault(mark.topic, {}), mark.queue_id, mark.below)
            if not self._purged[mark.topic]:
                del self._purged[mark.topic]


def _set(counts: dict[int, int], queue_id: int, number: int) -> None:
    if number:
        counts[queue_id] = number
    else:
        counts.pop(queue_id, None)
