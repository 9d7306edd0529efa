"""Restores the groups' progress after a restart, from the consumption journal and what the store still has.

End         a queue may end before where a group was: messages that were not durable are gone, which is logged
Clock       claims end no later by the clock of today than they would have by the clock that the journal was written
            by: when that was set back meanwhile, they are rebased
Lost lines  only the journal knows which messages of a retry queue wait for which topic. In a queue of which lines may
            be missing, no message counts as finished: each copy goes to the topic of its message. Everything is
            written again at once, so that the journal is complete again
"""

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.delivery.claims import GENERATIONS_LEFT_OUT, ClaimsSnapshot, first_generation
from ternmq_broker.delivery.idle_offsets import IdleOffsets
from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
from ternmq_broker.delivery.queue_consumption import QueueConsumption
from ternmq_broker.store.derived_indexes import keys_of
from ternmq_common.names import is_lite_queue, retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID, ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.journal.progress_journal import ProgressJournal, QueueKey
    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store.message_store import MessageStore

    State = QueueConsumption | OrderedConsumption
    States = dict[tuple[str, str], dict[int, State]]

_log = logging.getLogger(__name__)
_LOGGED_MAX = 10
# A smaller difference comes from slewing; the clock was not set.
_SET_MS = 500


@dataclass(frozen=True, slots=True)
class _MissingMessages:
    """A queue ends so many messages before where a group was."""

    key: "QueueKey"
    messages: int


class ProgressRestorer:
    """Restores progress; reads, and so blocks. `rules` returns the settings of a group."""

    def __init__(
        self,
        store: "MessageStore",
        journal: "ProgressJournal",
        rules: "Callable[[str], ConsumerGroup]",
        now_ms: int,
        resting: IdleOffsets,
    ) -> None:
        """`resting` gets the groups' offsets in lite topics where they hold nothing."""
        self._store = store
        self._journal = journal
        self._rules = rules
        self._now_ms = now_ms
        self._resting = resting
        self._states: States = {}
        self._gone: list[_MissingMessages] = []

    def restore_states(self) -> "States":
        """Restore the states of all groups, by group and topic, then queue id; corrects the journal."""
        for key, snapshot in self._journal.queue_snapshots().items():
            if is_lite_queue(key[1]) and not snapshot.holes:
                offset = min(snapshot.cursor, self._store.indexes.queues.queue_bounds(key[1], key[2])[1])
                self._resting.put_offset(*key[:2], offset, snapshot.generation + GENERATIONS_LEFT_OUT)
                continue
            self._states.setdefault(key[:2], {})[key[2]] = self._restore_state(key, snapshot)
        self._log_missing()
        behind_ms = max((self._journal.written_ms((*pair, RETRY_QUEUE_ID)) for pair in self._states), default=0)
        if behind_ms - self._now_ms > _SET_MS:
            _log.warning(
                "the clock is %.1f s behind the time at which the consumption journal was written; claims end so much "
                "earlier",
                (behind_ms - self._now_ms) / 1000,
            )
        if self._journal.skipped_lines:
            self._restore_lost_lines()
        elif self._store.log.log_start >= self._journal.lost_below:
            self._journal.lost_below = 0
        return self._states

    def _restore_state(self, key: "QueueKey", snapshot: "ClaimsSnapshot") -> "State":
        group, topic, queue_id = key
        is_ordered = is_lite_queue(topic) or (self._rules(group).fifo and queue_id != RETRY_QUEUE_ID)
        kind = OrderedConsumption if is_ordered else QueueConsumption
        place = (retry_topic(group), 0) if queue_id == RETRY_QUEUE_ID else (topic, queue_id)
        end = self._store.indexes.queues.queue_bounds(*place)[1]
        if snapshot.cursor > end:
            self._gone.append(_MissingMessages(key, snapshot.cursor - end))
        state = kind.restore_state(snapshot, end=end)
        if self._journal.is_in_doubt(key):
            state.skip_to(
                self._store.indexes.queues.queue_bounds(*place)[0]
            )  # the group may have been further: its loss is unknown
        ahead_ms = self._journal.written_ms(key) - self._now_ms
        if ahead_ms > 0:
            state.rebase_claims(-ahead_ms)
        return state

    def _log_missing(self) -> None:
        for gone in self._gone[:_LOGGED_MAX]:
            group, topic, queue_id = gone.key
            _log.warning(
                "group %s was %d messages beyond the present end of %s: these messages are gone",
                *(group, gone.messages),
                retry_topic(group) if queue_id == RETRY_QUEUE_ID else f"queue {queue_id} of topic {topic}",
            )
        if len(self._gone) > _LOGGED_MAX:
            total = sum(gone.messages for gone in self._gone)
            _log.warning("the same is true of %d queues, and %d messages in all", len(self._gone), total)

    # --- lost lines

    def _restore_lost_lines(self) -> None:
        topics: defaultdict[str, set[str]] = defaultdict(set)
        for group, topic in self._states:
            first, end = self._store.indexes.queues.queue_bounds(retry_topic(group), 0)
            if not self._rules(group).fifo or first < end:  # as few FIFO groups have any
                topics[group].add(topic)
        for group, its in sorted(topics.items()):
            doubtful = {topic for topic in its if self._journal.is_in_doubt((group, topic, RETRY_QUEUE_ID))}
            if doubtful:
                self._deliver_retries_again(group, sorted(its), doubtful)
        self._journal.lost_below = self._store.log.log_end
        self._journal.write_progress(
            [
                ((*pair, queue_id), state.record_changes(whole=True))
                for pair, states in self._states.items()
                for queue_id, state in states.items()
            ]
            + [
                ((group, topic, 0), ClaimsSnapshot(offset, self._resting.generation, []))
                for group, topic, offset in self._resting.all_offsets()
            ],
            self._now_ms,
        )

    def _deliver_retries_again(self, group: str, topics: list[str], doubtful: set[str]) -> None:
        """Redeliver for the `doubtful` topics what is in the group's retry queue and in no known state."""
        first, end = self._store.indexes.queues.queue_bounds(retry_topic(group), 0)
        known = [self._find_or_create_retries(group, topic) for topic in topics]
        count = 0
        for offset in range(first, end):
            if any(state.has_claim(offset) for state in known):
                continue
            topic = self._topic_of_copy(group, offset, topics)
            if topic in doubtful:
                self._find_or_create_retries(group, topic).place_copy(offset, 0)
                count += 1
        if count:
            _log.warning(
                "%d messages in %s may or may not be finished; they are delivered again",
                *(count, retry_topic(group)),
            )

    def _find_or_create_retries(self, group: str, topic: str) -> QueueConsumption:
        states = self._states[group, topic]
        state = states.get(RETRY_QUEUE_ID)
        if state is None:
            state = states[RETRY_QUEUE_ID] = QueueConsumption(0, first_generation(self._now_ms))
        assert isinstance(state, QueueConsumption)
        return state

    def _topic_of_copy(self, group: str, offset: int, topics: list[str]) -> str:
        """The topic of the copy's message, which the copy does not name; the first one if it is in none any more."""
        if len(topics) > 1:
            record = self._read_copy(group, offset)
            if record is not None:
                message_id = keys_of(record.system)[0]
                for topic in topics:
                    if self._store.reader.find_by_key(topic, message_id, 1):
                        return topic
        return topics[0]

    def _read_copy(self, group: str, offset: int) -> "Record | None":
        located = self._store.indexes.queues.locate_messages(retry_topic(group), 0, offset, 1, may_block=True)
        return self._store.reader.read_records(located, may_block=True)[0] if located else None
