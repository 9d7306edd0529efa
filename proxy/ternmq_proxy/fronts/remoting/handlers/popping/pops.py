"""Requests of clients that pop: receive messages (200050), and settle them (200051, 200053, 200151).

A pop is a receive of the client as a member of its group, from the broker that it names if that has messages, else from
any. The messages' checkpoints name their broker.
"""

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ternmq_common.limits import RECEIVE_BATCH_MAX
from ternmq_common.names import RETRY_PREFIX, check_group_name
from ternmq_common.resources.resource_settings import DEFAULT_BEGINNING
from ternmq_common.shard.model import SettleOutcome
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import (
    read_number,
    read_object,
    read_objects,
    read_text,
)
from ternmq_proxy.fronts.remoting.heartbeats import filter_of
from ternmq_proxy.fronts.remoting.messages.checkpoints import (
    REVIVE_QUEUE,
    REVIVE_QUEUE_IN_ORDER,
    Checkpoint,
    InvalidCheckpoint,
    PoppedForm,
    find_popped,
    name_retries,
    read_checkpoint,
)
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.by_queue.group_ways import require_pops
from ternmq_proxy.operations.by_queue.popped import PoppedMessage, acknowledge_popped, begin_at_first, hide_popped
from ternmq_proxy.operations.receive import ReceiveRequest, receive_messages
from ternmq_proxy.quotas.receiving import count_sent_bytes
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_proxy.operations.receive import ReceivedMessages

ACKNOWLEDGED_MAX = 4096
_FROM_FIRST, _FROM_LAST = 0, 1
_EXPIRED = "the invisible time has passed, or there is no such message"


async def pop_messages(context: "RemotingCall") -> Command:
    """Answer 200050."""
    command, group = context.command, context.get_group()
    topic, batch = command.get_text("topic"), command.get_int32("maxMsgNums")
    if not 0 < batch <= RECEIVE_BATCH_MAX:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER, f"maxMsgNums is {batch}; 1 to {RECEIVE_BATCH_MAX} are allowed"
        )
    in_order = command.get_bool("order", default=False)
    if in_order and not context.services.catalog.group_or_default(group).fifo:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"group {group} is not FIFO, so nothing is popped in order (updateSubGroup -o)",
        )
    request = ReceiveRequest(
        group=group,
        topic=topic,
        batch=batch,
        invisible_ms=command.get_int64("invisibleTime"),
        broker=context.broker,
        queue_id=command.get_int32("queueId", -1),
        filter=filter_of(command.get_text("exp", ""), command.get_text("expType", "")),
        poll_s=command.get_int64("pollTime", 0) / 1000,
        attempt_id=command.get_text("attemptId", ""),
        one_of_message_group=True,
    )
    if context.memberships.members.is_member(context.client, group):
        require_pops(context.services.catalog.group_or_default(group))
    if command.get_int32("initMode", _FROM_LAST) == _FROM_FIRST:
        await _begin_at_first(group, topic, context)
    call = replace(context.call, client_id=context.memberships.key_of(context.client, group) or context.call.client_id)
    received = await _receive(request, call, context)
    if context.client.connection.is_closed:
        await received.release()
    return _answer_popped(received, request, REVIVE_QUEUE_IN_ORDER if in_order else REVIVE_QUEUE, context)


async def _receive(request: ReceiveRequest, call: "Call", context: "RemotingCall") -> "ReceivedMessages":
    """Receive messages; while that waits, it is counted."""
    waiting, key = context.memberships.waiting_pops, (request.group, request.topic, request.queue_id)
    waiting[key] += 1
    try:
        return await receive_messages(request, call, context.services)
    finally:
        waiting[key] -= 1
        if not waiting[key]:
            del waiting[key]


async def _begin_at_first(group: str, topic: str, context: "RemotingCall") -> None:
    """Do what a client asks for that begins at the first message, unless the group's settings say where it begins."""
    services = context.services
    if not services.catalog.has_group(group):
        return
    known = services.catalog.group_or_default(group)
    if known.consume_from == DEFAULT_BEGINNING and not context.memberships.has_begun(known, topic):
        await begin_at_first(group, topic, context.call, services)
        context.memberships.note_begun(known, topic)


