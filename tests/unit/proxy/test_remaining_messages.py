"""What remains on a broker for groups that consume a topic, and have not been there (`remaining_messages.py`)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ternmq_common.catalog.cluster import GroupBacklog, UnfinishedWork
from ternmq_common.shard.model import ConsumerGroup, QueueProgress, QueueRef
from ternmq_proxy.operations.admin.brokers.unfinished_work import find_unfinished_work
from tests.support.two_proxies import Cluster, Proxy


@pytest.fixture
async def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    """One whose brokers a and b have ten messages in each of the two queues of `orders`; `new` has taken those of b's
    first queue alone, and `old` all."""
    cluster = Cluster(tmp_path)
    for name in ("a", "b"):
        cluster.broker(name)
    cluster.topic("orders", "a", "b")
    proxy = await cluster.proxy()
    touched = {"new": [("b", 0)], "old": [(broker, number) for broker in ("a", "b") for number in (0, 1)]}
    for group in touched:
        await proxy.catalog.create_group(ConsumerGroup(name=group))

    async def progress(group: str, topics: list[str]) -> list[QueueProgress]:
        assert topics == []
        queues = [QueueRef("orders", broker, number) for broker in ("a", "b") for number in (0, 1)]
        rows = []
        for queue in queues if group in touched else ():
            at = 10 if (queue.broker, queue.queue_id) in touched[group] else 0
            rows.append(QueueProgress(queue=queue, committed=at, cursor=at, in_flight=0, max_offset=10))
        return rows

    monkeypatch.setattr(proxy.brokers, "progress", progress, raising=False)
    yield proxy
    cluster.close()


async def test_queues_in_which_a_consuming_group_has_never_been_are_its_backlog(proxy: Proxy) -> None:
    assert (await find_unfinished_work("a", proxy.services)).backlogs == [GroupBacklog("new", "orders", 20)]
    assert (await find_unfinished_work("b", proxy.services)).backlogs == [GroupBacklog("new", "orders", 10)]


async def test_what_only_the_broker_knows_is_told_too(proxy: Proxy) -> None:
    proxy.brokers.remains = UnfinishedWork(
        [GroupBacklog("deleted", "orders", 2), GroupBacklog("new", "orders", 3)], 4, 5
    )
    assert await find_unfinished_work("b", proxy.services) == UnfinishedWork(
        [GroupBacklog("deleted", "orders", 2), GroupBacklog("new", "orders", 10)], 4, 5
    )
