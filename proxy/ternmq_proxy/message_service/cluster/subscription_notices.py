"""Notifies brokers of what groups subscribe to through this proxy, so that they count waiting messages for these
groups."""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_common.shard.model import TopicSubscription
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_proxy.message_service.cluster.broker_links.remote_broker import RemoteBroker

_log = logging.getLogger(__name__)
# A frame's worth; other calls use the link between two of them.
_AT_ONCE = 1000


class SubscriptionNotices:
    """Sends the notices. `_knowing` are the brokers that have had everything since their links connected."""

    def __init__(self, links: "BrokerLinks") -> None:
        self._links = links
        self._knowing: set[str] = set()

    def link_changed(self, broker: str) -> None:
        """Forget what the broker knows, since it may be a new process."""
        self._knowing.discard(broker)

    async def notify_subscriptions(
        self, news: "Sequence[TopicSubscription]", everything: "Callable[[], Sequence[TopicSubscription]]"
    ) -> None:
        """See `MessageService.notify_subscriptions`."""
        brokers = self._links.connected_brokers()
        unknowing = {broker.name for broker in brokers} - self._knowing
        complete = everything() if unknowing else ()
        self._knowing |= unknowing  # before the calls: a link that is lost meanwhile removes the broker again
        await asyncio.gather(
            *(self._notify_broker(broker, complete if broker.name in unknowing else news) for broker in brokers)
        )

    async def _notify_broker(self, broker: "RemoteBroker", subscriptions: "Sequence[TopicSubscription]") -> None:
        try:
            for start in range(0, len(subscriptions), _AT_ONCE):
                await broker.shard.consuming.subscribed(subscriptions[start : start + _AT_ONCE])
        except MessagingError as error:
            self._knowing.discard(broker.name)
            _log.warning("cannot notify broker %s of subscriptions; retrying: %s", broker.name, error)