def _answer_popped(
    received: "ReceivedMessages", request: ReceiveRequest, revive_queue: int, context: "RemotingCall"
) -> Command:
    fields = {
        "popTime": "0",
        "invisibleTime": str(request.invisible_ms),
        "reviveQid": str(revive_queue),
        "restNum": "0",
    }
    if received.problem is not None:
        return Command(ResponseCode.POLLING_TIMEOUT, remark=received.problem.message, fields=fields)
    deliveries = received.deliveries
    form = PoppedForm(request.group, request.topic, request.invisible_ms, revive_queue, deliveries)
    encode = context.client.record_maker.encode_popped
    body = b"".join([encode(each, form.topic_of(each), form.write_checkpoint(each)) for each in deliveries])
    if received.meters:
        count_sent_bytes(received.meters, len(body), context.services.quotas.now())
    fields |= {
        "popTime": str(form.pop_ms),
        "startOffsetInfo": form.first_offsets,
        "msgOffsetInfo": form.all_offsets,
    }
    return Command(ResponseCode.SUCCESS, remark="FOUND", fields=fields, body=body)


# --- settling


async def acknowledge_message(context: "RemotingCall") -> Command:
    """Answer 200051."""
    message, _ = _read_message(context)
    [outcome] = await acknowledge_popped(context.get_group(), [message], context.call, context.services)
    if outcome is SettleOutcome.EXPIRED:
        raise RequestRefused(ResponseCode.NO_MESSAGE, _EXPIRED)
    return Command(ResponseCode.SUCCESS)


async def change_invisible(context: "RemotingCall") -> Command:
    """Answer 200053: the times for the message's new checkpoint."""
    message, revive_queue = _read_message(context)
    invisible_ms = context.command.get_int64("invisibleTime")
    hidden = await hide_popped(context.get_group(), message, invisible_ms, context.call, context.services)
    return Command(
        ResponseCode.SUCCESS,
        fields={
            "popTime": str(hidden.end_ms - invisible_ms),
            "invisibleTime": str(invisible_ms),
            "reviveQid": revive_queue,
        },
    )


def _read_message(context: "RemotingCall") -> tuple[PoppedMessage, str]:
    """Return the message that a request names, and the revive queue of its checkpoint."""
    command, text = context.command, context.command.get_text("extraInfo")
    try:
        checkpoint = read_checkpoint(text)
    except InvalidCheckpoint as error:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
    topic, queue_id = command.get_text("topic"), command.get_int32("queueId")
    message = find_popped(context.get_group(), topic, queue_id, command.get_int64("offset"), checkpoint)
    return message, text.split(" ")[3]


async def acknowledge_batch(context: "RemotingCall") -> Command:
    """Answer 200151: messages of several checkpoints; those whose time has passed are no error."""
    broker = read_text(read_object(context.command.body), "brokerName") or context.broker
    by_group: dict[str, list[PoppedMessage]] = {}
    count = 0
    for content in read_objects(context.command.body, "acks"):
        group = check_group_name(read_text(content, "c"))
        for message in _read_batch(group, broker, content):
            count += 1
            if count > ACKNOWLEDGED_MAX:
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"more than {ACKNOWLEDGED_MAX} acknowledgements")
            by_group.setdefault(group, []).append(message)
    for group, messages in by_group.items():
        await acknowledge_popped(group, messages, context.call, context.services)
    return Command(ResponseCode.SUCCESS)


def _read_batch(group: str, broker: str, content: "Mapping[object, object]") -> "Iterator[PoppedMessage]":
    """Return the messages of one entry: a bit for each offset from the first one on."""
    first, queue_id = read_number(content, "so", 0), read_number(content, "q", -1)
    checkpoint = Checkpoint(read_number(content, "pt", 0), read_number(content, "it", 0), broker)
    try:
        bits = int.from_bytes(b64decode(read_text(content, "b"), validate=True), "little")
    except (binascii.Error, ValueError) as error:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "the bits of an acknowledgement can't be read") from error
    topic = read_text(content, "t")
    if read_text(content, "r") not in ("", "0") and not topic.startswith(RETRY_PREFIX):
        topic = name_retries(group, topic)
    while bits:
        lowest = bits & -bits
        yield find_popped(group, topic, queue_id, first + lowest.bit_length() - 1, checkpoint)
        bits ^= lowest
