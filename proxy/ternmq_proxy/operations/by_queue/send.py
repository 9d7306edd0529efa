"""Sends to the message queue that the producer chose.

The topic is created by its first message, for all types of messages, as RocketMQ 4.x knows no types. In a topic that
accepts FIFO messages, a message without a message group belongs to the group of its queue, so that consumers that
receive by message group keep the order that the producer chose.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.names import group_of_derived
from ternmq_common.shard.model import HalfMessage, QueueRef, TimedMessage
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_proxy.access.needs import TOPIC_CREATE, TOPIC_PUB
from ternmq_proxy.operations.by_queue.queues import check_used_name
from ternmq_proxy.operations.message_checks import check_message, type_conflict
from ternmq_proxy.operations.send_special import SendInParts, set_due_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import NewMessage, Placed, Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services

_RPC: Final = "SendMessage"
QUEUE_GROUP: Final = "queue-"
"""The prefix of the message group of a queue."""


class ChosenQueue:
    """The queue that a producer chose; a negative id is any queue, an empty broker the only one, or any. A topic that
    the message creates has at most `queues_wanted` queues."""

    __slots__ = ("broker", "queue_id", "queues_wanted", "topic")

    def __init__(
        self,
        topic: str,
        broker: str,
        queue_id: int,
        queues_wanted: int,
    ) -> None:
        self.topic = topic
        self.broker = broker
        self.queue_id = queue_id
        self.queues_wanted = queues_wanted


class PlacedMessage:
    """The place of a stored message. `log_offset` is in the commit log of the queue's broker, -1 if it is not known; a
    hidden message has its `recall_handle` or `transaction_id`."""

    __slots__ = ("log_offset", "message_id", "queue", "queue_offset", "recall_handle", "transaction_id")

    def __init__(
        self,
        queue: QueueRef,
        message_id: str,
        queue_offset: int,
        log_offset: int,
        recall_handle: str = "",
        transaction_id: str = "",
    ) -> None:
        self.queue = queue
        self.message_id = message_id
        self.queue_offset = queue_offset
        self.log_offset = log_offset
        self.recall_handle = recall_handle
        self.transaction_id = transaction_id


async def send_to_queue(
    messages: "Sequence[ProducerMessage]", chosen: ChosenQueue, call: "Call", services: "Services", *, size: int
) -> list[PlacedMessage]:
    """Store messages of one topic in the queue, in order, or none of them. `size` is that of the request in bytes.

    Several messages must be ordinary ones. Raises UNAUTHORIZED unless the user may send to the topic,
    TOO_MANY_REQUESTS above a quota, BAD_REQUEST for a queue that the topic does not have.
    """
    services.access.require_right(_RPC, call, TOPIC_PUB, chosen.topic)
    call.require_client()
    topic = await _find_topic(chosen, call, services)
    queue = _find_queue(topic, chosen, services)
    now_ms = services.clock.now_ms()
    turns = WorkTurns() if len(messages) > 1 else None
    kind = MessageType.NORMAL
    for message in messages:
        if turns is not None:
            await turns.next_turn()
        kind = _check_message(message, topic, queue, services, now_ms)
        if len(messages) > 1 and kind not in (MessageType.NORMAL, MessageType.FIFO):
            raise MessagingError(ErrorCode.MESSAGE_CORRUPTED, f"a batch has ordinary messages only, not {kind.name}")
    if services.quotas.limits_in:
        services.quotas.admit_messages(call.user, topic.name, call.client_id, len(messages), size)
    sending = SendInParts(messages, kind, services.messages.find_route(topic), now_ms, call, services, turns)
    try:
        if kind == MessageType.DELAY:
            return [await _schedule_message(messages[0], queue, sending)]
        if kind == MessageType.TRANSACTION:
            return [await _begin_transaction(messages[0], queue, sending)]
        stored = [await sending.take_stored_form(message) for message in messages]
        return await append_to_queue(queue, stored, services)
    finally:
        sending.release_inflation()


def send_nowait(
    message: "NewMessage", chosen: ChosenQueue, call: "Call", services: "Services", done: "Placed", *, size: int
) -> bool:
    """Store an ordinary message without waiting; `done` is called when it may be acknowledged. Return False, with
    nothing done, for what takes longer: a topic that is not known here, or not one of ordinary messages only.

    Raises as `send_to_queue` does.
    """
    queue = _admit_ordinary(1, chosen, call, services, size)
    if queue is None:
        return False
    services.messages.sending.append_one_nowait(queue, message, done)
    return True


async def send_ordinary_batch(
    messages: "Sequence[NewMessage]", chosen: ChosenQueue, call: "Call", services: "Services", *, size: int
) -> list[PlacedMessage] | None:
    """Store ordinary messages in order, or none of them. Return None as `send_nowait` returns False."""
    queue = _admit_ordinary(len(messages), chosen, call, services, size)
    return None if queue is None else await append_to_queue(queue, messages, services)


def _admit_ordinary(count: int, chosen: ChosenQueue, call: "Call", services: "Services", size: int) -> QueueRef | None:
    """Return the queue of ordinary messages that may be sent now, None if that takes longer."""
    topic = services.catalog.known_topic(chosen.topic)
    if topic is None or chosen.topic.startswith("%"):
        return None
    if MessageType.NORMAL not in topic.accepted_types or topic.type == MessageType.FIFO:
        return None
    services.access.require_right(_RPC, call, TOPIC_PUB, chosen.topic)
    queue = _find_queue(topic, chosen, services)
    if services.quotas.limits_in:
        services.quotas.admit_messages(call.user, chosen.topic, call.client_id, count, size)
    return queue


async def append_to_queue(queue: QueueRef, stored: "Sequence[NewMessage]", services: "Services") -> list[PlacedMessage]:
    """Append messages in stored form."""
    return [
        PlacedMessage(
            QueueRef(queue.topic, each.broker, queue.queue_id) if each.broker not in ("", queue.broker) else queue,
            each.message_id,
            each.queue_offset,
            each.log_offset,
        )
        for each in await services.messages.sending.append(queue, stored)
    ]


async def _find_topic(chosen: ChosenQueue, call: "Call", services: "Services") -> "Topic":
    name = check_used_name(chosen.topic)
    if group_of_derived(name) is not None:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"topic {name!r} is written by the broker alone")
    may_create = services.access.has_right(call, TOPIC_CREATE, name)
    admit = partial(services.quotas.admit_topic, call.user)
    return await services.catalog.ensure_topic(
        name, may_create=may_create, admit=admit, mixed=True, queues_max=max(1, chosen.queues_wanted)
    )


def _find_queue(topic: "Topic", chosen: ChosenQueue, services: "Services") -> QueueRef:
    """Return the queue that was chosen. Whether its topic can be written is decided by the route that clients got, and
    by the broker."""
    route = services.messages.find_route(topic)
    if chosen.queue_id >= topic.queues:
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"topic {topic.name!r} has the queues 0 to {topic.queues - 1}, not {chosen.queue_id}",
        )
    if chosen.queue_id < 0:
        return services.placement.next_queue(route)
    where = f"{chosen.broker}/" if len(route.brokers) > 1 and chosen.broker else ""
    return services.placement.queue_for(route, f"{where}{chosen.queue_id}")


def _check_message(
    message: "ProducerMessage", topic: "Topic", queue: QueueRef, services: "Services", now_ms: int
) -> MessageType:
    """Return the message's type. Raises the error of the first rule that it breaks."""
    accepted = topic.accepted_types
    if MessageType.FIFO not in accepted:
        message.message_group = ""
    elif topic.type == MessageType.FIFO and not message.message_group:
        message.message_group = f"{QUEUE_GROUP}{queue.queue_id}"
    if message.is_transaction or message.delivery_ns is not None:
        message.message_group = ""
    kind = check_message(message, services.limits, now_ms)
    if kind not in accepted:
        raise type_conflict(topic, kind)
    return kind


