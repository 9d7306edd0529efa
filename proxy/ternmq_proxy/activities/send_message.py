"""SendMessage: one message or several of one topic (`producer.md` 6)."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.clock import now_ms
from ternmq_common.errors import MessagingError
from ternmq_common.model import QueueRef
from ternmq_common.names import checked_topic, group_of_derived
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import Status
from ternmq_protos.v2.service_pb2 import SendMessageRequest, SendMessageResponse, SendResultEntry
from ternmq_proxy.activities.message_checks import check_message, effective_type
from ternmq_proxy.activities.status import OK, overall
from ternmq_proxy.activities.stored_form import stored_form
from ternmq_proxy.processors.placement import queue_of_group

if TYPE_CHECKING:
    from ternmq_common.model import Appended, NewMessage, Topic
    from ternmq_protos.v2.definition_pb2 import Message
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


_SERVED = frozenset({definition_pb2.NORMAL, definition_pb2.FIFO})


async def send_message(request: SendMessageRequest, call: "Call", services: "Services") -> SendMessageResponse:
    """Store the messages; one entry for each, in order.

    All messages of a request go to one queue, and are stored in order, or none is. FIFO messages go to the queues of
    their groups, so that a request that mixes groups may succeed in part; its entries say which.
    """
    call.require_client()
    now = now_ms()
    messages = request.messages
    if not messages:
        raise MessagingError(definition_pb2.MESSAGE_CORRUPTED, "the request holds no message")
    name = checked_topic(messages[0].topic.name)
    if group_of_derived(name) is not None:
        raise MessagingError(
            definition_pb2.ILLEGAL_TOPIC, f"topic {name!r} is written by the broker alone; send to the topic itself"
        )
    for message in messages:
        if message.topic != messages[0].topic:
            raise MessagingError(
                definition_pb2.MESSAGE_CORRUPTED,
                f"the request mixes topics {name!r} and {message.topic.name!r}; send one request for each",
            )
        check_message(message, services.limits, now)
    topic = await services.catalog.topic(name)
    for message in messages:
        _check_type(message, topic)
    route = await services.messages.route(topic)
    groups = [message.system_properties.message_group for message in messages]
    stored = [stored_form(message, peer=call.peer, now_ms=now, limits=services.limits) for message in messages]
    if topic.type != definition_pb2.FIFO:
        appended = await services.messages.append(services.placement.next_queue(route), stored)
        return SendMessageResponse(status=OK, entries=map(_entry, appended))
    by_queue: dict[QueueRef, list[int]] = {}
    for number, group in enumerate(groups):
        by_queue.setdefault(queue_of_group(route, group), []).append(number)
    entries: dict[int, SendResultEntry] = {}
    results = await asyncio.gather(
        *(_append(queue, [stored[number] for number in numbers], services) for queue, numbers in by_queue.items())
    )
    for numbers, result in zip(by_queue.values(), results, strict=True):
        entries.update(zip(numbers, result, strict=True))
    ordered = [entries[number] for number in range(len(stored))]
    return SendMessageResponse(status=overall([entry.status for entry in ordered]), entries=ordered)


async def _append(queue: QueueRef, messages: "list[NewMessage]", services: "Services") -> list[SendResultEntry]:
    """Store messages of one queue; a failure is in their entries, since another queue's may have been stored."""
    try:
        return [_entry(appended) for appended in await services.messages.append(queue, messages)]
    except MessagingError as error:
        status = Status(code=error.code, message=error.message)
        return [SendResultEntry(status=status, message_id=message.message_id) for message in messages]


def _entry(appended: "Appended") -> SendResultEntry:
    return SendResultEntry(
        status=OK, message_id=appended.message_id, transaction_id=appended.message_id, offset=appended.queue_offset
    )


def _check_type(message: "Message", topic: "Topic") -> None:
    properties = message.system_properties
    kind = effective_type(properties)
    if kind != topic.type:
        raise MessagingError(
            definition_pb2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"topic {topic.name!r} takes {definition_pb2.MessageType.Name(topic.type)} messages, this one is "
            f"{definition_pb2.MessageType.Name(kind)} by its fields",
        )
    if kind not in _SERVED:
        raise MessagingError(
            definition_pb2.NOT_IMPLEMENTED,
            f"{definition_pb2.MessageType.Name(kind)} messages are not served by this version",
        )
    properties.message_type = kind
