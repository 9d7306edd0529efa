"""A shard with replicas, as real processes: what was acknowledged survives the loss of its leader, whatever that is."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.cluster.shard import SETTINGS, Shard, Stopwatch, shard_of
from tests.cluster.watching import (
    LONG_S,
    clients_of,
    consumed,
    done,
    eventually,
    health,
    identity_of,
    is_empty,
    is_sent,
    paused,
    received,
    sent_code,
    settle,
)
from tests.support.cluster_processes import ClusterProcesses, ReplicaProcess
from tests.support.embedded import RawClient, code, moment
from tests.support.lite import LiteReader, make_lite_group, make_lite_topic
from tests.support.stack import config_options

pytestmark = [pytest.mark.cluster]

# Three leases.
AWAY_S = 6.0


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shard]:
    with shard_of(tmp_path_factory.mktemp("shard")) as shard:
        yield shard


@pytest.fixture
async def shard(everything: Shard) -> Shard:
    await everything.all_in_sync()
    return everything


@pytest.fixture
async def client(shard: Shard) -> AsyncIterator[RawClient]:
    async with clients_of(shard.cluster.proxies) as clients:
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


def has_progress(replica: ReplicaProcess, topic: str, cursor: int, group: str = "readers") -> bool:
    """Whether its consumption journal says that the group has come so far."""
    journal = (replica.data / "store" / "consumption" / "journal").read_text()
    return f'["{group}","{topic}",0,{cursor},' in journal


def log_of(replica: ReplicaProcess) -> bytes:
    """The replica's commit log, without the room that is reserved at its end."""
    folder = replica.data / "store" / "commitlog"
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir())).rstrip(b"\0")


async def test_a_killed_leader_is_followed_by_one_that_has_all(shard: Shard, client: RawClient, topic: str) -> None:
    await client.create_topic(topic, queues=2)
    bodies = [b"%d" % number for number in range(50)]
    await sent(client, topic, *bodies[:25])
    identity = await identity_of(client, topic)
    leader = await shard.leader()
    leader.kill9()
    successor = await shard.led_by_another(leader)
    assert await identity_of(client, topic) == identity
    await sent(client, topic, *bodies[25:])
    assert set(bodies) <= set(await consumed(client, topic, "readers", len(bodies)))
    await asyncio.to_thread(leader.start)
    await shard.in_sync(3)
    assert await shard.leader() is successor
    await logs_are_equal(shard)


async def test_lite_topics_go_on_under_another_leader(shard: Shard, client: RawClient) -> None:
    topic = await make_lite_topic(client)
    reader = LiteReader(client, topic, await make_lite_group(client, topic))
    names = [f"n{number}" for number in range(10)]
    await reader.subscribe(*names)
    for name in names:
        await client.send(topic, b"1", b"2", lite_topic=name)
    assert sorted(await reader.taken(20)) == sorted((name, body) for name in names for body in (b"1", b"2"))
    await client.send(topic, b"3", lite_topic="n0")
    held = await reader.receive(poll_s=10)
    assert held.bodies == [b"3"]
    leader = await shard.leader()
    await eventually(partial(have_come, shard, topic), within_s=10, what="the journals of all replicas say so")
    leader.kill9()
    await shard.led_by_another(leader)
    for name in names:
        await eventually(partial(is_sent, client, topic, name, b"4"), within_s=30, what=f"{name} takes another")
    # The client has said nothing since: the new leader heard from the proxy what it subscribes.
    assert await reader.ack(held.messages) == ["OK"]
    assert sorted(await reader.taken(10)) == [(name, b"4") for name in names]
    await asyncio.to_thread(leader.start)
    await shard.in_sync(3)
    await logs_are_equal(shard)


async def have_come(shard: Shard, topic: str) -> bool:
    """Whether the journals of all replicas say that n0 is at its third message, and another at its second."""
    journals = [(replica.data / "store" / "consumption" / "journal").read_text() for replica in shard.replicas]
    return all(f'"%LMQ%${topic}$n0",0,3,' in each and f'"%LMQ%${topic}$n9",0,2,' in each for each in journals)


