"""Requests about brokers: running figures (28), settings (25, 26), replicas (907), offsets of delay levels (45), limits
of reads of old messages (2002, 2003), and clean-ups, which need no request here (306, 316, 329).

All brokers of a cluster have the address of this proxy, so a request is answered for all together, unless it names one.
"""

import os
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import ReplicationMode
from ternmq_common.limits import HOUR_MS
from ternmq_common.names import TRACE_TOPIC
from ternmq_common.process.own_version import own_version
from ternmq_common.resources.modes import FlushMode
from ternmq_common.server_settings import StorageSettings
from ternmq_common.units import render_duration
from ternmq_proxy.access.needs import CLUSTER_GET
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import answer_done, answer_json, refuse_always
from ternmq_proxy.fronts.remoting.handlers.admin.statistics import find_broker_figures, sum_last
from ternmq_proxy.fronts.remoting.handlers.routes import READ, WRITE
from ternmq_proxy.fronts.remoting.versions import NEWEST, RELEASE_5_FROM
from ternmq_rpc.remoting.commands import INT64_MAX, Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.catalog.cluster import BrokerEntry
    from ternmq_proxy.fronts.remoting.call import RemotingCall

_SPANS_S = (10, 60, 600)
_NOTHING = "0.0 0.0 0.0"
_IDLE_POOLS = ("send", "pull", "query", "litePull", "ack")

refuse_settings = refuse_always("settings of brokers are those of TernMQ; change their settings files or options")


def _is_of_release_4(context: "RemotingCall") -> bool:
    return context.command.version < RELEASE_5_FROM


def _require_brokers(context: "RemotingCall") -> None:
    context.services.access.require_right("ListBrokers", context.call, CLUSTER_GET, "brokers")


async def describe_runtime(context: "RemotingCall") -> Command:
    """Answer 28: a text for each name that tools read."""
    _require_brokers(context)
    sent, step_s = await find_broker_figures("in", context)
    delivered, _ = await find_broker_figures("out", context)
    sizes, _ = await find_broker_figures("log_bytes", context)
    table = {
        **_describe_process(context),
        **_describe_rates(sent, delivered, step_s),
        "putMessageAverageSize": f"{average_message_bytes(sizes, sent, step_s):.1f}",
        **_describe_day(sent, delivered, step_s, context),
        **_describe_disk(context),
        **{f"{pool}ThreadPoolQueue{what}": "0" for pool in _IDLE_POOLS for what in ("Size", "HeadWaitTimeMills")},
        **{f"{pool}ThreadPoolQueueCapacity": "10000" for pool in _IDLE_POOLS},
        "EndTransactionQueueSize": "0",
        "pageCacheLockTimeMills": "0",
        "startAcceptSendRequestTimeStamp": "0",
    }
    if _is_of_release_4(context):
        table["getTransferedTps"] = table["getTransferredTps"]  # as it was spelt
    return answer_json({"table": dict(sorted(table.items()))})


def _describe_process(context: "RemotingCall") -> dict[str, str]:
    services = context.services
    started_ms, now_ms = services.started_ms, services.clock.now_ms()
    # Nothing is older than its topic.
    oldest_ms = min((topic.created_ms for topic in services.catalog.list_topics()), default=started_ms)
    passed_s = max(0, now_ms - started_ms) // 1000
    days, seconds = divmod(passed_s, 86400)
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return {
        "bootTimestamp": str(started_ms),
        "brokerActive": "true",
        "brokerVersion": str(NEWEST),
        "brokerVersionDesc": f"TernMQ_{own_version()}",
        "earliestMessageTimeStamp": str(oldest_ms),
        "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]",
    }


def _describe_rates(sent: "Sequence[float]", delivered: "Sequence[float]", step_s: float) -> dict[str, str]:
    put, got = _rates_of(sent, step_s), _rates_of(delivered, step_s)
    return {
        "getFoundTps": got,
        "getMissTps": _NOTHING,
        "getTotalTps": got,
        "getTransferredTps": got,
        "putTps": put,
        "timerDequeueTps": "0.0",
        "timerEnqueueTps": "0.0",
    }


def _rates_of(figures: "Sequence[float]", step_s: float) -> str:
    """Return the rates of the last ten seconds, of the last minute, and of ten."""
    return " ".join(f"{sum_last(figures, step_s, span_s) / span_s:.2f}" for span_s in _SPANS_S)


def average_message_bytes(sizes: "Sequence[float]", sent: "Sequence[float]", step_s: float) -> float:
    """Return how many bytes of the log a message took, as far as the history goes back. The log gets smaller too, and
    its first known size is not what was sent since."""
    grown = sum(max(0.0, now - before) for before, now in pairwise(sizes) if before)
    count = sum(sent) * step_s
    return grown / count if count else 0.0


