"""The contents of a topic for operators: how much, since when, which groups, and rates of sends and deliveries."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.names import lite_parent
from ternmq_common.shard.model import QueueContent, QueueRef, TopicContent

if TYPE_CHECKING:
    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.inspecting.broker_history import BrokerHistory
    from ternmq_broker.store.message_store import MessageStore

GROUPS_MAX = 1000
# Of a longer queue, so many stretches of so many messages are measured, evenly spread; of all queues of a topic so
# many together, but at least one of each.
_STRETCHES, _STRETCH, _STRETCHES_IN_ALL = 8, 64, 64


class TopicContents:
    """Describes the contents of topics of one broker; changes nothing."""

    def __init__(self, name: str, store: "MessageStore", consumption: "Consumption", history: "BrokerHistory") -> None:
        self._name = name
        self._store = store
        self._consumption = consumption
        self._history = history

    async def describe_topic(self, topic: str) -> TopicContent:
        """The contents of the topic's queues. Sizes of long queues are estimated from 64 to 512 of their messages."""
        queue_ids = list(self._store.indexes.queues.queue_ids(topic))
        stretches = max(1, min(_STRETCHES, _STRETCHES_IN_ALL // max(1, len(queue_ids))))
        queues = await asyncio.to_thread(
            lambda: [self._describe_queue(topic, queue_id, stretches) for queue_id in queue_ids]
        )
        lite_topics, lite_messages = await asyncio.to_thread(self._count_lite, topic)
        return TopicContent(
            lite_topics=lite_topics,
            lite_messages=lite_messages,
            queues=queues,
            groups=self._consumption.groups_of(topic)[:GROUPS_MAX],
            sent_per_s=self._history.sent_per_s(topic),
            delivered_per_s=self._history.delivered_per_s(topic),
        )

    def _count_lite(self, topic: str) -> tuple[int, int]:
        """How many lite topics the topic has, and how many messages they hold together."""
        if not self._store.indexes.queues.lite_queues:
            return 0, 0
        lite_topics = [each for each in self._store.indexes.queues.lite_topics() if lite_parent(each) == topic]
        bounds = [self._store.indexes.queues.queue_bounds(each, 0) for each in lite_topics]
        return len(lite_topics), sum(end - first for first, end in bounds)

    def _describe_queue(self, topic: str, queue_id: int, stretches: int) -> QueueContent:
        first, end = self._store.indexes.queues.queue_bounds(topic, queue_id)
        return QueueContent(
            queue=QueueRef(topic, self._name, queue_id),
            bytes=self._estimate_bytes(topic, queue_id, first, end, stretches),
            oldest_ms=self._store.reader.stored_ms(topic, queue_id, first) if first < end else None,
        )

    def _estimate_bytes(self, topic: str, queue_id: int, first: int, end: int, stretches_max: int) -> int:
        count = end - first
        stretches = min(stretches_max, -(-count // _STRETCH))
        seen = size = 0
        for number in range(stretches):
            middle = first + count * (2 * number + 1) // (2 * stretches)
            begin = max(first, middle - _STRETCH // 2)
            places = self._store.indexes.queues.locate_messages(
                topic, queue_id, begin, min(_STRETCH, end - begin), may_block=True
            )
            seen += len(places)
            size += sum(place.size for place in places)
        return size * count // seen if seen else 0
