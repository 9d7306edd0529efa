"""Salvages an embedded registry, whole or damaged, without changing the file.

Whole    everything, as a start would read it.
Damaged  the topics, groups, users, quotas and values whose rows SQLite still finds and whose checksums are right: they
         are exactly what was written. Tables are read from both ends, as an unreadable page hides what lies behind it,
         and the bytes of the file's header that never change are corrected first.
Copy     it reads a copy, since SQLite writes to what it opens.
"""

import itertools
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ternmq_common.resources.quotas import Quota
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry.errors import RegistryFileDamaged
from ternmq_registry.registry import Registry
from ternmq_registry.security.user_rows import stored_user
from ternmq_registry.sql.checksums import is_whole
from ternmq_registry.sql.rows import group_of, quota_of, topic_of
from ternmq_registry.tables import GROUPS, NAME_SERVER_VALUES, QUOTAS, TOPICS, USERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ternmq_registry.security.user_rows import StoredUser

SIDECARS = ("-journal", "-wal", "-shm")
"""The suffixes of files that belong to an SQLite database."""
# By https://sqlite.org/fileformat.html: where, and the bytes that every registry has there.
_HEADER = {
    0: b"SQLite format 3\0" + (4096).to_bytes(2) + b"\1\1\0\x40\x20\x20",
    44: (4).to_bytes(4),
    52: bytes(4) + (1).to_bytes(4) + bytes(8),
    72: bytes(20),
}


@dataclass(frozen=True, slots=True)
class SalvagedRegistry:
    """The salvaged content. `damage` is what was found, None if the file is whole or not there.

    `unreadable` names rows with wrong checksums, as far as they still have names. `users`, `quotas` and `values` are
    those of a damaged file: a whole one keeps its own.
    """

    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    damage: str | None = None
    unreadable: list[str] = field(default_factory=list)
    users: "dict[str, StoredUser]" = field(default_factory=dict)
    quotas: list[Quota] = field(default_factory=list)
    values: list[tuple[str, str, str]] = field(default_factory=list)
    """Those that tools keep in a name server: namespace, name and text."""


def salvage_registry(path: Path) -> SalvagedRegistry:
    """Read the registry at `path`. StartupError if it can't be read for another reason than damage."""
    if not path.exists():
        return SalvagedRegistry()
    with TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for each in (path, *find_sidecars(path)):
            shutil.copyfile(each, copy.with_name(each.name))
        try:
            registry = Registry.open_sqlite(copy)
        except RegistryFileDamaged as error:
            shutil.copyfile(path, copy)
            return _read_damaged(copy, error.finding)
        with closing(registry):
            snapshot = registry.read_snapshot()
        return SalvagedRegistry({**snapshot.topics}, {**snapshot.groups})


def find_sidecars(path: Path) -> list[Path]:
    """The existing files beside a database that belong to it."""
    return [each for suffix in SIDECARS if (each := path.with_name(path.name + suffix)).exists()]


def _read_damaged(copy: Path, finding: str) -> SalvagedRegistry:
    _correct_header(copy)
    found = SalvagedRegistry(damage=finding)
    with closing(sqlite3.connect(copy)) as connection:
        # Invalid text must not hide its row, nor the rows behind it.
        connection.text_factory = lambda data: data.decode(errors="surrogateescape")
        connection.row_factory = sqlite3.Row
        for row in _read_rows(connection, TOPICS.name, found):
            found.topics[row["name"]] = topic_of(row, ())
        for row in _read_rows(connection, GROUPS.name, found):
            flags = {name: bool(row[name]) for name in ("fifo", "remoting_pop") if name in row.keys()}  # noqa: SIM118
            found.groups[row["name"]] = group_of({**row, **flags})
        for row in _read_rows(connection, USERS.name, found):
            found.users[row["name"]] = stored_user(row)
        found.quotas.extend(map(quota_of, _read_rows(connection, QUOTAS.name, found)))
        for row in _read_rows(connection, NAME_SERVER_VALUES.name, found):
            found.values.append((row["namespace"], row["name"], row["value"]))
    return found


def _correct_header(path: Path) -> None:
    with path.open("r+b") as file:
        for position, content in _HEADER.items():
            file.seek(position)
            file.write(content)


def _read_rows(connection: sqlite3.Connection, table: str, found: SalvagedRegistry) -> "Iterator[Mapping[str, Any]]":
    good: dict[tuple[str, ...], Mapping[str, Any]] = {}
    bad: set[tuple[str, ...]] = set()
    for order in ("ASC", "DESC"):
        # A row that can't be read ends the walk in this direction.
        with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
            for row in map(dict, connection.execute(f"SELECT * FROM {table} ORDER BY rowid {order}")):  # noqa: S608
                key = tuple(str(row[part]) for part in ("kind", "namespace", "name") if part in row)
                if is_whole(row):
                    good[key] = row
                else:
                    bad.add(key)
    found.unreadable.extend(f"{table} {':'.join(key)!r}" for key in sorted(bad - good.keys()))
    yield from good.values()


def replace_damaged(
    path: Path,
    topics: "Iterable[Topic]",
    groups: "Iterable[ConsumerGroup]",
    users: "Iterable[StoredUser]" = (),
    quotas: "Iterable[Quota]" = (),
    values: "Iterable[tuple[str, str, str]]" = (),
) -> Path:
    """Replace the damaged registry by one with these entries, and keep the damaged one; returns where.

    If it is interrupted, `path` is the one or the other.
    """
    fresh = path.with_name(f"{path.name}.new")
    for each in (fresh, *find_sidecars(fresh)):
        each.unlink(missing_ok=True)
    with closing(Registry.open_sqlite(fresh)) as registry:
        registry.import_entries([*topics], [*groups])
        registry.import_users(users)
        for quota in quotas:
            registry.put_quota(quota)
        registry.import_values(values)
    aside = _unused_path(path)
    for each in (path, *find_sidecars(path)):
        shutil.copy2(each, aside.with_name(aside.name + each.name.removeprefix(path.name)))
    for each in find_sidecars(path):
        each.unlink()  # SQLite would use it for the other file
    fresh.replace(path)
    return aside


def _unused_path(path: Path) -> Path:
    numbers = itertools.count(1)
    return next(aside for number in numbers if not (aside := path.with_name(f"{path.name}.damaged-{number}")).exists())