async def test_a_leader_that_hung_for_longer_than_its_lease_acknowledges_nothing_more(
    shard: Shard, client: RawClient, topic: str
) -> None:
    await client.create_topic(topic)
    await sent(client, topic, b"before")
    leader = await shard.leader()
    with paused(leader):
        hanging = asyncio.create_task(sent_code(client, topic, b"to the one that hangs"))
        await shard.led_by_another(leader)
        await sent(client, topic, b"meanwhile")
    await hanging
    await sent(client, topic, b"after")
    await shard.in_sync(3)
    assert await shard.leader() is not leader
    bodies = [*await consumed(client, topic, "readers", 3)]
    assert {b"before", b"meanwhile", b"after"} <= {*bodies, *await the_rest(client, topic, "readers")}
    await logs_are_equal(shard)


async def taken(client: RawClient, topic: str, count: int) -> list[bytes]:
    """The bodies of so many messages and no more, which are acknowledged."""
    bodies: list[bytes] = []
    while len(bodies) < count:
        batch = await client.receive(topic, "readers", batch_size=1, poll_s=10)
        await settle(client, topic, "readers", batch.messages)
        bodies += batch.bodies
    return bodies


async def the_rest(client: RawClient, topic: str, group: str) -> list[bytes]:
    """The bodies of all that can be had now."""
    bodies: list[bytes] = []
    while (batch := await client.receive(topic, group)).messages:
        bodies += batch.bodies
    return bodies


@pytest.mark.parametrize("who", ["follower", "leader"])
async def test_a_replica_that_lost_its_disk_is_copied_anew(
    shard: Shard, client: RawClient, topic: str, who: str
) -> None:
    await client.create_topic(topic)
    bodies = [b"%d" % number for number in range(40)]
    await sent(client, topic, *bodies[:20])
    half = await taken(client, topic, 10)
    lost = await shard.leader() if who == "leader" else (await shard.followers())[0]
    lost.kill9()
    shutil.rmtree(lost.data)
    if who == "leader":
        await shard.led_by_another(lost)
    await asyncio.to_thread(lost.start)
    await sent(client, topic, *bodies[20:])
    await shard.in_sync(3)
    found = {*half}
    while found < set(bodies):  # of what was consumed in the last second some may come again
        found |= {*await consumed(client, topic, "readers", 1)}
    await logs_are_equal(shard)


async def test_progress_and_what_waits_go_on_with_another_leader(shard: Shard, client: RawClient, topic: str) -> None:
    await client.create_topic(topic)
    await client.create_topic("later", kind=pb.DELAY)
    await client.create_topic("paid", kind=pb.TRANSACTION)
    await sent(client, topic, *(b"%d" % number for number in range(20)))
    assert len(await taken(client, topic, 12)) == 12
    due = moment(await client.server_ms() + 6000)
    assert code(await client.send("later", b"timed", message_type=pb.DELAY, delivery_timestamp=due)) == "OK"
    half = await client.send("paid", b"half", message_type=pb.TRANSACTION)
    [entry] = half.entries
    leader = await shard.leader()
    await eventually(
        lambda: is_true(all(has_progress(each, topic, 12) for each in shard.replicas)),
        within_s=10,
        what="progress is copied",
    )
    leader.kill9()
    await shard.led_by_another(leader)
    ending = rpc.EndTransactionRequest(
        topic={"name": "paid"},
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=pb.COMMIT,
        source=pb.SOURCE_CLIENT,
    )

    async def committed() -> bool:
        return code(await client.call("EndTransaction", ending)) == "OK"

    await eventually(committed, within_s=20, what="the transaction is committed")
    assert await consumed(client, "paid", "readers", 1) == [b"half"]
    assert sorted(await consumed(client, topic, "readers", 8)) == sorted(b"%d" % number for number in range(12, 20))
    assert await consumed(client, "later", "readers", 1) == [b"timed"]


