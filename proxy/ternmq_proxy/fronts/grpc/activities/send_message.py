"""SendMessage: one or several messages of one topic (`sending.md, Checks`).

Most requests wait for nothing but the log: they begin without a task, and are answered when the log has them. The
others (an unknown topic, a compressed body, a message that is due later) are parsed by protobuf and served in a
coroutine.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.shard.transaction_id import transaction_handle
from ternmq_protos.v2.service_pb2 import SendMessageRequest, SendMessageResponse, SendResultEntry
from ternmq_proxy.fronts.grpc.activities.sent_form import serialize_half, serialize_sent
from ternmq_proxy.fronts.grpc.activities.sent_messages import (
    HalfFound,
    SendContext,
    read_half_message,
    read_sent_messages,
)
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status, overall_status, status_of
from ternmq_proxy.fronts.wire_fields import NotOrdinary
from ternmq_proxy.operations.send import send_messages
from ternmq_proxy.operations.send_ordinary import begin_half_send, begin_ordinary_send
from ternmq_proxy.processors.sending.stored_form import read_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import AppendedMessage, NewMessage
    from ternmq_protos.v2.definition_pb2 import Message
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.sent_message import SentMessage
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services

AnswerCallback = Callable[[bytes, int], None]
"""A callback that takes the serialized answer and its status code."""
# Longer requests give other tasks turns meanwhile.
AT_ONCE_MAX: Final = 32


def begin_send(data: bytes, call: "Call", services: "Services", answer: AnswerCallback) -> bool:
    """Begin an ordinary send, which `answer` will answer. Return False, with nothing done, if it is not ordinary; see
    `begin_ordinary_send`, which lists the errors too. `data` is the request."""
    sender = SendContext(call.peer, services.clock.now_ms(), services.limits)
    try:
        sent = read_sent_messages(data, sender, most=min(AT_ONCE_MAX, services.request_limits.entries_max))
    except HalfFound:
        return _begin_half(data, sender, call, services, answer)
    except NotOrdinary:
        return False
    order_key, messages = sent.order_key, sent.messages

    def done(first: int, error: Exception | None) -> None:
        if error is None:
            answer(serialize_sent(messages, first), ErrorCode.OK)
        else:
            # Messages of a FIFO or LITE topic may go to several queues, so each has its own entry.
            _answer_refused(messages if any(order_key) else [], error, answer)

    return begin_ordinary_send(sent.topic, order_key, messages, len(data), call, services, done)


def _begin_half(data: bytes, sender: SendContext, call: "Call", services: "Services", answer: AnswerCallback) -> bool:
    try:
        topic, message = read_half_message(data, sender)
    except NotOrdinary:
        return False

    def done(appended: "AppendedMessage | None", error: Exception | None) -> None:
        if appended is None:
            _answer_refused([message], error or AssertionError(), answer)
        else:
            transaction_id = transaction_handle(appended.transaction_id, topic, services.handles.keys)
            answer(serialize_half(message.keys[0], transaction_id, appended.queue_offset), ErrorCode.OK)

    return begin_half_send(topic, message, len(data), call, services, done)


def _answer_refused(messages: "Sequence[NewMessage]", error: Exception, answer: AnswerCallback) -> None:
    status = status_of(error, "SendMessage")
    each = messages if isinstance(error, MessagingError) else []
    entries = [SendResultEntry(status=status, message_id=message.message_id) for message in each]
    answer(SendMessageResponse(status=status, entries=entries).SerializeToString(), status.code)


async def send_message(request: SendMessageRequest, call: "Call", services: "Services") -> SendMessageResponse:
    """Store the messages; the answer has an entry for each, in order."""
    size = request.ByteSize() if services.quotas.limits_in else 0
    messages = await _read_messages(request.messages)
    return send_answer(await send_messages(messages, call, services, size=size))


async def _read_messages(messages: "Sequence[Message]") -> "list[ProducerMessage]":
    if len(messages) == 1:
        return [read_message(messages[0], messages[0].system_properties)]
    turns, read = WorkTurns(), []
    for message in messages:
        await turns.next_turn()
        read.append(read_message(message, message.system_properties))
    return read


def send_answer(results: "Sequence[SentMessage]") -> SendMessageResponse:
    """Return the answer to a send with these results. Every message gets a transaction id, since clients show it: its
    message id, if it has no other."""
    answer, has_errors = SendMessageResponse(), False
    for result in results:
        if result.error is None:
            answer.entries.add(
                status=OK,
                message_id=result.message_id,
                transaction_id=result.transaction_id or result.message_id,
                offset=result.queue_offset,
                recall_handle=result.recall_handle,
            )
        else:
            has_errors = True
            refused = make_status(result.error.code, result.error.message)
            answer.entries.add(status=refused, message_id=result.message_id)
    answer.status.CopyFrom(overall_status([entry.status for entry in answer.entries]) if has_errors else OK)
    return answer
