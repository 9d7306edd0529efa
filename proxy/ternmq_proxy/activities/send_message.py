"""SendMessage: one message or several of one topic (`producer.md` 6)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.fairness import Turns
from ternmq_common.names import checked_topic, group_of_derived
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import SendMessageRequest, SendMessageResponse
from ternmq_proxy.activities.delay_level import take_delay_level
from ternmq_proxy.activities.message_checks import check_message
from ternmq_proxy.activities.send_special import Sending, send_special, sent_entry
from ternmq_proxy.activities.status import OK

if TYPE_CHECKING:
    from ternmq_common.model import Topic
    from ternmq_protos.v2.definition_pb2 import Message, MessageType
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def send_message(request: SendMessageRequest, call: "Call", services: "Services") -> SendMessageResponse:
    """Store the messages; one entry for each, in order.

    NORMAL messages of a request go to one queue, and are stored in order, or none is. What becomes of the others is in
    `send_special`.
    """
    call.require_client()
    now = services.clock.now_ms()
    messages = request.messages
    if not messages:
        raise MessagingError(definition_pb2.MESSAGE_CORRUPTED, "the request holds no message")
    name = checked_topic(messages[0].topic.name)
    if group_of_derived(name) is not None:
        raise MessagingError(
            definition_pb2.ILLEGAL_TOPIC, f"topic {name!r} is written by the broker alone; send to the topic itself"
        )
    turns = Turns() if len(messages) > 1 else None
    takes_levels = await services.catalog.type_of(name) == definition_pb2.DELAY
    kinds: list[MessageType] = []
    for message in messages:
        if turns is not None:
            await turns.next()
        kinds.append(_checked(message, messages[0], now, services, takes_levels=takes_levels))
    topic = await services.catalog.topic(name, max(kinds))  # NORMAL is the least
    for message, kind in zip(messages, kinds, strict=True):
        _check_type(message, kind, topic)
    route = await services.messages.route(topic)
    sending = Sending(messages, route, now, call, services, turns)
    try:
        if topic.type != definition_pb2.NORMAL:
            return await send_special(sending)
        stored = [await sending.stored(message) for message in messages]
        if turns is not None:
            await turns.next()
        appended = await services.messages.append(services.placement.next_queue(route), stored)
        if turns is not None:
            await turns.next()
        return SendMessageResponse(status=OK, entries=map(sent_entry, appended))
    finally:
        sending.leave()


def _checked(
    message: "Message", first: "Message", now_ms: int, services: "Services", *, takes_levels: bool
) -> "MessageType":
    if takes_levels:
        take_delay_level(message, services.delay_levels_ms, now_ms)
    if message.topic != first.topic:
        raise MessagingError(
            definition_pb2.MESSAGE_CORRUPTED,
            f"the request mixes topics {first.topic.name!r} and {message.topic.name!r}; send one request for each",
        )
    return check_message(message, services.limits, now_ms)


def _check_type(message: "Message", kind: "MessageType", topic: "Topic") -> None:
    if kind != topic.type:
        raise MessagingError(
            definition_pb2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"topic {topic.name!r} takes {definition_pb2.MessageType.Name(topic.type)} messages, this one is "
            f"{definition_pb2.MessageType.Name(kind)} by its fields",
        )
    if kind == definition_pb2.LITE:
        raise MessagingError(definition_pb2.NOT_IMPLEMENTED, "LITE messages are not served by this version")
    message.system_properties.message_type = kind
