"""What a proxy of a cluster knows, makes and refuses, when it isn't the only one."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError, code_name
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_proxy.catalog.catalog import Catalog
from ternmq_registry.directory import RegistryDirectory
from tests.support.two_proxies import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With the brokers a and b."""
    running = Cluster(tmp_path)
    running.broker("b")
    running.broker("a")
    yield running
    running.close()


async def test_a_new_topic_is_on_all_brokers_that_are_there_and_take_messages(cluster: Cluster) -> None:
    for name in ("away", "draining", "read-only"):
        cluster.broker(name)
    cluster.stop_broker("away")
    cluster.registry.set_broker("draining", draining=True)
    cluster.registry.set_broker("read-only", permission=QueuePermission.READ)
    topic = await (await cluster.proxy()).catalog.ensure_topic("orders")
    assert (topic.brokers, topic.queues) == (("a", "b"), 2)
    assert (await cluster.proxy()).catalog.find_topic("orders") == topic


async def test_without_a_broker_no_topic_is_made(tmp_path: Path) -> None:
    empty = Cluster(tmp_path)
    catalog = (await empty.proxy()).catalog
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE: no broker is there that takes messages"):
        await catalog.ensure_topic("orders")
    assert empty.registry.list_topics() == []
    empty.close()


async def test_the_one_broker_of_an_embedded_stack_needs_no_place(tmp_path: Path) -> None:
    embedded = Cluster(tmp_path)
    directory = RegistryDirectory(embedded.registry, interval_s=None)
    await directory.start()
    catalog = Catalog(directory, auto_create=True, auto_create_per_minute=9, default_queues=2, embedded="broker-0")
    assert (await catalog.ensure_topic("orders")).brokers == ()
    assert [broker.name for broker in catalog.list_brokers()] == ["broker-0"]
    embedded.close()


