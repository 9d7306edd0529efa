"""Bits that flip on the disk of one replica: nothing is lost or out of order while another one has the record whole.
The replica that rots repairs itself."""

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.cluster.shard import Shard, shard_of
from tests.cluster.watching import clients_of, consumed, eventually, health
from tests.support.cluster_processes import ReplicaProcess
from tests.support.embedded import RawClient

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

WITHIN_S = 60.0
MESSAGES = 120
BODY_BYTES = 30_000  # so that there are some segments
SEED = 34
FLIPS = int(os.environ.get("ROT_FLIPS", "60"))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shard]:
    with shard_of(tmp_path_factory.mktemp("shard"), "--segment-size", "1MiB", proxies=1) as shard:
        yield shard


@pytest.fixture
async def shard(everything: Shard) -> Shard:
    await everything.in_sync(3, within_s=WITHIN_S)
    return everything


@pytest.fixture
async def client(shard: Shard) -> AsyncIterator[RawClient]:
    async with clients_of(shard.cluster.proxies) as clients:
        yield clients[0]


def body_of(number: int, topic: str) -> bytes:
    return f"{topic} {number:06d} ".encode() + random.Random(number).randbytes(BODY_BYTES)


async def sent(client: RawClient, topic: str) -> list[bytes]:
    bodies = [body_of(number, topic) for number in range(MESSAGES)]
    await client.create_topic(topic, kind=pb.FIFO)
    for body in bodies:
        await client.send(topic, body, message_group="one")
    return bodies


def log_folder(replica: ReplicaProcess) -> Path:
    return replica.data / "store" / "commitlog"


def flip(replica: ReplicaProcess, body: bytes, *, before: int = 0) -> bool:
    """Flip a bit of the message with that body where this replica has it, so many bytes before its body begins; whether
    it has it: the body may be damaged already."""
    for path in sorted(log_folder(replica).iterdir()):
        at = path.read_bytes().find(body)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(max(0, at - before))
                [old] = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([old ^ 4]))
            return True
    return False


async def is_whole(shard: Shard, replica: ReplicaProcess, bodies: list[bytes]) -> None:
    """Return when the replica's own log has all of these, and it says that it knows of no damage."""

    async def has_all() -> bool:
        log = await asyncio.to_thread(
            lambda: b"".join(path.read_bytes() for path in sorted(log_folder(replica).iterdir()))
        )
        status, text = await health(replica, "ready")
        return status == 200 and "damaged" not in text and all(body in log for body in bodies)

    await eventually(has_all, within_s=WITHIN_S, what=f"{replica.title} is whole\n{shard.cluster.logs}")


async def test_a_group_gets_all_in_order_of_a_leader_that_rots(shard: Shard, client: RawClient, topic: str) -> None:
    bodies = await sent(client, topic)
    leader = await shard.leader()
    for number, before in ((3, 0), (4, -BODY_BYTES // 2), (30, 200), (31, 0), (77, 0)):
        assert flip(leader, bodies[number], before=before)
    await client.create_group(f"g-{topic}", fifo=True)
    got: list[bytes] = []
    while len(got) < MESSAGES:
        got += await consumed(client, topic, f"g-{topic}", 1)
    assert got == bodies
    await is_whole(shard, leader, bodies)
    assert await shard.leader() is leader, "it was repaired before anybody had to lead in its place"
    assert "damaged bytes of the commit log were repaired" in leader.log.read_text()
    assert "can't be read any more" not in leader.log.read_text()


async def test_nothing_is_lost_of_a_leader_whose_bits_flip_all_the_time(
    shard: Shard, client: RawClient, topic: str
) -> None:
    """Whatever the record and the place in it, while a group reads."""
    bodies = await sent(client, topic)
    leader, dice = await shard.leader(), random.Random(SEED)

    async def rot() -> None:
        for _ in range(FLIPS):
            await asyncio.to_thread(flip, leader, dice.choice(bodies)[:100], before=dice.randrange(-BODY_BYTES, 300))

    rotting = asyncio.create_task(rot())
    reads = 0
    while not rotting.done() or reads < 2:
        reads += 1
        got: list[bytes] = []
        await client.create_group(f"g{reads}-{topic}", fifo=reads % 2 == 0, consume_from="earliest")
        while len(got) < MESSAGES:
            got += await consumed(client, topic, f"g{reads}-{topic}", 1)
        assert got == bodies
    await rotting
    await client.create_group(f"last-{topic}", consume_from="earliest")
    assert await consumed(client, topic, f"last-{topic}", MESSAGES) == bodies
    for replica in shard.replicas:
        await is_whole(shard, replica, bodies)


async def test_a_replica_whose_disk_is_new_copies_a_leader_that_rots(
    shard: Shard, client: RawClient, topic: str
) -> None:
    bodies = await sent(client, topic)
    leader = await shard.leader()
    wiped = next(each for each in shard.replicas if each is not leader)
    wiped.kill9()
    await shard.in_sync(2, within_s=WITHIN_S)
    assert flip(leader, bodies[5])
    assert flip(leader, bodies[60], before=200)
    await asyncio.to_thread(shutil.rmtree, wiped.data)
    await asyncio.to_thread(wiped.start)
    await shard.in_sync(3, within_s=WITHIN_S)
    await is_whole(shard, wiped, bodies)
    await is_whole(shard, leader, bodies)


async def test_a_follower_finds_what_rots_and_repairs_itself(shard: Shard, client: RawClient, topic: str) -> None:
    bodies = await sent(client, topic)
    follower = (await shard.followers())[0]
    # In order, so that the next start reads none of it.
    await asyncio.to_thread(follower.terminate)
    assert flip(follower, bodies[7])
    (follower.data / "store" / "scrub").unlink(missing_ok=True)  # a pass is due
    await asyncio.to_thread(follower.start)
    await is_whole(shard, follower, bodies)
    await shard.in_sync(3, within_s=WITHIN_S)
    assert "damaged bytes of the commit log were repaired" in follower.log.read_text()
