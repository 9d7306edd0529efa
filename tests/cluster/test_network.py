"""Cut and slow networks between the processes of a cluster, with official clients at work.

Every process is a machine of its own (`network.py`). Cuts are silent: packets vanish, and connections stay open.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ternmq_common.shard.calls import ANSWER_TIMEOUT_S
from ternmq_protos.admin_v1 import admin_pb2
from tests.cluster.load import Account, Load, Way, working
from tests.cluster.network_cluster import NetworkCluster, network_cluster
from tests.cluster.watching import (
    broker_names,
    consumed,
    eventually,
    in_routes,
    is_empty,
    placed,
    received,
    route,
    send_each,
    sent_code,
    serving,
    settle,
    stored,
)
from tests.interop.clients import CONSUMERS, PRODUCERS
from tests.support.embedded import RawClient, code

pytestmark = [pytest.mark.cluster, pytest.mark.interop, pytest.mark.slow]

BOTH = {"broker-0", "broker-1"}
# Two are enough here, and leave the machine to the servers.
LANGUAGES = ("go", "python")
# Lease, look, and the time until a connection whose packets vanish is given up.
GONE_WITHIN_S = 15.0
BACK_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkCluster]:
    for language in LANGUAGES:
        CONSUMERS.build(language)
        PRODUCERS.build(language)
    with network_cluster(tmp_path_factory.mktemp("network")) as cluster:
        yield cluster


@pytest.fixture
async def clients(machines: NetworkCluster) -> AsyncIterator[list[RawClient]]:
    """A client of each proxy, while everybody reaches everybody."""
    async with AsyncExitStack() as stack:
        doors = [await stack.enter_async_context(RawClient(door)) for door in machines.doors]
        for client in doors:
            await serving(client, machines.brokers, within_s=BACK_WITHIN_S)
        yield doors


def way(machines: NetworkCluster) -> Way:
    return Way(endpoint=machines.endpoint, door=machines.doors[1], within=machines.clients.within, languages=LANGUAGES)


async def balanced(load: Load) -> Account:
    account = await load.finish()
    print(account)
    assert not any(map(account.missing, account.delivered)), account
    return account


async def whole(machines: NetworkCluster, clients: list[RawClient]) -> None:
    for client in clients:
        await serving(client, machines.brokers, within_s=BACK_WITHIN_S)


async def test_a_broker_that_is_cut_from_the_registry_leaves_the_routes_and_comes_back(
    machines: NetworkCluster, clients: list[RawClient], tmp_path: Path
) -> None:
    async with working(way(machines), "unregistered", tmp_path) as load:
        async with load.phase("broker without registry"):
            with machines.broker_machines[0].cut_from(machines.registry):
                await in_routes(clients, load.topic, {"broker-1"}, within_s=GONE_WITHIN_S)
                assert await broker_names(clients[1]) == {"broker-1"}
                await load.account.goes_on()
        await in_routes(clients, load.topic, BOTH, within_s=BACK_WITHIN_S)
        await load.account.goes_on()
        account = await balanced(load)
    assert account.refused == []


async def without_broker(client: RawClient, topic: str) -> None:
    """Return when the client's proxy knows that it can't reach broker-0."""

    async def noticed() -> bool:
        # One that is only slow is left out as well, after the time that it has for an answer. One that is lost is left
        # out after a shorter one, in which the call is repeated.
        began = time.monotonic()
        brokers = (await stored(client, topic)).keys()
        return brokers == {"broker-1"} and time.monotonic() - began < ANSWER_TIMEOUT_S

    await eventually(noticed, within_s=GONE_WITHIN_S, what="the proxy knows that it can't reach the broker")


async def test_a_proxy_that_is_cut_from_a_broker_goes_on_with_the_other(
    machines: NetworkCluster, clients: list[RawClient], tmp_path: Path
) -> None:
    cut_off, other = clients
    topic = await cut_off.create_topic("half-reached", queues=2)
    await send_each(cut_off, topic, *(b"before-%d" % number for number in range(12)))
    held = (await stored(other, topic))["broker-0"]
    assert held > 0
    async with working(way(machines), "half-reached-load", tmp_path) as load:
        async with load.phase("proxy without a broker"):
            with machines.proxy_machines[0].cut_from(machines.broker_machines[0]):
                await without_broker(cut_off, topic)
                await send_each(cut_off, topic, *(b"during-%d" % number for number in range(6)))
                assert (await stored(other, topic))["broker-0"] == held
                # What the broker has is had through the other proxy, and what that one handed out is settled there.
                messages = await received(other, topic, "readers", 18)
                await settle(other, topic, "readers", messages)
                await load.account.goes_on()
        await whole(machines, clients)
        await send_each(cut_off, topic, *(b"after-%d" % number for number in range(8)))
        assert (await stored(cut_off, topic))["broker-0"] > held
        assert len(await consumed(cut_off, topic, "readers", 8)) == 8
        assert await is_empty(other, topic, "readers")
        account = await balanced(load)
    assert account.refused == []


async def test_a_proxy_that_is_cut_from_the_registry_serves_what_it_knows(
    machines: NetworkCluster, clients: list[RawClient], tmp_path: Path
) -> None:
    cut_off, other = clients
    async with working(way(machines), "unregistered-proxy", tmp_path) as load:
        async with load.phase("proxy without registry"):
            with machines.proxy_machines[0].cut_from(machines.registry):
                refused, text = await sent_code(cut_off, "unheard-of")
                assert (refused, "the registry can't be reached" in text) == ("HA_NOT_AVAILABLE", True), text
                assert (await sent_code(other, "made-meanwhile"))[0] == "OK"
                await send_each(cut_off, load.topic, b"own-0", b"own-1")
                assert await placed(cut_off, load.topic) == BOTH
                await load.account.goes_on(100)

        async def healed() -> bool:
            return (await sent_code(cut_off, "unheard-of"))[0] == "OK"

        await eventually(healed, within_s=BACK_WITHIN_S, what="the proxy makes topics again")
        await in_routes(clients, "made-meanwhile", BOTH, within_s=BACK_WITHIN_S)
        account = await balanced(load)
    assert account.refused == []


async def test_a_broker_that_missed_a_deletion_keeps_what_is_sent_to_the_topic_made_anew(
    machines: NetworkCluster, clients: list[RawClient]
) -> None:
    deleting, other = clients
    broker = machines.broker_machines[0]
    topic = await deleting.create_topic("made-anew", queues=2)
    await in_routes(clients, topic, BOTH, within_s=BACK_WITHIN_S)
    await send_each(other, topic, *(b"old-%d" % number for number in range(12)))
    assert (await stored(other, topic)).keys() == BOTH
    sent = {b"new-%d" % number for number in range(12)}
    with machines.proxy_machines[0].cut_from(broker):
        await without_broker(deleting, topic)
        with broker.cut_from(machines.registry):
            # At once, while the broker's lease is in force.
            deleted = await deleting.admin("DeleteTopic", name=topic)
            assert code(deleted) == "OK", deleted
            await deleting.create_topic(topic, queues=3)
            assert await placed(deleting, topic) == BOTH

            async def known() -> bool:
                return {queue.id for queue in (await route(other, topic)).message_queues} == {0, 1, 2}

            await eventually(known, within_s=GONE_WITHIN_S, what="the other proxy knows the topic that was made anew")
            await send_each(other, topic, *sent)
    await whole(machines, clients)
    await in_routes(clients, topic, BOTH, within_s=BACK_WITHIN_S)
    found: set[bytes] = set()

    async def all_found() -> bool:
        found.update(await consumed(other, topic, "readers-anew", 1))
        return found >= sent

    await eventually(all_found, within_s=BACK_WITHIN_S, what="everything that was acknowledged")


async def test_a_broker_that_missed_a_deletion_keeps_what_the_group_made_anew_has_done(
    machines: NetworkCluster, clients: list[RawClient]
) -> None:
    deleting, other = clients
    broker, group = machines.broker_machines[0], "read-anew"
    topic = await deleting.create_topic("read-anew", queues=2)
    await in_routes(clients, topic, BOTH, within_s=BACK_WITHIN_S)
    sent = {b"%d" % number for number in range(12)}
    await send_each(other, topic, *sent)
    there = await stored(other, topic)
    assert there.keys() == BOTH

    async def make(attempts: int) -> None:
        asked = admin_pb2.Group(name=group, max_attempts=attempts, consume_from="earliest")
        made = await deleting.admin("CreateGroup", group=asked)
        assert code(made) == "OK", made

    async def known() -> bool:
        found = await other.admin("DescribeGroup", name=group)
        return bool(found.group.max_attempts == 7)

    await make(5)
    found: list[bytes] = []
    with machines.proxy_machines[0].cut_from(broker), broker.cut_from(machines.registry):
        deleted = await deleting.admin("DeleteGroup", name=group)
        assert code(deleted) == "OK", deleted
        await make(7)
        await eventually(known, within_s=GONE_WITHIN_S, what="the other proxy knows the group that was made anew")
        while messages := (await other.receive(topic, group, poll_s=2.0)).messages:
            await settle(other, topic, group, messages)
            found += [message.body for message in messages]
        assert len(found) == there["broker-1"]
    while len(found) < len(sent):
        found += await consumed(other, topic, group, 1)
    await whole(machines, clients)
    assert await is_empty(other, topic, group)
    assert sorted(found) == sorted(sent)


async def test_nothing_is_lost_over_slow_links(
    machines: NetworkCluster, clients: list[RawClient], tmp_path: Path
) -> None:
    big = bytes(100_000)  # nearly a second of the link
    topic = await clients[0].create_topic("slow", queues=1)
    async with working(way(machines), "slow-load", tmp_path) as load:
        async with load.phase("slow broker"):
            with machines.broker_machines[0].slow():
                answers = await asyncio.gather(*(sent_code(client, topic, big) for client in clients * 4))
                await load.account.goes_on()
        await whole(machines, clients)
        stayed = [said for said, _ in answers if said == "OK"]
        messages = await received(clients[1], topic, "slow-readers", len(stayed))
        await settle(clients[1], topic, "slow-readers", messages)
        assert {len(each.body) for each in messages} == {len(big)}
        async with load.phase("slow registry"):
            with machines.registry.slow():
                answer = await clients[0].admin("CreateTopic", topic={"name": "made-slowly", "queues": 1})
                assert code(answer) == "OK", answer
                await in_routes(clients, "made-slowly", BOTH, within_s=BACK_WITHIN_S)
                await load.account.goes_on()
        await balanced(load)


async def test_a_broker_that_is_unplugged_is_back_with_what_it_had(
    machines: NetworkCluster, clients: list[RawClient], tmp_path: Path
) -> None:
    async with working(way(machines), "unplugged", tmp_path) as load:
        async with load.phase("unplugged broker"):
            with machines.broker_machines[1].unplugged():
                await in_routes(clients, load.topic, {"broker-0"}, within_s=GONE_WITHIN_S)
                await load.account.goes_on()
        await in_routes(clients, load.topic, BOTH, within_s=BACK_WITHIN_S)
        await whole(machines, clients)
        account = await balanced(load)
    assert account.refused == []
