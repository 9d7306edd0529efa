"""A broker whose disk is lost, or another's, does not come back under its name without a word."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ternmq
from ternmq_registry.registry import Registry
from tests.cluster.watching import consumed, eventually, in_routes, send_each, serving, stored
from tests.support.cluster_processes import BrokerProcess, ClusterProcesses
from tests.support.embedded import RawClient
from tests.support.stack import config_options

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = 'lease_ms = "1s"\nexpert.registry_wait_ms = "5s"\n'
BACK_WITHIN_S = 20.0
# A route that was looked up while the broker was away is good for half a minute.
BEGINS_ANEW_S = 60.0
POLL_S = 20.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    options = config_options(tmp_path, SETTINGS)
    with ClusterProcesses(tmp_path, brokers=2, proxies=1, broker_options=options) as processes:
        yield processes


async def known_store(cluster: ClusterProcesses, broker: BrokerProcess) -> str:
    """The id of its store as the registry has it."""

    def look() -> str:
        registry = Registry.open_postgres(cluster.registry_url)
        try:
            return registry.read_brokers()[1][broker.name].store_id
        finally:
            registry.close()

    return await asyncio.to_thread(look)


async def lost_lease(cluster: ClusterProcesses, broker: BrokerProcess) -> None:
    """Kill it, and return when its lease has run out."""
    broker.kill9()

    def is_over() -> bool:
        registry = Registry.open_postgres(cluster.registry_url)
        try:
            return not registry.read_brokers()[1][broker.name].live
        finally:
            registry.close()

    async def over() -> bool:
        return await asyncio.to_thread(is_over)

    await eventually(over, within_s=BACK_WITHIN_S, what="the lease has run out")


async def refusal(broker: BrokerProcess) -> str:
    """Why it does not start."""
    with pytest.raises(AssertionError, match="ended with 1 before it was ready") as refused:
        await asyncio.to_thread(broker.start)
    return str(refused.value)


async def test_an_empty_disk_is_refused_until_an_operator_gives_the_store_up(
    cluster: ClusterProcesses, client: RawClient
) -> None:
    broker, other = cluster.brokers
    topic = await client.create_topic("lost", queues=1)
    await in_routes([client], topic, {broker.name, other.name}, within_s=BACK_WITHIN_S)
    await send_each(client, topic, *(b"before-%d" % number for number in range(8)))
    assert (await stored(client, topic))[broker.name] == 4
    before = await known_store(cluster, broker)
    async with ternmq.PullConsumer(cluster.proxies[0].grpc, "pullers", {topic: "*"}, start_from="earliest") as puller:
        assert await polled(puller, 8) == {b"before-%d" % number for number in range(8)}
        await lost_lease(cluster, broker)
        shutil.rmtree(broker.data)
        said = await refusal(broker)
        assert f"broker 'broker-0' has store {before}, as the registry knows" in said
        own = re.search(r"an empty one, ([0-9a-f]{32}):", said)
        assert own is not None
        assert f"once with --accept-empty-store {before}" in said
        assert await known_store(cluster, broker) == before
        broker.options = ("--accept-empty-store", before)
        await asyncio.to_thread(broker.start)
        assert await known_store(cluster, broker) == own[1]
        assert f"store {before} is given up: what was in its queues (1 topics: lost) is lost" in broker.log_tail()
        await serving(client, cluster.brokers)

        async def begins_anew() -> bool:
            there = [queue for queue in puller.assignment() if queue.broker == broker.name]
            return [await puller.position(queue) for queue in there] == [0]

        # Who has read further than the new end hears it, or finds it when the queue is in the route again.
        await eventually(begins_anew, within_s=BEGINS_ANEW_S, what="the puller begins anew in the lost queue")
        await send_each(client, topic, *(b"after-%d" % number for number in range(8)))
        assert await polled(puller, 8) == {b"after-%d" % number for number in range(8)}
    assert len(await consumed(client, topic, "newcomers", 12)) == 12
    # The same words say nothing of another loss.
    await lost_lease(cluster, broker)
    shutil.rmtree(broker.data)
    assert f"has store {own[1]}, as the registry knows, which" in await refusal(broker)


async def test_another_brokers_disk_is_refused_and_left_as_it_is(cluster: ClusterProcesses, client: RawClient) -> None:
    first, second = cluster.brokers
    topic = await client.create_topic("swapped", queues=1)
    await in_routes([client], topic, {first.name, second.name}, within_s=BACK_WITHIN_S)
    await send_each(client, topic, *(b"%d" % number for number in range(8)))
    ids = [await known_store(cluster, each) for each in (first, second)]
    for each in (first, second):
        await lost_lease(cluster, each)
    swap(first.data, second.data)
    first.options = ("--accept-empty-store", ids[0])
    said = await refusal(first)
    assert (
        f"has store {ids[0]}, as the registry knows, and this data directory has the store of broker 'broker-1'" in said
    )
    assert f"{ids[1]}, with messages" in said
    swap(first.data, second.data)
    for each in (first, second):
        await asyncio.to_thread(each.start)
    await serving(client, cluster.brokers)
    assert sorted(await consumed(client, topic, "readers", 8)) == [b"%d" % number for number in range(8)]


async def test_a_store_whose_id_was_lost_is_itself_again_by_its_operators_word(
    cluster: ClusterProcesses, client: RawClient
) -> None:
    broker = cluster.brokers[0]
    topic = await client.create_topic("renamed", queues=1)
    await in_routes([client], topic, {each.name for each in cluster.brokers}, within_s=BACK_WITHIN_S)
    await send_each(client, topic, *(b"%d" % number for number in range(8)))
    known = await known_store(cluster, broker)
    await lost_lease(cluster, broker)
    (broker.data / "store-id").unlink()
    said = await refusal(broker)
    assert f"write {known} into that file" in said
    (broker.data / "store-id").write_text(known + "\n")
    await asyncio.to_thread(broker.start)
    await serving(client, cluster.brokers)
    assert len(await consumed(client, topic, "readers", 8)) == 8


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


async def polled(puller: ternmq.PullConsumer, count: int) -> set[bytes]:
    """The bodies of the next messages, which are so many."""
    found: set[bytes] = set()
    while len(found) < count:
        found |= {view.body for view in await puller.poll(timeout=POLL_S)}
    return found
