"""The registry's tables, as the newest migration leaves them; a test compares both.

Version     `registry_version` has one row, which every change of topics, groups, users, brokers and quotas locks first:
            changes come one after the other, and what has `changed` above a version is what came after it.
Leases      `lease_end_ms` is computed and compared by the database's clock only: no two machines' clocks agree.
            Leases, loads, positions of replicas and rows of proxies are no changes and raise no version.
Deletions   kept until every broker has done them.
Users       a row has all of a user, the policies too: where one is damaged or lost, no user keeps a policy that allows
            without the one that denies.
Checksums   see `checksums`; 0 in PostgreSQL.
"""

import sys
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from ternmq_common.access.users import USER_CHARACTERS_MAX
from ternmq_common.limits import GROUP_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX
from ternmq_common.printable import NAME_BYTES_MAX
from ternmq_common.resources.resource_settings import Choice, Span
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA = MetaData()
BROKER_CHARACTERS_MAX = 127
PROXY_CHARACTERS_MAX = 255
LOAD_CHARACTERS_MAX = 1024
ROOM_TABLE = "ternmq_room"
"""In SQLite for a moment, to allocate room for a full disk. No part of the schema."""


def _checksum_column() -> "Column[int]":
    return Column("checksum", BigInteger, nullable=False, server_default="0", comment="embedded only: checksums.py")


def _setting_columns(first: int, last: int | None = None) -> "Iterator[Column[Any]]":
    """The columns of settings of topics that these steps of the schema added; only one step without the last."""
    for each in TOPIC_SETTINGS:
        if first <= each.since <= (last or first):
            is_word, is_span = isinstance(each.kind, Choice), isinstance(each.kind, Span)
            kind = String(8 if each.kind.absent else 16) if is_word else BigInteger() if is_span else Integer()
            default = None if each.since == 1 else str(each.kind.row_value(each.default))
            yield Column(each.attribute, kind, nullable=False, server_default=default, comment=each.comment)


VERSION = Table(
    "registry_version",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False, comment="1, the only row"),
    Column("version", BigInteger, nullable=False, comment="raised by every change"),
    _checksum_column(),
)

TOPICS = Table(
    "topics",
    METADATA,
    Column("name", String(TOPIC_CHARACTERS_MAX), primary_key=True),
    Column("type", String(16), nullable=False, comment="name of the value in v2.MessageType"),
    *_setting_columns(1),
    Column("created_ms", BigInteger, nullable=False, comment="milliseconds since the epoch"),
    Column("changed", BigInteger, nullable=False, server_default="1", comment="version it is of"),
    *_setting_columns(4),
    Column("made", BigInteger, nullable=False, server_default="0", comment="version it was made at, 0: unknown"),
    _checksum_column(),
    *_setting_columns(11),
    Column("mixed", Boolean, nullable=False, server_default=false(), comment="whether it takes other types too"),
    *_setting_columns(13, sys.maxsize),
)

TOPIC_BROKERS = Table(
    "topic_brokers",
    METADATA,
    Column("topic", String(TOPIC_CHARACTERS_MAX), primary_key=True),
    Column("broker", String(BROKER_CHARACTERS_MAX), primary_key=True),
    _checksum_column(),
)

GROUPS = Table(
    "consumer_groups",
    METADATA,
    Column("name", String(GROUP_CHARACTERS_MAX), primary_key=True),
    Column("fifo", Boolean, nullable=False),
    Column("max_attempts", Integer, nullable=False, comment="deliveries of a message, the first included"),
    Column("created_ms", BigInteger, nullable=False, comment="milliseconds since the epoch"),
    Column("retry_backoff", String(1024), nullable=False, server_default="", comment="see retry_backoff.py"),
    Column("consume_from", String(32), nullable=False, server_default="auto", comment="see model.Group"),
    Column("assignment", String(4096), nullable=False, server_default="averagely", comment="see model.Group"),
    Column("queue_lock_hold_ms", BigInteger, nullable=False, server_default="0", comment="0: no lock"),
    Column("priority_factor", Integer, nullable=False, server_default="99", comment="see model.Group"),
    Column("changed", BigInteger, nullable=False, server_default="1", comment="version it is of"),
    Column("made", BigInteger, nullable=False, server_default="0", comment="version it was made at, 0: unknown"),
    _checksum_column(),
    Column("lite", Text, nullable=False, server_default="", comment="see lite_group.py, empty: no lite group"),
    Column("remoting_pop", Boolean, nullable=False, server_default=false(), comment="see group_settings.py"),
)

USERS = Table(
    "users",
    METADATA,
    Column("name", String(USER_CHARACTERS_MAX), primary_key=True),
    Column("is_super", Boolean, nullable=False),
    Column("is_enabled", Boolean, nullable=False),
    Column("created_ms", BigInteger, nullable=False, comment="milliseconds since the epoch"),
    Column("secrets", Text, nullable=False, comment="JSON, see user_rows.py; sealed"),
    Column("policies", Text, nullable=False, comment="JSON, see user_rows.py"),
    Column("changed", BigInteger, nullable=False, server_default="1", comment="version it is of"),
    _checksum_column(),
)

