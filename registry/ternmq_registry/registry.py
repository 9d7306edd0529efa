"""The registry: topics and groups here, brokers, deletions, users, quotas and proxies in the modules beside it.

Every call is one transaction, safe for several threads, and blocks: callers use a thread. All raise
`RegistryUnavailable` when the database can't be reached.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from sqlalchemy import delete, func, insert, select, update

from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion, RegistrySnapshot
from ternmq_common.catalog.lite_group import find_rebinding_problem
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import dead_letter_topic
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry import migrations
from ternmq_registry.deletions import DeletionTable, record_deletion
from ternmq_registry.members.brokers import BrokerTable, brokers_in
from ternmq_registry.members.proxies import ProxyTable
from ternmq_registry.members.removals import RemovedStoreTable
from ternmq_registry.members.shards import ShardTable
from ternmq_registry.name_server_values import NameServerValueTable
from ternmq_registry.quotas import QuotaTable, quotas_in
from ternmq_registry.security.handle_keys import HandleKeyTable, handle_keys_in
from ternmq_registry.security.users import UserTable
from ternmq_registry.sql.checksums import check_rows
from ternmq_registry.sql.database import RegistryDatabase, create_postgres_engine, keep_room, raise_version
from ternmq_registry.sql.file_opening import open_engine
from ternmq_registry.sql.rows import group_of, group_row, topic_of, topic_row, topic_settings_row
from ternmq_registry.tables import BROKERS, GROUPS, TOPIC_BROKERS, TOPICS, VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sqlalchemy import Connection, Engine, Table

    from ternmq_registry.security.secret_encryption import SecretEncryption


class Registry(
    BrokerTable,
    DeletionTable,
    HandleKeyTable,
    NameServerValueTable,
    ProxyTable,
    QuotaTable,
    RemovedStoreTable,
    ShardTable,
    UserTable,
):
    """The topics, groups, users and brokers of one database.

    Callers that read or change secrets of users pass a `secret_encryption`.
    """

    _keeps_deletions = False
    _is_unchecked = False

    def __init__(self, engine: "Engine", secret_encryption: "SecretEncryption | None" = None) -> None:
        self._database = RegistryDatabase(engine)
        self._secret_encryption = secret_encryption

    @classmethod
    def open_sqlite(cls, path: "Path", secret_encryption: "SecretEncryption | None" = None) -> Self:
        """Open or create the embedded registry, and migrate its schema; StartupError if that fails, as for a damaged
        file."""
        engine = open_engine(path)
        keep_room(engine, path)
        return cls(engine, secret_encryption)

    @classmethod
    def open_postgres(
        cls, url: str, secret_encryption: "SecretEncryption | None" = None, *, password_file: "Path | None" = None
    ) -> Self:
        """Open the registry of a cluster; StartupError if its schema is not the one of this program."""
        registry = cls.prepare_postgres(url, secret_encryption, password_file=password_file)
        try:
            registry.check_schema()
        except BaseException:
            registry.close()
            raise
        return registry

    @classmethod
    def prepare_postgres(
        cls, url: str, secret_encryption: "SecretEncryption | None" = None, *, password_file: "Path | None" = None
    ) -> Self:
        """Create a registry like `open_postgres`, without a connection: call `check_schema` before anything else."""
        registry = cls(create_postgres_engine(url, password_file), secret_encryption)
        registry._is_unchecked = True
        return registry

    def check_schema(self) -> None:
        """StartupError if the schema is not the one of this program; checked once."""
        if self._is_unchecked:
            with self._database.read_transaction() as connection:
                migrations.check_schema(connection)
            self._is_unchecked = False

    def read_snapshot(self, known: RegistrySnapshot | None = None) -> RegistrySnapshot:
        """Read everything at one moment; only the changes since the snapshot `known`."""
        with self._database.read_transaction() as connection:
            version, brokers = self._version_in(connection), brokers_in(connection)
            since = known if known is not None and known.version <= version else RegistrySnapshot()
            topics = {**since.topics, **_read_topics(connection, since.version)}
            groups = {**since.groups, **_read_groups(connection, since.version)}
            if len(topics) != _count_rows(connection, TOPICS) or len(groups) != _count_rows(connection, GROUPS):
                # A topic or group was deleted, which no row shows.
                topics, groups = _read_topics(connection, 0), _read_groups(connection, 0)
            keys = handle_keys_in(connection)
            access = self._read_access(connection, since)
            quotas = quotas_in(connection, since)
        return RegistrySnapshot(
            version=version,
            topics=topics,
            groups=groups,
            brokers=brokers,
            access=access,
            handle_keys=keys,
            quotas=quotas,
        )

    def list_topics(self) -> list[Topic]:
        """All topics, sorted by name."""
        topics = self.read_snapshot().topics
        return [topics[name] for name in sorted(topics)]

    def list_groups(self) -> list[ConsumerGroup]:
        """All groups, sorted by name."""
        groups = self.read_snapshot().groups
        return [groups[name] for name in sorted(groups)]

    def create_topic(self, topic: Topic) -> tuple[Topic, bool]:
        """Create a topic if there is none; returns it, and whether it was created.

        BAD_REQUEST if it exists with another type or number of queues. Its brokers and permission are not compared:
        they may have been changed since.
        """
        with self._database.change_transaction() as connection:
            found = _read_topics(connection, 0, topic.name).get(topic.name)
            if found is None:
                _check_brokers(connection, topic.brokers)
                version = raise_version(connection)
                connection.execute(insert(TOPICS).values(**topic_row(topic), changed=version, made=version))
                _place_topic(connection, topic)
                return replace(topic, created_version=version), True
        if (found.type_name, found.queues) != (topic.type_name, topic.queues):
            raise _conflict_error(f"topic {topic.name!r} exists with type {found.type_name} and {found.queues} queues")
        return found, False

    def update_topic(self, topic: Topic) -> None:
        """Set settings and brokers of an existing topic; TOPIC_NOT_FOUND if there is none.

        BAD_REQUEST for fewer queues: messages in the removed ones would be lost.
        """
        with self._database.change_transaction() as connection:
            found = _read_topics(connection, 0, topic.name).get(topic.name)
            if found is None:
                raise MessagingError(ErrorCode.TOPIC_NOT_FOUND, f"topic {topic.name!r} does not exist")
            if topic.queues < found.queues:
                raise MessagingError(
                    ErrorCode.BAD_REQUEST,
                    f"topic {topic.name!r} has {found.queues} queues; queues can be added, not removed",
                )
            _check_brokers(connection, [name for name in topic.brokers if name not in found.brokers])
            values = topic_settings_row(topic)
            changed = raise_version(connection)
            connection.execute(update(TOPICS).where(TOPICS.c.name == topic.name).values(**values, changed=changed))
            connection.execute(delete(TOPIC_BROKERS).where(TOPIC_BROKERS.c.topic == topic.name))
            _place_topic(connection, topic)

    def delete_topic(self, name: str) -> int:
        """Delete the topic; returns the version of the deletion, 0 if it wasn't there."""
        with self._database.change_transaction() as connection:
            connection.execute(delete(TOPIC_BROKERS).where(TOPIC_BROKERS.c.topic == name))
            return _delete_row(connection, TOPICS, DeletedKind.TOPIC, name, keep=self._keeps_deletions)

    def create_group(self, group: ConsumerGroup) -> tuple[ConsumerGroup, bool]:
        """Create a group if there is none; returns it, and whether it was created.

        BAD_REQUEST if it exists with other settings.
        """
        row = group_row(group)
        with self._database.change_transaction() as connection:
            found = _read_groups(connection, 0, group.name).get(group.name)
            if found is None:
                version = raise_version(connection)
                connection.execute(insert(GROUPS).values(**row, changed=version, made=version))
                return replace(group, created_version=version), True
        known = group_row(found)
        differing = [name for name in known if name != "created_ms" and known[name] != row[name]]
        if differing:
            differences = ", ".join(_describe_setting(name, known[name]) for name in differing)
            raise _conflict_error(f"consumer group {group.name!r} exists with {differences}")
        return found, False

    def update_group(self, group: ConsumerGroup) -> None:
        """Set these settings of an existing group; CONSUMER_GROUP_NOT_FOUND if there is none.

        BAD_REQUEST if that would change the LITE topic that it is bound to, or whether it is bound: its progress is
        there.
        """
        with self._database.change_transaction() as connection:
            found = _read_groups(connection, 0, group.name).get(group.name)
            if found is None:
                raise MessagingError(
                    ErrorCode.CONSUMER_GROUP_NOT_FOUND, f"consumer group {group.name!r} does not exist"
                )
            bind = None if group.lite is None else group.lite.bind
            if problem := find_rebinding_problem(group.name, found.lite, bind):
                raise MessagingError(ErrorCode.BAD_REQUEST, problem)
            values = {**group_row(group), "changed": raise_version(connection)}
            connection.execute(update(GROUPS).where(GROUPS.c.name == group.name).values(values))

    def delete_group(self, name: str) -> int:
        """Delete the group; returns the version of the deletion, 0 if it wasn't there."""
        with self._database.change_transaction() as connection:
            return _delete_row(connection, GROUPS, DeletedKind.GROUP, name, keep=self._keeps_deletions)

    def delete_group_with_dead_letters(self, name: str) -> tuple[int, int]:
        """Delete group and dead letters; returns the versions of both deletions, 0 if the group wasn't there."""
        keep = self._keeps_deletions
        with self._database.change_transaction() as connection:
            version = _delete_row(connection, GROUPS, DeletedKind.GROUP, name, keep=keep)
            if not version:
                return 0, 0
            letters = RegistryDeletion(raise_version(connection), DeletedKind.TOPIC, dead_letter_topic(name))
            record_deletion(connection, letters, keep=keep)
            return version, letters.version

    def import_entries(self, topics: "Sequence[Topic]", groups: "Sequence[ConsumerGroup]") -> None:
        """Insert topics and groups of another registry as they were there; this one has none of them.

        They keep the versions at which they were created, and later ones get higher versions.
        """
        newest = max([0, *(topic.created_version for topic in topics), *(group.created_version for group in groups)])
        with self._database.change_transaction() as connection:
            connection.execute(update(VERSION).where(VERSION.c.version < newest).values(version=newest))
            changed = raise_version(connection)
            for topic in topics:
                connection.execute(
                    insert(TOPICS).values(**topic_row(topic), changed=changed, made=topic.created_version)
                )
                _place_topic(connection, topic)
            for group in groups:
                connection.execute(
                    insert(GROUPS).values(**group_row(group), changed=changed, made=group.created_version)
                )

    def close(self) -> None:
        self._database.close()


