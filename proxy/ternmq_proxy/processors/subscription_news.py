"""What is done, now and then, about what groups have begun to subscribe."""

from typing import TYPE_CHECKING

from ternmq_common.fairness import Turns

if TYPE_CHECKING:
    from ternmq_common.model import Subscription
    from ternmq_proxy.services import Services


async def spread_news(services: "Services") -> None:
    """Have the brokers know what groups subscribe here. A topic or group that is not there is news until it is."""
    news: list[Subscription] = []
    turns = Turns()
    for subscription in services.subscriptions.news():
        await turns.next()
        if _is_known(subscription, services):
            services.subscriptions.heard(subscription)
            news.append(subscription)
    await services.messages.tell_subscriptions(news, lambda: _all_known(services))


def _all_known(services: "Services") -> "list[Subscription]":
    return [each for each in services.subscriptions.all() if _is_known(each, services)]


def _is_known(subscription: "Subscription", services: "Services") -> bool:
    return services.catalog.has_group(subscription.group) and services.catalog.has_topic(subscription.topic)
