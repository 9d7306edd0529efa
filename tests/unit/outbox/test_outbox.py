"""What is written into the outbox, and when; taking rows from it, as relays do at the same time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, MetaData, func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Session

from ternmq import BadRequest, Message
from ternmq.outbox import Inbox, Outbox
from ternmq.outbox.rows import BatchLimits, PostponedRow, RefusedRow, settle_rows, take_rows
from ternmq.outbox.table import now_ms, read_message
from tests.unit.outbox.conftest import METADATA, OUTBOX

LIMITS = BatchLimits(rows=10, body_bytes=1000)
ROW = OUTBOX.table.c


def message(body: bytes = b"x", group: str | None = None) -> Message:
    return Message("orders", body, message_group=group)


def add(engine: Engine, *messages: Message) -> list[str]:
    with Session(engine) as session, session.begin():
        return [OUTBOX.add(session, one) for one in messages]


def bodies(engine: Engine, *, limits: BatchLimits = LIMITS, at_ms: int | None = None) -> list[bytes]:
    with engine.begin() as connection:
        rows = take_rows(connection, OUTBOX, limits, at_ms=at_ms or now_ms(), lock=engine.dialect.name == "postgresql")
        return [row.body for row in rows]


def row_ids(engine: Engine) -> list[int]:
    with engine.begin() as connection:
        return list(connection.scalars(select(ROW.id).order_by(ROW.id)))


def test_what_is_rolled_back_is_never_there(engine: Engine) -> None:
    with Session(engine) as session:
        OUTBOX.add(session, message(b"dropped"))
        session.flush()
        session.rollback()
        OUTBOX.add(session, message(b"kept"))
        session.commit()
    assert bodies(engine) == [b"kept"]


@pytest.mark.parametrize(
    "sent",
    [
        Message("orders", b"\x00\xff", tag="paid", keys=("a", "b c"), properties={"k": 'v "\x00\n'}),
        Message("orders", b"x", message_group="g"),
        Message("orders", b"x", priority=3),
        Message("orders", b"x", delay_level=4),
        Message("orders", b"x", delivery_timestamp=1_900_000_000_123),
    ],
    ids=["normal", "fifo", "priority", "level", "time"],
)
def test_a_message_is_read_as_it_was_added(engine: Engine, sent: Message) -> None:
    add(engine, sent)
    with engine.begin() as connection:
        [row] = take_rows(connection, OUTBOX, LIMITS, at_ms=now_ms(), lock=False)
    assert read_message(row) == sent


def test_a_message_of_a_lite_topic_is_refused(sqlite_engine: Engine) -> None:
    with Session(sqlite_engine) as session, pytest.raises(BadRequest, match="lite"):
        OUTBOX.add(session, Message("chats", b"x", lite_topic="a"))


def test_times_are_kept_as_times_and_a_delay_counts_from_the_adding(sqlite_engine: Engine) -> None:
    due = datetime(2030, 1, 1, tzinfo=UTC)
    before_ms = now_ms()
    add(
        sqlite_engine,
        Message("orders", b"x", delivery_timestamp=due),
        Message("orders", b"x", delay=timedelta(hours=1)),
    )
    after_ms = now_ms()
    with sqlite_engine.begin() as connection:
        at, delayed = (row.delivery_ms for row in take_rows(connection, OUTBOX, LIMITS, at_ms=now_ms(), lock=False))
    assert at == due.timestamp() * 1000
    assert before_ms + 3_600_000 <= delayed <= after_ms + 3_600_000


def test_the_order_of_adding_is_the_order_of_the_rows(engine: Engine) -> None:
    ids = add(engine, *(message(b"%d" % number) for number in range(2500)))
    assert len(set(ids)) == 2500
    with engine.begin() as connection:
        assert list(connection.scalars(select(ROW.message_id).order_by(ROW.id))) == ids


async def test_async_sessions_add_in_the_same_way(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}")
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
    async with AsyncSession(engine) as session, session.begin():
        message_id = OUTBOX.add(session, message())
    async with engine.begin() as connection:
        found = (await connection.scalars(select(ROW.message_id))).all()
    await engine.dispose()
    assert found == [message_id]


def test_alembic_finds_nothing_to_change_in_what_was_created(engine: Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_the_tables_stand_among_those_of_a_declarative_base_by_the_names_that_it_wants() -> None:
    class Base(DeclarativeBase):
        metadata = MetaData(naming_convention={"pk": "pk_%(table_name)s"})

    Outbox(Base.metadata, name="app_outbox", schema="app")
    Inbox(Base.metadata, schema="app")
    assert sorted(Base.metadata.tables) == ["app.app_outbox", "app.ternmq_inbox"]


def test_a_batch_ends_at_its_limits_but_has_at_least_one_row(sqlite_engine: Engine) -> None:
    add(sqlite_engine, *(message(bytes(400)) for _ in range(3)))
    assert len(bodies(sqlite_engine)) == 2
    assert len(bodies(sqlite_engine, limits=BatchLimits(rows=1, body_bytes=1000))) == 1
    assert len(bodies(sqlite_engine, limits=BatchLimits(rows=10, body_bytes=1))) == 1


def test_two_relays_never_have_one_row(postgres_engine: Engine) -> None:
    add(postgres_engine, *(message(b"%d" % number) for number in range(4)))
    two = BatchLimits(rows=2, body_bytes=1000)
    with postgres_engine.begin() as first, postgres_engine.begin() as second:
        taken = [
            [row.body for row in take_rows(one, OUTBOX, two, at_ms=now_ms(), lock=True)] for one in (first, second)
        ]
    assert taken == [[b"0", b"1"], [b"2", b"3"]]


def test_a_relay_leaves_what_comes_behind_the_row_of_another(postgres_engine: Engine) -> None:
    add(postgres_engine, message(b"1", "g"), message(b"2", "g"), message(b"other", "h"), message(b"plain"))
    one_row = BatchLimits(rows=1, body_bytes=1000)
    with postgres_engine.begin() as first:
        [held] = take_rows(first, OUTBOX, one_row, at_ms=now_ms(), lock=True)
        assert held.body == b"1"
        assert bodies(postgres_engine) == [b"other", b"plain"]
        settle_rows(first, OUTBOX, sent={held.id}, failed=[], at_ms=now_ms())
    assert bodies(postgres_engine) == [b"2", b"other", b"plain"]


def test_a_relay_leaves_what_comes_behind_a_gap(postgres_engine: Engine) -> None:
    add(postgres_engine, message(b"1", "g"), message(b"2", "g"), message(b"3", "g"))
    second_row = row_ids(postgres_engine)[1]
    with postgres_engine.begin() as other:
        other.execute(select(OUTBOX.table).where(ROW.id == second_row).with_for_update())
        assert bodies(postgres_engine) == [b"1"]


@pytest.mark.parametrize("failure", ["refused", "postponed"])
def test_a_failed_row_holds_up_its_message_group_and_nobody_else(engine: Engine, failure: str) -> None:
    add(engine, message(b"1", "g"), message(b"2", "g"), message(b"other", "h"), message(b"plain"))
    first_row = row_ids(engine)[0]
    later_ms = now_ms() + 60_000
    failed = RefusedRow(first_row, "why\x00") if failure == "refused" else PostponedRow(first_row, later_ms)
    with engine.begin() as connection:
        settle_rows(connection, OUTBOX, sent=set(), failed=[failed], at_ms=now_ms())
    assert bodies(engine, limits=BatchLimits(rows=2, body_bytes=1000)) == [b"other", b"plain"]
    if failure == "refused":
        assert bodies(engine, at_ms=later_ms) == [b"other", b"plain"]
        with Session(engine) as session, session.begin():
            assert [row.error for row in session.execute(OUTBOX.waiting())] == ["why?", None, None, None]
            session.execute(OUTBOX.retry_refused())
    assert bodies(engine, at_ms=later_ms) == [b"1", b"2", b"other", b"plain"]


def test_sent_rows_are_kept_if_that_is_wanted_until_they_are_pruned(engine: Engine) -> None:
    add(engine, *(message(b"%d" % number) for number in range(3)))
    keeping = Outbox(MetaData(), keep_sent=True)
    hour_ago = now_ms() - 3_600_000
    with engine.begin() as connection:
        settle_rows(connection, keeping, sent=set(row_ids(engine)[:2]), failed=[], at_ms=hour_ago)
    assert bodies(engine) == [b"2"]
    assert len(row_ids(engine)) == 3
    with engine.begin() as connection:
        assert connection.execute(keeping.prune(timedelta(hours=2))).rowcount == 0
        assert connection.execute(keeping.prune(timedelta(minutes=30), limit=1)).rowcount == 1
        assert connection.execute(keeping.prune(timedelta(minutes=30))).rowcount == 1
        assert connection.scalar(select(func.count()).select_from(keeping.table)) == 1


def test_a_prune_of_nothing_at_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="limit=0"):
        OUTBOX.prune(timedelta(days=1), limit=0)