def _read_topics(connection: "Connection", since: int, name: str | None = None) -> dict[str, Topic]:
    """The topics that changed above the version `since`, or the one of this name."""
    wanted = TOPICS.c.changed > since if name is None else TOPICS.c.name == name
    brokers: dict[str, list[str]] = {}
    placed = select(TOPIC_BROKERS).join(TOPICS, TOPICS.c.name == TOPIC_BROKERS.c.topic).where(wanted)
    placements = connection.execute(placed).mappings().all()
    check_rows(connection, TOPIC_BROKERS, placements)
    for placement in placements:
        brokers.setdefault(placement["topic"], []).append(placement["broker"])
    rows = connection.execute(select(TOPICS).where(wanted)).mappings().all()
    check_rows(connection, TOPICS, rows)
    return {row["name"]: topic_of(row, tuple(sorted(brokers.get(row["name"], ())))) for row in rows}


def _read_groups(connection: "Connection", since: int, name: str | None = None) -> dict[str, ConsumerGroup]:
    wanted = GROUPS.c.changed > since if name is None else GROUPS.c.name == name
    rows = connection.execute(select(GROUPS).where(wanted)).mappings().all()
    check_rows(connection, GROUPS, rows)
    return {row["name"]: group_of(row) for row in rows}


def _count_rows(connection: "Connection", table: "Table") -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _check_brokers(connection: "Connection", names: "Sequence[str]") -> None:
    # The proxy that chose them may not know yet that one was removed.
    known = connection.execute(select(BROKERS.c.name).where(BROKERS.c.name.in_(names))).scalars() if names else ()
    if missing := sorted(set(names) - set(known)):
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"there is no broker {missing[0]!r}; `ternmq broker list` shows them"
        )


def _place_topic(connection: "Connection", topic: Topic) -> None:
    if topic.brokers:
        rows = [{"topic": topic.name, "broker": broker} for broker in topic.brokers]
        connection.execute(insert(TOPIC_BROKERS), rows)


def _delete_row(connection: "Connection", table: "Table", kind: DeletedKind, name: str, *, keep: bool) -> int:
    if not connection.execute(delete(table).where(table.c.name == name)).rowcount:
        return 0
    version = raise_version(connection)
    record_deletion(connection, RegistryDeletion(version, kind, name), keep=keep)
    return version


def _describe_setting(name: str, value: object) -> str:
    return "no lite group" if name == "lite" and not value else f"{name} {value}"


def _conflict_error(found: str) -> MessagingError:
    return MessagingError(ErrorCode.BAD_REQUEST, f"{found}; delete it first, or use the same settings")
