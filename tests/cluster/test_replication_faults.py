"""A shard with replicas when its network is cut, its disks are full, its power fails: nothing that was acknowledged is
lost, and the history of all that our clients did and saw holds (`history_checks.py`).

Each process is a machine on a network of its own (`network.py`), which only root can make, as small disks.
"""

import asyncio
import random
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import pytest
from sqlalchemy import update

from ternmq_registry.registry import Registry
from ternmq_registry.tables import BROKERS
from tests.cluster.blows import BLOWS, ON_WHOLE
from tests.cluster.history import History
from tests.cluster.log_files import end_and_compare
from tests.cluster.network import Member
from tests.cluster.network_shard import NetworkShard, network_shard
from tests.cluster.recording import FIFO, NORMAL, Recording, recording
from tests.cluster.replicated_chaos import Chaos
from tests.cluster.shard import SETTINGS, Shard
from tests.cluster.watching import eventually, health, paused, sent_code
from tests.support.cluster_processes import ClusterProcesses, ReplicaProcess
from tests.support.embedded import RawClient
from tests.support.full_disk import Ballast, small_disk
from tests.support.stack import config_options

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

WITHIN_S = 30.0
CHAOS_S = 45.0
MIB = 1 << 20
DISK_BYTES = 64 * MIB
SEGMENT_BYTES = MIB
# Less than new messages must leave free of a small disk, and enough for those of a test.
SOME_BYTES = 4 * MIB
BIG = bytes(200_000)


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkShard]:
    with network_shard(tmp_path_factory.mktemp("shard")) as shard:
        yield shard


@pytest.fixture
async def work(shard: NetworkShard, request: pytest.FixtureRequest) -> AsyncIterator[Recording]:
    """Our clients at work while all is well; at the end their history is checked."""
    async with at_work(shard, request.node.name.replace("_", "-")[:60]) as work:
        yield work


@asynccontextmanager
async def at_work(shard: Shard, name: str) -> AsyncIterator[Recording]:
    await shard.in_sync(3, within_s=WITHIN_S)
    async with recording(";".join(shard.cluster.doors), History(), name=name, kinds=(FIFO, NORMAL)) as work:
        await goes_on(work)
        yield work
        await shard.in_sync(3, within_s=WITHIN_S)
        await goes_on(work)
        await work.finish()


async def goes_on(work: Recording) -> None:
    """Return when messages that are sent from now on are acknowledged."""
    since_s = work.history.seconds()
    for kind in work.topics:
        await work.acknowledged_after(kind, since_s, within_s=WITHIN_S)


@contextmanager
def cut(one: Member, others: list[Member]) -> Iterator[None]:
    with ExitStack() as stack:
        for other in others:
            stack.enter_context(one.cut_from(other))
        yield


# --- the network


async def test_a_leader_that_reaches_no_follower_acknowledges_nothing(shard: NetworkShard, work: Recording) -> None:
    leader = await shard.leader()
    async with RawClient(shard.cluster.doors[0]) as client:
        await client.create_topic("cut-off")

        async def refused() -> bool:
            return (await sent_code(client, "cut-off"))[0] == "HA_NOT_AVAILABLE"

        with cut(shard.machine(leader), shard.others(leader)):
            await eventually(refused, within_s=WITHIN_S, what="sends are refused")
        await goes_on(work)


async def test_a_leader_that_does_not_reach_the_registry_is_followed_by_another(
    shard: NetworkShard, work: Recording
) -> None:
    leader = await shard.leader()
    with shard.machine(leader).cut_from(shard.cluster.registry):
        await shard.led_by_another(leader)
        await goes_on(work)


async def test_a_leader_that_hangs_in_the_middle_of_its_heartbeat_is_followed_by_another(
    shard: NetworkShard, work: Recording
) -> None:
    leader = await shard.leader()
    its = Registry.open_postgres(shard.cluster.registry_url)
    connection = its._database._engine.connect()
    connection.execute(update(BROKERS).values(load=BROKERS.c.load))
    with paused(leader):
        await shard.led_by_another(leader)
        await goes_on(work)
    connection.invalidate()
    connection.close()
    its.close()


async def test_a_follower_that_reaches_nobody_holds_up_nobody(shard: NetworkShard, work: Recording) -> None:
    follower, _ = await shard.followers()
    with shard.machine(follower).unplugged():
        await shard.in_sync(2, within_s=WITHIN_S)
        await goes_on(work)
    await shard.in_sync(3, within_s=WITHIN_S)


# --- power


async def test_all_replicas_that_end_at_once_come_back_with_all_that_was_acknowledged(
    shard: NetworkShard, work: Recording
) -> None:
    for replica in shard.replicas:
        replica.kill9()
    await asyncio.gather(*(asyncio.to_thread(replica.start) for replica in shard.replicas))
    await goes_on(work)


async def test_nothing_is_lost_whatever_happens(shard: NetworkShard, work: Recording) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chaos = Chaos(shard, work, None, random.Random(seed))
    await chaos.run(CHAOS_S, [name for name in BLOWS if name not in ON_WHOLE])


# --- disks


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shard]:
    """A shard, each of its replicas with a small disk."""
    folder = tmp_path_factory.mktemp("small")
    with ExitStack() as stack:
        for name in "abc":
            stack.enter_context(small_disk(folder / f"broker-0-{name}" / "data", DISK_BYTES))
        options = config_options(folder, f"{SETTINGS}segment_bytes = {SEGMENT_BYTES}\n")
        processes = ClusterProcesses(folder, brokers=1, replicas=3, proxies=1, broker_options=options)
        shard = Shard(stack.enter_context(processes))
        stack.callback(shard.close)
        yield shard


