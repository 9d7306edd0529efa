"""The topics, groups and brokers that this process knows, in front of the registry.

Reads use the directory's snapshot. A change goes to the registry, in a thread, and is in the snapshot when the call
returns. A missing name may have been created by another proxy a moment ago, so the registry is read before the name is
created or refused.
"""

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ternmq_common.catalog.cluster import BrokerEntry, QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import now_ms
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import DEFAULT_MAX_ATTEMPTS
from ternmq_common.names import group_of_derived
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_proxy.catalog.auto_creation import AutoCreation
from ternmq_proxy.catalog.change_log import ChangeLog
from ternmq_proxy.catalog.name_server_values import NameServerValues
from ternmq_proxy.catalog.proxy_table import ProxyTable
from ternmq_proxy.catalog.registry_reads import RegistryReads
from ternmq_proxy.catalog.shard_changes import ShardChanges
from ternmq_proxy.catalog.user_changes import UserChanges
from ternmq_registry.errors import RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ternmq_common.access.users import AccessSnapshot
    from ternmq_common.catalog.cluster import RegistrySnapshot
    from ternmq_common.catalog.handle_keys import HandleKey
    from ternmq_common.resources.quotas import Quota, QuotaKind, QuotaSnapshot
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)
# The types of messages whose first send creates the topic.
_MADE_BY_USE = frozenset(
    {
        MessageType.NORMAL,
        MessageType.FIFO,
        MessageType.DELAY,
        MessageType.TRANSACTION,
        MessageType.PRIORITY,
    }
)
P = ParamSpec("P")
R = TypeVar("R")


