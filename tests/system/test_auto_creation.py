"""How many topics and groups a minute come into being because clients use them, and that each does so once."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_common.errors import MessagingError
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.catalog.auto_creation import AutoCreation
from tests.support.embedded import Embedded, RawClient, code, local_settings, message
from tests.support.hand_clock import Clock
from tests.support.two_proxies import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    running.broker("a")
    yield running
    running.close()


async def test_topics_and_groups_share_what_may_be_made_in_a_minute(cluster: Cluster) -> None:
    proxy = await cluster.proxy(auto_create_per_minute=6)
    for number in range(3):
        await proxy.catalog.ensure_topic(f"t{number}")
        await proxy.catalog.ensure_group(f"g{number}")
    with pytest.raises(MessagingError) as refused:
        await proxy.catalog.ensure_topic("t3")
    assert (refused.value.code, refused.value.retryable) == (pb.TOO_MANY_REQUESTS, True)
    assert "auto_create_per_minute" in refused.value.message
    with pytest.raises(MessagingError, match="TOO_MANY_REQUESTS: group 'g3' does not exist"):
        await proxy.catalog.ensure_group("g3")
    assert len(cluster.registry.list_topics()) == 3
    assert (await proxy.catalog.ensure_topic("t0")).name == "t0"
    proxy.seconds.now_s += 10
    await proxy.catalog.ensure_topic("t3")
    with pytest.raises(MessagingError):
        await proxy.catalog.ensure_topic("t4")
    proxy.seconds.now_s += 3600
    for number in range(6):
        await proxy.catalog.ensure_topic(f"later{number}")
    with pytest.raises(MessagingError):
        await proxy.catalog.ensure_topic("later6")


async def test_what_is_made_by_hand_is_not_counted(cluster: Cluster) -> None:
    proxy = await cluster.proxy(auto_create_per_minute=1)
    await proxy.catalog.ensure_topic("used")
    for number in range(5):
        await proxy.catalog.create_topic(cluster.topic(f"made{number}", "a"))
    assert len(proxy.catalog.list_topics()) == 6


async def test_many_clients_that_begin_with_one_group_make_one(cluster: Cluster) -> None:
    proxy = await cluster.proxy(auto_create_per_minute=1)
    groups = await asyncio.gather(*(proxy.catalog.ensure_group("billing") for _ in range(500)))
    assert {group.name for group in groups} == {"billing"}


async def test_what_could_not_be_made_is_not_counted(tmp_path: Path) -> None:
    empty = Cluster(tmp_path)
    proxy = await empty.proxy(auto_create_per_minute=1)
    for number in range(5):
        with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE: no broker is there"):
            await proxy.catalog.ensure_topic(f"t{number}")
    await proxy.catalog.ensure_group("billing")
    empty.close()


async def test_a_client_that_goes_away_does_not_take_what_others_wait_for_with_it() -> None:
    creation = AutoCreation(per_minute=1, now=Clock(100.0))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def create() -> None:
        begun.set()
        await go_on.wait()

    first = asyncio.create_task(creation.create_once("topic", "t", create))
    second = asyncio.create_task(creation.create_once("topic", "t", create))
    await begun.wait()
    first.cancel()
    go_on.set()
    await second
    assert first.cancelled()


async def test_the_log_says_it_once_a_minute(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    proxy = await cluster.proxy(auto_create_per_minute=1)
    await proxy.catalog.ensure_topic("first")

    async def many() -> int:
        caplog.clear()
        for number in range(20):
            with pytest.raises(MessagingError):
                await proxy.catalog.ensure_topic(f"t{number}")
        return sum("auto_create_per_minute" in record.getMessage() for record in caplog.records)

    with caplog.at_level(logging.WARNING):
        assert await many() == 1
        assert await many() == 0
        proxy.seconds.now_s += 61
        await proxy.catalog.ensure_topic("second")
        assert await many() == 1


async def test_a_server_creates_no_more_than_its_settings_say(tmp_path: Path) -> None:
    async with Embedded(local_settings(tmp_path, auto_create_per_minute=5)) as server, RawClient(server.grpc) as client:
        answers = [
            code(await client.call("SendMessage", messages=[message(f"t{number}", b"x")])) for number in range(12)
        ]
    assert answers == ["OK"] * 5 + ["TOO_MANY_REQUESTS"] * 7
