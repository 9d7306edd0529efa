"""The table of the outbox: one row for each message to send.

Rows        `id` grows with each insert: it is the order. `message_id` is the id under which the message is always sent
Waiting     `sent_ms` and `error` are NULL, `due_ms` is not in the future: a relay may send it. `due_ms` moves ahead
            after a failure that may pass
Refused     `error` says why the server refuses it; it stays, with those of its message group behind it, until
            `retry_refused` or until it is deleted by hand
Sent        the row is deleted, or it has its `sent_ms` if the outbox keeps sent rows, until `prune`
Times       milliseconds since 1970 by the writer's clock
"""

import json
import time
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Delete,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Select,
    String,
    Table,
    Text,
    Update,
    delete,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, registry

from ternmq.errors import BadRequest
from ternmq.messages.message import Message
from ternmq.messages.message_id import MESSAGE_IDS
from ternmq_protos.v2 import definition_pb2 as pb

TABLE_NAME = "ternmq_outbox"
ERROR_CHARACTERS_MAX = 500
NAME_CHARACTERS_MAX = 255
PRUNED_AT_A_TIME = 10_000
# SQLite generates keys only for the exact type INTEGER.
ROW_ID = BigInteger().with_variant(Integer(), "sqlite")


class Outbox:
    """A table of `metadata`, which the application creates or migrates with its other tables.

    `keep_sent`: rows stay after they were sent, until they are pruned; by default they are deleted.
    """

    def __init__(
        self, metadata: MetaData, *, name: str = TABLE_NAME, schema: str | None = None, keep_sent: bool = False
    ) -> None:
        self.table = _create_table(metadata, name, schema)
        self.keep_sent = keep_sent
        # A class for each outbox: the unit of work inserts its objects, for sessions of both kinds.
        self._row: type[Any] = type("OutboxRow", (), {})
        registry(metadata=metadata).map_imperatively(self._row, self.table)

    def add(self, session: Session | AsyncSession, message: Message) -> str:
        """Have the message sent once the session's transaction commits; return its message id.

        Nothing is written before the session flushes. A `delay` counts from now. BadRequest for a message of a lite
        topic, for which the table has no column.
        """
        if message.lite_topic is not None:
            raise BadRequest(pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "an outbox takes no messages of lite topics")
        row = self._row()
        [row.message_id] = MESSAGE_IDS.next_ids(1)
        for name, value in _message_columns(message, now_ms()).items():
            setattr(row, name, value)
        session.add(row)
        message_id: str = row.message_id
        return message_id

    def waiting(self) -> Select[Any]:
        """Return a query of all that was not sent, in order: message id, topic, message group, due time and error; for
        operators who read it."""
        columns = self.table.c
        shown = (columns.message_id, columns.topic, columns.message_group, columns.due_ms, columns.error)
        return select(*shown).where(columns.sent_ms.is_(None)).order_by(columns.id)

    def retry_refused(self) -> Update:
        """Return a statement that lets relays retry what the server refused:
        `session.execute(outbox.retry_refused())`."""
        return update(self.table).where(self.table.c.error.is_not(None)).values(error=None, due_ms=0, attempts=0)

    def prune(self, older_than: timedelta, *, limit: int = PRUNED_AT_A_TIME) -> Delete:
        """Return a statement that deletes up to `limit` rows sent longer ago than `older_than`; for `keep_sent`."""
        before_ms = now_ms() - int(older_than.total_seconds() * 1000)
        return prune_rows(self.table, self.table.c.sent_ms < before_ms, limit)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def prune_rows(table: Table, old: ColumnElement[bool], limit: int) -> Delete:
    """Return a DELETE of the first `limit` rows that are `old`; a limit in DELETE itself is not standard SQL."""
    if limit < 1:
        raise ValueError(f"limit={limit} must be at least 1")
    first = select(table.c.id).where(old).order_by(table.c.id).limit(limit)
    return delete(table).where(table.c.id.in_(first.scalar_subquery()))


def read_message(row: Row[Any]) -> Message:
    """Return the message of a row."""
    return Message(
        row.topic,
        row.body,
        tag=row.tag,
        keys=tuple(json.loads(row.keys)),
        properties=json.loads(row.properties),
        message_group=row.message_group,
        delivery_timestamp=row.delivery_ms,
        priority=row.priority,
        delay_level=row.delay_level,
    )


def _message_columns(message: Message, at_ms: int) -> dict[str, object]:
    delivery_ms = message.delivery_timestamp_ms
    if message.delay is not None:
        delivery_ms = max(0, at_ms + message.delay // timedelta(milliseconds=1))
    return {
        "topic": message.topic,
        "body": message.body,
        "body_bytes": len(message.body),
        "tag": message.tag,
        "keys": json.dumps(list(message.keys)),
        "properties": json.dumps(dict(message.properties)),
        "message_group": message.message_group,
        "delivery_ms": delivery_ms,
        "delay_level": message.delay_level,
        "priority": message.priority,
        "added_ms": at_ms,
        "due_ms": 0,
        "attempts": 0,
    }


def _create_table(metadata: MetaData, name: str, schema: str | None) -> Table:
    # Fixed names and plain types, so that Alembic finds again what it has written.
    return Table(
        name,
        metadata,
        Column("id", ROW_ID, primary_key=True, autoincrement=True),
        Column("message_id", String(64), nullable=False),
        Column("topic", String(NAME_CHARACTERS_MAX), nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("body_bytes", Integer, nullable=False),
        Column("tag", Text),
        Column("keys", Text, nullable=False),
        Column("properties", Text, nullable=False),
        Column("message_group", String(NAME_CHARACTERS_MAX)),
        Column("delivery_ms", BigInteger),
        Column("delay_level", Integer),
        Column("priority", Integer),
        Column("added_ms", BigInteger, nullable=False),
        Column("due_ms", BigInteger, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("error", String(ERROR_CHARACTERS_MAX)),
        Column("sent_ms", BigInteger),
        Index(f"{name}_waiting", "sent_ms", "id"),
        Index(f"{name}_groups", "topic", "message_group", "id"),
        schema=schema,
    )
