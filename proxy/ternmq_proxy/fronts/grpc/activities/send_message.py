"""SendMessage: one message or several of one topic (`sending.md, Checks`).

Most requests have to wait for nothing but the log: those are begun at once, and answered when it has them. The others
(a topic that is not known yet, a body to inflate, messages that are more than NORMAL) take the way through a coroutine.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import Turns
from ternmq_common.message_type import MessageType
from ternmq_common.names import checked_topic, group_of_derived
from ternmq_protos.v2.service_pb2 import SendMessageRequest, SendMessageResponse, SendResultEntry
from ternmq_proxy.access.needs import TOPIC_CREATE, TOPIC_PUB
from ternmq_proxy.fronts.grpc.activities.delay_level import has_delay_level, take_delay_level
from ternmq_proxy.fronts.grpc.activities.message_checks import check_message, conflict
from ternmq_proxy.fronts.grpc.activities.request_bytes import NotOrdinary
from ternmq_proxy.fronts.grpc.activities.send_special import SpecialSend, send_special
from ternmq_proxy.fronts.grpc.activities.sent_form import sent
from ternmq_proxy.fronts.grpc.activities.sent_messages import Sender, sent_messages
from ternmq_proxy.fronts.grpc.activities.status import protocol_type, status_of
from ternmq_proxy.processors.placement import queue_of_group, queue_of_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.model import NewMessage, Topic
    from ternmq_protos.v2.definition_pb2 import Message
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

Answer = Callable[[bytes, int], None]
"""Called with the serialized answer, and its status code."""
# Longer ones give others their turns meanwhile.
AT_ONCE_MAX = 32


def begin_send(data: bytes, call: "Call", services: "Services", answer: Answer) -> bool:
    """Begin to store NORMAL messages, FIFO messages of one message group, or those of one lite topic, to be answered by
    `answer`; False: nothing was done, since that has to wait for more than the log, or something is wrong. UNAUTHORIZED
    unless its user may send to the topic, TOO_MANY_REQUESTS for who is over a quota. `data` is the request; `call` is
    that of a client whose id was checked."""
    sender = Sender(call.peer, services.clock.now_ms(), services.limits)
    try:
        name, message_group, lite_topic, stored = sent_messages(
            data, sender, most=min(AT_ONCE_MAX, services.request_limits.entries_max)
        )
    except NotOrdinary:
        return False
    services.access.require("SendMessage", call, TOPIC_PUB, name)
    topic = services.catalog.known_topic(name)
    kind = MessageType.FIFO if message_group else MessageType.LITE if lite_topic else MessageType.NORMAL
    if topic is None or kind not in topic.accepted or not stored or (call.queue and kind != MessageType.NORMAL):
        return False
    quotas = services.quotas
    if quotas.limits_in:
        quotas.admit(call.user, name, call.client_id, len(stored), len(data))
    route = services.messages.route(topic)
    if message_group:
        queue = queue_of_group(route, message_group)
    elif lite_topic:
        queue = queue_of_lite(route, lite_topic)
    else:
        queue = services.placement.queue_for(route, call.queue)

    def done(first: int, error: Exception | None) -> None:
        if error is None:
            answer(sent(stored, first), ErrorCode.OK)
        else:
            status = status_of(error, "SendMessage")
            # Those of a FIFO or LITE topic that are sent together need not go to one queue: each says what it became.
            each = stored if (message_group or lite_topic) and isinstance(error, MessagingError) else []
            entries = [SendResultEntry(status=status, message_id=message.message_id) for message in each]
            answer(SendMessageResponse(status=status, entries=entries).SerializeToString(), status.code)

    services.messages.append_nowait(queue, stored, done)
    return True


async def send_message(request: SendMessageRequest, call: "Call", services: "Services") -> "SendMessageResponse":
    """Store the messages; one entry for each, in order.

    NORMAL messages of a request go to one queue, and are stored in order, or none is. What becomes of the others is in
    `send_special`.
    """
    call.require_client()
    return await store_messages(request, call, services)


async def store_messages(request: SendMessageRequest, call: "Call", services: "Services") -> "SendMessageResponse":
    """As `send_message`, for who need not be a client."""
    now = services.clock.now_ms()
    messages = request.messages
    if not messages:
        raise MessagingError(ErrorCode.MESSAGE_CORRUPTED, "the request holds no message")
    name = checked_topic(messages[0].topic.name)
    if group_of_derived(name) is not None:
        raise MessagingError(
            ErrorCode.ILLEGAL_TOPIC, f"topic {name!r} is written by the broker alone; send to the topic itself"
        )
    turns = Turns() if len(messages) > 1 else None
    takes_levels = any(map(has_delay_level, messages)) and (
        MessageType.DELAY in await services.catalog.accepted_by(name)
    )
    kinds: list[MessageType] = []
    for message in messages:
        if turns is not None:
            await turns.next()
        if takes_levels:
            take_delay_level(message, services.delay_levels_ms, now)
        _check_topic(message, messages[0])
        kinds.append(check_message(message, message.system_properties, message.body, services.limits, now))
    quotas = services.quotas
    if min(kinds) == max(kinds):
        may_create = services.access.may(call, TOPIC_CREATE, name)
        admit = partial(quotas.admit_topic, call.user)
        topic = await services.catalog.topic(name, kinds[0], may_create=may_create, admit=admit)
    else:  # which it can't be for all of them
        topic = await services.catalog.existing_topic(name, max(kinds))  # NORMAL is the least
    for message, kind in zip(messages, kinds, strict=True):
        _check_type(message, kind, kinds[0], topic)
    if quotas.limits_in:
        quotas.admit(call.user, name, call.client_id, len(messages), request.ByteSize())
    sending = SpecialSend(messages, services.messages.route(topic), now, call, services, turns)
    try:
        if kinds[0] != MessageType.NORMAL:
            return await send_special(sending, kinds[0])
        stored = [await sending.stored(message) for message in messages]
        return SendMessageResponse.FromString(await _appended(sending, stored, turns))
    finally:
        sending.leave()


async def _appended(sending: SpecialSend, stored: "Sequence[NewMessage]", turns: Turns | None) -> bytes:
    services = sending.services
    if turns is not None:
        await turns.next()
    queue = services.placement.queue_for(sending.route, sending.call.queue)
    appended = await services.messages.append(queue, stored)
    if turns is not None:
        await turns.next()
    return sent(stored, appended[0].queue_offset)


def _check_topic(message: "Message", first: "Message") -> None:
    if message.topic != first.topic:
        raise MessagingError(
            ErrorCode.MESSAGE_CORRUPTED,
            f"the request mixes topics {first.topic.name!r} and {message.topic.name!r}; send one request for each",
        )


def _check_type(message: "Message", kind: "MessageType", first: "MessageType", topic: "Topic") -> None:
    if kind not in topic.accepted:
        raise conflict(topic, kind)
    if kind != first:
        raise MessagingError(
            ErrorCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"the request has {MessageType(first).name} and {MessageType(kind).name} "
            "messages; send one request for each type",
        )
    message.system_properties.message_type = protocol_type(kind)
