"""Copies of a stored message for the retry topic and the dead letters of a group.

A copy keeps its message's id, body, tag, keys, properties and time of birth. A dead letter also says where it came
from (`consumer.md` 7.3): in `SystemProperties.dead_letter_queue`, and in user properties, which are all that some
clients show.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.message_store import Incoming
from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON, Reason
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_broker.store.record import Record


def retry_copy(record: "Record") -> Incoming:
    """The message as it was."""
    properties = definition_pb2.SystemProperties.FromString(record.system)
    return Incoming(record.tag_hash, record.system, record.rest, (properties.message_id, *properties.keys))


def dead_letter(record: "Record", *, topic: str, attempts: int, reason: Reason) -> Incoming:
    """The message with where it came from; `topic` is the one that it was sent to."""
    properties = definition_pb2.SystemProperties.FromString(record.system)
    properties.dead_letter_queue.topic = topic
    properties.dead_letter_queue.message_id = properties.message_id
    origin = {
        ORIGIN_TOPIC: topic,
        ORIGIN_MESSAGE_ID: properties.message_id,
        ATTEMPTS: str(attempts),
        REASON: reason.value,
    }
    return Incoming(
        record.tag_hash,
        properties.SerializeToString(),
        _with_properties(record.rest, origin),
        (properties.message_id, *properties.keys),
    )


def _with_properties(rest: bytes, properties: "Mapping[str, str]") -> bytes:
    """A serialized message with more user properties: appended, entries of a map replace earlier ones of their key."""
    return rest + definition_pb2.Message(user_properties=properties).SerializeToString()
