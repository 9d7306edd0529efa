"""Requests for figures: of a topic's queues (202), of groups in them (43, 208, 303, 308, 317), of the last hours (315).

Rates are messages per second of the last ten seconds. Rates of single groups of a topic are not counted.
"""

from typing import TYPE_CHECKING

from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.shard.model import HistoryOf
from ternmq_proxy.access.needs import CLUSTER_GET, GROUP_GET, TOPIC_GET
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import answer_json, queue_key, queue_object
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.admin.groups.consumption import find_consumption
from ternmq_proxy.operations.admin.groups.time_spans import find_time_spans
from ternmq_proxy.operations.admin.pages import select_visible
from ternmq_proxy.operations.admin.topics.topic_list import describe_topic
from ternmq_proxy.operations.admin.topics.topic_times import find_last_times
from ternmq_rpc.remoting.commands import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ternmq_common.shard.model import ConsumerGroup, FigureHistory
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_proxy.operations.admin.groups.consumption import QueueConsumption
    from ternmq_rpc.remoting.commands import Command

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_TOPIC_PUT, _GROUP_GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
_BROKER_FIGURES = {"BROKER_PUT_NUMS": "in", "BROKER_GET_NUMS": "out"}


async def describe_topic_stats(context: "RemotingCall") -> "Command":
    """Answer 202."""
    name = context.command.get_text("topic")
    found = await describe_topic(name, context.call, context.services, contents=True, may_be_traces=True)
    times = await find_last_times(found.queues, context.services)
    table = {
        queue_key(queue): {
            "lastUpdateTimestamp": times.get(queue, 0),
            "maxOffset": bounds.maximum,
            "minOffset": bounds.minimum,
        }
        for queue, bounds in found.queues.items()
    }
    rate = 0.0 if found.content is None else found.content.sent_per_s
    return answer_json({"offsetTable": table, "topicPutTps": rate})


# --- groups


async def describe_group_stats(context: "RemotingCall") -> "Command":
    """Answer 208."""
    command = context.command
    topics = {topic for topic in command.get_text("topicList", "").split(";") if topic}
    topics |= {command.get_text("topic", "")} - {""}
    return answer_json(await _describe_stats(context.get_group(), topics, context))


async def _describe_stats(group: str, topics: "Collection[str]", context: "RemotingCall") -> dict[str, object]:
    found = await find_consumption(group, topics, context.call, context.services, with_empty=True)
    read = {each.progress.queue.topic for each in found}
    return {
        "consumeTps": await _find_rate(read, context),
        "offsetTable": {queue_key(each.progress.queue): _describe_progress(each) for each in found},
    }


async def _find_rate(topics: "Collection[str]", context: "RemotingCall") -> float:
    """Return how many messages of these topics are delivered, by the last count."""
    rate = 0.0
    for topic in topics:
        if context.services.catalog.known_topic(topic) is not None:
            rate += (await context.services.messages.inspecting.content(topic)).delivered_per_s
    return rate


def _describe_progress(found: "QueueConsumption") -> dict[str, object]:
    row = found.progress
    return {
        "brokerOffset": row.max_offset,
        "consumerOffset": row.committed,
        "lastTimestamp": found.finished_ms,
        "pullOffset": row.cursor,
    }


async def describe_all_stats(context: "RemotingCall") -> "Command":
    """Answer 317: all groups that the caller may see."""
    listed: list[dict[str, list[dict[str, object]]]] = []
    behind = in_flight = 0
    for group in await _find_groups(context):
        found = await find_consumption(group.name, (), context.call, context.services)
        by_topic: dict[str, list[QueueConsumption]] = {}
        for each in found:
            by_topic.setdefault(each.progress.queue.topic, []).append(each)
            behind += each.progress.max_offset - each.progress.committed
            in_flight += each.progress.cursor - each.progress.committed
        stats: list[dict[str, object]] = [
            {
                "consumeTps": await _find_rate([topic], context),
                "offsetTable": {queue_key(each.progress.queue): _describe_progress(each) for each in its},
            }
            for topic, its in sorted(by_topic.items())
        ]
        if stats:
            listed.append({group.name: stats})
    return answer_json(
        {
            "brokerAddr": context.client.address,
            "consumeStatsList": listed,
            "totalDiff": behind,
            "totalInflightDiff": in_flight,
        }
    )


async def _find_groups(context: "RemotingCall") -> "list[ConsumerGroup]":
    return await select_visible(context.services.catalog.list_groups(), GROUP_GET, context.call, context.services)


async def list_offsets(context: "RemotingCall") -> "Command":
    """Answer 43: the committed offsets of all groups that the caller may see."""
    table: dict[str, dict[int, int]] = {}
    turns = WorkTurns()
    for group in await _find_groups(context):
        for row in await context.services.messages.inspecting.progress(group.name):
            table.setdefault(f"{row.queue.topic}@{group.name}", {})[row.queue.queue_id] = row.committed
        await turns.next_turn()
    return answer_json({"offsetTable": table})


