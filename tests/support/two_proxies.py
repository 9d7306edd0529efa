"""What activities ask in two proxies of one cluster, without brokers: one registry, and a directory for each proxy.

The registry is SQLite's, which has all that PostgreSQL's has. Directories look when they are told to, so that a test
says what a proxy knows. What brokers would answer is in `Brokers`.
"""

import functools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ternmq_common.catalog.cluster import UnfinishedWork
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import PullingMember, QueueBounds, QueueRef, StoredMessage, Topic, TopicRoute
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.access.control import AccessControl
from ternmq_proxy.call import Call
from ternmq_proxy.catalog.catalog import Catalog
from ternmq_proxy.handles import HandleForms
from ternmq_proxy.processors.clients import ClientRegistry
from ternmq_proxy.processors.sending.placement import QueuePlacement
from ternmq_proxy.processors.subscriptions import GroupSubscriptions
from ternmq_proxy.server.front_history import FrontHistory
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from tests.support.all_parts import AllParts
from tests.support.hand_clock import Clock
from tests.support.new_registry import put_new_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ternmq_common.catalog.cluster import ProxyEntry, RegistrySnapshot
    from ternmq_proxy.services import Services

LEASE_MS = 60_000
CALL = Call(client_id="client")


class WatchedRegistry(Registry):
    """Counts how often somebody looks; while `is_out`, nobody reaches it."""

    looks = 0
    is_out = False

    def read_brokers(self) -> Any:  # noqa: ANN401
        self.looks += 1
        self._reached()
        return super().read_brokers()

    def read_snapshot(self, known: "RegistrySnapshot | None" = None) -> "RegistrySnapshot":
        self._reached()
        return super().read_snapshot(known)

    def list_proxies(self) -> "list[ProxyEntry]":
        self._reached()
        return super().list_proxies()

    def create_topic(self, topic: Topic) -> tuple[Topic, bool]:
        self._reached()
        return super().create_topic(topic)

    def _reached(self) -> None:
        if self.is_out:
            raise RegistryUnavailable("connection refused")


@dataclass
class Brokers(AllParts):
    """Stands for the MessageService of a proxy: the routes follow from what its directory knows.

    `silent` brokers answer nothing. `elsewhere` are the pulling members of other proxies.
    """

    directory: RegistryDirectory
    remains: UnfinishedWork = field(default_factory=lambda: UnfinishedWork([], 0, 0))
    silent: set[str] = field(default_factory=set)
    elsewhere: list[str] = field(default_factory=list)
    announced: list[list[PullingMember]] = field(default_factory=list)
    committed_offsets: dict[QueueRef, int] = field(default_factory=dict)
    purged: dict[QueueRef, tuple[int, bool]] = field(default_factory=dict)
    forgotten: list[tuple[str, int]] = field(default_factory=list)
    letters_asked: list[tuple[str, str, list[int]]] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    outage_reason: str | None = None

    def find_route(self, topic: Topic) -> TopicRoute:
        known = [self.directory.snapshot.brokers[name] for name in topic.brokers]
        readable = tuple(each.name for each in known if each.live and each.can_read and topic.permission.can_read)
        ordered = tuple(each.name for each in known if each.can_write and topic.permission.can_write)
        writable = tuple(each.name for each in known if each.live and each.name in ordered)
        return TopicRoute(topic, topic.brokers, readable, writable, ordered)

    async def bounds(self, queue: QueueRef) -> QueueBounds:
        self._answers(queue.broker)
        return QueueBounds(0, 10)

    async def committed(self, group: str, queue: QueueRef) -> int | None:
        del group
        self._answers(queue.broker)
        return self.committed_offsets.get(queue)

    async def set_committed(self, group: str, queue: QueueRef, offset: int) -> None:
        del group
        self.committed_offsets[queue] = offset

    async def drop_retries(self, group: str, topic: str) -> None:
        """None are there."""

    async def purge(self, queue: QueueRef, below: int, *, retries: bool) -> None:
        self.purged[queue] = below, retries

    async def remaining(self, broker: str) -> UnfinishedWork:
        self._answers(broker)
        return self.remains

    async def dead_letters(self, group: str, broker: str, offsets: "Sequence[int]") -> dict[int, StoredMessage]:
        self.letters_asked.append((group, broker, list(offsets)))
        return {}

    async def forget_topic(self, topic: str, *, version: int) -> None:
        self.forgotten.append((topic, version))

    async def forget_group(self, group: str, *, version: int) -> None:
        self.forgotten.append((group, version))

    async def recall(self, handle: Any) -> None:  # noqa: ANN401
        self.recalled.append(handle.message_id)

    def announce_members(
        self,
        joined: "Sequence[PullingMember]",
        left: "Sequence[PullingMember]",
        everyone: "Callable[[], Sequence[PullingMember]]",
    ) -> None:
        del joined, left
        self.announced.append(list(everyone()))

    async def pulling_members(self, group: str, topic: str, here: "Sequence[str]") -> list[str]:
        del group, topic
        return [*here, *self.elsewhere]

    def _answers(self, broker: str) -> None:
        if broker in self.silent:
            raise MessagingError(pb.HA_NOT_AVAILABLE, f"broker {broker} does not answer")


@dataclass
class Proxy:
    """`services` has what the calls of these tests need."""

    registry: WatchedRegistry
    directory: RegistryDirectory
    seconds: Clock
    catalog: Catalog
    brokers: Brokers
    clients: ClientRegistry
    clock: Any = None
    process: Any = None
    access: AccessControl = field(default_factory=AccessControl)
    placement: QueuePlacement = field(default_factory=QueuePlacement)
    subscriptions: GroupSubscriptions = field(default_factory=GroupSubscriptions)
    endpoint: str = "127.0.0.1:8081"
    store_host: str = "127.0.0.1:8081"
    started_ms: int = 1
    history: FrontHistory = field(default_factory=lambda: FrontHistory(lambda: 1))
    connections: "Callable[[], int]" = lambda: 3

    @property
    def messages(self) -> Brokers:
        return self.brokers

    @property
    def services(self) -> "Services":
        return cast("Services", self)

    @functools.cached_property
    def handles(self) -> HandleForms:
        return HandleForms(lambda: self.catalog.handle_keys)


class Cluster:
    """A registry, and proxies that know what it was when they looked."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "registry.db"
        put_new_registry(self._path)
        self.registry = WatchedRegistry.open_sqlite(self._path)
        self._opened = [self.registry]

    async def proxy(self, *, auto_create: bool = True, auto_create_per_minute: int = 1000) -> Proxy:
        registry = WatchedRegistry.open_sqlite(self._path)
        self._opened.append(registry)
        directory, seconds = RegistryDirectory(registry, interval_s=None), Clock()
        await directory.start()
        catalog = Catalog(
            directory,
            auto_create=auto_create,
            auto_create_per_minute=auto_create_per_minute,
            default_queues=2,
            now=seconds,
        )
        clients, brokers = ClientRegistry(seconds, expiry_s=120), Brokers(directory)
        clients.on_pulling(brokers.announce_members)
        return Proxy(registry, directory, seconds, catalog, brokers, clients)

    def broker(self, name: str) -> int:
        """Register a broker; its epoch."""
        return self.registry.register_broker(name, f"store-of-{name}", f"{name}:10911", "1.0", LEASE_MS)

    def stop_broker(self, name: str) -> None:
        """Its lease ends."""
        self.registry.deregister_broker(name, self.registry.read_brokers()[1][name].epoch)

    def topic(self, name: str, *brokers: str, **settings: Any) -> Topic:  # noqa: ANN401
        topic = Topic(name=name, type=MessageType.NORMAL, queues=2, brokers=brokers)
        made, _ = self.registry.create_topic(replace(topic, **settings))
        return made

    def close(self) -> None:
        for registry in self._opened:
            registry.close()
