"""Rebuilds topics and groups that a registry has lost, from a broker's store. Users, quotas and values are in none.

Embedded    A whole registry file gets what it lacks. A damaged one is set aside; a new one takes its place, with the
            rows that can be trusted as they were (`ternmq_registry.copies.salvage`), and the rest from the store.
Cluster     What the registry lacks is created, with its queues on this broker; a topic that the rebuild of another
            broker created before gets this broker too. Resources that were deleted while this broker was away are left
            out.
Guessed     from the store: a topic's type (`store_contents`), its number of queues, which is at least so many, whether
            a group is FIFO, and to which LITE topic it is bound, if to any. All other settings are the defaults.
"""

from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.rebuilding.store_contents import StoreContents, StoredGroup, StoredTopic, open_contents
from ternmq_common.catalog.cluster import DeletedKind
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import now_ms
from ternmq_common.errors import StartupError
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry.copies.salvage import replace_damaged, salvage_registry
from ternmq_registry.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ternmq_common.resources.quotas import Quota
    from ternmq_common.server_settings import BrokerServerSettings, StorageSettings
    from ternmq_registry.security.user_rows import StoredUser


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic to create or update; `is_new` if the registry does not know it at all. `stored` is what the store has."""

    topic: Topic
    stored: StoredTopic
    is_new: bool


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The topics and groups to create or update.

    `damage` is that of the registry's file, None if it is whole or missing; with damage, `kept_topics`, `kept_groups`,
    `kept_users`, `kept_quotas` and `kept_values` are kept as they were, and `unreadable` names rows that are lost.
    """

    topics: list[TopicChange]
    groups: list[ConsumerGroup]
    damage: str | None = None
    kept_topics: list[Topic] = field(default_factory=list)
    kept_groups: list[ConsumerGroup] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    kept_users: "list[StoredUser]" = field(default_factory=list)
    kept_quotas: "list[Quota]" = field(default_factory=list)
    kept_values: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.topics or self.groups or self.damage)


class RegistryRebuild(ABC):
    """A plan, and the way to carry it out."""

    plan: RebuildPlan

    @abstractmethod
    def carry_out(self) -> "Path | None":
        """Carry out the plan; return where the damaged file is now, if there was one. Blocks."""


@contextmanager
def embedded_rebuild(settings: "StorageSettings") -> "Iterator[RegistryRebuild]":
    """Plan the rebuild of the registry below the data directory; no server can start there until the block ends.
    Blocks. StartupError if one runs, or if there is no store.
    """
    with _open_contents(settings) as contents:
        yield _EmbeddedRebuild(settings.data_dir / "registry.db", contents)


@contextmanager
def cluster_rebuild(settings: "BrokerServerSettings") -> "Iterator[RegistryRebuild]":
    """Plan the rebuild of a cluster's registry, from the store of the broker of these settings, which must not run.
    Blocks. StartupError, and RegistryUnavailable.
    """
    with (
        _open_contents(settings) as contents,
        closing(Registry.open_postgres(settings.registry, password_file=settings.registry_password_file)) as registry,
    ):
        yield _ClusterRebuild(registry, settings.broker_name, contents)


@contextmanager
def _open_contents(settings: "StorageSettings") -> "Iterator[StoreContents]":
    broker = BrokerSettings.from_storage(settings)
    if not broker.folder.is_dir():
        raise StartupError(f"there is no store in {settings.data_dir}; name the one of a broker with --data-dir")
    with open_contents(broker) as contents:
        yield contents


class _EmbeddedRebuild(RegistryRebuild):
    """The rebuild of the registry file of an embedded stack."""

    def __init__(self, path: "Path", contents: StoreContents) -> None:
        self._path = path
        found = salvage_registry(path)
        self.plan = RebuildPlan(
            topic_changes(contents, found.topics),
            missing_groups(contents, found.groups, found.topics),
            found.damage,
            [*found.topics.values()] if found.damage else [],
            [*found.groups.values()] if found.damage else [],
            found.unreadable,
            [*found.users.values()],
            found.quotas,
            found.values,
        )

    def carry_out(self) -> "Path | None":
        plan = self.plan
        if plan.damage is None:
            with closing(Registry.open_sqlite(self._path)) as registry:
                _apply_plan(plan, registry)
            return None
        topics = {topic.name: topic for topic in plan.kept_topics}
        topics |= {change.topic.name: change.topic for change in plan.topics}
        groups = [*plan.kept_groups, *plan.groups]
        return replace_damaged(self._path, topics.values(), groups, plan.kept_users, plan.kept_quotas, plan.kept_values)


class _ClusterRebuild(RegistryRebuild):
    """The rebuild of a cluster's registry, from one broker's store."""

    def __init__(self, registry: Registry, broker: str, contents: StoreContents) -> None:
        self._registry = registry
        snapshot = registry.read_snapshot()
        if broker not in snapshot.brokers:
            raise StartupError(
                f"the registry has no broker {broker!r}: give its --broker-name; or start it once, so that it registers"
            )
        deleted = {(each.kind, each.name) for each in registry.list_deletions(registry.applied_version(broker))}
        left = StoreContents(
            [topic for topic in contents.topics if (DeletedKind.TOPIC, topic.name) not in deleted],
            [group for group in contents.groups if (DeletedKind.GROUP, group.name) not in deleted],
        )
        self.plan = RebuildPlan(
            topic_changes(left, snapshot.topics, broker), missing_groups(left, snapshot.groups, snapshot.topics)
        )

    def carry_out(self) -> None:
        _apply_plan(self.plan, self._registry)


def topic_changes(
    contents: StoreContents, known: "Mapping[str, Topic]", broker: str | None = None
) -> list[TopicChange]:
    """Return the changes after which every topic of the store is known, with all its queues, on this `broker` of a
    cluster.
    """
    changes: list[TopicChange] = []
    for stored in contents.topics:
        found = known.get(stored.name)
        if found is None:
            topic = Topic(
                name=stored.name,
                type=MessageType.NORMAL if stored.is_mixed else stored.type,
                mixed=stored.is_mixed,
                queues=stored.queues,
                created_ms=stored.first_ms or now_ms(),
                brokers=() if broker is None else (broker,),
            )
            changes.append(TopicChange(topic, stored, is_new=True))
            continue
        brokers = found.brokers if broker is None else tuple(sorted({*found.brokers, broker}))
        wanted = replace(found, queues=max(found.queues, stored.queues), brokers=brokers)
        if wanted != found:
            changes.append(TopicChange(wanted, stored, is_new=False))
    return changes


def missing_groups(
    contents: StoreContents, known: "Mapping[str, ConsumerGroup]", topics: "Mapping[str, Topic]"
) -> list[ConsumerGroup]:
    """Return the groups of the store that are not known, where these `topics` are."""
    return [
        ConsumerGroup(name=stored.name, fifo=stored.is_fifo, created_ms=now_ms(), lite=_lite_of(stored, topics))
        for stored in contents.groups
        if stored.name not in known
    ]


def _lite_of(stored: StoredGroup, topics: "Mapping[str, Topic]") -> LiteGroup | None:
    # The lite topics that it consumed are gone if their LITE topic was deleted and created again as another type.
    if stored.bind is None or (stored.bind in topics and topics[stored.bind].type != MessageType.LITE):
        return None
    return LiteGroup(stored.bind)


def _apply_plan(plan: RebuildPlan, registry: Registry) -> None:
    for change in plan.topics:
        if change.is_new:
            registry.create_topic(change.topic)
        else:
            registry.update_topic(change.topic)
    for group in plan.groups:
        registry.create_group(group)
