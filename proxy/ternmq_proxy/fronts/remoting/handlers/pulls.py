"""Requests that pull messages (11, and 361, which is the same)."""

from typing import TYPE_CHECKING, Final

from ternmq_common.filters.message_filter import ALL_TEXT
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.heartbeats import filter_of
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.by_queue.pull import AnswerKind, QueuePull, pull_from_queue
from ternmq_proxy.quotas.receiving import count_sent_bytes
from ternmq_rpc.remoting.commands import Command

if TYPE_CHECKING:
    from ternmq_common.filters.message_filter import FilterText
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_proxy.operations.by_queue.pull import QueuePullResult

COMMIT_OFFSET: Final = 1
MAY_WAIT: Final = 2
HAS_SUBSCRIPTION: Final = 4
_DEFAULT_BATCH: Final = 32
_FOUND: Final = (ResponseCode.SUCCESS, "FOUND")
_CODES: Final = {
    AnswerKind.NOTHING_NEW: (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    AnswerKind.FILTERED: (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
    AnswerKind.OFFSET_MOVED: (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
    AnswerKind.THROTTLED: (ResponseCode.FLOW_CONTROL, "a quota lets no message pass now"),
}


async def pull_messages(context: "RemotingCall") -> Command:
    """Answer a pull."""
    command = context.command
    group, topic = context.get_group(), command.get_text("topic")
    flags = command.get_int32("sysFlag", 0)
    offset = command.get_int64("queueOffset")
    commit = command.get_int64("commitOffset", 0) if flags & COMMIT_OFFSET else None
    poll_s = command.get_int64("suspendTimeoutMillis", 0) / 1000 if flags & MAY_WAIT else 0.0
    request = QueuePull(
        queue=QueueRef(topic, context.broker, max(0, command.get_int32("queueId"))),
        group=group,
        offset=offset,
        filter_text=_read_filter(command) if flags & HAS_SUBSCRIPTION else await _find_filter(group, topic, context),
        batch=command.get_int32("maxMsgNums", _DEFAULT_BATCH),
        poll_s=poll_s,
        commit=commit if commit is None or commit > 0 else None,
    )
    result = await pull_from_queue(request, context.call, context.services)
    return _answer_pulled(result, context)


def _read_filter(command: Command) -> "FilterText":
    """Return the filter of the request."""
    expression, kind = command.get_text("subscription", ""), command.get_text("expressionType", "")
    return ALL_TEXT if expression == "*" and kind == "TAG" else filter_of(expression, kind)


async def _find_filter(group: str, topic: str, context: "RemotingCall") -> "FilterText":
    """Return the filter in the group's heartbeats, for a request without one."""
    subscriptions = await context.memberships.find_subscriptions(group)
    known = None if subscriptions is None else subscriptions.get(topic)
    if known is None:
        missing = "group" if subscriptions is None else "topic"
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's {missing} is in no heartbeat: {group}, {topic}"
        )
    if known.version < context.command.get_int64("subVersion", 0):
        raise RequestRefused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription is not the latest")
    return known.filter


def _answer_pulled(result: "QueuePullResult", context: "RemotingCall") -> Command:
    code, remark = _FOUND if result.kind is AnswerKind.FOUND else _CODES[result.kind]
    body = context.client.record_maker.encode_messages(result.messages)
    if result.meters:
        count_sent_bytes(result.meters, len(body), context.services.quotas.now())
    return Command(
        code,
        remark=remark,
        fields={
            "nextBeginOffset": str(result.next_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
            "suggestWhichBrokerId": "0",
            "topicSysFlag": "0",
            "groupSysFlag": "0",
        },
        body=body,
    )
