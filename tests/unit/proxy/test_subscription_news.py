"""What groups have begun to subscribe, and what is done about it (`subscription_news.py`)."""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from ternmq_common.shard.model import ConsumerGroup, TopicSubscription
from ternmq_proxy.processors.subscription_news import handle_new_subscriptions
from tests.support.two_proxies import Cluster, Proxy


class Told:
    """What the brokers were told: the news, and all there is to tell."""

    def __init__(self) -> None:
        self.news: list[list[TopicSubscription]] = []
        self.everything: list[TopicSubscription] = []

    async def __call__(
        self, news: Sequence[TopicSubscription], everything: Callable[[], Sequence[TopicSubscription]]
    ) -> None:
        self.news.append(list(news))
        self.everything = list(everything())


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.broker("a")
    yield cluster
    cluster.close()


@pytest.fixture
async def proxy(cluster: Cluster, told: Told, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """One that knows topic `orders` and group `g`."""
    cluster.topic("orders", "a")
    proxy = await cluster.proxy()
    await proxy.catalog.create_group(ConsumerGroup(name="g"))
    monkeypatch.setattr(proxy.brokers, "notify_subscriptions", told, raising=False)
    return proxy


async def test_what_is_new_is_told_once_and_all_of_it_when_it_is_asked_for(proxy: Proxy, told: Told) -> None:
    proxy.subscriptions.note_filter("g", "one", "orders", "*")
    proxy.subscriptions.note_filter("g", "two", "orders", "a")
    for _ in range(2):
        await handle_new_subscriptions(proxy.services)
    assert told.news == [[TopicSubscription("g", "orders")], []]
    assert told.everything == [TopicSubscription("g", "orders")]
    proxy.subscriptions.forget_client("one")
    proxy.subscriptions.forget_client("two")
    await handle_new_subscriptions(proxy.services)
    assert told.everything == []
    proxy.subscriptions.note_filter("g", "one", "orders", "*")
    await handle_new_subscriptions(proxy.services)
    assert told.news == [[TopicSubscription("g", "orders")], [], [], [TopicSubscription("g", "orders")]]


async def test_a_topic_or_group_that_is_not_there_yet_is_news_when_it_is(
    cluster: Cluster, proxy: Proxy, told: Told
) -> None:
    proxy.subscriptions.note_filter("g", "one", "later", "*")
    proxy.subscriptions.note_filter("later", "one", "orders", "*")
    proxy.subscriptions.note_filter("g", "one", "%DLQ%g", "*")
    await handle_new_subscriptions(proxy.services)
    assert told.news == [[TopicSubscription("g", "%DLQ%g")]]
    assert told.everything == [TopicSubscription("g", "%DLQ%g")]
    cluster.topic("later", "a")
    await proxy.catalog.create_group(ConsumerGroup(name="later"))
    await handle_new_subscriptions(proxy.services)
    assert told.news[1:] == [[TopicSubscription("g", "later"), TopicSubscription("later", "orders")]]


async def test_what_ended_before_it_was_told_is_no_news(proxy: Proxy, told: Told) -> None:
    proxy.subscriptions.note_filter("g", "one", "orders", "*")
    proxy.subscriptions.forget_client("one")
    await handle_new_subscriptions(proxy.services)
    assert (told.news, told.everything) == ([[]], [])
