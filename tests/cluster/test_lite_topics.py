"""Lite topics on two brokers behind two proxies: order, settling through another proxy, and processes that are killed.

A client says once what it subscribes. What a broker that was killed forgot, it hears from the proxy.
"""

import asyncio
from collections import defaultdict
from functools import partial

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.cluster.watching import eventually, is_sent, serving
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient
from tests.support.lite import LiteReader, in_journal, make_lite_group, make_lite_topic

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAMES = [f"n{number}" for number in range(24)]


@pytest.fixture
async def reader(clients: list[RawClient]) -> LiteReader:
    topic = await make_lite_topic(clients[0])
    reader = LiteReader(clients[0], topic, await make_lite_group(clients[0], topic))
    await subscribed(reader)
    return reader


async def subscribed(reader: LiteReader) -> None:
    """All lite topics; a broker may not have heard of the group yet."""

    async def is_done() -> bool:
        return bool((await reader.sync(pb.COMPLETE_ADD, *NAMES)).status.code == pb.OK)

    await eventually(is_done, within_s=10, what="the brokers know the group")


async def send_all(client: RawClient, topic: str, *bodies: bytes) -> None:
    """To each lite topic, until its broker takes it."""
    for name in NAMES:
        for body in bodies:
            await eventually(partial(is_sent, client, topic, name, body), within_s=30, what=f"{name} takes {body!r}")


async def all_of(reader: LiteReader, each: int) -> dict[str, list[bytes]]:
    """Of every lite topic so many messages in the order in which they came, without those that came again."""
    found: defaultdict[str, list[bytes]] = defaultdict(list)

    async def is_all() -> bool:
        received = await reader.receive(poll_s=2.0)
        for message in received.messages:
            bodies = found[message.system_properties.lite_topic]
            if message.body not in bodies:
                bodies.append(message.body)
        await reader.ack(received.messages)
        return all(len(found[name]) >= each for name in NAMES)

    await eventually(is_all, within_s=90, what="all lite topics are read")
    return found


async def test_lite_topics_of_all_brokers_come_through_one_proxy_and_are_settled_through_the_other(
    clients: list[RawClient], reader: LiteReader
) -> None:
    other = LiteReader(clients[1], reader.topic, reader.group)
    await send_all(clients[1], reader.topic, b"1", b"2")
    taken: dict[str, list[bytes]] = defaultdict(list)
    brokers = set()
    while sum(map(len, taken.values())) < 2 * len(NAMES):
        received = await reader.receive(poll_s=10)
        for message in received.messages:
            taken[message.system_properties.lite_topic].append(message.body)
            brokers.add(message.system_properties.receipt_handle.partition(".")[0][-8:])
        assert set(await other.ack(received.messages)) == {"OK"}
    assert taken == {name: [b"1", b"2"] for name in NAMES}
    assert len(brokers) == 2, "the lite topics are spread over both brokers"


async def test_a_broker_that_was_killed_goes_on_with_its_lite_topics(
    cluster: ClusterProcesses, clients: list[RawClient], reader: LiteReader
) -> None:
    await send_all(clients[0], reader.topic, b"1", b"2")
    assert await all_of(reader, 2) == {name: [b"1", b"2"] for name in NAMES}
    for name in NAMES:
        await in_journal(reader, name, *(each.data for each in cluster.brokers))
    cluster.brokers[0].kill9()
    await asyncio.to_thread(cluster.brokers[0].start)
    await serving(clients[0], cluster.brokers)
    await send_all(clients[1], reader.topic, b"3")
    found = await all_of(reader, 1)
    assert {name: bodies[-1] for name, bodies in found.items()} == dict.fromkeys(NAMES, b"3")
    assert all(bodies == [b"3"] for bodies in found.values()), "nothing that was acknowledged comes again"


async def test_a_client_goes_on_at_another_proxy(
    cluster: ClusterProcesses, clients: list[RawClient], reader: LiteReader
) -> None:
    await send_all(clients[1], reader.topic, b"1")
    cluster.proxies[0].kill9()
    try:
        # The brokers know what it subscribes, whichever proxy it told.
        same = RawClient(cluster.proxies[1].grpc, metadata=clients[0].metadata)
        async with same:
            assert await all_of(LiteReader(same, reader.topic, reader.group), 1) == {name: [b"1"] for name in NAMES}
    finally:
        await asyncio.to_thread(cluster.proxies[0].start)