async def fills(replica: ReplicaProcess, client: RawClient, topic: str) -> Ballast:
    """Leave that replica no room at all: neither outside of its log nor in the segment that is being written."""
    ballast = Ballast(replica.data)
    ballast.fill()
    for _ in range(2 * SEGMENT_BYTES // len(BIG)):
        await sent_code(client, topic, BIG)
    return ballast


def said(replica: ReplicaProcess, text: str) -> int:
    """How often its log says that."""
    return replica.log.read_text(errors="replace").count(text)


async def knows_its_room(replica: ReplicaProcess, *, has_room: bool) -> None:
    """Return when the replica, by its log, has seen that its disk has room, or none."""

    async def as_wanted() -> bool:
        log = replica.log.read_text(errors="replace")
        return (log.rfind("free: ") >= log.rfind("must leave")) is has_room

    await eventually(as_wanted, within_s=WITHIN_S, what=f"{replica.title} sees that its disk has room: {has_room}")


async def renewed_lease(shard: Shard, replica: ReplicaProcess) -> None:
    """Return when that replica renews its own lease."""

    async def lease_end_ms() -> int:
        [its] = [each for each in (await shard.entry()).replicas if each.name == replica.replica]
        return its.lease_end_ms

    before_ms = await lease_end_ms()

    async def is_renewed() -> bool:
        return await lease_end_ms() > before_ms

    await eventually(is_renewed, within_s=WITHIN_S, what=f"{replica.title} renews its lease\n{replica.log_tail()}")


async def test_a_follower_whose_disk_is_full_holds_up_nobody(small: Shard) -> None:
    async with at_work(small, "full-follower") as work, RawClient(small.cluster.doors[0]) as client:
        follower, _ = await small.followers()
        ballast = await fills(follower, client, await client.create_topic("big"))
        await small.in_sync(2, within_s=WITHIN_S)
        await goes_on(work)
        ballast.remove()


async def test_a_leader_whose_disk_is_full_is_followed_by_another(small: Shard) -> None:
    async with at_work(small, "full-leader") as work:
        leader = await small.leader()
        ballast = Ballast(leader.data)
        ballast.fill()
        await small.led_by_another(leader)
        await goes_on(work)
        ballast.remove()


async def test_a_leader_whose_disk_takes_no_writes_is_followed_by_another(small: Shard) -> None:
    async with at_work(small, "failing-leader") as work:
        leader = await small.leader()
        with refusing_writes(leader):
            await small.led_by_another(leader)
            await goes_on(work)
            for _ in range(3):  # what it writes as a follower fails too, and it lives on
                await renewed_lease(small, leader)


@contextmanager
def refusing_writes(replica: ReplicaProcess) -> Iterator[None]:
    """The disk of a replica takes no writes; at the end it is the same process, and its disk is well."""
    process = replica.process
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, hard))
    yield
    assert replica.process is process
    assert process.poll() is None, f"{replica.title} ended\n{replica.log_tail()}"
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))


async def test_followers_whose_disks_take_no_writes_do_not_lead_until_they_do(small: Shard) -> None:
    async with at_work(small, "failing-followers") as work:
        leader, followers = await small.leader(), await small.followers()
        with ExitStack() as disks:
            for follower in followers:
                disks.enter_context(refusing_writes(follower))
            leader.kill9()
            for follower in followers:
                await says_when_unready(follower, "File too large")
        await small.led_by_another(leader)
        await goes_on(work)
        leader.start()


async def says_when_unready(replica: ReplicaProcess, wanted: str) -> None:
    """Return when the replica is not ready for a reason with that text."""

    async def is_said() -> bool:
        status, text = await health(replica, "ready")
        return status == 503 and wanted in text

    await eventually(is_said, within_s=WITHIN_S, what=f"{replica.title} says {wanted}\n{replica.log_tail()}")


async def test_a_leader_whose_disk_is_full_is_followed_by_none_that_has_no_room_either(small: Shard) -> None:
    async with at_work(small, "full-disks") as work:
        leader, followers = await small.leader(), await small.followers()
        ballasts = {each.replica: Ballast(each.data) for each in (*followers, leader)}
        nobody = "no in-sync replica has room"
        before = said(leader, nobody)
        for replica in (*followers, leader):
            await knows_its_room(replica, has_room=True)
            # It can copy what comes, so that it stays in sync.
            ballasts[replica.replica].fill(leave_bytes=SOME_BYTES)
            await knows_its_room(replica, has_room=False)

        async def is_said() -> bool:
            return said(leader, nobody) > before

        await eventually(is_said, within_s=WITHIN_S, what="the leader says that nobody has room")
        assert await small.leader() is leader
        target = followers[1]
        ballasts[target.replica].remove()
        assert await small.led_by_another(leader) is target
        await goes_on(work)
        for ballast in ballasts.values():
            ballast.remove()
    assert said(leader, nobody) == before + 1


async def test_the_logs_of_all_replicas_are_the_same(small: Shard, shard: NetworkShard) -> None:
    for each in (small, shard):
        assert await end_and_compare(each) == []
        for replica in each.replicas:
            await asyncio.to_thread(replica.start)  # the next test may be of this module
