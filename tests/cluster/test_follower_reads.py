"""Proxies that read cold backlogs from followers, with real processes: each message comes once, in order, whoever is
lost meanwhile."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ternmq import PullConsumer
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.cluster.shard import Shard, shard_of
from tests.cluster.watching import clients_of, eventually
from tests.support.embedded import RawClient, code, message
from tests.support.stack import ServerProcess

pytestmark = [pytest.mark.cluster]

MESSAGES, BATCH = 8000, 500
ROOM = 64
"""What the consumer holds, so that it is not ahead of the test."""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shard]:
    folder = tmp_path_factory.mktemp("shard")
    with shard_of(folder, proxies=1, proxy_options=("--read-from-followers",)) as shard:
        yield shard


@pytest.fixture
async def shard(everything: Shard) -> Shard:
    await everything.all_in_sync()
    return everything


@pytest.fixture
async def client(shard: Shard) -> AsyncIterator[RawClient]:
    async with clients_of(shard.cluster.proxies) as [client]:
        yield client


async def filled(client: RawClient, topic: str) -> None:
    """Have that many messages in the topic's one queue, each with its number as its body."""
    await client.create_topic(topic)
    for first in range(0, MESSAGES, BATCH):
        messages = [message(topic, b"%d" % number) for number in range(first, first + BATCH)]
        answer = await client.call("SendMessage", messages=messages)
        assert code(answer) == "OK", answer.status.message


def metric(server: ServerProcess, name: str, **labels: str) -> float:
    """The sum of its samples that have these labels."""
    with urllib.request.urlopen(f"http://{server.addresses['http']}/metrics", timeout=20) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def cold_pulls(shard: Shard, role: str) -> float:
    """How many of them were answered by the leader, or by followers."""
    return metric(shard.cluster.proxies[0], "ternmq_cold_pulls_total", ternmq_replica_role=role)


async def follower_answers(shard: Shard, client: RawClient, topic: str) -> None:
    """Return when a pull from the beginning is answered by a follower: links to them are made in the background."""

    async def answered() -> bool:
        before = await asyncio.to_thread(cold_pulls, shard, "follower")
        queue = pb.MessageQueue(topic={"name": topic}, broker={"name": shard.name}, id=0)
        asked = rpc.PullMessageRequest(message_queue=queue, batch_size=1, long_polling_timeout={"seconds": 1})
        _ = [each async for each in client.stream("PullMessage", asked)]
        return await asyncio.to_thread(cold_pulls, shard, "follower") > before

    await eventually(answered, within_s=30, what=f"a follower answers\n{shard.cluster.logs}")


class Reader:
    """A pull consumer from the beginning; `bodies` is what came, in order."""

    def __init__(self, consumer: PullConsumer) -> None:
        self._consumer = consumer
        self.bodies: list[bytes] = []

    async def read(self, count: int) -> None:
        """Read on until so many have come altogether."""
        async with asyncio.timeout(60):
            while len(self.bodies) < count:
                self.bodies += [view.body for view in await self._consumer.poll(ROOM)]


def reading(shard: Shard, topic: str) -> PullConsumer:
    return PullConsumer(
        shard.cluster.proxies[0].grpc, "readers", {topic: "*"}, start_from="earliest", buffered_messages_max=ROOM
    )


EXPECTED = [b"%d" % number for number in range(MESSAGES)]


async def test_followers_answer_most_of_what_is_read_from_the_beginning(
    shard: Shard, client: RawClient, topic: str
) -> None:
    before = await asyncio.to_thread(cold_pulls, shard, "follower")
    await filled(client, topic)
    await follower_answers(shard, client, topic)
    async with reading(shard, topic) as consumer:
        reader = Reader(consumer)
        await reader.read(MESSAGES)
    assert reader.bodies == EXPECTED
    by_leader, by_followers = 0.0, 0.0
    leader = await shard.leader()
    for replica in shard.replicas:
        delivered = await asyncio.to_thread(
            metric, replica, "ternmq_messages_delivered_total", messaging_destination_name=topic
        )
        if replica is leader:
            by_leader += delivered
        else:
            by_followers += delivered
    assert by_followers > MESSAGES / 2 > by_leader
    assert await asyncio.to_thread(cold_pulls, shard, "follower") > before


async def test_each_message_comes_once_though_a_follower_and_then_the_leader_are_killed_meanwhile(
    shard: Shard, client: RawClient, topic: str
) -> None:
    before = await asyncio.to_thread(cold_pulls, shard, "follower")
    await filled(client, topic)
    await follower_answers(shard, client, topic)
    async with reading(shard, topic) as consumer:
        reader = Reader(consumer)
        await reader.read(MESSAGES // 8)
        lost, other = await shard.followers()
        lost.kill9()
        await reader.read(MESSAGES // 4)
        await asyncio.to_thread(lost.start)
        await shard.in_sync(3)
        leader = await shard.leader()
        leader.kill9()
        reads = asyncio.create_task(reader.read(MESSAGES // 2))
        assert await shard.led_by_another(leader) in (lost, other)
        await reads
        # The one that is left, beside the new leader.
        await follower_answers(shard, client, topic)
        await reader.read(MESSAGES)
    assert reader.bodies == EXPECTED
    assert await asyncio.to_thread(cold_pulls, shard, "follower") > before
