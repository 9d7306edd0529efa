"""Finds the message queue that a client names by which it keeps offsets of its own."""

from typing import TYPE_CHECKING

from ternmq_common.names import TRACE_TOPIC, check_topic_name
from ternmq_proxy.operations.message_queues import find_queue_of

if TYPE_CHECKING:
    from ternmq_common.shard.model import QueueRef, Topic
    from ternmq_proxy.services import Services


def check_used_name(name: str) -> str:
    """Check that a client may use a topic of that name, which may be that of message traces. ILLEGAL_TOPIC."""
    return name if name == TRACE_TOPIC else check_topic_name(name)


async def find_used_topic(name: str, services: "Services") -> "Topic":
    """Return the topic, as `Catalog.existing_topic` does, that of message traces too."""
    topic = services.catalog.known_topic(name)
    return await services.catalog.existing_topic(check_used_name(name)) if topic is None else topic


async def find_queue(named: "QueueRef", services: "Services") -> "QueueRef":
    """Return the queue with the name of its broker, as `message_queues.find_queue` does, of the traces' topic too."""
    return find_queue_of(await find_used_topic(named.topic, services), named, services)
