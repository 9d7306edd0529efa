"""Makes a dead letter of a message in stored form, as brokers and proxies do.

Its origin (`consuming.md, Dead letters`) is in `SystemProperties.dead_letter_queue`, and in user properties, since some
clients show only these.
"""

from typing import TYPE_CHECKING

from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON, DeadLetterReason
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2.definition_pb2 import Message, SystemProperties

if TYPE_CHECKING:
    from collections.abc import Mapping


def make_dead_letter(
    tag_hash: int, system: bytes, rest: bytes, *, topic: str, attempts: int, reason: DeadLetterReason
) -> NewMessage:
    """Return the dead letter of a message; `topic` is the one that the message was sent to."""
    properties = SystemProperties.FromString(system)
    properties.dead_letter_queue.topic = topic
    properties.dead_letter_queue.message_id = properties.message_id
    origin = {
        ORIGIN_TOPIC: topic,
        ORIGIN_MESSAGE_ID: properties.message_id,
        ATTEMPTS: str(attempts),
        REASON: reason.value,
    }
    return NewMessage(
        tag_hash,
        properties.SerializeToString(),
        add_properties(rest, origin),
        (properties.message_id, *properties.keys),
    )


def add_properties(rest: bytes, properties: "Mapping[str, str]") -> bytes:
    """Add user properties to a serialized message: appended entries of a map replace earlier ones of their key."""
    return rest + Message(user_properties=properties).SerializeToString()