class Catalog:
    """Finds topics and groups, and creates missing ones if `auto_create` is set and the caller `may_create` them.
    Creations beyond the limit are refused with TOO_MANY_REQUESTS. Only the first message that is sent to a topic
    creates it; consumers do not.

    `embedded` names the broker of an embedded stack, whose registry has no brokers and no placement. No other process
    changes that registry, unless workers make it `shared`.
    """

    def __init__(
        self,
        directory: "RegistryDirectory",
        *,
        auto_create: bool,
        auto_create_per_minute: int,
        default_queues: int,
        embedded: str | None = None,
        shared: bool = False,
        now: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self._directory = directory
        self._registry = directory.registry
        self._auto_create = auto_create
        self._default_queues = default_queues
        self._embedded = embedded
        self._is_alone = embedded is not None and not shared
        self._registry_reads = RegistryReads(directory, now)
        self._auto_creation = AutoCreation(per_minute=auto_create_per_minute, now=now)
        self._change_log = ChangeLog(now)
        self._changing = asyncio.Lock()
        self.users = UserChanges(self, directory.registry, self._change_log)
        self.shards = ShardChanges(self, directory.registry, self._change_log)
        self.proxies = ProxyTable(directory)
        self.values = NameServerValues(self, directory)

    @property
    def _known_snapshot(self) -> "RegistrySnapshot":
        return self._directory.snapshot

    # --- reading

    def list_topics(self) -> list[Topic]:
        return sorted(self._known_snapshot.topics.values(), key=lambda topic: topic.name)

    def list_groups(self) -> list[ConsumerGroup]:
        return sorted(self._known_snapshot.groups.values(), key=lambda group: group.name)

    @property
    def version(self) -> int:
        """The version of the registry as it is known here."""
        return self._directory.snapshot.version

    @property
    def creates_topics(self) -> bool:
        """Whether the first message to a topic creates it."""
        return self._auto_create

    @property
    def default_queues(self) -> int:
        """How many message queues a topic has that is created without a number."""
        return self._default_queues

    def group_or_default(self, group: str) -> ConsumerGroup:
        """Return the group, or one with the default settings if it does not exist; create nothing."""
        return self._known_snapshot.groups.get(group) or ConsumerGroup(name=group)

    def has_group(self, name: str) -> bool:
        return name in self._known_snapshot.groups

    async def find_accepted_types(self, name: str) -> "tuple[MessageType, ...]":
        """Return the message types that the topic accepts, none if it does not exist. A missing topic is looked up in
        the registry."""
        if name not in self._known_snapshot.topics:
            await self._refresh_for_lookup()
        topic = self._known_snapshot.topics.get(name)
        return () if topic is None else topic.accepted_types

    def known_topic(self, name: str) -> Topic | None:
        """Return the topic if the snapshot has it; without the topics that brokers derive from groups."""
        return self._directory.snapshot.topics.get(name)

    def known_group(self, name: str) -> ConsumerGroup | None:
        """Return the group if the snapshot has it."""
        return self._directory.snapshot.groups.get(name)

    def has_topic(self, name: str) -> bool:
        """Return whether the snapshot has the topic, or the group that it is derived from."""
        return name in self._known_snapshot.topics or (group_of_derived(name) or "") in self._known_snapshot.groups

    def find_topic(self, name: str, kind: "MessageType" = MessageType.NORMAL) -> Topic:
        """Return the topic. Raises TOPIC_NOT_FOUND, with a hint how to create it for messages of that kind; creates
        nothing. A group has its retry and dead-letter topics on every broker."""
        topic = self._known_snapshot.topics.get(name)
        if topic is None and (group := self._known_snapshot.groups.get(group_of_derived(name) or "")):
            return Topic(
                name=name,
                type=MessageType.NORMAL,
                queues=1,
                created_ms=group.created_ms,
                brokers=tuple(sorted(self._known_snapshot.brokers)),
                created_version=group.created_version,
            )
        if topic is None:
            raise _no_topic(name, kind)
        return topic

    def find_group(self, name: str, *, bind: str = "") -> ConsumerGroup:
        """Return the group. Raises CONSUMER_GROUP_NOT_FOUND, with a hint how to create it, bound to the LITE topic
        `bind` if that is not empty; creates nothing."""
        group = self._known_snapshot.groups.get(name)
        if group is None:
            raise _no_group(name, bind)
        return group

    async def existing_topic(self, name: str, kind: "MessageType" = MessageType.NORMAL) -> Topic:
        """Return the topic like `find_topic`, but read the registry before refusing it. `name` is a checked name."""
        known = self._known_snapshot.topics.get(name)
        if known is not None:
            return known
        if not self.has_topic(name):
            await self._refresh_for_lookup()
        return self.find_topic(name, kind)

    async def existing_topics(self, names: "Sequence[str]") -> list[Topic]:
        """Return those of the topics that exist; read the registry before leaving one out. The names are checked
        ones."""
        if not all(map(self.has_topic, names)):
            await self._refresh_for_lookup()  # which finds the others too
        return [self.find_topic(name) for name in names if self.has_topic(name)]

    async def find_future_topic(self, name: str, *, may_create: bool = True) -> Topic:
        """Return the topic like `existing_topic`, or the topic that its first message would create, of an unspecified
        type; create nothing. `name` is a checked name."""
        if may_create and self._is_created_by_use(name) and name not in self._known_snapshot.topics:
            await self._refresh_for_lookup()
            if name not in self._known_snapshot.topics:
                return self._default_topic(name, MessageType.MESSAGE_TYPE_UNSPECIFIED)
        return await self.existing_topic(name)

    async def existing_group(self, name: str, *, bind: str = "") -> ConsumerGroup:
        """Return the group like `find_group`, but read the registry before refusing it."""
        if name not in self._known_snapshot.groups:
            await self._refresh_for_lookup()
        return self.find_group(name, bind=bind)

    @property
    def handle_keys(self) -> "tuple[HandleKey, ...]":
        """The keys of handles (`handle_keys`), the oldest first."""
        return self._directory.snapshot.handle_keys

    @property
    def access_snapshot(self) -> "AccessSnapshot":
        """The users in the snapshot."""
        return self._directory.snapshot.access

    @property
    def quota_snapshot(self) -> "QuotaSnapshot":
        """All quotas in the snapshot."""
        return self._known_snapshot.quotas

    def on_quotas(self, callback: "Callable[[QuotaSnapshot], None]") -> None:
        """Call `callback` with the current quotas, and again whenever the registry has changed."""
        callback(self.quota_snapshot)
        self._directory.on_change(lambda snapshot: callback(snapshot.quotas))

    # --- reading, and making what is missing

    async def ensure_topic(
        self,
        name: str,
        kind: "MessageType" = MessageType.NORMAL,
        *,
        may_create: bool = True,
        admit: "Callable[[], None] | None" = None,
        mixed: bool = False,
        queues_max: int | None = None,
    ) -> Topic:
        """Return the topic for a message of that kind; create it if that is allowed. `name` is a checked name. `admit`
        is called before the creation, and may refuse it by raising. A new topic is `mixed` or not, and has at most
        `queues_max` queues."""
        known = self._known_snapshot.topics.get(name)
        if known is not None:
            return known
        if not may_create or not self._is_created_by_use(name) or kind not in _MADE_BY_USE:
            return await self.existing_topic(name, kind)
        await self._refresh_for_lookup()
        if name not in self._known_snapshot.topics:
            await self._auto_creation.create_once(
                "topic", name, lambda: self._create_used_topic(name, kind, mixed, queues_max), admit
            )
        return self.find_topic(name, kind)

    def _is_created_by_use(self, name: str) -> bool:
        """Return whether the use of a name may create it. Names with % are derived by the broker (%RETRY%, %DLQ%), and
        creating one by sending would help no client."""
        return self._auto_create and not name.startswith("%")

    def _default_topic(self, name: str, kind: "MessageType") -> Topic:
        return Topic(
            name=name, type=kind, queues=self._default_queues, created_ms=now_ms(), brokers=self.placement_brokers()
        )

    async def _create_used_topic(
        self, name: str, kind: "MessageType", mixed: bool = False, queues_max: int | None = None
    ) -> None:
        topic = self._default_topic(name, kind)
        topic = replace(topic, mixed=mixed, queues=min(topic.queues, queues_max or topic.queues))
        try:
            await self.create_topic(topic, by_use=True)
        except MessagingError as error:
            if error.code != ErrorCode.BAD_REQUEST:
                raise
            await self.refresh_snapshot()  # another process created it with other settings at the same moment
        self._check_seen(name in self._known_snapshot.topics)

    async def ensure_group(
        self, name: str, *, fifo: bool = False, may_create: bool = True, bind: str = ""
    ) -> ConsumerGroup:
        """Return the group; create it with the defaults and `fifo` if that is allowed; else raise like `find_group`.
        `name` is a checked name."""
        known = self._known_snapshot.groups.get(name)
        if known is not None:
            return known
        await self._refresh_for_lookup()
        if may_create and name not in self._known_snapshot.groups and self._auto_create:
            await self._auto_creation.create_once("group", name, lambda: self._create_used_group(name, fifo=fifo))
        return self.find_group(name, bind=bind)

    async def ensure_subscribed_group(
        self, name: str, topics: "Collection[str]", *, may_create: bool = True
    ) -> ConsumerGroup:
        """Return the group of a consumer that subscribes to these topics; create it if that is allowed.

        The first subscription decides whether it is FIFO: if all of the topics that exist are, since their order would
        be lost otherwise. A mixture makes no FIFO group, since consumers of a NORMAL topic expect no message to wait
        for another. If none of the topics exists, the group is not created yet, and has the defaults.
        """
        if name not in self._known_snapshot.groups:
            await self._refresh_for_lookup()
        fifo = self.are_fifo(topics)
        if fifo is None and may_create and self._auto_create and name not in self._known_snapshot.groups:
            return self.group_or_default(name)
        return await self.ensure_group(name, fifo=bool(fifo), may_create=may_create)

    def are_fifo(self, topics: "Iterable[str]") -> bool | None:
        """Return whether all of the topics that exist are FIFO; None if none exists."""
        types = {self.find_topic(name).type for name in topics if self.has_topic(name)}
        return types == {MessageType.FIFO} if types else None

    async def _create_used_group(self, name: str, *, fifo: bool) -> None:
        group = ConsumerGroup(name=name, fifo=fifo, max_attempts=DEFAULT_MAX_ATTEMPTS, created_ms=now_ms())
        try:
            await self.create_group(group, by_use=True)
        except MessagingError as error:
            if error.code != ErrorCode.BAD_REQUEST:
                raise
            await self.refresh_snapshot()
        self._check_seen(name in self._known_snapshot.groups)

    def _check_seen(self, is_known: bool) -> None:
        """Raise RegistryUnavailable unless what was created is in the snapshot, which has its
        `Topic.created_version`."""
        if not is_known and self._directory.problem is not None:
            raise RegistryUnavailable(self._directory.problem)

    # --- changing

    async def apply_change(self, change: "Callable[P, R]", *arguments: "P.args", **named: "P.kwargs") -> "R":
        """Change the registry, and see the change in the snapshot. It is refused at once while the registry is
        unavailable, since each attempt would wait for many seconds.

        Changes run one at a time. The database would serialize them too, but each in a thread that others need; and
        SQLite is unfair, so that an unlucky caller would be refused after seconds.
        """
        async with self._changing:
            problem = self._directory.problem
            if problem is not None and not self._is_alone:
                raise RegistryUnavailable(problem)
            result = await asyncio.to_thread(change, *arguments, **named)
        await self._refresh_after_change()
        return result

    async def create_topic(self, topic: Topic, *, by_use: bool = False) -> tuple[Topic, bool]:
        """Return the topic, and whether it is new. Raises BAD_REQUEST if it exists with other settings. `by_use` is for
        the log."""
        found, is_new = await self.apply_change(self._registry.create_topic, topic)
        if is_new:
            self._change_log.log_created(found, by_use=by_use)
        return found, is_new

    async def update_topic(self, topic: Topic) -> None:
        """Give an existing topic these settings."""
        before = self._known_snapshot.topics.get(topic.name)
        await self.apply_change(self._registry.update_topic, topic)
        self._change_log.log_changed(before, topic)

    async def create_group(self, group: ConsumerGroup, *, by_use: bool = False) -> tuple[ConsumerGroup, bool]:
        """Return the group, and whether it is new. Raises BAD_REQUEST if it exists with other settings. `by_use` is for
        the log."""
        found, is_new = await self.apply_change(self._registry.create_group, group)
        if is_new:
            self._change_log.log_created(found, by_use=by_use)
        return found, is_new

    async def update_group(self, group: ConsumerGroup) -> None:
        """Give an existing group these settings."""
        before = self._known_snapshot.groups.get(group.name)
        await self.apply_change(self._registry.update_group, group)
        self._change_log.log_changed(before, group)

    async def delete_topic(self, name: str) -> int:
        """Delete a topic; return the registry's version of the deletion. Raises TOPIC_NOT_FOUND."""
        # It always reads the registry, not only the snapshot: a name that was missing a moment ago is not looked up
        # again at once.
        version = await self.apply_change(self._registry.delete_topic, name)
        if not version:
            raise _no_topic(name)
        self._change_log.log_deleted("topic", name)
        return version

    async def delete_group(self, name: str) -> int:
        """Delete a group; return the registry's version of the deletion. Raises CONSUMER_GROUP_NOT_FOUND."""
        version = await self.apply_change(self._registry.delete_group, name)
        if not version:
            raise _no_group(name)
        self._change_log.log_deleted("group", name)
        return version

    async def delete_group_with_dead_letters(self, name: str) -> tuple[int, int]:
        """Delete a group like `delete_group`; the second version is that of its dead-letter topic's deletion."""
        versions = await self.apply_change(self._registry.delete_group_with_dead_letters, name)
        if not all(versions):
            raise _no_group(name)
        self._change_log.log_deleted("group", f"{name}, with its dead letters,")
        return versions

    async def refresh_snapshot(self) -> None:
        """Read the registry now. Raises RegistryUnavailable."""
        await self._directory.refresh_snapshot()

    async def _refresh_for_lookup(self) -> None:
        if not self._is_alone:  # otherwise only this process creates anything
            await self._registry_reads.refresh_directory()

    async def _refresh_after_change(self) -> None:
        """Read the registry to see a change. The change is done, so it is no error if the registry is unavailable by
        now."""
        try:
            await self.refresh_snapshot()
        except RegistryUnavailable as error:
            _log.warning("a change is committed, but cannot be read back yet: %s", error.message)

    async def put_quota(self, quota: "Quota") -> bool:
        """Set a quota in place of the one of its kind and name; return whether there was none."""
        return await self.apply_change(self._registry.put_quota, quota)

    async def delete_quota(self, kind: "QuotaKind", name: str) -> None:
        """Delete a quota. Raises NOT_FOUND."""
        if not await self.apply_change(self._registry.delete_quota, kind, name):
            raise MessagingError(
                ErrorCode.NOT_FOUND,
                f"there is no quota {kind.value}:{name}; `ternmq quota list` shows them",
            )

    @property
    def is_alone(self) -> bool:
        """Whether no other process serves clients from this registry."""
        return self._is_alone

    # --- brokers

    @property
    def is_embedded(self) -> bool:
        """Whether the broker is part of this server."""
        return self._embedded is not None

    @property
    def registry_problem(self) -> str | None:
        """Why the registry is unavailable, None while it is available."""
        return self._directory.problem

    def list_brokers(self) -> list[BrokerEntry]:
        """Return all brokers, sorted by name."""
        if self._embedded is not None:
            return [BrokerEntry(name=self._embedded, address="", epoch=0)]
        return [broker for _, broker in sorted(self._known_snapshot.brokers.items())]

    async def existing_broker(self, name: str) -> BrokerEntry:
        """Return the broker; read the registry before refusing it. Raises NOT_FOUND."""
        if not any(broker.name == name for broker in self.list_brokers()):
            await self._refresh_for_lookup()
        for broker in self.list_brokers():
            if broker.name == name:
                return broker
        known = ", ".join(broker.name for broker in self.list_brokers()) or "none"
        raise MessagingError(ErrorCode.NOT_FOUND, f"broker {name!r} does not exist; known are {known}")

    def placement_brokers(self) -> tuple[str, ...]:
        """Return the brokers for a new topic: all that accept messages now. Raises HA_NOT_AVAILABLE if there is
        none."""
        if self._embedded is not None:
            return ()
        names = tuple(broker.name for broker in self.list_brokers() if broker.live and broker.can_write)
        if not names:
            raise MessagingError(
                ErrorCode.HA_NOT_AVAILABLE,
                "no broker is there that takes messages, so a topic would be nowhere; see `ternmq broker list`",
            )
        return names

    async def set_broker(
        self, name: str, *, permission: QueuePermission | None = None, draining: bool | None = None
    ) -> BrokerEntry:
        """Change a broker's permission, or whether it is draining; None leaves either as it is."""
        await self.apply_change(self._registry.set_broker, name, permission=permission, draining=draining)
        return await self.existing_broker(name)

    async def remove_broker(self, name: str, *, force: bool) -> None:
        """Remove a broker from the registry and from all topics. Raises BAD_REQUEST if a topic is on no other broker,
        unless forced."""
        await self.apply_change(self._registry.remove_broker, name, force=force)


def _no_topic(name: str, kind: "MessageType" = MessageType.NORMAL) -> MessagingError:
    of_kind = "" if kind == MessageType.NORMAL else f" --type {MessageType(kind).name.lower()}"
    return MessagingError(
        ErrorCode.TOPIC_NOT_FOUND,
        f"topic {name!r} does not exist; make it with `ternmq topic create {name}{of_kind}`",
    )


def _no_group(name: str, bind: str = "") -> MessagingError:
    bound = f" --lite-bind {bind}" if bind else ""
    return MessagingError(
        ErrorCode.CONSUMER_GROUP_NOT_FOUND,
        f"consumer group {name!r} does not exist; make it with `ternmq group create {name}{bound}`",
    )
