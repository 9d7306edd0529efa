"""Checksums of the embedded registry: SQLite checks none of the bytes that it stores.

Row         `checksum` of a topic, a placement, a group, a user, a key, a quota or a value: crc32 of its other columns
            as JSON, by name.
Whole       `checksum` of the one row of `registry_version`: crc32 of its version, of the schema's text, and of how many
            rows each checked table has and the sum of their checksums. So a lost row is noticed. A table
            that an older schema lacks is no part of it.
Written     at the end of every transaction that raised the version (`seal_changes`). The changed rows have `changed`
            above the
            version before. Checksums are compared before, so that no change covers damage.
PostgreSQL  has checksums of its own, and processes of an older version write there during an upgrade: the columns stay
            0, and are not read.
"""

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, text, update

from ternmq_common.binary.checksum import crc32
from ternmq_registry.errors import RegistryDamaged
from ternmq_registry.tables import (
    GROUPS,
    HANDLE_KEYS,
    NAME_SERVER_VALUES,
    QUOTAS,
    ROOM_TABLE,
    TOPIC_BROKERS,
    TOPICS,
    USERS,
    VERSION,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection, Table

    Row = Mapping[Any, Any]

CHECKED = (TOPICS, TOPIC_BROKERS, GROUPS, USERS, HANDLE_KEYS, QUOTAS, NAME_SERVER_VALUES)
_COLUMN = "checksum"


def is_checked(connection: "Connection") -> bool:
    """Whether this database is one whose rows have checksums."""
    return connection.dialect.name == "sqlite"


def row_checksum(row: "Row") -> int:
    """The checksum of all columns but the checksum itself."""
    values = {name: _to_sqlite(value) for name, value in row.items() if name != _COLUMN}
    return crc32(json.dumps(values, sort_keys=True, default=repr).encode())


def is_whole(row: "Row") -> bool:
    """Whether the row has the right checksum."""
    return row.get(_COLUMN) == row_checksum(row)


def check_rows(connection: "Connection", table: "Table", rows: "Iterable[Row]") -> None:
    """`RegistryDamaged` unless every row has the right checksum."""
    if not is_checked(connection):
        return
    for row in rows:
        if not is_whole(row):
            key = ", ".join(repr(row.get(column.name)) for column in table.primary_key)
            raise RegistryDamaged(f"row {key} of table {table.name} has a wrong checksum")


def check_whole(connection: "Connection") -> None:
    """`RegistryDamaged` if rows were lost or added, or the schema is another one."""
    if is_checked(connection):
        rows = rows_of(connection, VERSION)
        if len(rows) != 1 or rows[0].get(_COLUMN) != _whole_checksum(connection, rows[0]):
            raise RegistryDamaged("rows are missing, or there are others than were written")


def check_pages(connection: "Connection") -> None:
    """`RegistryDamaged` unless SQLite finds its pages consistent; their contents may be wrong all the same."""
    (verdict, *_) = connection.execute(text("PRAGMA integrity_check(1)")).scalars()
    if verdict != "ok":
        raise RegistryDamaged(" ".join(str(verdict).split()))


def check_content(connection: "Connection") -> None:
    """`RegistryDamaged` unless every row is as it was written, and none was lost or added."""
    for table in _checked_in(connection):
        check_rows(connection, table, rows_of(connection, table))
    check_whole(connection)


def rows_of(connection: "Connection", table: "Table") -> "list[Row]":
    """All rows with all their columns, as SQLite has them: conversion to a type could hide a bad value.

    The schema may be an older one, with fewer columns than we know.
    """
    return [*connection.execute(_ALL[table.name]).mappings()]


def seal_changes(connection: "Connection", since: int) -> None:
    """Write the checksums of rows that changed after the version `since`, and of the whole."""
    there = _checked_in(connection)
    for table, changed in (
        (TOPICS, TOPICS.c.changed > since),
        (GROUPS, GROUPS.c.changed > since),
        (HANDLE_KEYS, HANDLE_KEYS.c.changed > since),
        (USERS, USERS.c.changed > since),
        (QUOTAS, QUOTAS.c.changed > since),
        (NAME_SERVER_VALUES, NAME_SERVER_VALUES.c.changed > since),
        (TOPIC_BROKERS, TOPIC_BROKERS.c.topic.in_(select(TOPICS.c.name).where(TOPICS.c.changed > since))),
    ):
        if table not in there:
            continue
        # As in `rows_of`, also of an older schema.
        everything = select(text("*")).select_from(table).where(changed)
        for row in connection.execute(everything).mappings().all():
            its = [column == row[column.name] for column in table.primary_key]
            connection.execute(update(table).where(*its).values(checksum=row_checksum(row)))
    (version,) = rows_of(connection, VERSION)
    connection.execute(update(VERSION).values(checksum=_whole_checksum(connection, version)))


def _whole_checksum(connection: "Connection", version: "Row") -> int:
    parts = [
        [*connection.execute(select(func.count(), func.sum(table.c.checksum)).select_from(table)).one()]
        for table in _checked_in(connection)
    ]
    named = text("SELECT sql FROM sqlite_master WHERE name != :room ORDER BY type, name")
    schema = [*connection.execute(named, {"room": ROOM_TABLE}).scalars()]
    steps = [*connection.execute(text("SELECT version_num FROM alembic_version")).scalars()]
    content = [row_checksum(version), parts, schema, steps]
    return crc32(json.dumps(content, default=repr).encode())


def _checked_in(connection: "Connection") -> "list[Table]":
    """The checked tables that exist; a missing one shows in the schema's text."""
    there = {*connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars()}
    return [table for table in CHECKED if table.name in there]


def _to_sqlite(value: object) -> object:
    """Convert a boolean to what SQLite has."""
    return int(value) if isinstance(value, bool) else value


# The names are constants, and not from callers.
_ALL = {table.name: text(f"SELECT * FROM {table.name}") for table in (*CHECKED, VERSION)}  # noqa: S608
