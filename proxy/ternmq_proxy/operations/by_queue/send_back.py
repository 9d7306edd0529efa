"""Messages that a pulling group failed on: again after a while, or dead letters.

A copy is stored in the group's retry queue, which has offsets of its own and one queue on each broker; the group's
members pull it like any other. Each time the wait is longer (delay levels from `_FIRST_LEVEL` on). After the last time
the message is a dead letter like those of groups that receive. The message itself stays where it is, and the member
that sent it back goes on behind it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.catalog.delay_levels import delay_of_level
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.dead_letters import DeadLetterReason
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import dead_letter_topic, retry_topic
from ternmq_common.shard.dead_letter_form import make_dead_letter
from ternmq_common.shard.model import NewMessage, QueueRef, TimedMessage
from ternmq_proxy.access.needs import GROUP_SUB
from ternmq_proxy.operations.by_queue.locks import has_locks
from ternmq_proxy.operations.by_queue.look_up import read_place
from ternmq_proxy.operations.by_queue.pull import ensure_pulling_group
from ternmq_proxy.operations.by_queue.send import PlacedMessage
from ternmq_proxy.operations.message_checks import check_message
from ternmq_proxy.operations.message_queues import find_queue
from ternmq_proxy.operations.rights import require_consumer
from ternmq_proxy.operations.send_special import SendInParts, due_time_ms
from ternmq_proxy.processors.sending.retry_copies import RetryCopy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import ConsumerGroup
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services

_RPC = "SendBack"
_FIRST_LEVEL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBack:
    """A message that a member sends back, at one of these places: brokers with offsets in their logs.

    A `delay_level` of 0 leaves the wait to the server, a negative one makes a dead letter. `retries_max` is how often
    the client wants to try again, None for the group's own limit. `origin_id` is the message's offset id; `topic`,
    `message_id` and `broker` are what the client knows of it, each possibly empty.
    """

    group: str
    places: "Sequence[tuple[str, int]]"
    delay_level: int
    origin_id: str
    topic: str = ""
    message_id: str = ""
    broker: str = ""
    retries_max: int | None = None


async def send_back(request: SentBack, call: "Call", services: "Services") -> bool:
    """Store the message for a retry, or as a dead letter; False if no message is at its place."""
    services.access.require_right(_RPC, call, GROUP_SUB, request.group)
    group = await ensure_pulling_group(request.group, call, services)
    stored = await read_place(request.places, services, message_id=request.message_id, broker=request.broker)
    if stored is None:
        return False
    # Numbers can be guessed: a user gets no copy of messages that he may not read.
    require_consumer(_RPC, call, group.name, stored.queue.topic, services)
    copy = RetryCopy(stored, group.name, request.topic)
    broker = stored.queue.broker
    if request.delay_level < 0 or copy.failures > retries_of(group, request.retries_max):
        message = copy.make_message(request.origin_id, -1)
        reason = DeadLetterReason.FORWARDED if request.delay_level < 0 else DeadLetterReason.ATTEMPTS
        await _store_dead_letter(message, broker, group.name, copy.origin_topic, copy.failures, reason, services)
        return True
    level = min(request.delay_level or _FIRST_LEVEL - 1 + copy.failures, len(services.delay_levels_ms))
    due_ms = services.clock.now_ms() + delay_of_level(services.delay_levels_ms, level)
    timed = TimedMessage(copy.make_message(request.origin_id, level), due_ms)
    await services.messages.sending.schedule(QueueRef(retry_topic(group.name), broker, 0), [timed])
    return True


def retries_of(group: "ConsumerGroup", wanted: int | None) -> int:
    """Return how often the group tries again after a first failure."""
    return group.max_attempts - 1 if wanted is None or wanted < 0 else wanted


async def _store_dead_letter(
    message: NewMessage,
    broker: str,
    group: str,
    topic: str,
    attempts: int,
    reason: DeadLetterReason,
    services: "Services",
) -> PlacedMessage:
    letter = make_dead_letter(
        message.tag_hash, message.system, message.rest, topic=topic, attempts=attempts, reason=reason
    )
    queue = QueueRef(dead_letter_topic(group), broker, 0)
    [stored] = await services.messages.sending.append(queue, [letter])
    place = QueueRef(queue.topic, stored.broker or broker, 0)
    return PlacedMessage(place, stored.message_id, stored.queue_offset, stored.log_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRetry:
    """An ordinary message to the group's retry queue: what a member sends if it can't send back, or if it gives up in
    an ordered queue. `failures` is how often the group failed on it; an empty `broker` is any."""

    group: str
    broker: str
    topic: str
    failures: int
    retries_max: int | None = None


async def send_retry(
    message: "ProducerMessage", request: SentRetry, call: "Call", services: "Services", *, size: int
) -> PlacedMessage:
    """Store the message in the retry queue, at its time, or as a dead letter once the group failed too often, or if it
    consumes in order.

    `size` is that of the request in bytes.
    """
    services.access.require_right("SendMessage", call, GROUP_SUB, request.group)
    group = await ensure_pulling_group(request.group, call, services)
    queue = await _find_retry_queue(group.name, request.broker, services)
    now_ms = services.clock.now_ms()
    message.message_group = ""
    kind = check_message(message, services.limits, now_ms)
    if kind not in (MessageType.NORMAL, MessageType.DELAY):
        raise MessagingError(ErrorCode.MESSAGE_CORRUPTED, f"a retry can't be a message of type {kind.name}")
    if services.quotas.limits_in:
        services.quotas.admit_messages(call.user, queue.topic, call.client_id, 1, size)
    route = services.messages.find_route(services.catalog.find_topic(queue.topic))
    sending = SendInParts([message], kind, route, now_ms, call, services, None)
    delivery_ns = message.delivery_ns
    try:
        stored = await sending.take_stored_form(message)
    finally:
        sending.release_inflation()
    # A group with locks consumes in order: its members send a message here only to give it up.
    if request.failures > retries_of(group, request.retries_max) or await has_locks(group.name, services):
        return await _store_dead_letter(
            stored,
            queue.broker,
            group.name,
            request.topic or queue.topic,
            request.failures,
            DeadLetterReason.ATTEMPTS,
            services,
        )
    if delivery_ns is not None:
        timed = TimedMessage(stored, due_time_ms(delivery_ns))
        [placed] = await services.messages.sending.schedule(queue, [timed])
        broker = placed.broker or queue.broker
        return PlacedMessage(
            QueueRef(queue.topic, broker, 0), placed.message_id, placed.queue_offset, placed.queue_offset
        )
    [placed] = await services.messages.sending.append(queue, [stored])
    place = QueueRef(queue.topic, placed.broker or queue.broker, 0)
    return PlacedMessage(place, placed.message_id, placed.queue_offset, placed.log_offset)


async def _find_retry_queue(group: str, broker: str, services: "Services") -> QueueRef:
    name = retry_topic(group)
    if broker:
        return await find_queue(QueueRef(name, broker, 0), services)
    return services.placement.next_queue(services.messages.find_route(await services.catalog.existing_topic(name)))
