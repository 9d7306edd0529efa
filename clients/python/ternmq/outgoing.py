"""From messages to SendMessage requests and from replies to outcomes; pure, and the hot path of a producer.

A request is built from one template: what all its messages share (topic, host, time) is set once and merged in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from ternmq.errors import ClientError, InternalError, error_of
from ternmq.hooks import Sending
from ternmq.identity import hostname
from ternmq.message import DELAY_LEVEL_PROPERTY, Message, SendReceipt
from ternmq.wire_time import NANOS_PER_MS, duration, timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

Outcome = SendReceipt | ClientError

BATCH_MESSAGES_MAX = 1000
# What ids, timestamps, host name and framing take, and the server's own fields beside them; generous.
OVERHEAD_BYTES = 512


@dataclass(slots=True)
class Batch:
    """Messages of one topic for one request, with their places in the user's call."""

    topic: str
    messages: list[Message] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    # At most; what they are counted as.
    bytes: int = 0


def batches_of(messages: Sequence[Message], *, bytes_max: int) -> dict[str, list[Batch]]:
    """The requests for many messages, by topic; each is within the limits of count and size, and keeps the order."""
    batches: dict[str, list[Batch]] = {}
    for place, message in enumerate(messages):
        size = _size_bytes(message)
        of_topic = batches.get(message.topic)
        if of_topic is None:
            of_topic = batches[message.topic] = [Batch(message.topic)]
        batch = of_topic[-1]
        if batch.messages and (batch.bytes + size > bytes_max or len(batch.messages) >= BATCH_MESSAGES_MAX):
            batch = Batch(message.topic)
            of_topic.append(batch)
        batch.messages.append(message)
        batch.places.append(place)
        batch.bytes += size
    return batches


def build_request(
    sending: Sending, *, queue_id: int, born_ns: int, compress_from_bytes: int | None
) -> rpc.SendMessageRequest:
    template = pb.Message(
        topic=pb.Resource(name=sending.topic),
        system_properties=pb.SystemProperties(
            body_encoding=pb.IDENTITY,
            born_timestamp=timestamp(born_ns),
            born_host=hostname(),
            queue_id=queue_id,
            trace_context=sending.trace_context,
        ),
    )
    if sending.recovery is not None:
        recovery = duration(sending.recovery.total_seconds())
        template.system_properties.orphaned_transaction_recovery_duration.CopyFrom(recovery)
    request = rpc.SendMessageRequest()
    add = request.messages.add
    for message, message_id in zip(sending.messages, sending.message_ids, strict=True):
        wire = add()
        wire.MergeFrom(template)
        system = wire.system_properties
        system.message_id = message_id
        system.message_type = pb.TRANSACTION if sending.transactional else message.message_type
        if message.tag is not None:
            system.tag = message.tag
        if message.keys:
            system.keys.extend(message.keys)
        if message.properties:
            properties = wire.user_properties
            for name, value in message.properties.items():  # its update() is slow
                properties[name] = value
        if message.message_type != pb.NORMAL:
            _set_kind(wire, message, sending.started_ns)
        if compress_from_bytes is not None and len(message.body) >= compress_from_bytes:
            system.body_encoding = pb.GZIP
            wire.body = _gzipped(message.body)
        else:
            wire.body = message.body
    return request


def outcomes_of(topic: str, message_ids: Sequence[str], response: rpc.SendMessageResponse) -> list[Outcome]:
    """One outcome per message.

    Apache RocketMQ answers a batch with a single entry whose ids mean the batch: the messages have the ids that the
    client gave them, and follow each other from the entry's offset on.
    """
    count, entries = len(message_ids), response.entries
    if len(entries) == count:
        return [_outcome(topic, message_id, entry) for message_id, entry in zip(message_ids, entries, strict=True)]
    if response.status.code != pb.OK:
        error = error_of(response.status.code, response.status.message)
        return [error] * count
    if len(entries) == 1:
        first = entries[0].offset
        return [SendReceipt(message_id, topic, first + index) for index, message_id in enumerate(message_ids)]
    wrong = InternalError(pb.INTERNAL_ERROR, f"the server answered {len(entries)} results for {count} messages")
    return [wrong] * count


def repeatable(outcomes: Sequence[Outcome], messages: Sequence[Message]) -> Iterator[int]:
    """The places of the failed messages that may be sent again.

    When a part of a request was stored, ordered messages of the rest aren't repeated: they would come after their
    successors.
    """
    partly = any(not isinstance(outcome, ClientError) for outcome in outcomes)
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, ClientError) and outcome.retryable:
            if partly and messages[index].message_type == pb.FIFO:
                continue
            yield index


def _gzipped(body: bytes) -> bytes:
    import gzip  # few need it

    # The time in gzip's header would make the same body different bytes each time.
    return gzip.compress(body, mtime=0)


def _outcome(topic: str, message_id: str, entry: rpc.SendResultEntry) -> Outcome:
    if entry.status.code != pb.OK:
        return error_of(entry.status.code, entry.status.message)
    return SendReceipt(message_id, topic, entry.offset, entry.transaction_id, entry.recall_handle)


def _set_kind(wire: pb.Message, message: Message, started_ns: int) -> None:
    system = wire.system_properties
    if message.message_group is not None:
        system.message_group = message.message_group
    if message.priority is not None:
        system.priority = message.priority
    if message.delay_level is not None:
        wire.user_properties[DELAY_LEVEL_PROPERTY] = str(message.delay_level)
    delivery_ms = message.delivery_timestamp_ms
    if message.delay is not None:
        delivery_ms = due_ms(started_ns, message.delay)
    if delivery_ms is not None:
        system.delivery_timestamp.CopyFrom(timestamp(delivery_ms * NANOS_PER_MS))


def due_ms(started_ns: int, delay: timedelta) -> int:
    """When a delay that began at `started_ns` is over, in milliseconds since 1970; rounded up, so never too early."""
    due_ns = started_ns + delay // timedelta(microseconds=1) * 1000
    return max(0, -(-due_ns // NANOS_PER_MS))


def _size_bytes(message: Message) -> int:
    characters = len(message.tag) if message.tag is not None else 0
    for key in message.keys:
        characters += len(key)
    if message.properties:
        for name, value in message.properties.items():
            characters += len(name) + len(value)
    return len(message.body) + OVERHEAD_BYTES + 4 * characters  # at most four bytes each