def _describe_day(
    sent: "Sequence[float]", delivered: "Sequence[float]", step_s: float, context: "RemotingCall"
) -> dict[str, str]:
    """Return how many messages there were today, as far as the history goes back: totals that begin with the day."""
    now = datetime.fromtimestamp(context.services.clock.now_ms() / 1000, UTC)
    today_s = (now - now.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    put, got = (sum_last(each, step_s, today_s) for each in (sent, delivered))
    return {
        "msgGetTotalTodayMorning": "0",
        "msgGetTotalTodayNow": str(got),
        "msgGetTotalYesterdayMorning": "0",
        "msgPutTotalTodayMorning": "0",
        "msgPutTotalTodayNow": str(put),
        "msgPutTotalYesterdayMorning": "0",
        "putMessageTimesTotal": str(put),
    }


def _describe_disk(context: "RemotingCall") -> dict[str, str]:
    loads = [broker.load for broker in context.services.catalog.list_brokers()]
    used = max((load.disk_used for load in loads), default=0.0)
    timers = sum(load.timers or 0 for load in loads)
    return {
        "commitLogDiskRatio": f"{used:.4f}",
        "consumeQueueDiskRatio": f"{used:.4f}",
        "dispatchBehindBytes": "0",
        "putMessageFailedTimes": "0",
        "remainHowManyDataToCommit": "0",
        "remainHowManyDataToFlush": "0",
        "timerCongestNum": str(timers),
        "timerOffsetBehind": "0",
        "timerReadBehind": "0",
    }


# --- settings


async def describe_settings(context: "RemotingCall") -> Command:
    """Answer 26: settings under the names of RocketMQ, those that mean something here."""
    context.services.access.require_right("GetServerInfo", context.call, CLUSTER_GET, "server")
    settings = _settings_of(_find_broker(context), context)
    if _is_of_release_4(context):
        settings["filterServerNums"] = 0  # which its tools fail without
    lines = "".join(f"{name}={value}\n" for name, value in sorted(settings.items()))
    version = f'{{"counter":0,"stateVersion":0,"timestamp":{context.services.started_ms}}}'
    return Command(ResponseCode.SUCCESS, fields={"version": version}, body=lines.encode())


def _settings_of(broker: "BrokerEntry", context: "RemotingCall") -> dict[str, object]:
    services = context.services
    front = services.process.settings
    # A proxy does not know the settings of its cluster's brokers: they have their defaults, as far as it knows.
    storage = front if isinstance(front, StorageSettings) else StorageSettings()
    host, _, port = context.client.address.rpartition(":")
    is_sync = broker.replication is ReplicationMode.SYNC and len(broker.replicas) > 1
    switches = {
        "aclEnable": services.access.is_on,
        "authenticationEnabled": services.access.is_on,
        "authorizationEnabled": services.access.is_on,
        "autoCreateSubscriptionGroup": front.auto_create,
        "autoCreateTopicEnable": services.catalog.creates_topics,
        "enablePropertyFilter": True,
        "longPollingEnable": True,
        "recallMessageEnable": True,
        "slaveReadEnable": False,
        "traceOn": True,
        "traceTopicEnable": services.catalog.creates_topics,
        "useTLS": False,
    }
    return {
        **{name: str(value).lower() for name, value in switches.items()},
        "brokerClusterName": context.cluster,
        "brokerIP1": host.strip("[]"),
        "brokerId": 0,
        "brokerName": broker.name,
        "brokerPermission": (READ if broker.can_read else 0) | (WRITE if broker.can_write else 0),
        "brokerRole": "SYNC_MASTER" if is_sync else "ASYNC_MASTER",
        "clientCallbackExecutorThreads": os.cpu_count() or 1,  # by which tools know how many cores there are
        "defaultTopicQueueNums": services.catalog.default_queues,
        "fileReservedTime": storage.retention_ms // HOUR_MS,
        "flushDiskType": "SYNC_FLUSH" if storage.flush is FlushMode.SYNC else "ASYNC_FLUSH",
        "listenPort": port,
        "maxMessageSize": services.limits.body_bytes_max,
        "messageDelayLevel": " ".join(map(render_duration, services.delay_levels_ms)),
        "msgTraceTopicName": TRACE_TOPIC,
        "namesrvAddr": context.client.address,
    }


def _find_broker(context: "RemotingCall") -> "BrokerEntry":
    """Return the broker that the request names, or the first."""
    brokers = context.services.catalog.list_brokers()
    return next((broker for broker in brokers if broker.name == context.broker), brokers[0])


# --- replicas, and what is always done


async def describe_replicas(context: "RemotingCall") -> Command:
    """Answer 907."""
    _require_brokers(context)
    broker = _find_broker(context)
    followers = [each for each in broker.replicas if each.store_id != broker.store_id]
    end = max((each.position for each in broker.replicas), default=0)
    return answer_json(
        {
            "haClientRuntimeInfo": {},
            "haConnectionInfo": [
                {
                    "addr": each.address,
                    "diff": end - each.position,
                    "inSync": each.in_sync,
                    "slaveAckOffset": each.position,
                    "transferFromWhere": each.position,
                    "transferredByteInSecond": 0,
                }
                for each in followers
            ],
            "inSyncSlaveNums": sum(each.in_sync for each in followers),
            "master": True,
            "masterCommitLogMaxOffset": end,
        }
    )


async def list_delay_offsets(context: "RemotingCall") -> Command:
    """Answer 45: delayed messages are in no queues of levels here, so there are no offsets."""
    _require_brokers(context)
    return answer_json({"dataVersion": {}, "offsetTable": {}})


async def describe_cold_reads(context: "RemotingCall") -> Command:
    """Answer 2003: reads of old messages are not limited, whichever group makes them."""
    _require_brokers(context)
    return answer_json(
        {
            "runtimeTable": {},
            "configTable": {},
            "cgColdReadThreshold": INT64_MAX,
            "globalColdReadThreshold": INT64_MAX,
            "globalAcc": 0,
        }
    )


async def note_cleaned(context: "RemotingCall") -> Command:
    """Answer 306, 316, 329, 2002 and 200056: brokers remove what is expired by themselves, have no queues without a
    topic and no limits of cold reads, and keep what was popped in one form, to which nothing is rolled back."""
    _require_brokers(context)
    return answer_done()
