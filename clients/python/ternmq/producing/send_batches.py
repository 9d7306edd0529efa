"""Splits messages into requests, and reads the outcome of each message from the answer. Pure; in a producer's hot
path."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ternmq.errors import ClientError, InternalError, create_error
from ternmq.messages.message import Message, SendReceipt
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

Outcome = SendReceipt | ClientError

BATCH_MESSAGES_MAX: Final = 1000
# A generous estimate for ids, timestamps, host name, framing, and the server's own fields.
OVERHEAD_BYTES: Final = 512


@dataclass(slots=True)
class SendBatch:
    """Messages of one topic for one request, with their indexes in the user's call."""

    topic: str
    messages: list[Message] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    # An upper limit of their size, used for the limits of a request.
    bytes: int = 0


def split_batches(messages: Sequence[Message], *, bytes_max: int) -> dict[str, list[SendBatch]]:
    """Split messages into requests, by topic; each is within the limits of count and size, and keeps the order."""
    batches: dict[str, list[SendBatch]] = {}
    for place, message in enumerate(messages):
        size = _size_bytes(message)
        of_topic = batches.get(message.topic)
        if of_topic is None:
            of_topic = batches[message.topic] = [SendBatch(message.topic)]
        batch = of_topic[-1]
        if batch.messages and (batch.bytes + size > bytes_max or len(batch.messages) >= BATCH_MESSAGES_MAX):
            batch = SendBatch(message.topic)
            of_topic.append(batch)
        batch.messages.append(message)
        batch.places.append(place)
        batch.bytes += size
    return batches


def read_outcomes(topic: str, message_ids: Sequence[str], response: rpc.SendMessageResponse) -> list[Outcome]:
    """Return one outcome for each message.

    Apache RocketMQ answers a batch with a single entry whose ids stand for the batch: the messages have the ids that
    the client gave them, and consecutive offsets from the entry's on.
    """
    count, entries = len(message_ids), response.entries
    if len(entries) == count:
        return [_read_outcome(topic, message_id, entry) for message_id, entry in zip(message_ids, entries, strict=True)]
    if response.status.code != pb.OK:
        error = create_error(response.status.code, response.status.message)
        return [error] * count
    if len(entries) == 1:
        first = entries[0].offset
        return [SendReceipt(message_id, topic, first + index) for index, message_id in enumerate(message_ids)]
    wrong = InternalError(pb.INTERNAL_ERROR, f"the server answered {len(entries)} results for {count} messages")
    return [wrong] * count


def repeatable_indexes(outcomes: Sequence[Outcome], messages: Sequence[Message]) -> Iterator[int]:
    """Yield the indexes of the failed messages that may be sent again.

    If a part of a request was stored, ordered messages of the rest aren't repeated: they would be stored after their
    successors.
    """
    partly = any(not isinstance(outcome, ClientError) for outcome in outcomes)
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, ClientError) and outcome.retryable:
            if partly and messages[index].order_key is not None:
                continue
            yield index


def _read_outcome(topic: str, message_id: str, entry: rpc.SendResultEntry) -> Outcome:
    if entry.status.code != pb.OK:
        return create_error(entry.status.code, entry.status.message)
    return SendReceipt(message_id, topic, entry.offset, entry.transaction_id, entry.recall_handle)


def _size_bytes(message: Message) -> int:
    characters = len(message.tag) if message.tag is not None else 0
    for key in message.keys:
        characters += len(key)
    if message.properties:
        for name, value in message.properties.items():
            characters += len(name) + len(value)
    return len(message.body) + OVERHEAD_BYTES + 4 * characters  # at most four bytes each
