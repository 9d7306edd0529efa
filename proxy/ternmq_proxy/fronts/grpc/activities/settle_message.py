"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue as gRPC has them
(`operations/received_messages.py`).

Small acknowledgements begin without a task, and are answered when their broker has the outcomes. Large ones are served
in a coroutine, which gives other calls their turns.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import SettleOutcome
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
from ternmq_proxy.fronts.grpc.activities.acknowledgement import read_acknowledgement, serialize_success
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status, overall_status, status_of
from ternmq_proxy.fronts.wire_fields import NotOrdinary
from ternmq_proxy.operations.received_messages import (
    BEGUN_MAX,
    EXPIRED,
    MessageReceipt,
    acknowledge_messages,
    begin_acknowledge,
    change_invisible,
    forward_to_dead_letters,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.grpc.activities.send_message import AnswerCallback
    from ternmq_proxy.services import Services


def begin_ack(data: bytes, call: "Call", services: "Services", answer: "AnswerCallback") -> bool:
    """Begin to acknowledge messages, which `answer` will answer. Return False, with nothing done, if they are many or
    the request is not ordinary. Raises MessagingError like `ack_message`. `data` is the request; `call` has a checked
    client id."""
    most = min(BEGUN_MAX, services.request_limits.entries_max)
    try:
        group, topic, lite_topic, entries, handles = read_acknowledgement(data, most=most)
    except NotOrdinary:
        return False

    def done(outcomes: list[SettleOutcome] | None, error: Exception | None) -> None:
        if error is not None:
            refused = AckMessageResponse(status=status_of(error, "AckMessage"))
            answer(refused.SerializeToString(), refused.status.code)
            return
        assert outcomes is not None
        if SettleOutcome.EXPIRED not in outcomes:
            answer(serialize_success(entries), ErrorCode.OK)
            return
        errors = [EXPIRED if outcome is SettleOutcome.EXPIRED else None for outcome in outcomes]
        response = _make_answer(AckMessageRequest.FromString(data).entries, errors)
        answer(response.SerializeToString(), response.status.code)

    return begin_acknowledge(group, topic, lite_topic, handles, call, services, done)


async def ack_message(request: AckMessageRequest, call: "Call", services: "Services") -> AckMessageResponse:
    """Acknowledge messages; the answer has an entry for each, in order."""
    receipts = ((entry.receipt_handle, entry.lite_topic) for entry in request.entries)
    outcomes = await acknowledge_messages(request.group.name, request.topic.name, receipts, call, services)
    return _make_answer(request.entries, outcomes)


def _make_answer(
    entries: "Sequence[AckMessageEntry]", outcomes: "Sequence[MessagingError | None]"
) -> AckMessageResponse:
    statuses = [_outcome_status(outcome) for outcome in outcomes]
    results = [
        AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=outcome)
        for entry, outcome in zip(entries, statuses, strict=True)
    ]
    return AckMessageResponse(status=overall_status(statuses), entries=results)


def _outcome_status(outcome: MessagingError | None) -> Status:
    return OK if outcome is None else make_status(outcome.code, outcome.message)


async def change_invisible_duration(
    request: ChangeInvisibleDurationRequest, call: "Call", services: "Services"
) -> ChangeInvisibleDurationResponse:
    """Change how long a received message stays hidden.

    An error carries the handle of the request, since Java and Python adopt any handle of the answer.
    """
    receipt = MessageReceipt(request.group.name, request.topic.name, request.receipt_handle, request.lite_topic)
    try:
        changed = await change_invisible(
            receipt, request.invisible_duration.ToMilliseconds(), call, services, suspend=request.suspend
        )
    except Exception as error:
        if isinstance(error, MessagingError) and error.code == ErrorCode.UNAUTHORIZED:
            raise  # the message is not the user's, and the front answers without a handle
        answer = status_of(error, "ChangeInvisibleDuration")
        return ChangeInvisibleDurationResponse(status=answer, receipt_handle=request.receipt_handle)
    return ChangeInvisibleDurationResponse(status=OK, receipt_handle=changed)


async def forward_message_to_dead_letter_queue(
    request: ForwardMessageToDeadLetterQueueRequest, call: "Call", services: "Services"
) -> ForwardMessageToDeadLetterQueueResponse:
    """Move a message to the group's dead-letter queue."""
    receipt = MessageReceipt(request.group.name, request.topic.name, request.receipt_handle, request.lite_topic)
    await forward_to_dead_letters(receipt, request.delivery_attempt, call, services)
    return ForwardMessageToDeadLetterQueueResponse(status=OK)