async def test_large_messages_are_held_by_all_at_once(shard: Shard, client: RawClient, topic: str) -> None:
    """They come to followers in pieces, and the last one may be small."""
    await client.create_topic(topic)
    log = (await shard.leader()).log
    changes: list[int] = []
    # Whoever lags for a second and a half is out of sync: each time, if large messages are what it lags for; once, if
    # it follows anew after the test before.
    while len(changes) < 3 and 0 not in changes:
        before = log.read_text().count("in sync are")
        for size in (300_000, 66_000, 240_000, 530_000, 1_050_000, 590_000):
            assert await sent_code(client, topic, bytes(size)) == ("OK", "OK")
        changes.append(log.read_text().count("in sync are") - before)
    assert 0 in changes


async def test_an_ordered_group_does_not_wait_for_what_a_killed_leader_heard_last(
    shard: Shard, client: RawClient, topic: str
) -> None:
    await client.create_topic(topic, kind=pb.FIFO)
    group = admin_pb2.Group(name="ordered", fifo=True)
    assert code(await client.admin("CreateGroup", group=group)) == "OK"
    for number in range(2):
        await client.send(topic, b"%d" % number, message_group="one")
    [first] = await received(client, topic, group.name, 1, invisible_s=300, batch_size=1)
    await eventually(
        lambda: is_true(all(has_progress(each, topic, 1, group.name) for each in shard.replicas)),
        within_s=10,
        what="the replicas know what was handed out",
    )
    await settle(client, topic, group.name, [first])
    leader = await shard.leader()
    leader.kill9()
    await shard.led_by_another(leader)
    [second] = await received(client, topic, group.name, 1)
    assert (first.body, second.body) == (b"0", b"1")


async def test_too_few_replicas_take_no_messages_and_hand_out_those_that_are_there(
    shard: Shard, client: RawClient, topic: str
) -> None:
    await client.create_topic(topic)
    await sent(client, topic, b"before")
    followers = await shard.followers()
    for follower in followers:
        follower.kill9()

    async def refused() -> bool:
        return (await sent_code(client, topic))[0] == "HA_NOT_AVAILABLE"

    await eventually(refused, within_s=20, what="sends are refused")
    assert (await client.receive(topic, "readers", poll_s=5)).bodies == [b"before"]
    await asyncio.to_thread(followers[0].start)
    await sent(client, topic, b"after")


async def test_the_registry_is_away_for_longer_than_the_lease_and_nobody_notices(
    shard: Shard, client: RawClient, topic: str
) -> None:
    await client.create_topic(topic)
    await sent(client, topic, b"before")
    assert await taken(client, topic, 1) == [b"before"]
    leader = await shard.leader()
    shard.cluster.postgres.kill()
    sent_so_far, clock = 0, Stopwatch()
    while clock.seconds < AWAY_S:
        assert (await sent_code(client, topic, b"%d" % sent_so_far))[0] == "OK", shard.cluster.logs
        sent_so_far += 1
    found: set[bytes] = set()
    while len(found) < sent_so_far:
        found |= {*await consumed(client, topic, "readers", 1)}
    shard.cluster.postgres.start()
    await shard.in_sync(3)
    await sent(client, topic, b"after")
    assert await shard.leader() is leader


async def test_a_planned_move_is_seen_by_no_client(shard: Shard, client: RawClient, topic: str) -> None:
    await client.create_topic(topic, kind=pb.FIFO)
    stop = asyncio.Event()
    codes: list[str] = []

    async def send_on() -> None:
        while not stop.is_set():
            number = len(codes)
            answer = await client.send(topic, b"%d" % number, message_group="one", message_type=pb.FIFO)
            codes.append(code(answer))

    sending = asyncio.create_task(send_on())
    leader = await shard.leader()
    for target in await shard.followers():
        await asyncio.to_thread(shard.registry.request_handover, shard.name, target.replica)
        leader = await shard.led_by_another(leader)
        assert leader is target
        await shard.in_sync(3)
    assert await asyncio.to_thread(leader.terminate) == 0
    await shard.led_by_another(leader)
    count = len(codes)
    await eventually(lambda: is_true(len(codes) > count), within_s=20, what="sends go on")
    stop.set()
    await sending
    assert set(codes) == {"OK"}
    bodies: list[bytes] = []
    while len(bodies) < len(codes):
        bodies += await consumed(client, topic, "in-order", 1)
    assert bodies == [b"%d" % number for number in range(len(codes))]


