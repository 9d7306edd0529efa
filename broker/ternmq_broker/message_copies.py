"""Copies of a stored message: for retry topics, dead letters, the queue of a timed or half message, the discard topic.

A copy keeps its message's id, body, tag, keys, properties and time of birth. A dead letter also has its origin
(`ternmq_common.shard.dead_letter_form`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.derived_indexes import keys_of
from ternmq_broker.store.log.record import RestReference
from ternmq_common.shard.dead_letter_form import add_properties, make_dead_letter
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_broker.store.index.queue_index import MessageLocation
    from ternmq_broker.store.log.record import Record
    from ternmq_common.dead_letters import DeadLetterReason

# RocketMQ's names. Producers can't use them, so they don't collide with theirs.
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
CHECKS: Final = "TRAN_MSG"
STORED_MS: Final = "ARRIVE_TIME"


# A copy of a short message costs less than reading two records for it; long ones would exceed a batch unnoticed, as
# its size is computed from the sizes of records.
_REFERRED_BYTES: Final = range(512, 64 * 1024)


def copy_message(record: "Record") -> NewMessage:
    """Copy the message whole."""
    return NewMessage(record.tag_hash, record.system, record.rest, keys_of(record.system))


def copy_by_reference(record: "Record", location: "MessageLocation") -> tuple[NewMessage, RestReference | None]:
    """Copy the message; body and properties of a certain length stay in the record at `location`."""
    if record.reference is not None or len(record.rest) not in _REFERRED_BYTES:
        return copy_message(record), None
    message = NewMessage(record.tag_hash, record.system, b"", keys_of(record.system))
    return message, RestReference(location.log_offset, location.size)


def create_dead_letter(record: "Record", *, topic: str, attempts: int, reason: "DeadLetterReason") -> NewMessage:
    """A dead letter with its origin; `topic` is the topic to which the message was sent."""
    return make_dead_letter(record.tag_hash, record.system, record.rest, topic=topic, attempts=attempts, reason=reason)


def create_discarded(record: "Record", *, checks: int) -> NewMessage:
    """A half message for the discard topic, with what is needed to commit it later."""
    properties = {
        REAL_TOPIC: record.topic,
        REAL_QUEUE_ID: str(record.queue_id),
        CHECKS: str(checks),
        STORED_MS: str(record.stored_ms),
    }
    keys = keys_of(record.system)
    return NewMessage(record.tag_hash, record.system, add_properties(record.rest, properties), keys)


@dataclass(frozen=True, slots=True)
class DiscardedHalf:
    """A discarded half message: its topic and queue, its number of checks, the message, and when it was stored.

    `stored_ms` is None of a copy of the first builds, which did not write it.
    """

    target_queue: tuple[str, int]
    checks: int
    message: NewMessage
    stored_ms: int | None


def parse_discarded(record: "Record") -> DiscardedHalf:
    """Read the half message back from a record of the discard topic."""
    message = definition_pb2.Message.FromString(record.rest)
    names = (REAL_TOPIC, REAL_QUEUE_ID, CHECKS, STORED_MS)
    topic, queue_id, checks, stored_ms = (message.user_properties.pop(name, "") for name in names)
    half = NewMessage(record.tag_hash, record.system, message.SerializeToString(), keys_of(record.system))
    return DiscardedHalf((topic, int(queue_id)), int(checks), half, int(stored_ms) if stored_ms else None)
