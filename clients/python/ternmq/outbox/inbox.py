"""The inbox: the messages that a consumer has seen, written in the transaction in which it processes them.

A second delivery, also a concurrent one in another process, finds the row of the first: it waits until that transaction
has ended, and is the first one itself if that was rolled back.
"""

from datetime import timedelta

from sqlalchemy import (
    BigInteger,
    Column,
    Delete,
    Index,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    insert,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from ternmq.messages.message_view import MessageView
from ternmq.outbox.table import NAME_CHARACTERS_MAX, PRUNED_AT_A_TIME, ROW_ID, now_ms, prune_rows

TABLE_NAME = "ternmq_inbox"


class Inbox:
    """A table of `metadata`, which the application creates or migrates with its other tables."""

    def __init__(self, metadata: MetaData, *, name: str = TABLE_NAME, schema: str | None = None) -> None:
        self.table = _create_table(metadata, name, schema)

    def first_time(self, session: Session, view: MessageView, group: str) -> bool:
        """Return whether `group` sees this message for the first time; remembered if the session's transaction commits.

            with Session(engine) as session, session.begin():
                if inbox.first_time(session, view, "billing"):
                    ...

        Acknowledge the message after the commit, for any result.
        """
        if not isinstance(session, Session):
            raise TypeError("first_time takes a Session; for an AsyncSession write: await inbox.first_time_async(...)")
        row = {"consumer_group": group, "message_id": view.message_id, "seen_ms": now_ms()}
        insert_if_missing = self._insert_if_missing(session.get_bind().dialect.name)
        if insert_if_missing is not None:
            return session.scalar(insert_if_missing.values(row)) is not None
        try:
            with session.begin_nested():
                session.execute(insert(self.table).values(row))
        except IntegrityError:
            return False
        return True

    async def first_time_async(self, session: AsyncSession, view: MessageView, group: str) -> bool:
        """`first_time` for an `AsyncSession`."""
        return await session.run_sync(self.first_time, view, group)

    def prune(self, older_than: timedelta, *, limit: int = PRUNED_AT_A_TIME) -> Delete:
        """Return a statement that forgets up to `limit` messages seen longer ago than `older_than`: run it now and
        then.

            session.execute(inbox.prune(timedelta(days=14)))

        A message that is delivered after it was forgotten counts as new: keep them for longer than anything is
        repeated, by consumers (attempts and backoff), by a relay (an outage), or after a reset of offsets.
        """
        before_ms = now_ms() - int(older_than.total_seconds() * 1000)
        return prune_rows(self.table, self.table.c.seen_ms < before_ms, limit)

    def _insert_if_missing(self, dialect: str) -> ReturningInsert[tuple[int]] | None:
        """Return an insert that returns the new row's id, or nothing; a failed insert would cost a savepoint."""
        if dialect == "postgresql":
            return postgresql.insert(self.table).on_conflict_do_nothing().returning(self.table.c.id)
        if dialect == "sqlite":
            return sqlite.insert(self.table).on_conflict_do_nothing().returning(self.table.c.id)
        return None


def _create_table(metadata: MetaData, name: str, schema: str | None) -> Table:
    return Table(
        name,
        metadata,
        Column("id", ROW_ID, primary_key=True, autoincrement=True),
        Column("consumer_group", String(NAME_CHARACTERS_MAX), nullable=False),
        Column("message_id", String(NAME_CHARACTERS_MAX), nullable=False),
        Column("seen_ms", BigInteger, nullable=False),
        UniqueConstraint("consumer_group", "message_id", name=f"{name}_once"),
        Index(f"{name}_seen", "seen_ms"),
        schema=schema,
    )
