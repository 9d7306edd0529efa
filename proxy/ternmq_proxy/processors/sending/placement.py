"""Chooses the queue of a message (`sending.md, Placement`): in turn over all writable queues, the one that its producer
chose, or by its message group, lite topic, or priority, or by the id of a half message.

A message group is always in the same queue, whichever client or proxy sends it, and also while its broker is away: it
would be out of order elsewhere. When brokers or queues are added, most groups stay where they are.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import QueueRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import Topic, TopicRoute


class QueuePlacement:
    """Takes the queues of each topic in turn."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def next_queue(self, route: "TopicRoute") -> QueueRef:
        """Return the queue for the messages of one request. Raises MessagingError if none is writable."""
        brokers = route.writable
        if not brokers:
            raise unwritable_error(route)
        # All queues of a broker, then those of the next: messages that arrive together share frames and syncs.
        topic = route.topic
        broker, queue_id = divmod(self._next_turn(topic.name, len(brokers) * topic.queues), topic.queues)
        return QueueRef(topic.name, brokers[broker], queue_id)

    def queue_for(self, route: "TopicRoute", chosen: str) -> QueueRef:
        """Return the next queue, or the one that the producer chose: `broker/queue id`, or `queue id`, which is on one
        broker while brokers stay the same. Raises BAD_REQUEST for a queue that the topic does not have."""
        if not chosen:
            return self.next_queue(route)
        broker, _, number = chosen.rpartition("/")
        topic = route.topic
        if not number.isascii() or not number.isdigit() or len(number) > 9 or int(number) >= topic.queues:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"topic {topic.name!r} has no queue {number[:40]!r}; there are 0 to {topic.queues - 1}",
            )
        if not broker:
            if not route.writable:
                raise unwritable_error(route)
            return QueueRef(topic.name, _broker_of(route.writable, number), int(number))
        if not topic.permission.can_write:
            raise unwritable_error(route)
        if broker not in route.ordered:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"topic {topic.name!r} takes no messages on broker {broker[:200]!r}; it does on "
                f"{', '.join(route.ordered) or 'none'}",
            )
        if broker not in route.writable:
            raise MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"broker {broker} of topic {topic.name!r} is away")
        return QueueRef(topic.name, broker, int(number))

    def next_broker(self, route: "TopicRoute") -> str:
        """Return the broker for the messages of one request, each broker in turn. Raises like `next_queue`."""
        brokers = route.writable
        if not brokers:
            raise unwritable_error(route)
        return brokers[self._next_turn(route.topic.name, len(brokers))]

    def queue_of_half(self, route: "TopicRoute", message_id: str) -> QueueRef:
        """Return the queue of a half message; a repetition goes to the broker of the first one, while that is
        writable."""
        brokers = route.writable
        if not brokers:
            raise unwritable_error(route)
        topic = route.topic
        return QueueRef(topic.name, _broker_of(brokers, message_id), self._next_turn(topic.name, topic.queues))

    def _next_turn(self, topic: str, places: int) -> int:
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return turn % places


def queue_of_group(route: "TopicRoute", message_group: str) -> QueueRef:
    """Return the queue of a message group, on a broker that may be away. Raises FORBIDDEN if no broker is writable."""
    brokers = route.ordered
    if not brokers:
        raise unwritable_error(route)
    queue_id = _jump_hash(_hash_text(message_group), route.topic.queues)
    return QueueRef(route.topic.name, _broker_of(brokers, message_group), queue_id)


def queue_of_lite(route: "TopicRoute", lite_topic: str) -> QueueRef:
    """Return the queue of a lite topic, on a broker that may be away. Raises FORBIDDEN if no broker is writable."""
    brokers = route.ordered
    if not brokers:
        raise unwritable_error(route)
    return QueueRef(lite_queue_topic(route.topic.name, lite_topic), _broker_of(brokers, lite_topic), 0)


def _broker_of(brokers: "Sequence[str]", key: str) -> str:
    """Choose a broker by rendezvous hashing: a new broker takes its share of keys from all others, and a removed one
    affects only its own."""
    return brokers[0] if len(brokers) == 1 else max(brokers, key=lambda name: _hash_text(f"{name} {key}"))


def queue_of_priority(topic: "Topic", broker: str, priority: int) -> QueueRef:
    """Return the queue of a priority; all priorities above the number of queues share the last queue."""
    return QueueRef(topic.name, broker, min(priority, topic.queues - 1))


def unwritable_error(route: "TopicRoute") -> MessagingError:
    """Return why no queue is writable: the topic or its brokers forbid it, or the brokers are away."""
    topic = route.topic
    if not topic.permission.can_write:
        return MessagingError(
            ErrorCode.FORBIDDEN, f"topic {topic.name!r} takes no messages: its permission is {topic.permission}"
        )
    if route.ordered:
        return MessagingError(
            ErrorCode.HA_NOT_AVAILABLE, f"no broker of topic {topic.name!r} is there: {', '.join(route.ordered)}"
        )
    return MessagingError(ErrorCode.FORBIDDEN, f"topic {topic.name!r} has no queue that can be written")


def unreadable_error(route: "TopicRoute") -> MessagingError:
    """Return why no queue is readable: the topic forbids it, or no broker that permits it is there."""
    topic = route.topic
    if not topic.permission.can_read:
        return _read_forbidden_error(topic)
    return MessagingError(
        ErrorCode.HA_NOT_AVAILABLE,
        f"no broker of topic {topic.name!r} can be read now: {', '.join(route.brokers) or 'it has none'}",
    )


def check_readable(topic: "Topic") -> None:
    """Raise FORBIDDEN unless consumers may read the topic."""
    if not topic.permission.can_read:
        raise _read_forbidden_error(topic)


def _read_forbidden_error(topic: "Topic") -> MessagingError:
    return MessagingError(
        ErrorCode.FORBIDDEN, f"topic {topic.name!r} can't be read: its permission is {topic.permission}"
    )


def _hash_text(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _jump_hash(key: int, buckets: int) -> int:
    """Return the bucket of a 64-bit key, by jump consistent hash (Lamping and Veach): a new bucket takes its share of
    keys from all others, and nothing else moves."""
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        key = (key * 2862933555777941757 + 1) & 0xFFFF_FFFF_FFFF_FFFF
        following = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket
