"""The links to all brokers in the registry, opened and closed as it changes."""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable
from ternmq_proxy.message_service.cluster.broker_links.link import BrokerLink
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LINK_TIMING, LinkTiming
from ternmq_proxy.message_service.cluster.broker_links.remote_broker import RemoteBroker

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_common.catalog.cluster import RegistrySnapshot
    from ternmq_proxy.message_service.cluster.broker_links.link import LinkEvents
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)


class BrokerLinks:
    """One link for each broker."""

    def __init__(
        self,
        directory: "RegistryDirectory",
        events: "LinkEvents",
        *,
        proxy: str,
        timing: LinkTiming = LINK_TIMING,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
    ) -> None:
        self._tls = tls
        self._directory = directory
        self._events = events
        self._proxy = proxy
        self._timing = timing
        self._brokers: dict[str, RemoteBroker] = {}
        self._epochs: dict[str, int] = {}
        self._presence: Callable[[], bytes] | None = None
        self._ending = BackgroundTasks()

    def start(self) -> None:
        self.follow_snapshot(self._directory.snapshot)

    async def close(self) -> None:
        brokers, self._brokers = self._brokers, {}
        await asyncio.gather(*(broker.link.close() for broker in brokers.values()))
        await self._ending.wait_until_done()

    def follow_snapshot(self, snapshot: "RegistrySnapshot") -> None:
        """Keep a link to each broker of the snapshot, at its address."""
        for name, broker in list(self._brokers.items()):
            entry = snapshot.brokers.get(name)
            if entry is None or entry.address != broker.link.address:
                self._end_broker(self._brokers.pop(name))
        for name, entry in snapshot.brokers.items():
            if name not in self._brokers:
                self._brokers[name] = self._make_broker(name, entry.address)
            elif entry.epoch != self._epochs[name]:
                self._brokers[name].link.reconnect_now()
        self._epochs = {name: entry.epoch for name, entry in snapshot.brokers.items()}

    def _make_broker(self, name: str, address: str) -> RemoteBroker:
        link = BrokerLink(
            name,
            address,
            self._events,
            proxy=self._proxy,
            known=lambda: self._directory.snapshot.version,
            timing=self._timing,
            tls=self._tls,
        )
        link.set_presence(self._presence)
        link.start()
        return RemoteBroker(link, self._directory)

    def _end_broker(self, broker: RemoteBroker) -> None:
        _log.info("broker %s is no longer at %s", broker.name, broker.link.address)
        self._ending.start(broker.link.close(), name=f"end of the link to {broker.name}")

    def announce_members(self, changes: bytes, presence: "Callable[[], bytes]") -> None:
        """Send changes of the pulling members to all brokers; see `BrokerLink.announce_members`."""
        self._presence = presence
        for broker in self._brokers.values():
            broker.link.announce_members(changes, presence)

    def find_broker(self, name: str) -> RemoteBroker | None:
        return self._brokers.get(name)

    def list_brokers(self) -> list[RemoteBroker]:
        """Return all brokers, sorted by name."""
        return [self._brokers[name] for name in sorted(self._brokers)]

    def connected_brokers(self) -> list[RemoteBroker]:
        """Return the brokers that are connected now, sorted by name."""
        return [broker for broker in self.list_brokers() if broker.link.is_connected]

    def is_connected(self, name: str) -> bool:
        broker = self._brokers.get(name)
        return broker is not None and broker.link.is_connected

    def is_replicated(self, name: str) -> bool:
        """Return whether another replica may take over when the broker is away."""
        entry = self._directory.snapshot.brokers.get(name)
        return entry is not None and len(entry.replicas) > 1

    def require_broker(self, name: str) -> RemoteBroker:
        """Return the broker of that name. Raises BrokerUnavailable."""
        broker = self._brokers.get(name)
        if broker is None:
            raise BrokerUnavailable(f"there is no broker {name!r}", maybe_done=False)
        return broker
