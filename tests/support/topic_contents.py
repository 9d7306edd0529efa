"""All that a topic has, queue by queue, for tests that count."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ternmq.connections.route import RouteQueue
from ternmq.pull.offset_reader import OffsetReader
from ternmq_protos.v2 import definition_pb2 as pb


@dataclass(frozen=True, slots=True)
class Stored:
    """One message where it is: `broker/queue id`, and its offset there."""

    queue: str
    queue_offset: int
    message: pb.Message

    @property
    def message_id(self) -> str:
        return self.message.system_properties.message_id

    @property
    def body(self) -> bytes:
        return self.message.body


def stored(endpoint: str, topic: str) -> list[Stored]:
    """Each queue's messages in their order."""
    with OffsetReader(endpoint) as reader:
        return [one for queue in reader.queues(topic) for one in _of_queue(reader, queue)]


def _of_queue(reader: OffsetReader, queue: RouteQueue) -> Iterator[Stored]:
    name = f"{queue.broker}/{queue.queue_id}"
    for part in reader.read(queue, reader.offset(queue, "earliest"), reader.offset(queue, "latest")):
        for message in part.messages:
            yield Stored(name, message.system_properties.queue_offset, message)


def bodies(endpoint: str, topic: str) -> list[bytes]:
    """Without any order, sorted."""
    return sorted(one.body for one in stored(endpoint, topic))


def count(endpoint: str, topic: str) -> int:
    """How many messages there are, by offsets alone."""
    with OffsetReader(endpoint) as reader:
        queues = reader.queues(topic)
        first, end = reader.offsets(queues, "earliest"), reader.offsets(queues, "latest")
        return sum(end) - sum(first)


def without_repetitions(found: list[Stored]) -> list[Stored]:
    """The first of each message id; AssertionError if two of one id have different bodies."""
    by_id: dict[str, Stored] = {}
    for one in found:
        first = by_id.setdefault(one.message_id, one)
        assert first.body == one.body, f"message id {one.message_id} has two bodies"
    return list(by_id.values())


def order_of(found: list[Stored], key: Callable[[Stored], str]) -> dict[str, list[bytes]]:
    """The bodies of each group in the order of their offsets."""
    groups: dict[str, list[bytes]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one.body)
    return groups
