"""Requests that send the reply to a message (324 and 325)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_topic_name
from ternmq_common.shard.property_text import read_properties, write_properties
from ternmq_proxy.access.needs import TOPIC_PUB
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.sends import SendFields, answer_sent, complete_answer, store_sent
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.fronts.remoting.replies import PushOutcome
from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_ids import render_host

if TYPE_CHECKING:
    from ternmq_proxy.fronts.remoting.call import RemotingCall

_HANDED_ON = (
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "reconsumeTimes",
    "unitMode",
)


def reply_topic(cluster: str) -> str:
    """Return the topic that replies are sent to."""
    return f"{cluster}_REPLY_TOPIC"


async def send_reply(context: "RemotingCall") -> Command:
    """Push a reply to the client that waits for it; then store it, as RocketMQ does, if it has a body and its topic
    may be made."""
    fields = SendFields(context.command)
    topic = check_topic_name(fields.get_text("topic"))
    context.services.access.require_right("SendMessage", context.call, TOPIC_PUB, topic)
    pairs = read_properties(fields.get_text("properties", ""))
    client_id = pairs.get(names.REPLY_TO_CLIENT, "")
    if not client_id:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "REPLY_TO_CLIENT is null, can not reply message")
    outcome = await context.replies.push_reply(client_id, _pushed_fields(fields, pairs, context), context.command.body)
    if outcome is PushOutcome.ABSENT:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"push reply message fail, client <{client_id}> is not connected"
        )
    if outcome is PushOutcome.FAILED:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"push reply message to {client_id} fail.")
    return await _store_reply(context)


async def _store_reply(context: "RemotingCall") -> Command:
    if context.command.body:
        try:
            return answer_sent([await store_sent(context)], context.client)
        except MessagingError as error:
            if error.code != ErrorCode.TOPIC_NOT_FOUND:
                raise
    answer = Command(ResponseCode.SUCCESS, fields={"msgId": "0", "queueId": "0", "queueOffset": "0"})
    complete_answer(answer)
    return answer


def _pushed_fields(fields: "SendFields", pairs: dict[str, str], context: "RemotingCall") -> dict[str, str]:
    """Return the header of the request that brings the reply to its client."""
    now_ms = str(context.services.clock.now_ms())
    pushed = {name: fields.get_text(name, "") for name in _HANDED_ON}
    pushed["properties"] = write_properties({**pairs, names.PUSH_REPLY_TIME: now_ms})
    pushed["bornHost"] = context.call.peer
    pushed["storeHost"] = render_host(context.client.store_host)
    pushed["storeTimestamp"] = now_ms
    return {name: value for name, value in pushed.items() if value}
