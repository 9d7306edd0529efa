"""Sends the messages of one producer to one topic (`sending.md, Checks`).

`send_ordinary.py` has the sends that wait for nothing but the log.
"""

from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.names import check_topic_name, group_of_derived
from ternmq_proxy.access.needs import TOPIC_CREATE, TOPIC_PUB
from ternmq_proxy.operations.delay_level import has_delay_level, take_delay_level
from ternmq_proxy.operations.message_checks import check_message, type_conflict
from ternmq_proxy.operations.send_special import SendInParts, send_special
from ternmq_proxy.operations.sent_message import SentMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services


async def send_messages(
    messages: "Sequence[ProducerMessage]", call: "Call", services: "Services", *, size: int
) -> list[SentMessage]:
    """Store a client's messages; return the outcome of each, in order. `size` is that of the request in bytes, by which
    quotas count.

    NORMAL messages go to one queue, and are stored in order or not at all: then this raises. `send_special` has the
    outcomes of the others. Raises UNAUTHORIZED unless the user may send to the topic, TOO_MANY_REQUESTS above a quota.
    """
    for topic in {message.topic for message in messages}:
        services.access.require_right("SendMessage", call, TOPIC_PUB, topic)
    call.require_client()
    return await store_messages(messages, call, services, size=size)


async def store_messages(
    messages: "Sequence[ProducerMessage]", call: "Call", services: "Services", *, size: int
) -> list[SentMessage]:
    """Store messages of a caller that need not be a client, and whose right to send was checked before."""
    now = services.clock.now_ms()
    if not messages:
        raise MessagingError(ErrorCode.MESSAGE_CORRUPTED, "the request has no message")
    name = check_topic_name(messages[0].topic)
    if group_of_derived(name) is not None:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC, f"topic {name!r} is written by the broker alone; send to the topic itself"
        )
    turns = WorkTurns() if len(messages) > 1 else None
    kinds = await _check_messages(messages, name, now, services, turns)
    topic = await _find_topic(name, kinds, call, services)
    for kind in kinds:
        _check_type(kind, kinds[0], topic)
    if services.quotas.limits_in:
        services.quotas.admit_messages(call.user, name, call.client_id, len(messages), size)
    sending = SendInParts(messages, kinds[0], services.messages.find_route(topic), now, call, services, turns)
    try:
        if kinds[0] != MessageType.NORMAL:
            return await send_special(sending)
        return await _send_normal(sending, turns)
    finally:
        sending.release_inflation()


async def _check_messages(
    messages: "Sequence[ProducerMessage]", topic: str, now_ms: int, services: "Services", turns: WorkTurns | None
) -> list[MessageType]:
    """Return the type of each message. Raises the error of the first that breaks a rule."""
    takes_levels = any(map(has_delay_level, messages)) and (
        MessageType.DELAY in await services.catalog.find_accepted_types(topic)
    )
    kinds: list[MessageType] = []
    for message in messages:
        if turns is not None:
            await turns.next_turn()
        if takes_levels:
            take_delay_level(message, services.delay_levels_ms, now_ms)
        _check_topic(message, messages[0])
        kinds.append(check_message(message, services.limits, now_ms))
    return kinds


async def _find_topic(name: str, kinds: list[MessageType], call: "Call", services: "Services") -> "Topic":
    if min(kinds) != max(kinds):  # the topic can't accept all of them
        return await services.catalog.existing_topic(name, max(kinds))  # NORMAL is the least
    may_create = services.access.has_right(call, TOPIC_CREATE, name)
    admit = partial(services.quotas.admit_topic, call.user)
    return await services.catalog.ensure_topic(name, kinds[0], may_create=may_create, admit=admit)


async def _send_normal(sending: SendInParts, turns: WorkTurns | None) -> list[SentMessage]:
    services = sending.services
    stored = [await sending.take_stored_form(message) for message in sending.messages]
    if turns is not None:
        await turns.next_turn()
    queue = services.placement.queue_for(sending.route, sending.call.chosen_queue)
    appended = await services.messages.sending.append(queue, stored)
    if turns is not None:
        await turns.next_turn()
    return [SentMessage(each.message_id, each.queue_offset) for each in appended]


def _check_topic(message: "ProducerMessage", first: "ProducerMessage") -> None:
    if message.topic != first.topic or message.namespace != first.namespace:
        raise MessagingError(
            ErrorCode.MESSAGE_CORRUPTED,
            f"the request mixes topics {first.topic!r} and {message.topic!r}; send one request for each",
        )


def _check_type(kind: MessageType, first: MessageType, topic: "Topic") -> None:
    if kind not in topic.accepted_types:
        raise type_conflict(topic, kind)
    if kind != first:
        raise MessagingError(
            ErrorCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"the request has {first.name} and {kind.name} messages; send one request for each type",
        )
