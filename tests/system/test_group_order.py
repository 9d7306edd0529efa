"""Whether a group is FIFO: what its first use makes it, what is said where order is lost, and how that is changed."""

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import ConsumerGroup, QueueProgress, TopicSubscription
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.fronts.grpc.activities.admin import groups as admin_groups
from ternmq_proxy.fronts.grpc.activities.telemetry import read_settings
from ternmq_proxy.processors.subscription_news import handle_new_subscriptions, order_problem
from tests.support.embedded import RawClient, code, duration
from tests.support.two_proxies import CALL, Cluster, Proxy
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group, describe_group
from tests.system.test_admin_consumption import reset, update_group
from tests.system.test_offsets import update
from tests.system.test_retry_and_dead_letters import handle_of
from tests.system.test_subscriptions import subscribe


@pytest_asyncio.fixture(loop_scope="session")
async def fifo_topic(client: RawClient, new_topic: str) -> str:
    """A FIFO topic with one queue."""
    return await client.create_topic(f"fifo-{new_topic}", kind=pb.FIFO)


async def is_fifo(client: RawClient, group: str) -> bool:
    described = await describe_group(client, group)
    assert code(described) == "OK", described.status.message
    return described.group.fifo


# --- groups that are made by their use


@SERVER_LOOP
async def test_a_group_that_is_made_by_its_subscription_has_the_order_of_its_topics(
    client: RawClient, fifo_topic: str, group: str
) -> None:
    told = await client.configure(consumer(group, fifo_topic))
    assert told.settings.subscription.fifo
    assert await is_fifo(client, group)


@SERVER_LOOP
async def test_a_group_that_is_made_by_a_receive_has_the_order_of_its_topic(
    client: RawClient, fifo_topic: str, topic: str, group: str
) -> None:
    await client.send(fifo_topic, b"a1", b"a2", message_group="a")
    assert (await client.receive(fifo_topic, group, batch_size=1)).bodies == [b"a1"]
    assert (await client.receive(fifo_topic, group)).bodies == [], "the second waits for the first"
    assert await is_fifo(client, group)
    await client.receive(topic, f"{group}-2")
    assert not await is_fifo(client, f"{group}-2")


@SERVER_LOOP
async def test_a_group_that_is_made_by_an_offset_has_the_order_of_its_topic(
    client: RawClient, fifo_topic: str, group: str
) -> None:
    assert await update(client, fifo_topic, group, 0) == "OK"
    assert await is_fifo(client, group)


@SERVER_LOOP
async def test_a_group_of_a_mixture_is_not_fifo_and_of_fifo_topics_that_are_there_it_is(
    client: RawClient, fifo_topic: str, topic: str, group: str
) -> None:
    await client.configure(consumer(group, fifo_topic, topic))
    assert not await is_fifo(client, group)
    await client.configure(consumer(f"{group}-2", fifo_topic, "never-made"))
    assert await is_fifo(client, f"{group}-2")


@SERVER_LOOP
async def test_a_group_is_made_when_there_is_a_topic_that_says_what_it_is(
    client: RawClient, new_topic: str, group: str
) -> None:
    told = await client.configure(consumer(group, new_topic))
    assert (told.status.code, told.settings.subscription.fifo) == (pb.OK, False)
    beat = rpc.HeartbeatRequest(group={"name": group}, client_type=pb.PUSH_CONSUMER)
    assert code(await client.call("Heartbeat", beat)) == "OK"
    assert code(await describe_group(client, group)) == "CONSUMER_GROUP_NOT_FOUND"
    await client.create_topic(new_topic, kind=pb.FIFO)
    assert code(await client.call("Heartbeat", beat)) == "OK"
    assert await is_fifo(client, group)


@SERVER_LOOP
async def test_a_group_that_was_made_by_hand_stays_as_it_is(client: RawClient, fifo_topic: str, group: str) -> None:
    await create_group(client, name=group)
    told = await client.configure(consumer(group, fifo_topic))
    assert not told.settings.subscription.fifo
    assert not await is_fifo(client, group)


def consumer(group: str, *topics: str) -> pb.Settings:
    entries = [{"topic": {"name": topic}, "expression": {"type": pb.TAG, "expression": "*"}} for topic in topics]
    subscription = {"group": {"name": group}, "subscriptions": entries}
    return pb.Settings(client_type=pb.PUSH_CONSUMER, subscription=subscription)


# --- what is said


@SERVER_LOOP
async def test_a_group_that_loses_the_order_of_a_topic_is_described_so(
    client: RawClient, fifo_topic: str, group: str
) -> None:
    await create_group(client, name=group)
    await subscribe(client, group, {fifo_topic: "*"})
    [warning] = (await describe_group(client, group)).inconsistencies
    for part in (group, fifo_topic, f"ternmq group update {group} --fifo"):
        assert part in warning
    assert code(await update_group(client, name=group, fifo=True)) == "OK"
    [warning] = (await describe_group(client, group)).inconsistencies
    assert client.client_id in warning
    assert "start them again" in warning
    await subscribe(client, group, {fifo_topic: "*"})
    assert not (await describe_group(client, group)).inconsistencies


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.broker("a")
    cluster.topic("jobs", "a", type=pb.FIFO)
    cluster.topic("orders", "a")
    yield cluster
    cluster.close()


@pytest.fixture
async def proxy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    async def nothing(*_: object) -> None:
        """Brokers need not know in these tests."""

    proxy = await cluster.proxy()
    monkeypatch.setattr(proxy.brokers, "notify_subscriptions", nothing, raising=False)
    return proxy


