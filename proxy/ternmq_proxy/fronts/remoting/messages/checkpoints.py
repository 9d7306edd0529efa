"""Checkpoints: what names a popped message to clients, and gives the right to settle it.

Text        first offset of its queue in the answer, pop time, invisible time, revive queue, retry mark, broker, queue
            id and offset, with spaces. Times are milliseconds; both together are the end of the claim.
Retry mark  0: the topic's own queue. 1: queue 0 of the group's retry topic, which such a message has as its topic,
            with the topic behind the group's name: `%RETRY%group_topic`. Clients name that topic when they settle it.
Answer      has the parts that messages share, too, for clients that put checkpoints together: the times, the revive
            queue, and the offsets by mark and queue.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.names import retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID
from ternmq_proxy.operations.by_queue.popped import PoppedMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ternmq_common.shard.model import DeliveredMessage

REVIVE_QUEUE, REVIVE_QUEUE_IN_ORDER = 0, 999
"""Placeholders for the queue in which RocketMQ keeps checkpoints; the second one for ordered pops."""
_PARTS = 8
_DIGITS_MAX = 18
_JOINTS = ("_", "+")


class InvalidCheckpoint(ValueError):
    """A text is no checkpoint."""


class Checkpoint(NamedTuple):
    """The parts of a checkpoint that tell the claim; times in milliseconds."""

    pop_ms: int
    invisible_ms: int
    broker: str

    @property
    def end_ms(self) -> int:
        """When the claim ends."""
        return self.pop_ms + self.invisible_ms


def read_checkpoint(text: str) -> Checkpoint:
    """Return the parts of a text. InvalidCheckpoint if it has less than it must."""
    parts = text.split(" ")
    times = parts[1:3]
    if len(parts) < _PARTS or not all(part.isascii() and part.isdigit() for part in times):
        raise InvalidCheckpoint(f"{text[:100]!r} is no extraInfo of a popped message")
    if max(map(len, times)) > _DIGITS_MAX:
        raise InvalidCheckpoint(f"{text[:100]!r} has a time that is out of range")
    return Checkpoint(int(times[0]), int(times[1]), parts[5])


def name_retries(group: str, topic: str) -> str:
    """Return the topic that a retry of the topic is shown with."""
    return f"{retry_topic(group)}_{topic}"


def find_popped(group: str, topic: str, queue_id: int, offset: int, checkpoint: Checkpoint) -> PoppedMessage:
    """Return the message that a client names; its topic may be that of a retry."""
    behind = topic.removeprefix(retry_topic(group)) if topic.startswith(retry_topic(group)) else ""
    if behind.startswith(_JOINTS):
        topic, queue_id = behind[1:], RETRY_QUEUE_ID
    return PoppedMessage(topic, checkpoint.broker, queue_id, offset, checkpoint.end_ms)


class PoppedForm:
    """How the messages of one answer are shown: their topics, checkpoints and offsets."""

    def __init__(
        self, group: str, topic: str, invisible_ms: int, revive_queue: int, deliveries: "Sequence[DeliveredMessage]"
    ) -> None:
        """There is a message at least; all claims end at one time."""
        self._topic, self._retry_topic = topic, name_retries(group, topic)
        self._invisible_ms = invisible_ms
        self._revive_queue = revive_queue
        self.pop_ms = deliveries[0].handle.deadline_ms - invisible_ms
        self._offsets: dict[tuple[int, int], list[int]] = {}
        for delivery in deliveries:
            self._offsets.setdefault(_place_of(delivery), []).append(delivery.message.queue_offset)
        for offsets in self._offsets.values():
            offsets.sort()

    def topic_of(self, delivery: "DeliveredMessage") -> str:
        """Return the topic that the message is shown with."""
        return self._retry_topic if _place_of(delivery)[0] else self._topic

    def write_checkpoint(self, delivery: "DeliveredMessage") -> str:
        """Return the message's checkpoint."""
        mark, queue_id = _place_of(delivery)
        first = self._offsets[mark, queue_id][0]
        times = f"{self.pop_ms} {self._invisible_ms} {self._revive_queue}"
        return f"{first} {times} {mark} {delivery.handle.broker} {queue_id} {delivery.message.queue_offset}"

    @property
    def first_offsets(self) -> str:
        """The first offset of each queue, with its mark."""
        return ";".join(f"{mark} {queue_id} {offsets[0]}" for (mark, queue_id), offsets in self._offsets.items())

    @property
    def all_offsets(self) -> str:
        """The offsets of each queue, with its mark."""
        return ";".join(
            f"{mark} {queue_id} {_join_numbers(offsets)}" for (mark, queue_id), offsets in self._offsets.items()
        )


def _place_of(delivery: "DeliveredMessage") -> tuple[int, int]:
    """Return the retry mark and the queue id that clients see."""
    return int(delivery.handle.queue_id == RETRY_QUEUE_ID), delivery.message.queue.queue_id


def _join_numbers(numbers: "Iterable[int]") -> str:
    return ",".join(map(str, numbers))
