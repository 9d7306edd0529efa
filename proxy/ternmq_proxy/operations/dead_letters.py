"""Resends dead letters, on an operator's request."""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_topic_name, dead_letter_topic, group_of_derived
from ternmq_proxy.access.needs import GROUP_UPDATE, TOPIC_PUB
from ternmq_proxy.operations.message_checks import effective_type, type_conflict
from ternmq_proxy.processors.sending.placement import queue_of_group, queue_of_lite, queue_of_priority
from ternmq_proxy.processors.sending.stored_form import revive_letter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import ConsumerGroup, StoredMessage, Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.sending.stored_form import RevivedLetter
    from ternmq_proxy.services import Services

_RESENT_MAX = 1024


class ResentLetter(NamedTuple):
    """The outcome of resending a dead letter: it is in `topic` again, or `error` says why not. Topic and message id are
    empty for an offset without a letter."""

    offset: int
    topic: str = ""
    message_id: str = ""
    error: MessagingError | None = None


async def resend_letters(
    group_name: str, broker: str, offsets: "Sequence[int]", to_topic: str, call: "Call", services: "Services"
) -> list[ResentLetter]:
    """Resend the dead letters at these offsets, each separately, so that a failure does not affect the others.

    An empty `broker` means the only one; an empty `to_topic` means each letter's own topic.
    """
    needs = [(GROUP_UPDATE, group_name), *([(TOPIC_PUB, to_topic)] if to_topic else [])]
    services.access.require_change("ResendDeadLetters", call, *needs)
    group = await services.catalog.existing_group(group_name)
    if len(offsets) > _RESENT_MAX:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"{len(offsets)} dead letters were named; {_RESENT_MAX} are allowed"
        )
    if group_of_derived(to_topic) is not None:
        raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"topic {to_topic!r} is written by the broker alone")
    if to_topic:
        await services.catalog.existing_topic(check_topic_name(to_topic))
    broker = _find_broker(group_name, broker, services)
    found = await services.messages.inspecting.dead_letters(group.name, broker, list(offsets))
    return [await _resend_letter(offset, found.get(offset), to_topic, group, call, services) for offset in offsets]


def _find_broker(group: str, broker: str, services: "Services") -> str:
    """Return the broker whose offsets are meant: the named one, or the only one."""
    name = dead_letter_topic(group)
    route = services.messages.find_route(services.catalog.find_topic(name))
    if not broker and len(route.brokers) == 1:
        return route.brokers[0]
    if broker not in route.brokers:
        problem = f"broker {broker!r} has no part of it" if broker else "the request names no broker"
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"{problem}: the offsets of {name} are those of one of the brokers {', '.join(route.brokers)}",
        )
    return broker


async def _resend_letter(
    offset: int,
    stored: "StoredMessage | None",
    to_topic: str,
    group: "ConsumerGroup",
    call: "Call",
    services: "Services",
) -> ResentLetter:
    if stored is None:
        text = f"{dead_letter_topic(group.name)} has no message at offset {offset}"
        return ResentLetter(offset, error=MessagingError(ErrorCode.MESSAGE_NOT_FOUND, text))
    letter = revive_letter(stored)
    name = to_topic or letter.topic
    try:
        topic = await services.catalog.existing_topic(check_topic_name(name))
        if group.fifo or group.lite is not None or to_topic:  # where other groups get it too
            services.access.require_right("ResendDeadLetters", call, TOPIC_PUB, topic.name)
            await _send_letter(letter, topic, services)
        else:
            await services.messages.administering.retry(group.name, topic.name, [letter.stored])
    except MessagingError as error:
        return ResentLetter(offset, name, letter.message.message_id, error)
    return ResentLetter(offset, name, letter.message.message_id)


async def _send_letter(letter: "RevivedLetter", topic: "Topic", services: "Services") -> None:
    """Send the message to the topic for immediate delivery, also if it was a DELAY or TRANSACTION message.

    NORMAL topics accept all messages, others those of their type.
    """
    message = letter.message
    kind = effective_type(message)
    if topic.type not in (kind, MessageType.NORMAL):
        raise type_conflict(topic, kind)
    route = services.messages.find_route(topic)
    if topic.keeps_order and kind == MessageType.FIFO:
        queue = queue_of_group(route, message.message_group)
    elif topic.type == MessageType.LITE:
        queue = queue_of_lite(route, message.lite_topic or "")
    elif topic.type == MessageType.PRIORITY:
        queue = queue_of_priority(topic, services.placement.next_broker(route), message.priority or 0)
    else:
        queue = services.placement.next_queue(route)
    await services.messages.sending.append(queue, [letter.stored])
