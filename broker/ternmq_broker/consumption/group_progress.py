"""A group's progress in its queues, as rows for answers.

A queue that the group never read has a row if it has messages: with the offset where the group would begin now.
"""

import operator
from typing import TYPE_CHECKING

from ternmq_common.shard.model import RETRY_QUEUE_ID, QueueProgress, QueueRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ternmq_broker.consumption.losses import LostMessages
    from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
    from ternmq_broker.delivery.queue_consumption import QueueConsumption
    from ternmq_broker.store.message_store import MessageStore

    State = QueueConsumption | OrderedConsumption


def progress_of(
    group: str,
    states_by_topic: "Iterable[tuple[str, Mapping[int, State]]]",
    retry_queue: QueueRef,
    broker: str,
    store: "MessageStore",
    losses: "LostMessages",
) -> list[QueueProgress]:
    """A row for each queue that the group has touched, and one for its retry queue with all topics together."""
    rows: list[QueueProgress] = []
    retries: list[State] = []
    pulled: State | None = None
    for topic, states in states_by_topic:
        retries += [state for queue_id, state in states.items() if queue_id == RETRY_QUEUE_ID]
        for queue_id, state in sorted(states.items()):
            if topic == retry_queue.topic:
                pulled = state
            elif queue_id != RETRY_QUEUE_ID:
                first, end = store.indexes.queues.queue_bounds(topic, queue_id)
                lost = losses.lost_in_queue(group, topic, queue_id, [state], first)
                rows.append(_sum_progress(QueueRef(topic, broker, queue_id), [state], first, end, lost))
    if pulled is not None:  # its members read the queue, or did: what came since is behind its cursor
        retries.append(pulled)
        first, end = store.indexes.queues.queue_bounds(retry_queue.topic, 0)
        rows.append(_sum_progress(retry_queue, retries, first, end))
    elif retries:
        rows.append(_sum_progress(retry_queue, retries, 0, max(state.cursor for state in retries)))
    return rows


def untouched_queues(topic: str, states: "Mapping[int, State]", store: "MessageStore") -> list[int]:
    """The ids of the topic's queues that hold messages and of which the group has no state."""
    queue_ids = store.indexes.queues.queue_ids(topic)
    if len(queue_ids) <= len(states) and all(queue_id in states for queue_id in queue_ids):
        return []  # nearly always, and called for thousands of groups
    used = [queue_id for queue_id in queue_ids if queue_id not in states]
    return sorted(queue_id for queue_id in used if operator.lt(*store.indexes.queues.queue_bounds(topic, queue_id)))


def untouched_progress(queue: QueueRef, begin: int, store: "MessageStore") -> QueueProgress:
    """The progress of a group in a queue where it was never, and would begin at `begin`."""
    first, end = store.indexes.queues.queue_bounds(queue.topic, queue.queue_id)
    at = min(max(first, begin), end)
    return QueueProgress(queue=queue, committed=at, cursor=at, in_flight=0, max_offset=end)


def _sum_progress(queue: QueueRef, states: "list[State]", first: int, max_offset: int, lost: int = 0) -> QueueProgress:
    """The combined progress of several states in one queue, whose first offset is `first`."""
    cursor = max(first, *(state.cursor for state in states))
    return QueueProgress(
        queue=queue,
        committed=min((state.committed_offset for state in states if state.in_flight), default=cursor),
        cursor=cursor,
        in_flight=sum(state.in_flight for state in states),
        max_offset=max_offset,
        lost=lost,
    )
