"""Calls of `ternmq.admin.v1.Admin` that look at messages, move groups among them, and deliver dead letters again
(`operations/admin/messages/message_search.py`, `operations/admin/groups/group_offsets.py`,
`operations/dead_letters.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import MessageState
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK, make_status
from ternmq_proxy.fronts.grpc.activities.times import time_ms
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form
from ternmq_proxy.operations.admin.groups import group_offsets
from ternmq_proxy.operations.admin.groups.group_offsets import OffsetReset, Target
from ternmq_proxy.operations.admin.messages import message_search
from ternmq_proxy.operations.admin.messages.message_search import MessagePlace
from ternmq_proxy.operations.dead_letters import resend_letters

if TYPE_CHECKING:
    from ternmq_common.shard.model import MessageStatus
    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.dead_letters import ResentLetter
    from ternmq_proxy.services import Services

_STATES = {
    MessageState.AHEAD: admin_pb2.AHEAD,
    MessageState.HELD: admin_pb2.HELD,
    MessageState.AGAIN: admin_pb2.AGAIN,
    MessageState.FINISHED: admin_pb2.FINISHED,
    MessageState.DEAD: admin_pb2.DEAD,
}


# --- offsets


async def reset_offsets(
    request: admin_pb2.ResetOffsetsRequest, call: "Call", services: "Services"
) -> admin_pb2.ResetOffsetsResponse:
    """Move a group in all queues of a topic, or in some; see the request's comment."""
    moves = await group_offsets.reset_offsets(_read_reset(request), call, services)
    return admin_pb2.ResetOffsetsResponse(
        status=OK,
        moves=[
            admin_pb2.OffsetMove(
                broker=move.queue.broker, queue_id=move.queue.queue_id, before=move.before, after=move.after
            )
            for move in moves
        ],
    )


def _read_reset(request: admin_pb2.ResetOffsetsRequest) -> OffsetReset:
    name = request.WhichOneof("target")
    target = None if name is None else Target(name)
    if target in (Target.EARLIEST, Target.LATEST, None):
        number = 0
    else:
        number = time_ms(request.time) if target is Target.TIME else getattr(request, target.value)
    return OffsetReset(
        group=request.group,
        topic=request.topic,
        target=target,
        number=number,
        broker=request.broker,
        queue_ids=tuple(request.queue_ids),
        dry_run=request.dry_run,
    )


# --- queries


async def query_messages(
    request: admin_pb2.QueryMessagesRequest, call: "Call", services: "Services"
) -> admin_pb2.QueryMessagesResponse:
    """Return the newest messages of a topic with a key or message id, as consumers get them."""
    found = await message_search.find_messages_by_key(request.topic, request.key, request.limit, call, services)
    return admin_pb2.QueryMessagesResponse(
        status=OK,
        messages=[delivered_form(each, topic=each.queue.topic, store_host=services.store_host) for each in found],
        brokers=[each.queue.broker for each in found],
    )


async def describe_message(
    request: admin_pb2.DescribeMessageRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeMessageResponse:
    """Return a message by its place, and its state in each group."""
    place = MessagePlace(request.topic, request.queue_id, request.offset, request.broker, request.lite_topic)
    found = await message_search.describe_message(place, call, services)
    return admin_pb2.DescribeMessageResponse(
        status=OK,
        message=delivered_form(found.message, topic=found.topic, store_host=services.store_host),
        broker=found.message.queue.broker,
        standings=[_status(each) for each in found.statuses],
    )


def _status(status: "MessageStatus") -> admin_pb2.Standing:
    answer = admin_pb2.Standing(group=status.group, state=_STATES[status.state], attempts=status.attempts)
    if status.until_ms:
        answer.until.FromMilliseconds(status.until_ms)
    if status.dead_offset >= 0:
        answer.dead_letter_offset = status.dead_offset
    return answer


# --- dead letters


async def resend_dead_letters(
    request: admin_pb2.ResendDeadLettersRequest, call: "Call", services: "Services"
) -> admin_pb2.ResendDeadLettersResponse:
    """Deliver dead letters again, and say for each what became of it."""
    letters = await resend_letters(
        request.group, request.broker, list(request.offsets), request.to_topic, call, services
    )
    return admin_pb2.ResendDeadLettersResponse(status=OK, letters=map(_resent, letters))


def _resent(letter: "ResentLetter") -> admin_pb2.ResentDeadLetter:
    outcome = OK if letter.error is None else make_status(letter.error.code, letter.error.message)
    return admin_pb2.ResentDeadLetter(
        offset=letter.offset, topic=letter.topic, message_id=letter.message_id, status=outcome
    )
