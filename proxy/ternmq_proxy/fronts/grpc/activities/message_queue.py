"""Message queues of the protocol as the plain values that operations take."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import QueueRef

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import MessageQueue


def read_queue(queue: "MessageQueue") -> QueueRef:
    """Return the queue that the request names."""
    return QueueRef(queue.topic.name, queue.broker.name, queue.id)
