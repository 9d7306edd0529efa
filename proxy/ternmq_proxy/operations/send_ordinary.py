"""A send that waits for nothing but the log: NORMAL and half messages, and those of message groups and lite topics.

Fronts read such messages from the bytes of a request straight into stored form, and check each while they read it.
Nothing here explains an error of a message: `send.py` sends, or refuses, all messages that are not sent here.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.event_loop.callbacks import wait_until_stored
from ternmq_common.names import is_system_topic
from ternmq_common.shard.model import MIXED, HalfMessage
from ternmq_proxy.access.needs import TOPIC_PUB
from ternmq_proxy.processors.sending.placement import queue_of_group, queue_of_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.event_loop.fairness import WorkTurns
    from ternmq_common.shard.model import NewMessage, Placed, QueueRef, Stored, TopicRoute
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

OrderKey = tuple[str, str]
"""The message group and the lite topic of a message, each "" if it has none; at most one is set."""


def ordinary_type(order_key: OrderKey) -> MessageType:
    """Return the type of an ordinary message with this message group and lite topic."""
    message_group, lite_topic = order_key
    return MessageType.FIFO if message_group else MessageType.LITE if lite_topic else MessageType.NORMAL


def begin_ordinary_send(
    topic: str,
    order_key: OrderKey,
    messages: "Sequence[NewMessage]",
    size: int,
    call: "Call",
    services: "Services",
    stored: "Stored",
) -> bool:
    """Begin to store messages that all have this order key; `stored` is called when they are stored. Return False, with
    nothing done, if that needs more than the log, or if something is wrong.

    `size` is that of the request in bytes, by which quotas count; `call` has a checked client id. Raises UNAUTHORIZED
    unless its user may send to the topic, TOO_MANY_REQUESTS above a quota.
    """
    route = _admit_messages(topic, ordinary_type(order_key), len(messages), size, call, services)
    if route is None:
        return False
    message_group, lite_topic = order_key
    if message_group:
        queue = queue_of_group(route, message_group)
    elif lite_topic:
        queue = queue_of_lite(route, lite_topic)
    else:
        queue = services.placement.queue_for(route, call.options and call.chosen_queue)
    services.messages.sending.append_nowait(queue, messages, stored)
    return True


def begin_half_send(
    topic: str, message: "NewMessage", size: int, call: "Call", services: "Services", placed: "Placed"
) -> bool:
    """Begin to store a half message; `placed` is called when it is stored. See `begin_ordinary_send`."""
    route = _admit_messages(topic, MessageType.TRANSACTION, 1, size, call, services)
    if route is None:
        return False
    half = HalfMessage(message, call.client_id, None)
    queue = services.placement.queue_of_half(route, message.keys[0])
    try:
        return services.messages.sending.begin_transaction_nowait(queue, half, placed)
    except MessagingError as error:
        placed(None, error)
        return True


def _admit_messages(
    topic: str, kind: MessageType, count: int, size: int, call: "Call", services: "Services"
) -> "TopicRoute | None":
    """Return the route of messages that may be sent now, None if they are not ordinary."""
    services.access.require_right("SendMessage", call, TOPIC_PUB, topic)
    known = services.catalog.known_topic(topic)
    if (
        known is None
        or is_system_topic(topic)  # which exists if remoting clients send their traces to it
        or (kind not in MIXED if known.mixed else kind != known.type)
        or not count
        or (call.options and call.chosen_queue and kind != MessageType.NORMAL)
    ):
        return None
    quotas = services.quotas
    if quotas.limits_in:
        quotas.admit_messages(call.user, topic, call.client_id, count, size)
    return services.messages.find_route(known)


class OrdinaryResults(NamedTuple):
    """The queue offset of each message, in the order of the request; `errors` are those of messages that were not
    stored, by their positions."""

    offsets: "Sequence[int]"
    errors: dict[int, MessagingError]


async def send_ordinary(
    topic: str,
    order_keys: "Sequence[OrderKey]",
    messages: "Sequence[NewMessage]",
    size: int,
    call: "Call",
    services: "Services",
    turns: "WorkTurns",
) -> OrdinaryResults | None:
    """Store many ordinary messages of one type, each with its order key; return None if nothing was done. See
    `begin_ordinary_send`; also raises the broker's error for NORMAL messages that it did not store."""
    kind = ordinary_type(order_keys[0])
    route = _admit_messages(topic, kind, len(messages), size, call, services)
    if route is None:
        return None
    await turns.next_turn()
    if kind == MessageType.NORMAL:
        first = await _append_messages(services.placement.queue_for(route, call.chosen_queue), messages, services)
        await turns.next_turn()
        return OrdinaryResults(range(first, first + len(messages)), {})
    return await _append_by_queue(order_keys, messages, route, services)


async def _append_by_queue(
    order_keys: "Sequence[OrderKey]", messages: "Sequence[NewMessage]", route: "TopicRoute", services: "Services"
) -> OrdinaryResults:
    """Store the messages of each queue together; one queue may fail where others do not."""
    numbers: dict[QueueRef, list[int]] = {}
    queues: dict[OrderKey, QueueRef] = {}
    for number, order_key in enumerate(order_keys):
        queue = queues.get(order_key)
        if queue is None:
            group, lite_topic = order_key
            queue = queue_of_group(route, group) if group else queue_of_lite(route, lite_topic)
            queues[order_key] = queue
        numbers.setdefault(queue, []).append(number)
    parts = [[messages[number] for number in its] for its in numbers.values()]
    waits = [_append_messages(queue, part, services) for queue, part in zip(numbers, parts, strict=True)]
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    offsets = [0] * len(messages)
    errors: dict[int, MessagingError] = {}
    for its, outcome in zip(numbers.values(), outcomes, strict=True):
        if isinstance(outcome, MessagingError):
            errors.update(dict.fromkeys(its, outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            for offset, number in enumerate(its, outcome):
                offsets[number] = offset
    return OrdinaryResults(offsets, errors)


async def _append_messages(queue: "QueueRef", messages: "Sequence[NewMessage]", services: "Services") -> int:
    """Store the messages, in order; the queue offset of the first."""
    return await wait_until_stored(partial(services.messages.sending.append_nowait, queue, messages))