async def correct_offsets(context: "RemotingCall") -> "Command":
    """Answer 308: in each queue the least offset that a group of the topic has committed, without `filterGroups`; the
    largest number there is where `compareGroup` is behind it."""
    command, inspecting = context.command, context.services.messages.inspecting
    topic, compared = command.get_text("topic"), command.get_text("compareGroup", "")
    context.services.access.require_right("DescribeTopic", context.call, TOPIC_GET, topic)
    left_out = {group for group in command.get_text("filterGroups", "").split(",") if group}
    least: dict[int, int] = {}
    behind: dict[int, int] = {}
    turns = WorkTurns()
    for group in await _find_groups(context):
        for row in await inspecting.progress(group.name, [topic]):
            queue_id = row.queue.queue_id
            if (
                row.queue.topic == topic
                and await context.services.messages.reading.committed(group.name, row.queue) is not None
            ):
                if group.name not in left_out:
                    least[queue_id] = min(row.committed, least.get(queue_id, INT64_MAX))
                if group.name == compared:
                    behind[queue_id] = row.committed
        await turns.next_turn()
    found = {
        queue_id: INT64_MAX if offset > behind.get(queue_id, INT64_MAX) else offset
        for queue_id, offset in least.items()
    }
    return answer_json({"correctionOffsets": found})


async def describe_time_spans(context: "RemotingCall") -> "Command":
    """Answer 303."""
    group, topic = context.get_group("group"), context.command.get_text("topic")
    spans = await find_time_spans(group, [topic], context.call, context.services)
    return answer_json(
        {
            "consumeTimeSpanSet": [
                {
                    "consumeTimeStamp": span.finished_ms,
                    "delayTime": span.delay_ms,
                    "maxTimeStamp": span.last_ms,
                    "messageQueue": queue_object(span.queue),
                    "minTimeStamp": span.first_ms,
                }
                for span in spans
            ]
        }
    )


# --- the last hours


async def describe_figures(context: "RemotingCall") -> "Command":
    """Answer 315."""
    name, key = context.command.get_text("statsName"), context.command.get_text("statsKey")
    values = await _find_values(name, key, context)
    if values is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    figures, step_s = values
    return answer_json(
        {
            "statsDay": _summarize(figures, step_s, _DAY_S),
            "statsHour": _summarize(figures, step_s, _HOUR_S),
            "statsMinute": _summarize(figures, step_s, _MINUTE_S),
        }
    )


async def _find_values(name: str, key: str, context: "RemotingCall") -> "tuple[Sequence[float], float] | None":
    """Return the rates of the last hours, and how many seconds each is of; None for what is not counted."""
    services = context.services
    if name in _BROKER_FIGURES:
        services.access.require_right("GetHistory", context.call, CLUSTER_GET, "brokers")
        return await find_broker_figures(_BROKER_FIGURES[name], context)
    topic, _, group = key.partition("@")
    if name == _TOPIC_PUT:
        services.access.require_right("GetHistory", context.call, TOPIC_GET, topic)
        return _pick(await services.messages.inspecting.history(HistoryOf.TOPIC, topic), "in")
    if name == _GROUP_GET and services.catalog.has_topic(topic):
        services.access.require_right("GetHistory", context.call, GROUP_GET, group)
        content = await services.messages.inspecting.content(topic)
        if content.groups == [group]:
            return _pick(await services.messages.inspecting.history(HistoryOf.TOPIC, topic), "out")
    return None


async def find_broker_figures(name: str, context: "RemotingCall") -> "tuple[list[float], float]":
    """Return the rates of all brokers together, the newest last, and how many seconds each is of."""
    sums: list[float] = []
    step_s = 1.0
    for broker in context.services.catalog.list_brokers():
        found = _pick(await context.services.messages.inspecting.history(HistoryOf.BROKER, broker.name), name)
        if found is None:
            continue
        values, step_s = found
        known = [max(0.0, value) for value in values]
        size = max(len(sums), len(known))
        padded = [[0.0] * (size - len(each)) + each for each in (sums, known)]
        sums = [one + other for one, other in zip(*padded, strict=True)]
    return sums, step_s


def _pick(history: "FigureHistory", name: str) -> "tuple[list[float], float] | None":
    values = history.series.get(name)
    if not values or all(value < 0 for value in values):
        return None
    return values, history.step_ms / 1000


def sum_last(figures: "Sequence[float]", step_s: float, span_s: float) -> int:
    """Return how many that were in the last seconds."""
    steps = max(1, round(span_s / step_s))
    return round(sum(max(0.0, value) for value in figures[-steps:]) * step_s)


def _summarize(figures: "Sequence[float]", step_s: float, span_s: int) -> dict[str, object]:
    total = sum_last(figures, step_s, span_s)
    return {"avgpt": 0.0, "sum": total, "tps": total / span_s}
