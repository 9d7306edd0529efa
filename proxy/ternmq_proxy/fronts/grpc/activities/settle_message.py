"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what a consumer says of a message it received
(`consuming.md, Acknowledgement`, `consuming.md, Invisible durations`, `consuming.md, Forwarding to the dead letters`).

Acknowledgements of not too many messages are begun at once and answered when their broker has said what became of them;
the others give others their turns meanwhile, in a coroutine.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.fairness import Turns
from ternmq_common.handle_form import HandleForm
from ternmq_common.model import SettleOutcome
from ternmq_common.names import checked_group, checked_topic
from ternmq_common.receipt_handle import ReceiptHandle
from ternmq_protos.v2.definition_pb2 import Status
from ternmq_protos.v2.service_pb2 import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
)
from ternmq_proxy.access.needs import GROUP_SUB, TOPIC_SUB
from ternmq_proxy.fronts.grpc.activities.acknowledgement import acknowledgement, all_settled
from ternmq_proxy.fronts.grpc.activities.group_creation import may_create_group
from ternmq_proxy.fronts.grpc.activities.invisible_duration import checked_invisible_ms
from ternmq_proxy.fronts.grpc.activities.request_bytes import NotOrdinary
from ternmq_proxy.fronts.grpc.activities.status import OK, overall, status, status_of
from ternmq_proxy.handles import settled_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.grpc.activities.send_message import Answer
    from ternmq_proxy.services import Services

_EXPIRED = status(
    ErrorCode.INVALID_RECEIPT_HANDLE,
    "the invisible time has passed; the message is or will be delivered again",
)
# A millisecond's worth of acknowledgements; others get the event loop between two of these.
_SLICE = 64
_STATUS_OF = {SettleOutcome.DONE: OK, SettleOutcome.STALE: OK, SettleOutcome.EXPIRED: _EXPIRED}


def begin_ack(data: bytes, call: "Call", services: "Services", answer: "Answer") -> bool:
    """Begin to finish messages, to be answered by `answer`; False: nothing was done, since they are many or the request
    is not ordinary. MessagingError as `ack_message`. `data` is the request; `call` is that of a client whose id was
    checked."""
    most = min(_SLICE, services.request_limits.entries_max)
    try:
        group, topic, lite_topic, entries, texts = acknowledgement(data, most=most)
    except NotOrdinary:
        return False
    services.access.require("AckMessage", call, GROUP_SUB, group)
    services.access.require("AckMessage", call, TOPIC_SUB, topic)
    if lite_topic:
        topic = settled_topic(topic, lite_topic, "")
    decode = services.handles.of(group, topic).decode_ascii
    try:
        handles = [decode(text) for text in texts]
    except MessagingError:
        return False  # the others are acknowledged all the same, and this one's entry says why not
    client_id = call.client_id

    def done(outcomes: "list[SettleOutcome] | None", error: Exception | None) -> None:
        if error is not None:
            refused = AckMessageResponse(status=status_of(error, "AckMessage"))
            answer(refused.SerializeToString(), refused.status.code)
            return
        assert outcomes is not None
        services.renewal.let_go(client_id, group, topic, handles)
        if SettleOutcome.EXPIRED not in outcomes:
            answer(all_settled(entries), ErrorCode.OK)
            return
        asked = AckMessageRequest.FromString(data).entries
        response = _answer(asked, [_STATUS_OF[outcome] for outcome in outcomes])
        answer(response.SerializeToString(), response.status.code)

    services.messages.acknowledge_nowait(group, topic, handles, done)
    return True


async def ack_message(request: AckMessageRequest, call: "Call", services: "Services") -> AckMessageResponse:
    """Finish messages for good; an entry for each, in order."""
    client_id = call.require_client()
    group = checked_group(request.group.name)
    topic = checked_topic(request.topic.name)
    if not request.entries:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no message")
    statuses: list[Status] = []
    turns = Turns()
    for start in range(0, len(request.entries), _SLICE):
        if start:
            await turns.next()
        some = request.entries[start : start + _SLICE]
        by_topic: dict[str, list[int]] = {}
        for place, entry in enumerate(some):
            by_topic.setdefault(settled_topic(topic, entry.lite_topic, entry.receipt_handle), []).append(place)
        found: dict[int, Status] = {}
        for name, places in by_topic.items():
            settled = await _settled([some[place] for place in places], client_id, group, name, services)
            found.update(zip(places, settled, strict=True))
        statuses += [found[place] for place in range(len(some))]
    return _answer(request.entries, statuses)


