"""Which queue a message goes to (`producer.md` 6.6): in turn over all queues that can be written."""

import itertools
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.model import QueueRef
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_common.model import Route


class Placement:
    """Takes the queues of each topic in turn."""

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def next_queue(self, route: "Route") -> QueueRef:
        """The queue for one request's messages; FORBIDDEN if there is none that can be written."""
        topic = route.topic
        total = len(route.brokers) * topic.queues
        if not total:
            raise MessagingError(definition_pb2.FORBIDDEN, f"topic {topic.name!r} has no queue that can be written")
        turn = next(self._turns.setdefault(topic.name, itertools.count())) % total
        queue_id, broker = divmod(turn, len(route.brokers))
        return QueueRef(topic.name, route.brokers[broker], queue_id)
