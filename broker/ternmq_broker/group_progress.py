"""How far a group is in its queues, as rows for people."""

from typing import TYPE_CHECKING

from ternmq_common.model import RETRY_QUEUE_ID, QueueProgress, QueueRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
    from ternmq_broker.delivery.queue_consumption import QueueConsumption
    from ternmq_broker.store.message_store import MessageStore

    State = QueueConsumption | OrderedConsumption


def progress_of(
    states_by_topic: "Iterable[tuple[str, Mapping[int, State]]]",
    retry_queue: QueueRef,
    broker: str,
    store: "MessageStore",
) -> list[QueueProgress]:
    """A row for each queue that the group has touched, and one for its retry queue with all topics together."""
    rows: list[QueueProgress] = []
    retries: list[State] = []
    for topic, states in states_by_topic:
        retries += [state for queue_id, state in states.items() if queue_id == RETRY_QUEUE_ID]
        rows += [
            _progress(QueueRef(topic, broker, queue_id), [state], store.bounds(topic, queue_id)[1])
            for queue_id, state in sorted(states.items())
            if queue_id != RETRY_QUEUE_ID
        ]
    if retries:
        rows.append(_progress(retry_queue, retries, max(state.cursor for state in retries)))
    return rows


def _progress(queue: QueueRef, states: "list[State]", max_offset: int) -> QueueProgress:
    """The progress that several states have in one queue together."""
    cursor = max(state.cursor for state in states)
    return QueueProgress(
        queue=queue,
        committed=min((state.committed for state in states if state.in_flight), default=cursor),
        cursor=cursor,
        in_flight=sum(state.in_flight for state in states),
        max_offset=max_offset,
    )
