"""AdminSendMessage: one message that an operator sends (`operations/admin/messages/operator_send.py`)."""

import uuid
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.v2.admin_pb2 import AdminSendMessageRequest, AdminSendMessageResponse
from ternmq_protos.v2.definition_pb2 import Message
from ternmq_protos.v2.service_pb2 import SendMessageRequest
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status
from ternmq_proxy.operations.admin.messages.operator_send import send_operator_message
from ternmq_proxy.processors.sending.stored_form import read_message

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services


async def admin_send_message(
    request: AdminSendMessageRequest, call: "Call", services: "Services"
) -> AdminSendMessageResponse:
    """As SendMessage, with its checks, limits and codes; the server makes an id for a message that has none.

    The answer has no room for the id of a half message's transaction: ListTransactions has it, by the message's id, and
    ResolveTransaction ends it.
    """
    sent = await send_operator_message(request.topic.name, lambda: _read(request), call, services)
    if sent.error is not None:
        return AdminSendMessageResponse(status=make_status(sent.error.code, sent.error.message))
    return AdminSendMessageResponse(status=OK, message_id=sent.message_id)


def _read(request: AdminSendMessageRequest) -> "tuple[ProducerMessage, int]":
    message = _message(request)
    size = SendMessageRequest(messages=[message]).ByteSize()  # as quotas count a send
    return read_message(message, message.system_properties), size


def _message(request: AdminSendMessageRequest) -> Message:
    """The message; BAD_REQUEST if the request gives it two tags."""
    message = Message(topic=request.topic, user_properties=request.user_properties, body=request.body)
    properties = message.system_properties
    properties.CopyFrom(request.system_properties)
    if not properties.HasField("tag"):
        if request.HasField("tag"):
            properties.tag = request.tag
    elif request.HasField("tag") and request.tag != properties.tag:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names two tags, and a message has one")
    if request.HasField("key") and request.key not in properties.keys:
        properties.keys.append(request.key)
    properties.message_id = properties.message_id or uuid.uuid4().hex.upper()
    return message
