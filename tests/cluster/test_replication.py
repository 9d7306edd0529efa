"""A shard with replicas, as real processes: what was acknowledged survives the loss of its leader, whatever ends that."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.cluster.shard import Shard, shard_of
from tests.cluster.watching import clients_of, consumed, eventually, health, paused, sent_code
from tests.support.cluster_processes import ReplicaProcess
from tests.support.embedded import RawClient

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with shard_of(tmp_path) as shard:
        yield shard


@pytest.fixture
async def client(shard: Shard) -> AsyncIterator[RawClient]:
    async with clients_of(shard.cluster.proxies) as clients:
        await shard.in_sync(3)
        yield clients[0]


async def sent(client: RawClient, topic: str, *bodies: bytes) -> None:
    """Send each until it is acknowledged, as a producer does that is told to try again."""
    for body in bodies:

        async def stored(body: bytes = body) -> bool:
            return (await sent_code(client, topic, body))[0] == "OK"

        await eventually(stored, within_s=30, what=f"{body!r} is acknowledged")


async def logs_are_equal(shard: Shard) -> None:
    """End all replicas in order, and compare what they have, byte for byte."""
    await shard.in_sync(len(shard.replicas))
    leader = await shard.leader()
    for replica in (*(each for each in shard.replicas if each is not leader), leader):
        replica.kill9()
    contents = [log_of(replica) for replica in shard.replicas]
    least = min(len(each) for each in contents)
    assert least > 0
    assert len({each[:least] for each in contents}) == 1


def log_of(replica: ReplicaProcess) -> bytes:
    """The replica's commit log, without the room that is reserved at its end."""
    folder = replica.data / "store" / "commitlog"
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir())).rstrip(b"\0")


async def test_a_killed_leader_is_followed_by_one_that_has_all(shard: Shard, client: RawClient) -> None:
    await client.create_topic("orders", queues=2)
    bodies = [b"%d" % number for number in range(50)]
    await sent(client, "orders", *bodies[:25])
    leader = await shard.leader()
    leader.kill9()
    successor = await shard.led_by_another(leader)
    await sent(client, "orders", *bodies[25:])
    assert set(bodies) <= set(await consumed(client, "orders", "readers", len(bodies)))
    await asyncio.to_thread(leader.start)
    await shard.in_sync(3)
    assert await shard.leader() is successor
    await logs_are_equal(shard)
