"""Sends of one ordinary message (10 and 310) that are answered without a task."""

from typing import TYPE_CHECKING

from ternmq_common.shard.model import QueueRef
from ternmq_proxy.fronts.remoting.handlers.sends import SendFields, answer_sent, read_chosen_queue, read_sent_header
from ternmq_proxy.fronts.remoting.messages.ordinary_messages import OrdinaryReader
from ternmq_proxy.operations.by_queue.send import PlacedMessage, send_nowait

if TYPE_CHECKING:
    from ternmq_common.shard.model import AppendedMessage
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_proxy.fronts.remoting.handlers.handler import Answered


def begin_send(context: "RemotingCall", done: "Answered") -> bool:
    """Begin to store the message; `done` gets the answer, or the error. Return False, with nothing done, if the send
    takes longer. Raises what refuses it."""
    command, services = context.command, context.services
    fields = SendFields(command)
    if fields.get_bool("batch", default=False):
        return False
    chosen = read_chosen_queue(fields, context)
    if chosen.queue_id < 0:
        return False
    header = read_sent_header(fields, context)
    reader = OrdinaryReader(header, services.clock.now_ms(), services.limits)
    message = reader.read_message(header.properties, command.body)
    if message is None:
        return False

    def take_place(appended: "AppendedMessage | None", error: Exception | None) -> None:
        if appended is None:
            done(None, error)
            return
        queue = QueueRef(chosen.topic, appended.broker, chosen.queue_id)
        placed = PlacedMessage(queue, appended.message_id, appended.queue_offset, appended.log_offset)
        done(answer_sent([placed], context.client, transaction_id=placed.message_id), None)

    return send_nowait(message, chosen, context.call, services, take_place, size=context.request.size)