async def test_changes_wait_for_their_turn_and_not_in_threads(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    begun, first_has_begun, may_go_on = list[int](), threading.Event(), threading.Event()

    def change(number: int) -> None:
        begun.append(number)
        first_has_begun.set()
        may_go_on.wait()

    changes = [asyncio.create_task(proxy.catalog.apply_change(change, number)) for number in range(3)]
    await asyncio.to_thread(first_has_begun.wait)
    await asyncio.to_thread(lambda: None)  # a thread that is free has taken whatever waited before
    alone = list(begun)
    may_go_on.set()
    await asyncio.gather(*changes)
    assert (alone, begun) == ([0], [0, 1, 2])


async def test_what_another_proxy_made_is_found_and_not_made_again(cluster: Cluster) -> None:
    first, second = await cluster.proxy(), await cluster.proxy()
    made = await first.catalog.ensure_topic("orders")
    cluster.broker("c")
    assert await second.catalog.ensure_topic("orders") == made
    group = (await first.catalog.create_group(ConsumerGroup(name="billing", fifo=True)))[0]
    assert await second.catalog.ensure_group("billing") == group
    assert second.catalog.group_or_default("billing").fifo


@pytest.mark.parametrize("kind", [MessageType.NORMAL, MessageType.DELAY])
async def test_what_another_proxy_made_is_known_where_nothing_is_made_by_itself(
    cluster: Cluster, kind: MessageType
) -> None:
    strict = await cluster.proxy(auto_create=False)
    cluster.topic("orders", "a", type=kind)
    assert (await strict.catalog.ensure_topic("orders", kind)).type == kind
    cluster.topic("more", "a", type=kind)
    assert (await strict.catalog.existing_topic("more")).type == kind


async def test_a_dead_letter_topic_is_there_as_soon_as_another_proxy_made_its_group(cluster: Cluster) -> None:
    first, second = await cluster.proxy(), await cluster.proxy()
    await first.catalog.ensure_group("billing")
    topic = await second.catalog.existing_topic("%DLQ%billing")
    assert (topic.queues, topic.brokers) == (1, ("a", "b"))


async def test_two_proxies_that_make_a_topic_at_once_have_the_same_one(cluster: Cluster) -> None:
    proxies = [await cluster.proxy() for _ in range(4)]
    made = await asyncio.gather(*(proxy.catalog.ensure_topic("orders") for proxy in proxies))
    assert len(set(made)) == 1
    assert len(cluster.registry.list_topics()) == 1


async def test_what_another_proxy_made_is_found_at_once_by_who_just_missed_it(cluster: Cluster) -> None:
    proxy = await cluster.proxy(auto_create=False)
    for name in ("orders", "orders", "others"):
        with pytest.raises(MessagingError) as missing:
            await proxy.catalog.ensure_topic(name)
        assert code_name(missing.value.code) == "TOPIC_NOT_FOUND"
    cluster.topic("orders", "a")
    assert (await proxy.catalog.ensure_topic("orders")).name == "orders"


async def test_what_is_known_is_not_looked_for(cluster: Cluster) -> None:
    cluster.topic("orders", "a")
    proxy = await cluster.proxy()
    before = proxy.registry.looks
    for _ in range(3):
        await proxy.catalog.ensure_topic("orders")
    assert proxy.registry.looks == before


async def test_while_the_registry_is_out_what_is_known_goes_on_and_the_rest_is_refused(cluster: Cluster) -> None:
    cluster.topic("orders", "a")
    proxy = await cluster.proxy()
    proxy.registry.is_out = True
    assert (await proxy.catalog.ensure_topic("orders")).name == "orders"
    assert proxy.catalog.group_or_default("anybody").max_attempts == 17
    before = proxy.registry.looks
    for name in ("one", "two", "one"):
        with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE: the registry can't be reached: connection ref"):
            await proxy.catalog.ensure_topic(name)
    with pytest.raises(MessagingError, match="changes are refused until it is back"):
        await proxy.catalog.ensure_group("billing")
    assert proxy.registry.looks == before + 1, "one attempt a second, whatever is asked for"
    proxy.registry.is_out = False
    proxy.seconds.now_s += 1
    assert (await proxy.catalog.ensure_topic("one")).brokers == ("a", "b")


async def test_a_change_is_done_even_if_the_registry_goes_away_before_it_is_seen(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    create = proxy.registry.create_group

    def last_words(group: ConsumerGroup) -> tuple[ConsumerGroup, bool]:
        proxy.registry.is_out = True
        return create(group)

    proxy.registry.create_group = last_words  # type: ignore[method-assign]
    assert (await proxy.catalog.create_group(ConsumerGroup(name="billing")))[1]
    assert [group.name for group in cluster.registry.list_groups()] == ["billing"]


@pytest.mark.parametrize("kind", ["topic", "group"])
async def test_what_was_made_and_not_seen_is_not_served(cluster: Cluster, kind: str) -> None:
    """A send says when its topic was made, a receive when its group was, and nobody knows it here."""
    proxy = await cluster.proxy()
    create, look_up = getattr(proxy.registry, f"create_{kind}"), getattr(proxy.catalog, f"ensure_{kind}")

    def last_words(wanted: Topic | ConsumerGroup) -> object:
        made = create(wanted)
        proxy.registry.is_out = True
        return made

    setattr(proxy.registry, f"create_{kind}", last_words)
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE: the registry can't be reached"):
        await look_up("orders")
    (made,) = getattr(cluster.registry, f"list_{kind}s")()
    proxy.registry.is_out = False
    proxy.seconds.now_s += 1
    assert await look_up("orders") == made
    assert made.created_version > 0


async def test_topics_that_another_proxy_made_are_found_by_their_names(cluster: Cluster) -> None:
    first, second = await cluster.proxy(), await cluster.proxy()
    cluster.topic("orders", "a")
    cluster.topic("payments", "a")
    for proxy in (first, second):
        found = await proxy.catalog.existing_topics(["nowhere", "orders", "payments"])
        assert [topic.name for topic in found] == ["orders", "payments"]


async def test_topics_of_a_group_that_is_made_anew_in_the_same_millisecond_are_others(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    identities = set()
    for _ in range(2):
        await proxy.catalog.create_group(ConsumerGroup(name="billing", created_ms=17))
        [letters] = await proxy.catalog.existing_topics(["%DLQ%billing"])
        identities.add(letters.identity)
        await proxy.catalog.delete_group("billing")
    assert len(identities) == 2


async def test_a_deletion_has_the_registrys_version_and_happens_once(cluster: Cluster) -> None:
    cluster.topic("orders", "a")
    first, second = await cluster.proxy(), await cluster.proxy()
    version = await first.catalog.delete_topic("orders")
    assert [(each.version, each.name) for each in cluster.registry.list_deletions(0)] == [(version, "orders")]
    with pytest.raises(MessagingError, match="TOPIC_NOT_FOUND"):
        await second.catalog.delete_topic("orders")
    with pytest.raises(MessagingError, match="CONSUMER_GROUP_NOT_FOUND"):
        await second.catalog.delete_group("billing")


async def test_a_broker_that_is_not_there_is_named_with_those_that_are(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    cluster.broker("c")
    assert (await proxy.catalog.existing_broker("c")).address == "c:10911"
    with pytest.raises(MessagingError, match="NOT_FOUND: broker 'd' does not exist; known are a, b, c"):
        await proxy.catalog.existing_broker("d")
