"""Which queue a message goes to (`producer.md` 6.6): in turn over all queues that can be written, by its message group,
or by its priority.

A message group is always in the same queue, whichever client or proxy sends it; when queues are added, most groups
stay where they are.
"""

import itertools
from hashlib import blake2b
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.model import QueueRef
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_common.model import Route, Topic


class Placement:
    """Takes the queues of each topic in turn."""

    def __init__(self) -> None:
        self._turns: dict[str, Iterator[int]] = {}

    def next_queue(self, route: "Route") -> QueueRef:
        """The queue for one request's messages; FORBIDDEN if there is none that can be written."""
        turn = next(self._turns.setdefault(route.topic.name, itertools.count())) % _total(route)
        queue_id, broker = divmod(turn, len(route.brokers))
        return QueueRef(route.topic.name, route.brokers[broker], queue_id)

    def next_broker(self, route: "Route") -> str:
        """The broker for one request's messages, each broker in its turn; FORBIDDEN if none can be written."""
        return self.next_queue(route).broker


def queue_of_group(route: "Route", message_group: str) -> QueueRef:
    """The queue of a message group; FORBIDDEN if there is none that can be written."""
    digest = blake2b(message_group.encode(), digest_size=8).digest()
    broker, queue_id = divmod(_jump(int.from_bytes(digest), _total(route)), route.topic.queues)
    return QueueRef(route.topic.name, sorted(route.brokers)[broker], queue_id)


def queue_of_priority(topic: "Topic", broker: str, priority: int) -> QueueRef:
    """The queue of a priority; all that are higher than there are queues share the last."""
    return QueueRef(topic.name, broker, min(priority, topic.queues - 1))


def _total(route: "Route") -> int:
    total = len(route.brokers) * route.topic.queues
    if not total:
        raise MessagingError(definition_pb2.FORBIDDEN, f"topic {route.topic.name!r} has no queue that can be written")
    return total


def _jump(key: int, buckets: int) -> int:
    """The bucket of a 64-bit key, by jump consistent hash (Lamping and Veach): of n + 1 buckets the new one takes its
    share of keys from all others, and nothing else moves."""
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        key = (key * 2862933555777941757 + 1) & 0xFFFF_FFFF_FFFF_FFFF
        following = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket
