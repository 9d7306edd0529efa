"""Reads and changes topics and groups. Every call is one transaction, and blocks: callers use a thread."""

from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

from sqlalchemy import create_engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.model import Group, Topic
from ternmq_common.retry_backoff import DEFAULT_BACKOFF, parse_backoff
from ternmq_protos.v2 import definition_pb2
from ternmq_registry import migrations
from ternmq_registry.tables import GROUPS, TOPICS

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine, Row, Table

    from ternmq_protos.v2.definition_pb2 import MessageType


class Registry:
    """The tables of one database. Safe for several threads."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    @classmethod
    def sqlite(cls, path: "Path") -> Self:
        """Open or make the embedded registry, and bring its schema up to date."""
        engine = create_engine(f"sqlite:///{path}")
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                migrations.upgrade(connection)
        except SQLAlchemyError as error:
            engine.dispose()
            cause = error.__cause__ or error
            raise StartupError(
                f"the registry {path} can't be opened: {cause}; check the file and its folder"
            ) from error
        return cls(engine)

    def topics(self) -> list[Topic]:
        with self._engine.connect() as connection:
            return [_topic(row) for row in connection.execute(select(TOPICS).order_by(TOPICS.c.name))]

    def groups(self) -> list[Group]:
        with self._engine.connect() as connection:
            return [_group(row) for row in connection.execute(select(GROUPS).order_by(GROUPS.c.name))]

    def create_topic(self, topic: Topic) -> tuple[Topic, bool]:
        """The topic, and whether this call made it; BAD_REQUEST if it is there with other settings."""
        values = {
            "name": topic.name,
            "type": definition_pb2.MessageType.Name(topic.type),
            "queues": topic.queues,
            "created_ms": topic.created_ms,
        }
        if self._insert(TOPICS, values):
            return topic, True
        found = next(known for known in self.topics() if known.name == topic.name)
        if (found.type, found.queues) != (topic.type, topic.queues):
            raise _exists_otherwise(
                f"topic {topic.name!r} exists with type {definition_pb2.MessageType.Name(found.type)} "
                f"and {found.queues} queues"
            )
        return found, False

    def create_group(self, group: Group) -> tuple[Group, bool]:
        """The group, and whether this call made it; BAD_REQUEST if it is there with other settings."""
        if self._insert(GROUPS, _values(group)):
            return group, True
        found = next(known for known in self.groups() if known.name == group.name)
        if replace(found, created_ms=group.created_ms) != group:
            known, asked = _values(found), _values(group)
            differences = ", ".join(
                f"{name} {known[name]}" for name in known if name != "created_ms" and known[name] != asked[name]
            )
            raise _exists_otherwise(f"consumer group {group.name!r} exists with {differences}")
        return found, False

    def update_group(self, group: Group) -> None:
        """Give a group that exists these settings."""
        with self._engine.begin() as connection:
            connection.execute(update(GROUPS).where(GROUPS.c.name == group.name).values(_values(group)))

    def _insert(self, table: "Table", values: dict[str, object]) -> bool:
        """Whether the row is new; False when one of that name is there."""
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(table).values(values))
        except IntegrityError:
            return False
        return True

    def delete_topic(self, name: str) -> bool:
        """Whether it was there."""
        with self._engine.begin() as connection:
            return connection.execute(delete(TOPICS).where(TOPICS.c.name == name)).rowcount > 0

    def delete_group(self, name: str) -> bool:
        """Whether it was there."""
        with self._engine.begin() as connection:
            return connection.execute(delete(GROUPS).where(GROUPS.c.name == name)).rowcount > 0

    def close(self) -> None:
        self._engine.dispose()


def _topic(row: "Row[tuple[object, ...]]") -> Topic:
    fields = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for it
    return Topic(
        name=fields["name"],
        type=cast("MessageType", definition_pb2.MessageType.Value(fields["type"])),
        queues=fields["queues"],
        created_ms=fields["created_ms"],
    )


def _group(row: "Row[tuple[object, ...]]") -> Group:
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
    return Group(**{**fields, "retry_backoff": parse_backoff(fields["retry_backoff"])})


def _values(group: Group) -> dict[str, object]:
    # The default is stored as nothing, so that a later version may have another.
    backoff = "" if group.retry_backoff == DEFAULT_BACKOFF else str(group.retry_backoff)
    return {
        "name": group.name,
        "fifo": group.fifo,
        "max_attempts": group.max_attempts,
        "created_ms": group.created_ms,
        "retry_backoff": backoff,
        "consume_from": group.consume_from,
        "assignment": group.assignment,
        "queue_lock_hold_ms": group.queue_lock_hold_ms,
        "priority_factor": group.priority_factor,
    }


def _exists_otherwise(found: str) -> MessagingError:
    return MessagingError(definition_pb2.BAD_REQUEST, f"{found}; delete it first, or ask for the same settings")
