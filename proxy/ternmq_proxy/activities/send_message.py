"""SendMessage: one message or several of one topic (`producer.md` 6)."""

from typing import TYPE_CHECKING

from ternmq_common.clock import now_ms
from ternmq_common.errors import MessagingError
from ternmq_common.names import checked_topic
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import SendMessageRequest, SendMessageResponse, SendResultEntry
from ternmq_proxy.activities.message_checks import check_message, effective_type
from ternmq_proxy.activities.status import OK
from ternmq_proxy.activities.stored_form import stored_form

if TYPE_CHECKING:
    from ternmq_common.model import Topic
    from ternmq_protos.v2.definition_pb2 import Message
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def send_message(request: SendMessageRequest, call: "Call", services: "Services") -> SendMessageResponse:
    """Store all messages of the request in one queue, in order, or none; one entry for each, in order."""
    call.require_client()
    now = now_ms()
    messages = request.messages
    if not messages:
        raise MessagingError(definition_pb2.MESSAGE_CORRUPTED, "the request holds no message")
    name = checked_topic(messages[0].topic.name)
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
    queue = services.placement.next_queue(await services.messages.route(topic))
    appended = await services.messages.append(
        queue,
        [stored_form(message, peer=call.peer, now_ms=now, limits=services.limits) for message in messages],
    )
    entries = [
        SendResultEntry(
            status=OK, message_id=result.message_id, transaction_id=result.message_id, offset=result.queue_offset
        )
        for result in appended
    ]
    return SendMessageResponse(status=OK, entries=entries)


def _check_type(message: "Message", topic: "Topic") -> None:
    properties = message.system_properties
    kind = effective_type(properties)
    if kind != topic.type:
        raise MessagingError(
            definition_pb2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"topic {topic.name!r} takes {definition_pb2.MessageType.Name(topic.type)} messages, this one is "
            f"{definition_pb2.MessageType.Name(kind)} by its fields",
        )
    if kind != definition_pb2.NORMAL:
        raise MessagingError(
            definition_pb2.NOT_IMPLEMENTED,
            f"{definition_pb2.MessageType.Name(kind)} messages are not served by this version",
        )
    properties.message_type = kind