BROKERS = Table(
    "brokers",
    METADATA,
    Column("name", String(BROKER_CHARACTERS_MAX), primary_key=True),
    Column("store_id", String(64), nullable=False, comment="of the store that the process opened"),
    Column("address", String(512), nullable=False, comment="HOST:PORT of the storage service"),
    Column("epoch", BigInteger, nullable=False, comment="grows with each registration"),
    Column("permission", String(16), nullable=False, comment="Permission"),
    Column("draining", Boolean, nullable=False),
    Column("version", String(64), nullable=False, comment="of the program"),
    Column("started_ms", BigInteger, nullable=False, comment="registration, by the database's clock"),
    Column("lease_end_ms", BigInteger, nullable=False, comment="by the database's clock"),
    Column("load", String(LOAD_CHARACTERS_MAX), nullable=False, comment="BrokerLoad as JSON"),
    Column("applied", BigInteger, nullable=False, comment="deletions up to this version are done there"),
    Column("replicas", Integer, nullable=False, server_default="1", comment="how many there may be"),
    Column("min_insync", Integer, nullable=False, server_default="0", comment="0: a majority of replicas"),
    Column("replication", String(8), nullable=False, server_default="sync", comment="ReplicationMode"),
    Column("move_to", String(64), nullable=False, server_default="", comment="store that is to lead"),
)

REPLICAS = Table(
    "replicas",
    METADATA,
    Column("broker", String(BROKER_CHARACTERS_MAX), primary_key=True),
    Column("store_id", String(64), primary_key=True),
    Column("name", String(BROKER_CHARACTERS_MAX), nullable=False, comment="unique in the shard"),
    Column("address", String(512), nullable=False, comment="HOST:PORT of the storage service"),
    Column("in_sync", Boolean, nullable=False, comment="has all that was acknowledged"),
    Column("version", String(64), nullable=False, comment="of the program"),
    Column("started_ms", BigInteger, nullable=False, comment="by the database's clock"),
    Column("lease_end_ms", BigInteger, nullable=False, comment="by the database's clock"),
    Column("position", BigInteger, nullable=False, comment="its log is durable below, as last told"),
    UniqueConstraint("broker", "name", name="replicas_name"),
)

REMOVED_STORES = Table(
    "removed_stores",
    METADATA,
    Column("store_id", String(64), primary_key=True),
    Column("broker", String(BROKER_CHARACTERS_MAX), nullable=False, comment="whose store it was"),
    Column("topics", Text, comment="on which it was, as JSON: see removals.py; null of an older version"),
)

DELETIONS = Table(
    "deletions",
    METADATA,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False, comment="Deleted"),
    Column("name", String(TOPIC_CHARACTERS_MAX), nullable=False),
)

HANDLE_KEYS = Table(
    "handle_keys",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False, comment="grows by one"),
    Column("secret", String(64), nullable=False, comment="32 bytes in hex; shown nowhere"),
    Column("created_ms", BigInteger, nullable=False, comment="milliseconds since the epoch"),
    Column("changed", BigInteger, nullable=False, server_default="1", comment="version it is of"),
    _checksum_column(),
)

QUOTAS = Table(
    "quotas",
    METADATA,
    Column("kind", String(8), primary_key=True, comment="QuotaKind"),
    Column("name", String(NAME_BYTES_MAX), primary_key=True, comment="* is the default of the kind"),
    Column("messages_in", BigInteger, comment="a second; null in this and the others: no limit"),
    Column("bytes_in", BigInteger, comment="a second"),
    Column("messages_out", BigInteger, comment="a second"),
    Column("bytes_out", BigInteger, comment="a second"),
    Column("connections", BigInteger, comment="at one time"),
    Column("topics_per_hour", BigInteger, comment="made by their use"),
    Column("burst_ms", BigInteger, nullable=False, comment="how much of a rate may come at once"),
    Column("changed", BigInteger, nullable=False, server_default="1", comment="version it is of"),
    _checksum_column(),
    Column("in_flight", BigInteger, comment="handed out and not settled, at one time"),
)

NAME_SERVER_VALUES = Table(
    "name_server_values",
    METADATA,
    Column("namespace", String(NAME_BYTES_MAX), primary_key=True),
    Column("name", String(NAME_BYTES_MAX), primary_key=True),
    Column("value", Text, nullable=False),
    Column("changed", BigInteger, nullable=False, server_default="1", comment="version it is of"),
    _checksum_column(),
)

PROXIES = Table(
    "proxies",
    METADATA,
    Column("name", String(PROXY_CHARACTERS_MAX), primary_key=True),
    Column("lease_end_ms", BigInteger, nullable=False, comment="by the database's clock"),
    Column("demand", Text, nullable=False, comment="what is wanted of each quota there, as JSON: see quotas.py"),
    Column("uses", Text, comment="what is taken of each quota there, as JSON: see quotas.py; null of an older proxy"),
    Column("server", String(PROXY_CHARACTERS_MAX), comment="whose process it is; null, with what follows, as above"),
    Column("address", String(512), comment="of its first listener"),
    Column("version", String(64), comment="of the program"),
    Column("started_ms", BigInteger, comment="by its own clock"),
    Column("load", Text, comment="ProxyLoad as JSON"),
)

Index("topics_changed", TOPICS.c.changed)
Index("consumer_groups_changed", GROUPS.c.changed)
Index("users_changed", USERS.c.changed)


class DatabaseNow(FunctionElement[int]):
    """The database's clock in milliseconds since the epoch."""

    type = BigInteger()
    inherit_cache = True


@compiles(DatabaseNow, "postgresql")
def _postgresql_now(*_: Any, **__: Any) -> str:  # noqa: ANN401 - SQLAlchemy's compiler and its options
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(DatabaseNow, "sqlite")
def _sqlite_now(*_: Any, **__: Any) -> str:  # noqa: ANN401
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


DATABASE_NOW_MS = DatabaseNow()