def begin(proxy: Proxy, group: str, topic: str, kind: "pb.ClientType" = pb.PUSH_CONSUMER, name: str = "one") -> None:
    settings = pb.Settings(client_type=kind, subscription={"group": {"name": group}})
    proxy.clients.take_settings(name, read_settings(settings)).got_fifo = proxy.catalog.group_or_default(group).fifo
    proxy.subscriptions.note_filter(group, name, topic, "*")


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records]


async def test_that_order_is_lost_is_logged_once(proxy: Proxy, warned: Callable[[], list[str]]) -> None:
    await proxy.catalog.create_group(ConsumerGroup(name="g"))
    for name in ("one", "two"):
        begin(proxy, "g", "jobs", name=name)
        begin(proxy, "g", "orders", name=name)
        await handle_new_subscriptions(proxy.services)
    [warning] = warned()
    assert "group g subscribes FIFO topic jobs and is not FIFO" in warning


async def test_no_order_is_lost_to_fifo_groups_nor_to_who_pulls(proxy: Proxy, warned: Callable[[], list[str]]) -> None:
    await proxy.catalog.create_group(ConsumerGroup(name="ordered", fifo=True))
    await proxy.catalog.create_group(ConsumerGroup(name="pulling"))
    begin(proxy, "ordered", "jobs")
    begin(proxy, "pulling", "jobs", pb.PULL_CONSUMER, "two")
    await handle_new_subscriptions(proxy.services)
    assert warned() == []


async def test_a_push_consumer_that_began_before_its_group_was_fifo_is_named(
    proxy: Proxy, warned: Callable[[], list[str]]
) -> None:
    begin(proxy, "g", "jobs")
    await handle_new_subscriptions(proxy.services)
    assert warned() == []
    await proxy.catalog.ensure_group("g", fifo=True)
    await handle_new_subscriptions(proxy.services)
    [warning] = warned()
    assert "when one began" in warning
    assert order_problem(TopicSubscription("g", "jobs"), proxy.services) == warning


async def test_what_one_proxy_made_fifo_is_fifo_on_the_other(cluster: Cluster, proxy: Proxy) -> None:
    other = await cluster.proxy()
    assert (await proxy.catalog.ensure_subscribed_group("g", ["jobs"])).fifo
    assert (await other.catalog.ensure_subscribed_group("g", ["orders"])).fifo


async def test_a_topic_that_another_proxy_made_says_what_a_group_is(cluster: Cluster, proxy: Proxy) -> None:
    cluster.topic("more", "a", type=pb.FIFO)
    assert (await proxy.catalog.ensure_subscribed_group("g", ["more"])).fifo


# --- changing it


@SERVER_LOOP
@pytest.mark.parametrize("fifo", [True, False])
async def test_a_group_that_has_taken_nothing_can_be_changed(
    client: RawClient, topic: str, group: str, fifo: bool
) -> None:
    await create_group(client, name=group, fifo=fifo)
    await client.receive(topic, group)
    assert code(await update_group(client, name=group, fifo=not fifo)) == "OK"
    assert await is_fifo(client, group) is not fifo
    await client.send(topic, b"1", b"2")
    received = await client.receive(topic, group)
    assert received.bodies == [b"1", b"2"]
    await client.ack(topic, group, *map(handle_of, received.messages))
    assert (await describe_group(client, group)).progress[0].committed == 2


@SERVER_LOOP
async def test_a_group_that_has_taken_messages_can_not_be_changed(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"1", b"2")
    await create_group(client, name=group)
    received = await client.receive(topic, group, batch_size=1)
    for _ in range(2):
        refused = await update_group(client, name=group, fifo=True, max_attempts=4)
        assert code(refused) == "BAD_REQUEST"
        assert topic in refused.status.message
        await client.ack(topic, group, *map(handle_of, received.messages))
    described = (await describe_group(client, group)).group
    assert (described.fifo, described.max_attempts) == (False, 17)
    assert code(await update_group(client, name=group, max_attempts=4)) == "OK"


@SERVER_LOOP
async def test_a_group_with_a_retry_can_not_be_changed(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"1")
    await create_group(client, name=group)
    [message] = (await client.receive(topic, group)).messages
    await client.change(topic, group, handle_of(message), 0)
    await reset(client, topic, group, earliest=True, queue_ids=[0])
    assert code(await update_group(client, name=group, fifo=True)) == "BAD_REQUEST"


@SERVER_LOOP
async def test_a_group_is_ordered_as_soon_as_it_is_made_fifo(
    client: RawClient, other: RawClient, fifo_topic: str, group: str
) -> None:
    await create_group(client, name=group)
    await client.receive(fifo_topic, group)
    assert code(await update_group(client, name=group, fifo=True)) == "OK"
    await client.send(fifo_topic, b"a1", b"a2", message_group="a")
    assert (await client.receive(fifo_topic, group, batch_size=1)).bodies == [b"a1"]
    assert (await other.receive(fifo_topic, group, long_polling_timeout=duration(0))).bodies == []


async def test_a_group_is_not_changed_while_a_broker_can_not_say_what_it_has_taken(
    cluster: Cluster, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def progress(group: str) -> list[QueueProgress]:
        return []

    monkeypatch.setattr(proxy.brokers, "progress", progress, raising=False)
    await proxy.catalog.create_group(ConsumerGroup(name="g"))
    proxy.brokers.silent.add("a")
    request = admin_pb2.UpdateGroupRequest(group={"name": "g", "fifo": True})
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE: broker a does not answer"):
        await admin_groups.update_group(request, CALL, proxy.services)
    proxy.brokers.silent.clear()
    await admin_groups.update_group(request, CALL, proxy.services)
    assert (await (await cluster.proxy()).catalog.existing_group("g")).fifo
