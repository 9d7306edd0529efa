"""Two brokers and two proxies as processes: whatever began through one proxy goes on through the other."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.cluster.watching import (
    LONG_S,
    broker_names,
    command,
    consumed,
    done,
    eventually,
    identity_of,
    in_routes,
    is_empty,
    paused,
    placed,
    received,
    send_each,
    sent_code,
    serving,
    settle,
    stored,
)
from tests.support.cluster_processes import BrokerProcess, ClusterProcesses
from tests.support.embedded import RawClient, code, message, moment

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

BOTH = {"broker-0", "broker-1"}
# A lease is 6 s, and proxies look every second; the target is 10 s.
GONE_WITHIN_S = 10.0
BACK_WITHIN_S = 15.0
# It counts every 5 s, or less often where that takes long, and tells every two.
TOLD_WITHIN_S = 40.0
TOPICS = 10
# A heartbeat, that is refused.
ENDS_WITHIN_S = 10.0


def numbered(count: int, word: str = "m") -> list[bytes]:
    return [f"{word}-{number}".encode() for number in range(count)]


# --- where topics are


async def test_a_topic_is_spread_over_all_brokers(clients: list[RawClient]) -> None:
    first, second = clients
    sent: list[bytes] = []

    async def all_have_some() -> bool:
        more = numbered(16, f"m-{len(sent)}")
        await send_each(first, "spread", *more)
        sent.extend(more)
        held = await stored(second, "spread")
        return held.keys() == BOTH and all(held.values())

    # A broker that could not ask the registry in time what was deleted before refuses the first message of the new
    # topic, which the other one gets then; and so do the next ones, for a tenth of a second.
    await eventually(all_have_some, within_s=BACK_WITHIN_S, what="messages on all brokers")
    before = await stored(second, "spread")
    assert await all_have_some()
    assert {name: held - before[name] for name, held in (await stored(second, "spread")).items()} == dict.fromkeys(
        BOTH, 8
    )
    assert await placed(second, "spread") == BOTH
    assert sorted(await consumed(second, "spread", "spread-readers", len(sent))) == sorted(sent)


async def test_a_topic_that_is_made_at_one_proxy_can_be_used_at_once_at_the_other(clients: list[RawClient]) -> None:
    for number in range(TOPICS):
        maker, user = clients if number % 2 else reversed(clients)
        topic = await maker.create_topic(f"at-once-{number}", queues=2)
        await user.send(topic, b"hello")
        assert await consumed(maker, topic, f"at-once-{number}", 1) == [b"hello"]


async def test_a_topic_has_one_identity_at_all_proxies_wherever_its_queues_are_until_it_is_made_anew(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    first, second = clients
    request = admin_pb2.CreateTopicRequest(topic={"name": "known", "queues": 2, "brokers": ["broker-0"]})
    assert code(await first.admin("CreateTopic", request)) == "OK"
    identity = await identity_of(first, "known")
    for move in ({"added_brokers": ["broker-1"]}, {"permission": pb.READ}, {"removed_brokers": ["broker-0"]}):
        assert code(await second.admin("UpdateTopic", name="known", **move)) == "OK"
        assert [await identity_of(client, "known") for client in clients] == [identity] * 2
    await asyncio.to_thread(cluster.brokers[1].restart)
    await asyncio.to_thread(cluster.proxies[1].restart)
    assert [await identity_of(client, "known") for client in clients] == [identity] * 2
    assert code(await first.admin("DeleteTopic", name="known")) == "OK"
    assert code(await first.admin("CreateTopic", request)) == "OK"
    anew = await identity_of(first, "known")
    assert anew != identity

    async def is_seen() -> bool:
        return await identity_of(second, "known") == anew

    await eventually(is_seen, within_s=BACK_WITHIN_S, what="the new identity at the other proxy")


async def test_a_broker_whose_lease_ran_out_leaves_the_routes_and_comes_back_by_itself(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    topic = await clients[0].create_topic("leased", queues=2)
    await in_routes(clients, topic, BOTH, within_s=BACK_WITHIN_S)
    with paused(cluster.brokers[0]):
        await in_routes(clients, topic, {"broker-1"}, within_s=GONE_WITHIN_S)
        for client in clients:
            await send_each(client, topic, *numbered(4))
        assert await stored(clients[0], topic) == {"broker-1": 8}
    await in_routes(clients, topic, BOTH, within_s=BACK_WITHIN_S)
    await serving(clients[1], cluster.brokers)
    for client in clients:
        await send_each(client, topic, *numbered(8))
    assert (await stored(clients[1], topic))["broker-0"] > 0


async def test_a_killed_broker_comes_back_with_what_it_had(cluster: ClusterProcesses, clients: list[RawClient]) -> None:
    first, second = clients
    topic = await first.create_topic("killed", queues=2)
    await send_each(first, topic, *numbered(20))
    held = (await stored(first, topic))["broker-1"]
    assert held > 0
    cluster.brokers[1].kill9()
    # What the other one has can be had meanwhile.
    there = await consumed(second, topic, "killed-readers", 20 - held)
    cluster.brokers[1].start()
    await serving(second, cluster.brokers)
    assert sorted(there + await consumed(second, topic, "killed-readers", held)) == sorted(numbered(20))


# --- deliveries


async def test_what_one_proxy_handed_out_is_settled_through_the_other(clients: list[RawClient]) -> None:
    first, second = clients
    topic, group = await first.create_topic("settled", queues=4), "settlers"
    await send_each(first, topic, *numbered(30))
    messages = await received(first, topic, group, 30)
    assert {each.system_properties.store_host for each in messages}
    dead, later, *others = messages
    await settle(second, topic, group, others)
    handle, message_id = dead.system_properties.receipt_handle, dead.system_properties.message_id
    assert await second.forward_to_dead_letters(topic, group, handle, message_id=message_id) == "OK"
    assert code(await second.change(topic, group, later.system_properties.receipt_handle, 1.0)) == "OK"
    [again] = await received(first, topic, group, 1)
    assert (again.body, again.system_properties.delivery_attempt) == (later.body, 2)
    await settle(second, topic, group, [again])
    assert await consumed(first, f"%DLQ%{group}", "letter-readers", 1) == [dead.body]
    assert await is_empty(second, topic, group)


async def test_a_receive_waits_for_messages_of_all_brokers_sent_through_any_proxy(clients: list[RawClient]) -> None:
    first, second = clients
    topic = await first.create_topic("awaited", queues=1)
    await is_empty(second, topic, "waiters")
    for number in range(6):
        waiting = asyncio.create_task(received(second, topic, "waiters", 1, poll_s=20.0))
        await first.send(topic, b"%d" % number)
        messages = await waiting
        assert [each.body for each in messages] == [b"%d" % number]
        await settle(first, topic, "waiters", messages)
    assert (await stored(first, topic)).keys() == BOTH


async def test_order_within_a_message_group_holds_over_all_brokers_and_proxies(clients: list[RawClient]) -> None:
    topic = await clients[0].create_topic("ordered", queues=2, kind=pb.FIFO)
    group = admin_pb2.Group(name="ordered-readers", fifo=True, max_attempts=3)
    assert code(await clients[0].admin("CreateGroup", group=group)) == "OK"
    lanes, length = [f"lane-{number}" for number in range(8)], 12
    turn = itertools.cycle(clients)
    for number in range(length):
        for lane in lanes:
            await next(turn).send(topic, f"{lane}:{number}".encode(), message_group=lane)
    assert all((await stored(clients[1], topic)).values()), "all lanes are on one broker"
    seen: defaultdict[str, list[int]] = defaultdict(list)
    while sum(map(len, seen.values())) < length * len(lanes):
        reader, settler = next(turn), next(turn)
        batch = await received(reader, topic, group.name, 1)
        for each in batch:
            lane, _, place = each.body.decode().partition(":")
            seen[lane].append(int(place))
        await settle(settler, topic, group.name, batch)
        next(turn)
    assert seen == {lane: list(range(length)) for lane in lanes}


# --- later and maybe


async def test_a_timed_message_is_recalled_and_received_through_any_proxy(clients: list[RawClient]) -> None:
    first, second = clients
    topic = await first.create_topic("timed", queues=2, kind=pb.DELAY)
    handles: list[str] = []
    for number in range(8):
        due = moment(await first.server_ms() + 3000)
        answer = await first.send(topic, b"%d" % number, delivery_timestamp=due)
        handles.append(answer.entries[0].recall_handle)
    for handle in handles[::2]:
        assert code(await second.call("RecallMessage", topic={"name": topic}, recall_handle=handle)) == "OK"
    assert sorted(await consumed(second, topic, "timed-readers", 4)) == [b"1", b"3", b"5", b"7"]
    assert await is_empty(first, topic, "timed-readers")


async def begin(client: RawClient, topic: str, body: bytes) -> rpc.SendResultEntry:
    """Send a half message."""
    return (await client.send(topic, body, message_type=pb.TRANSACTION)).entries[0]


async def end(client: RawClient, topic: str, half: rpc.SendResultEntry, resolution: "pb.TransactionResolution") -> str:
    request = rpc.EndTransactionRequest(
        topic={"name": topic},
        transaction_id=half.transaction_id,
        message_id=half.message_id,
        resolution=resolution,
    )
    return code(await client.call("EndTransaction", request))


async def test_half_messages_that_come_again_through_another_proxy_are_the_same_transactions(
    clients: list[RawClient],
) -> None:
    first, second = clients
    topic = await first.create_topic("repeated-payments", queues=2, kind=pb.TRANSACTION)
    sent = [message(topic, body, message_type=pb.TRANSACTION) for body in numbered(20)]
    one_producer = (("x-mq-client-id", "one producer"),)
    ids = []
    for proxy in (first, second):
        async with RawClient(proxy.endpoint, metadata=one_producer) as producer:
            answer = await producer.call("SendMessage", messages=sent)
        assert code(answer) == "OK"
        ids.append([entry.transaction_id for entry in answer.entries])
    assert ids[0] == ids[1]
    assert {transaction_id.split("@")[1] for transaction_id in ids[0]} == BOTH


async def test_a_transaction_is_ended_through_another_proxy(clients: list[RawClient]) -> None:
    first, second = clients
    topic = await first.create_topic("payments", queues=1, kind=pb.TRANSACTION)
    halves = [await begin(first, topic, body) for body in numbered(6)]
    for number, half in enumerate(halves):
        assert await end(second, topic, half, pb.ROLLBACK if number % 2 else pb.COMMIT) == "OK"
        assert await end(first, topic, half, pb.COMMIT if number % 2 else pb.ROLLBACK) == "INVALID_TRANSACTION_ID"
    assert sorted(await consumed(first, topic, "accountants", 3)) == [b"m-0", b"m-2", b"m-4"]
    assert await is_empty(second, topic, "accountants")


@pytest.mark.parametrize("asked", [0, 1])
async def test_an_orphan_is_asked_about_wherever_a_producer_is_connected(clients: list[RawClient], asked: int) -> None:
    sender, producer = clients[0], clients[asked]
    topic = await sender.create_topic(f"orphans-{asked}", queues=1, kind=pb.TRANSACTION)
    stream = await producer.publish_to(pb.Resource(name=topic))
    # One on each broker.
    halves = {half.transaction_id: half for half in [await begin(sender, topic, body) for body in numbered(2)]}
    while halves:
        orphan = (await stream.read()).recover_orphaned_transaction_command
        half = halves.pop(orphan.transaction_id, None)
        if half is not None:
            assert await end(producer, topic, half, pb.COMMIT) == "OK"
    stream.cancel()
    assert sorted(await consumed(sender, topic, f"heirs-{asked}", 2)) == numbered(2)


# --- what operators do


async def test_an_updated_topic_is_updated_at_all_proxies(cluster: ClusterProcesses, clients: list[RawClient]) -> None:
    first, second = clients
    topic, proxy = await first.create_topic("updated", queues=1), cluster.proxies[0]
    await done(proxy, "topic", "update", topic, "--queues", "3")

    async def queues() -> bool:
        answer = await second.admin("DescribeTopic", name=topic)
        return len(answer.queues) == 6

    await eventually(queues, within_s=5, what="three queues on each broker")
    await send_each(second, topic, *numbered(8))
    await done(proxy, "topic", "update", topic, "--permission", "read")

    async def refused() -> bool:
        return (await sent_code(second, topic, b"refused"))[0] == "FORBIDDEN"

    before = sum((await stored(first, topic)).values())
    await eventually(refused, within_s=5, what="the topic is read-only at the other proxy")
    assert not await placed(second, topic, writable=True)
    # What was sent before the other proxy knew is there.
    assert len(set(await consumed(second, topic, "updaters", before)) & set(numbered(8))) == 8
    await done(proxy, "topic", "update", topic, "--permission", "read-write")
    await eventually(lambda: taken(second, topic), within_s=5, what="the topic takes messages again")


async def taken(client: RawClient, topic: str) -> bool:
    return (await sent_code(client, topic))[0] == "OK"


async def test_a_broker_that_is_read_only_gives_what_it_has_and_takes_nothing(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    first, second = clients
    topic = await first.create_topic("half-open", queues=1)
    await send_each(first, topic, *numbered(8))
    try:
        await done(cluster.proxies[0], "broker", "permission", "broker-0", "read")

        async def known() -> bool:
            return await placed(second, topic, writable=True) == {"broker-1"}

        await eventually(known, within_s=5, what="the permission is known at the other proxy")
        assert await placed(second, topic) == BOTH
        before = await stored(second, topic)
        await send_each(second, topic, *numbered(4, "later"))
        assert await stored(second, topic) == {**before, "broker-1": before["broker-1"] + 4}
        bodies = await consumed(second, topic, "half-open-readers", 12)
        assert sorted(bodies) == sorted(numbered(8) + numbered(4, "later"))
    finally:
        await done(cluster.proxies[0], "broker", "permission", "broker-0", "read-write")


async def knows_two(client: RawClient) -> bool:
    return await broker_names(client, live=False) == BOTH


@asynccontextmanager
async def third_broker(cluster: ClusterProcesses, clients: list[RawClient], name: str) -> AsyncIterator[BrokerProcess]:
    """One more broker, which is gone afterwards whatever happens: so each has a name of its own."""
    broker = cluster.add_broker(name)
    try:
        for client in clients:
            await serving(client, cluster.brokers)
        yield broker
    finally:
        cluster.brokers.remove(broker)
        broker.kill9()
        await command(cluster.proxies[0], "broker", "remove", broker.name, "--force", "--yes")


async def test_a_drained_broker_is_removed_without_losing_a_message(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    first, second = clients
    async with third_broker(cluster, clients, "drained") as leaving:
        topic = await first.create_topic("drained", queues=1)
        await send_each(first, topic, *numbered(12))
        held = await received(second, topic, "drainers", 12)
        refused = await command(cluster.proxies[0], "broker", "remove", leaving.name, "--yes")
        assert refused.returncode != 0
        assert "drain" in refused.stderr
        draining = asyncio.create_task(done(cluster.proxies[0], "broker", "drain", leaving.name, "--wait"))

        async def closed() -> bool:
            return await placed(second, topic, writable=True) == BOTH

        await eventually(closed, within_s=10, what="the draining broker takes nothing new")
        await send_each(second, topic, *numbered(6, "later"))
        assert not draining.done()
        assert sorted(await consumed(second, topic, "drainers", 6)) == sorted(numbered(6, "later"))
        await settle(second, topic, "drainers", held)
        assert "nothing remains" in await draining
        leaving.terminate()
        await done(cluster.proxies[1], "broker", "remove", leaving.name, "--yes")
        for client in clients:
            await in_routes([client], topic, BOTH, within_s=5)
            await eventually(partial(knows_two, client), within_s=5, what="the broker is forgotten")
            await send_each(client, topic, *numbered(4, "last"))
        assert len(await consumed(first, topic, "drainers", 8)) == 8


async def test_topics_are_spread_over_a_new_broker_and_taken_off_it_again(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    first, second = clients
    request = admin_pb2.CreateTopicRequest(topic={"name": "balanced", "queues": 2, "brokers": ["broker-0"]})
    assert code(await first.admin("CreateTopic", request)) == "OK"
    await send_each(first, "balanced", *numbered(4))
    async with third_broker(cluster, clients, "balancing") as added:
        rebalance = partial(done, cluster.proxies[0], "cluster", "rebalance", "--yes")
        assert "1 topic changed" in await rebalance("--topic", "balanced")
        await in_routes(clients, "balanced", {*BOTH, added.name}, within_s=BACK_WITHIN_S)
        assert "nothing to do" in await rebalance("--topic", "balanced")
        for _ in range(4):  # one answer comes from one broker
            await send_each(second, "balanced", *numbered(6, "wide"))
        assert (await stored(first, "balanced"))[added.name] > 0
        held = await received(second, "balanced", "balanced-readers", 4 + 24)
        emptying = asyncio.create_task(rebalance("--off", added.name))

        async def closed() -> bool:
            return await placed(second, "balanced", writable=True) == BOTH

        await eventually(closed, within_s=10, what="the broker takes nothing new")
        assert not emptying.done()
        await settle(second, "balanced", "balanced-readers", held)
        assert "nothing remains" in await emptying


async def test_a_broker_that_is_removed_while_it_runs_ends_and_stays_away(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    """Otherwise it would be back within seconds, and get messages that its operator is about to throw away."""
    async with third_broker(cluster, clients, "removed") as removed:
        await done(cluster.proxies[0], "broker", "drain", removed.name, "--wait")
        await done(cluster.proxies[0], "broker", "remove", removed.name, "--yes")
        assert await asyncio.to_thread(removed.process.wait, ENDS_WITHIN_S) == 1
        removed.kill9()  # which forgets the process that has ended
        with pytest.raises(AssertionError, match="was removed from the cluster"):
            await asyncio.to_thread(removed.start)
        for client in clients:
            await eventually(partial(knows_two, client), within_s=5, what="the broker is forgotten")


async def test_a_broker_that_died_is_removed_by_force_alone_and_comes_back_with_all_that_it_has(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    first, second = clients
    async with third_broker(cluster, clients, "buried") as buried:
        topics = [await first.create_topic(name, queues=1) for name in ("buried-0", "buried-1")]
        for topic in topics:
            await in_routes(clients, topic, {*BOTH, buried.name}, within_s=BACK_WITHIN_S)
            await send_each(first, topic, *numbered(6, topic))
        # One answer comes from one broker; so all have been asked when all is there.
        held = await received(second, topics[0], "mourners", 6, invisible_s=LONG_S)
        unread, others = [(await stored(first, topic)).get(buried.name, 0) for topic in topics]
        loss = f"its queues of 2 topics (buried-0, buried-1); by its last report, {unread + others} messages in them"

        async def has_told() -> bool:
            listed = await first.admin("ListBrokers")
            loads = [each.load for each in listed.brokers if each.name == buried.name]
            return [(load.messages, load.unfinished) for load in loads] == [(unread + others, unread)]

        await eventually(has_told, within_s=TOLD_WITHIN_S, what="the broker has told what it holds")
        buried.kill9()
        for client in clients:
            await in_routes([client], topics[0], BOTH, within_s=GONE_WITHIN_S)
        refused = await command(cluster.proxies[0], "broker", "remove", buried.name, "--yes")
        assert refused.returncode == 1
        assert f"is away and was not drained: start it again and drain it, or give --force, and lost are {loss}" in (
            refused.stderr
        )
        forced = await command(cluster.proxies[0], "broker", "remove", buried.name, "--yes", "--force")
        assert (forced.returncode, forced.stdout) == (0, "broker buried removed\n")
        assert f"lost with it: {loss}, of which groups have {unread} to finish, 0 timed" in forced.stderr
        for client in clients:
            await eventually(partial(knows_two, client), within_s=5, what="the broker is forgotten")
        await done(cluster.proxies[0], "topic", "delete", topics[1], "--yes")
        await first.create_topic(topics[1], queues=1)
        buried.options = ("--rejoin",)
        await asyncio.to_thread(buried.start)
        for client in clients:
            await serving(client, cluster.brokers)
            await in_routes([client], topics[0], {*BOTH, buried.name}, within_s=BACK_WITHIN_S)
            await in_routes([client], topics[1], BOTH, within_s=BACK_WITHIN_S)
        await settle(second, topics[0], "mourners", held)
        assert sorted(await consumed(first, topics[0], "latecomers", 6)) == numbered(6, topics[0])
        # What was in the topic before it was deleted does not come again.
        await done(cluster.proxies[0], "topic", "update", topics[1], "--add-broker", buried.name)
        assert (await stored(first, topics[1])).keys() == {*BOTH, buried.name}
        assert await is_empty(second, topics[1], "mourners")


async def test_a_broker_is_not_empty_while_it_has_messages_for_a_group_that_never_asked_it(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    async with third_broker(cluster, clients, "not-asked") as leaving:
        topic = await clients[0].create_topic("never-asked", queues=1)
        await send_each(clients[0], topic, *numbered(12))
        # One answer comes from one broker; which one is chance, but two of three were not asked.
        messages = await received(clients[0], topic, "beginners", 1, batch_size=1)
        await settle(clients[0], topic, "beginners", messages)
        for broker in ("broker-0", "broker-1", leaving.name):
            remaining = await clients[1].admin("BrokerRemaining", name=broker)
            assert [each.group for each in remaining.backlogs if each.topic == topic] == ["beginners"]


async def test_a_message_that_only_a_stopped_broker_has_is_not_missed_for_ever(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    """A receive through either proxy gets it once the broker answers again, without a new poll of anybody."""
    first, second = clients
    topic = await first.create_topic("hanging", queues=1)
    await is_empty(second, topic, "patient")
    with paused(cluster.brokers[0]), paused(cluster.brokers[1]):
        waiting = asyncio.create_task(received(second, topic, "patient", 1, poll_s=19.0))
        sending = asyncio.create_task(first.call("SendMessage", messages=[message(topic)]))
        assert code(await sending) in ("PROXY_TIMEOUT", "HA_NOT_AVAILABLE")
    for client in clients:
        await serving(client, cluster.brokers)
    # It may be there already: that nobody said so does not mean that it was not stored.
    await first.send(topic, b"body")
    messages = await waiting
    await settle(first, topic, "patient", messages)