async def _schedule_message(message: "ProducerMessage", queue: QueueRef, sending: SendInParts) -> PlacedMessage:
    services = sending.services
    if problem := services.clock.find_problem():
        raise MessagingError(ErrorCode.HA_NOT_AVAILABLE, f"this proxy: {problem}")
    due_ms = set_due_time(message, sending.now_ms)
    stored = await sending.take_stored_form(message)
    if due_ms <= sending.now_ms:
        [placed] = await append_to_queue(queue, [stored], services)
        return placed
    [appended] = await services.messages.sending.schedule(queue, [TimedMessage(stored, due_ms)])
    broker = appended.broker or queue.broker
    handle = RecallHandle(queue.topic, broker, due_ms, appended.message_id).encode_handle(services.handles.keys)
    own_queue = QueueRef(queue.topic, broker, queue.queue_id)
    return PlacedMessage(own_queue, appended.message_id, appended.queue_offset, appended.queue_offset, handle)


async def _begin_transaction(message: "ProducerMessage", queue: QueueRef, sending: SendInParts) -> PlacedMessage:
    services = sending.services
    recovery_ms = message.recovery_ms if message.recovery_ms > 0 else None
    half = HalfMessage(await sending.take_stored_form(message), sending.call.client_id, recovery_ms)
    appended = await services.messages.sending.begin_transaction(queue, half)
    return PlacedMessage(
        queue,
        appended.message_id,
        appended.queue_offset,
        appended.queue_offset,
        transaction_id=appended.transaction_id,
    )