async def _settled(
    entries: "Sequence[AckMessageEntry]", client_id: str, group: str, topic: str, services: "Services"
) -> list[Status]:
    form = services.handles.of(group, topic)
    decoded = [_decoded(entry.receipt_handle, form) for entry in entries]
    handles = [handle for handle in decoded if isinstance(handle, ReceiptHandle)]
    outcomes = iter(await services.messages.acknowledge(group, topic, handles))
    statuses = [_STATUS_OF[next(outcomes)] if isinstance(item, ReceiptHandle) else item for item in decoded]
    services.renewal.let_go(client_id, group, topic, handles)
    return statuses


def _answer(entries: "Sequence[AckMessageEntry]", statuses: list[Status]) -> AckMessageResponse:
    results = [
        AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=outcome)
        for entry, outcome in zip(entries, statuses, strict=True)
    ]
    return AckMessageResponse(status=overall(statuses), entries=results)


def _decoded(text: str, form: HandleForm) -> ReceiptHandle | Status:
    try:
        return form.decode(text)
    except MessagingError as error:
        return status(error.code, error.message)


async def change_invisible_duration(
    request: ChangeInvisibleDurationRequest, call: "Call", services: "Services"
) -> ChangeInvisibleDurationResponse:
    """Keep a received message hidden for longer, or show it again sooner; 0 shows it at once.

    A push consumer that gives a message back without naming a time (Node.js reads no customized back-off) gets the
    group's: all its attempts would be over within a moment.

    An error comes with the handle of the request, since Java and Python take over whatever handle is in the answer.
    """
    try:
        client_id = call.require_client()
        group = checked_group(request.group.name)
        topic = settled_topic(request.topic.name, request.lite_topic, request.receipt_handle)
        invisible_ms = checked_invisible_ms(request.invisible_duration.ToMilliseconds(), at_least_ms=0)
        form = services.handles.of(group, topic)
        handle = form.decode(request.receipt_handle)
        if not invisible_ms and not request.suspend and _is_push(client_id, services):
            invisible_ms = services.renewal.backoff_ms(client_id, group, topic, handle)
        changed = await services.messages.change_invisible(
            group, topic, handle, invisible_ms, counts=not request.suspend
        )
    except Exception as error:  # noqa: BLE001 - the outermost of this call; `status_of` logs
        answer = status_of(error, "ChangeInvisibleDuration")
        return ChangeInvisibleDurationResponse(status=answer, receipt_handle=request.receipt_handle)
    services.renewal.let_go(client_id, group, topic, [handle])
    return ChangeInvisibleDurationResponse(status=OK, receipt_handle=form.encode(changed).decode())


def _is_push(client_id: str, services: "Services") -> bool:
    client = services.clients.find(client_id)
    return client is not None and client.is_push


async def forward_message_to_dead_letter_queue(
    request: ForwardMessageToDeadLetterQueueRequest, call: "Call", services: "Services"
) -> ForwardMessageToDeadLetterQueueResponse:
    """Give a message up: a copy goes to the group's dead letters, then the message is finished; repeating it is fine.

    INVALID_RECEIPT_HANDLE when another consumer has the message meanwhile, which tells clients to let go of it.
    """
    client_id = call.require_client()
    group = checked_group(request.group.name)
    topic = settled_topic(request.topic.name, request.lite_topic, request.receipt_handle)
    handle = services.handles.of(group, topic).decode(request.receipt_handle)
    may_create = may_create_group(call, group, services)
    await services.catalog.group_of(group, (request.topic.name,), may_create=may_create)
    outcome = await services.messages.dead_letter(group, topic, handle, attempts=request.delivery_attempt)
    services.renewal.let_go(client_id, group, topic, [handle])
    if outcome is SettleOutcome.EXPIRED:
        raise MessagingError(
            ErrorCode.INVALID_RECEIPT_HANDLE, "the invisible time has passed, and the message was delivered again"
        )
    return ForwardMessageToDeadLetterQueueResponse(status=OK)
