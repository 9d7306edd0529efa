"""The rows of an outbox for a relay: takes those that may be sent now, and writes the results.

Plain functions on a connection, for both kinds of engines. With `lock` the rows are held until the transaction ends,
and other relays skip them.

Order       a row of a message group is taken only if this relay has all unsent rows before it: none that is refused,
            not yet due, or held by another relay. That is checked after the rows were locked, so a row that isn't seen
            then was sent, or is added by a later transaction
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, exists, or_, select, tuple_, update

from ternmq.outbox.table import ERROR_CHARACTERS_MAX, Outbox


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """The server refuses this row for good."""

    row_id: int
    error: str


@dataclass(frozen=True, slots=True)
class PostponedRow:
    """A failure that may pass: the row is not sent again before `due_ms`."""

    row_id: int
    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How much a relay takes at a time; a longer row is taken alone."""

    rows: int
    body_bytes: int


def take_rows(
    connection: Connection, outbox: Outbox, limits: BatchLimits, *, at_ms: int, lock: bool
) -> Sequence[Row[Any]]:
    """Take the next rows in their order, with their bodies."""
    found = connection.execute(_select_due(outbox, limits.rows, at_ms=at_ms, lock=lock)).all()
    in_order = _drop_after_gaps(connection, outbox, found)
    table = outbox.table
    row_ids = _limit_bytes(in_order, limits.body_bytes)
    return connection.execute(select(table).where(table.c.id.in_(row_ids)).order_by(table.c.id)).all()


def settle_rows(
    connection: Connection,
    outbox: Outbox,
    *,
    sent: Collection[int],
    failed: Collection[RefusedRow | PostponedRow],
    at_ms: int,
) -> None:
    """Write down the results of rows; other rows are not changed."""
    table = outbox.table
    if sent:
        those = table.c.id.in_(sent)
        connection.execute(
            update(table).where(those).values(sent_ms=at_ms) if outbox.keep_sent else delete(table).where(those)
        )
    for failure in failed:
        row = update(table).where(table.c.id == failure.row_id)
        if isinstance(failure, RefusedRow):
            connection.execute(row.values(error=_clean_text(failure.error)))
        else:
            connection.execute(row.values(due_ms=failure.due_ms, attempts=table.c.attempts + 1))


def _select_due(outbox: Outbox, rows: int, *, at_ms: int, lock: bool) -> Select[Any]:
    table = outbox.table
    earlier = table.alias("earlier")
    group_waits = exists().where(
        earlier.c.topic == table.c.topic,
        earlier.c.message_group == table.c.message_group,
        earlier.c.id < table.c.id,
        earlier.c.sent_ms.is_(None),
        or_(earlier.c.error.is_not(None), earlier.c.due_ms > at_ms),
    )
    columns = (table.c.id, table.c.topic, table.c.message_group, table.c.body_bytes)
    waiting = (table.c.sent_ms.is_(None), table.c.error.is_(None), table.c.due_ms <= at_ms)
    found = select(*columns).where(*waiting, ~group_waits).order_by(table.c.id).limit(rows)
    return found.with_for_update(skip_locked=True, of=table) if lock else found


def _drop_after_gaps(connection: Connection, outbox: Outbox, found: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Leave out rows that come after another unsent row of their message group that isn't here."""
    groups = {(row.topic, row.message_group) for row in found if row.message_group is not None}
    if not groups:
        return list(found)
    table = outbox.table
    here = {row.id for row in found}
    unsent = (
        select(table.c.topic, table.c.message_group, table.c.id)
        .where(table.c.sent_ms.is_(None), table.c.id <= max(here))
        .where(tuple_(table.c.topic, table.c.message_group).in_(sorted(groups)))
        .order_by(table.c.topic, table.c.message_group, table.c.id)
    )
    next_ids: set[int] = set()
    for _, rows in groupby(connection.execute(unsent), key=lambda row: (row.topic, row.message_group)):
        for row in rows:
            if row.id not in here:
                break
            next_ids.add(row.id)
    return [row for row in found if row.message_group is None or row.id in next_ids]


def _limit_bytes(rows: Sequence[Row[Any]], body_bytes_max: int) -> list[int]:
    row_ids: list[int] = []
    total = 0
    for row in rows:
        total += row.body_bytes
        if row_ids and total > body_bytes_max:
            break
        row_ids.append(row.id)
    return row_ids


def _clean_text(error: str) -> str:
    """Return text that every database accepts: PostgreSQL refuses a NUL."""
    return "".join(one if one.isprintable() else "?" for one in error[:ERROR_CHARACTERS_MAX])