async def is_true(value: object) -> bool:
    return bool(value)


async def test_a_topic_that_was_deleted_stays_deleted_with_every_leader(
    shard: Shard, client: RawClient, topic: str
) -> None:
    await client.create_topic(topic)
    await sent(client, topic, b"old")
    assert code(await client.admin("DeleteTopic", name=topic)) == "OK"
    await client.create_topic(topic)
    await sent(client, topic, b"new")
    leader = await shard.leader()
    leader.kill9()
    await shard.led_by_another(leader)
    assert await consumed(client, topic, "readers", 1) == [b"new"]
    assert await is_empty(client, topic, "readers")


async def test_top_tells_of_a_shard_what_its_leader_has(shard: Shard, client: RawClient, topic: str) -> None:
    await client.create_topic(topic)
    await sent(client, topic, b"one", b"two")
    assert await consumed(client, topic, "watched", 1)
    leader = await shard.leader()
    await look_by_top(shard, topic)
    leader.kill9()
    await shard.led_by_another(leader)
    await sent(client, topic, b"three")
    await look_by_top(shard, topic, messages=3)


async def look_by_top(shard: Shard, topic: str, *, messages: int = 2) -> None:
    """Each message is counted once, however many replicas have it."""
    printed = await done(shard.cluster.proxies[0], "top", "--once", "--json", "--topic", topic, "--group", "watched")
    told = json.loads(printed)
    assert told["refused"] is None
    assert [(each["topic"], each["messages"]) for each in told["topics"]] == [(topic, messages)]
    assert [each["group"] for each in told["groups"]] == ["watched"]


async def test_a_follower_is_ready_when_it_has_all(shard: Shard, client: RawClient, topic: str) -> None:
    for replica in shard.replicas:

        async def ready(replica: ReplicaProcess = replica) -> bool:
            return (await health(replica, "ready"))[0] == 200

        await eventually(ready, within_s=10, what=f"{replica.replica} is ready")
    follower, other = await shard.followers()
    for each in (follower, other, await shard.leader()):
        each.kill9()
    await asyncio.to_thread(follower.start)
    status, text = await health(follower, "ready")
    assert status == 503, text


async def test_a_broker_gets_replicas_and_what_it_had_can_be_received_before_they_are_there(tmp_path: Path) -> None:
    options = config_options(tmp_path, SETTINGS)
    with ClusterProcesses(tmp_path, brokers=1, proxies=1, broker_options=options) as cluster:
        (broker,), name = cluster.brokers, cluster.brokers[0].name
        shard = Shard(cluster, name)
        async with clients_of(cluster.proxies) as (client,):
            await client.create_topic("orders")
            await sent(client, "orders", *(b"%d" % number for number in range(5)))
            assert await asyncio.to_thread(broker.terminate) == 0
            first = cluster.add_replica(name, "a", folder=tmp_path / name, replicas=3)
            await shard.in_sync(1)

            found: set[bytes] = set()

            async def all_received() -> bool:
                found.update((await client.receive("orders", "readers", poll_s=1, invisible_s=LONG_S)).bodies)
                return found == {b"%d" % number for number in range(5)}

            await eventually(all_received, within_s=20, what="what was there is received")
            assert (await sent_code(client, "orders", b"too few"))[0] == "HA_NOT_AVAILABLE"
            for replica in "bc":
                await asyncio.to_thread(cluster.add_replica, name, replica, replicas=3)
            await shard.in_sync(3)
            await sent(client, "orders", b"held by three")
            first.kill9()
            await shard.led_by_another(first)
            assert await consumed(client, "orders", "readers", 1) == [b"held by three"]
        shard.close()
