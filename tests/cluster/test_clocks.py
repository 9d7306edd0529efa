"""A broker or a proxy whose clock is an hour ahead: everybody sees it, and no timed message comes too early."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.cluster.test_seeing import metrics_of
from tests.cluster.watching import command, consumed, done, eventually, health, in_routes, serving
from tests.support.cluster_processes import ClusterProcesses, MemberProcess
from tests.support.embedded import RawClient, code, message, moment

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

HOUR_S = 3600
WITHIN_S = 20.0
WRONG = r"the clock is 3\d{3}\.\d s ahead of the registry's, beyond expert\.clock_skew_max_ms \(60 s\)"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, brokers=2, proxies=1) as processes:
        yield processes


async def restarted(process: MemberProcess, *, ahead_s: int) -> None:
    """On a machine with another clock."""
    assert await asyncio.to_thread(process.terminate) == 0
    process.ahead_s = ahead_s
    await asyncio.to_thread(process.start)


def timed(topic: str, body: bytes, due_s: float) -> pb.Message:
    return message(topic, body, message_type=pb.DELAY, delivery_timestamp=moment(round(due_s * 1000)))


async def scheduled(client: RawClient, topic: str, body: bytes, due_s: float) -> rpc.SendMessageResponse:
    answer = await client.call("SendMessage", messages=[timed(topic, body, due_s)])
    assert isinstance(answer, rpc.SendMessageResponse)
    return answer


async def test_a_broker_that_is_an_hour_ahead_is_seen_and_leaves_timed_messages_alone(
    cluster: ClusterProcesses, client: RawClient
) -> None:
    proxy, [right, wrong] = cluster.proxies[0], cluster.brokers
    both, its_own = await client.create_topic("later", kind=pb.DELAY), "its-own"
    await done(proxy, "topic", "create", its_own, "--type", "delay", "--brokers", wrong.name)
    plain = await client.create_topic("plain", queues=1)
    await in_routes([client], plain, {right.name, wrong.name}, within_s=WITHIN_S)
    due_s = time.time() + 15.0
    assert code(await scheduled(client, its_own, b"kept", due_s)) == "OK"
    await restarted(wrong, ahead_s=HOUR_S)
    await serving(client, cluster.brokers)

    # Everybody sees it.
    assert re.search(WRONG, wrong.log_tail())
    status, said = await health(wrong, "ready")
    assert (status, re.match(WRONG, json.loads(said)["degraded"]) is not None) == (200, True)
    assert (await asyncio.to_thread(metrics_of, wrong))["ternmq_clock_skew_seconds"] == pytest.approx(HOUR_S, abs=30)
    for process in (right, proxy):
        assert abs((await asyncio.to_thread(metrics_of, process))["ternmq_clock_skew_seconds"]) < 30

    async def is_listed() -> bool:
        skews = {
            each["name"]: each["load"]["clock_skew_s"]
            for each in json.loads(await done(proxy, "broker", "list", "--json"))
        }
        return (skews[wrong.name] or 0) > HOUR_S - 30

    await eventually(is_listed, within_s=WITHIN_S, what="brokers are listed with their clocks")
    told = await command(proxy, "doctor", "--http", proxy.addresses["http"])
    assert f"problem  clock         that of {wrong.name} is +36" in told.stdout

    # What is timed goes to another broker, and where there is none it is refused.
    soon_s = time.time() + 3.0
    for number in range(4):
        assert code(await scheduled(client, both, b"%d" % number, soon_s)) == "OK"
    refused = await scheduled(client, its_own, b"refused", soon_s)
    assert (code(refused), re.search(WRONG, refused.status.message) is not None) == ("HA_NOT_AVAILABLE", True)
    assert sorted(await consumed(client, both, "readers", 4)) == [b"0", b"1", b"2", b"3"]
    assert time.time() >= soon_s
    # All else goes on there.
    for number in range(4):
        await client.send(plain, b"%d" % number)
    assert sorted(await consumed(client, plain, "readers", 4)) == [b"0", b"1", b"2", b"3"]
    assert (await client.receive(its_own, "readers")).code == "MESSAGE_NOT_FOUND"

    # What waited there comes when the clock is right, and not before its time.
    await restarted(wrong, ahead_s=0)
    await serving(client, cluster.brokers)
    assert await consumed_late(client, its_own, "readers") == b"kept"
    assert time.time() >= due_s


async def consumed_late(client: RawClient, topic: str, group: str) -> bytes:
    async def come() -> bytes:
        messages = (await client.receive(topic, group, poll_s=10.0)).messages
        return messages[0].body if messages else b""

    return await eventually(come, within_s=60, what="the timed message")


async def test_a_proxy_that_is_an_hour_ahead_takes_no_delay_for_over(
    cluster: ClusterProcesses, client: RawClient
) -> None:
    proxy = cluster.proxies[0]
    topic, plain = await client.create_topic("later", kind=pb.DELAY), await client.create_topic("plain")
    await restarted(proxy, ahead_s=HOUR_S)
    await serving(client, cluster.brokers)
    refused = await scheduled(client, topic, b"body", time.time() + 10.0)
    assert (code(refused), re.search(WRONG, refused.status.message) is not None) == ("HA_NOT_AVAILABLE", True)
    status, said = await health(proxy, "ready")
    assert (status, re.match(WRONG, json.loads(said)["degraded"]) is not None) == (200, True)
    await client.send(plain, b"body")
    assert await consumed(client, plain, "readers", 1) == [b"body"]
