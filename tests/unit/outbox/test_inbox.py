"""The inbox says once for each message and group that it is new."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from ternmq import MessageView
from ternmq.connections.endpoints import Endpoints
from ternmq.outbox.table import now_ms
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.outbox.conftest import INBOX, METADATA


def view(message_id: str) -> MessageView:
    message = pb.Message(system_properties=pb.SystemProperties(message_id=message_id))
    return MessageView(message, broker="b", endpoints=Endpoints.parse("127.0.0.1:1"))


def first_time(engine: Engine, message_id: str, group: str = "billing", *, commit: bool = True) -> bool:
    with Session(engine) as session:
        answer = INBOX.first_time(session, view(message_id), group)
        if commit:
            session.commit()
        return answer


def test_a_message_is_new_once_for_each_group(engine: Engine) -> None:
    assert first_time(engine, "one")
    assert not first_time(engine, "one")
    assert first_time(engine, "one", "shipping")
    assert first_time(engine, "two")


def test_what_is_rolled_back_was_not_seen(engine: Engine) -> None:
    assert first_time(engine, "one", commit=False)
    assert first_time(engine, "one")
    assert not first_time(engine, "one", commit=False)


def test_a_repeated_message_does_not_cost_the_transaction(engine: Engine) -> None:
    assert first_time(engine, "one")
    with Session(engine) as session, session.begin():
        assert not INBOX.first_time(session, view("one"), "billing")
        assert INBOX.first_time(session, view("two"), "billing")
    assert not first_time(engine, "two")


def test_databases_without_an_insert_for_it_take_a_savepoint(
    sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(INBOX, "_insert_if_missing", lambda _: None)
    test_a_repeated_message_does_not_cost_the_transaction(sqlite_engine)


def test_two_deliveries_at_a_time_are_one(postgres_engine: Engine) -> None:
    answers: list[bool] = []
    second = threading.Thread(target=lambda: answers.append(first_time(postgres_engine, "one")))
    with Session(postgres_engine) as session:
        assert INBOX.first_time(session, view("one"), "billing")
        second.start()
        with postgres_engine.connect() as looking:
            waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            while not looking.scalar(waits):
                looking.rollback()
        assert answers == []
        session.commit()
    second.join()
    assert answers == [False]


def test_what_was_seen_long_ago_is_forgotten_in_portions(engine: Engine) -> None:
    long_ago = now_ms() - 86_400_000
    rows = [{"consumer_group": "billing", "message_id": str(one), "seen_ms": long_ago} for one in range(5)]
    with engine.begin() as connection:
        connection.execute(insert(INBOX.table), rows)
    assert first_time(engine, "new")
    with engine.begin() as connection:
        assert connection.execute(INBOX.prune(timedelta(hours=1), limit=3)).rowcount == 3
        assert connection.execute(INBOX.prune(timedelta(hours=1), limit=3)).rowcount == 2
    assert not first_time(engine, "new")
    assert first_time(engine, "0")


async def test_async_sessions_have_a_method_of_their_own(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}")
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
    async with AsyncSession(engine) as session, session.begin():
        assert await INBOX.first_time_async(session, view("one"), "billing")
        assert not await INBOX.first_time_async(session, view("one"), "billing")
        with pytest.raises(TypeError, match="first_time_async"):
            INBOX.first_time(session, view("one"), "billing")  # type: ignore[arg-type]
    await engine.dispose()
