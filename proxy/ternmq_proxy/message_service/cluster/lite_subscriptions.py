"""The subscriptions to lite topics of this proxy's clients, which all brokers of the topic get, also when they come
back.

A broker forgets them in a restart, and clients repeat them only every half a minute. So the proxy remembers them for as
long as a broker does.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.shard.model import LiteAction, LiteSync
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import DroppedLite
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)
REMEMBERED_S = 180.0
_LOOK_S = 30.0

_Client = tuple[str, str]
"""Group and client id."""


class _KnownSubscriptions:
    __slots__ = ("names", "synced_s", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.names: dict[str, None] = {}
        self.synced_s = 0.0


class LocalLiteSubscriptions:
    """The subscriptions of one proxy, by client."""

    def __init__(self, directory: "RegistryDirectory", links: "BrokerLinks", repeats: "RepeatedCalls") -> None:
        self._directory = directory
        self._links = links
        self._repeats = repeats
        self._known: dict[_Client, _KnownSubscriptions] = {}
        self._looked_s = 0.0
        self._tasks = BackgroundTasks()

    async def sync(self, sync: LiteSync) -> None:
        """See `MessageConsuming.sync_lite`. A broker that is away hears it when it is back."""
        names = [name for name in self._directory.snapshot.brokers_of(sync.topic) if self._links.is_connected(name)]
        if not names:
            raise BrokerUnavailable(f"no broker of topic {sync.topic!r} can be reached", maybe_done=False)
        results = await asyncio.gather(
            *(self._repeats.shard_of(name).consuming.sync_lite(sync) for name in names), return_exceptions=True
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        refused = [failure for failure in failures if not isinstance(failure, BrokerUnavailable)]
        for failure in refused or (failures if len(failures) == len(names) else ()):
            raise failure
        self._remember_sync(sync)

    def _remember_sync(self, sync: LiteSync) -> None:
        now_s = time.monotonic()
        client = (sync.group, sync.client_id)
        if sync.action is LiteAction.COMPLETE_REMOVE:
            self._known.pop(client, None)
            return
        known = self._known.get(client)
        if known is None or known.topic != sync.topic:
            known = self._known[client] = _KnownSubscriptions(sync.topic)
        known.synced_s = now_s
        if sync.action is LiteAction.COMPLETE_ADD:
            known.names = dict.fromkeys(sync.names)
        elif sync.action is LiteAction.PARTIAL_ADD:
            known.names.update(dict.fromkeys(sync.names))
        else:
            for name in sync.names:
                known.names.pop(name, None)
        if now_s - self._looked_s > _LOOK_S:
            self._looked_s = now_s
            for each in [each for each, known in self._known.items() if now_s - known.synced_s > REMEMBERED_S]:
                del self._known[each]

    def forget_client(self, group: str, client_id: str) -> None:
        """Forget a client that is no longer connected here, but may be elsewhere."""
        self._known.pop((group, client_id), None)

    def remove_dropped(self, dropped: "Sequence[DroppedLite]") -> None:
        """Remove subscriptions that clients have lost."""
        for each in dropped:
            known = self._known.get((each.group, each.client_id))
            if known is not None:
                known.names.pop(each.name, None)

    def link_changed(self, broker: str) -> None:
        """Send all subscriptions to a broker that reconnected, which may be a new process."""
        if self._known and self._links.is_connected(broker):
            self._tasks.start(self._sync_broker(broker), name=f"lite subscriptions for {broker}")

    async def _sync_broker(self, broker: str) -> None:
        oldest_s = time.monotonic() - REMEMBERED_S
        for (group, client_id), known in list(self._known.items()):
            if known.synced_s < oldest_s or broker not in self._directory.snapshot.brokers_of(known.topic):
                continue
            sync = LiteSync(group, known.topic, client_id, LiteAction.COMPLETE_ADD, list(known.names))
            try:
                await self._links.require_broker(broker).shard.consuming.sync_lite(sync)
            except BrokerUnavailable:
                return  # all of it is sent when the broker is back
            except MessagingError as error:
                _log.warning(
                    "broker %s rejected the lite subscriptions of client %s of group %s: %s",
                    broker,
                    client_id,
                    group,
                    error,
                )
