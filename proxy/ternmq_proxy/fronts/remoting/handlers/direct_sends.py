"""Sends of one ordinary message (10 and 310) that are answered without a task."""

from typing import TYPE_CHECKING

from ternmq_common.names import RETRY_PREFIX
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.fronts.remoting.handlers.sends import SendFields, answer_sent, read_chosen_queue, read_sent_header
from ternmq_proxy.fronts.remoting.messages.sent_messages import read_sent_message
from ternmq_proxy.operations.by_queue.send import PlacedMessage, send_nowait

if TYPE_CHECKING:
    from ternmq_common.shard.model import AppendedMessage
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_proxy.fronts.remoting.handlers.handler import Answered


def begin_send(made: "RemotingCall", done: "Answered") -> bool:
    """Begin to store the message; `done` gets the answer, or the error. Return False, with nothing done, if the send
    takes longer. Raises what refuses it."""
    command, services = made.command, made.services
    if not command.body:
        return False
    fields = SendFields(command)
    if fields.get_bool("batch", default=False):
        return False
    header = read_sent_header(fields, made)
    if header.topic.startswith(RETRY_PREFIX) or fields.get_bool("batch", default=False):
        return False
    message = read_sent_message(header, command.body, services.delay_levels_ms, services.clock.now_ms())
    chosen = read_chosen_queue(fields, made)

    def take_place(appended: "AppendedMessage | None", error: Exception | None) -> None:
        if appended is None:
            done(None, error)
            return
        queue = QueueRef(chosen.topic, appended.broker, queue_id)
        placed = PlacedMessage(queue, appended.message_id, appended.queue_offset, appended.log_offset)
        answer = answer_sent([placed], made.client)
        answer.fields["transactionId"] = placed.message_id  # type: ignore[index]
        done(answer, None)

    queue_id = chosen.queue_id
    if queue_id < 0:
        return False
    return send_nowait(message, chosen, made.call, services, take_place, size=made.request.size)
