"""The relay on real brokers: each committed row arrives under its id, in the order of its message group, and leaves."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData, create_engine, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import Session

from ternmq import Message, MessageView, SimpleConsumer
from ternmq.outbox import Outbox, OutboxRelay
from ternmq.testing import Stack
from tests.support.until import until_in_thread
from tests.unit.outbox.conftest import OUTBOX

ROW = OUTBOX.table.c
TIMEOUT_S = 60.0


def add(engine: Engine, *messages: Message) -> list[str]:
    with Session(engine) as session, session.begin():
        return [OUTBOX.add(session, one) for one in messages]


def relay_of(
    engine: Engine | AsyncEngine, stack: Stack, *, batch_rows: int = 100, outbox: Outbox = OUTBOX
) -> OutboxRelay:
    return OutboxRelay(outbox, engine, stack.endpoint, batch_rows=batch_rows, poll_interval=0.02, delivery_timeout=1.0)


def unsent(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).where(ROW.sent_ms.is_(None))) or 0


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await until_in_thread(is_true)


@asynccontextmanager
async def subscribed(stack: Stack, topic: str) -> AsyncIterator[Callable[[int], "asyncio.Future[list[MessageView]]"]]:
    """A group that gets all of the topic; the function waits for so many messages."""
    group = stack.create_group(stack.fresh_name("group"), consume_from="earliest")
    async with SimpleConsumer(stack.endpoint, group, {topic: "*"}, await_duration=timedelta(seconds=5)) as consumer:

        async def received(count: int) -> list[MessageView]:
            views: dict[str, MessageView] = {}
            async with asyncio.timeout(TIMEOUT_S):
                while len(views) < count:
                    new = await consumer.receive()
                    await consumer.ack(new)
                    for view in new:  # on a busy machine one may come again
                        views.setdefault(view.message_id, view)
            return list(views.values())

        yield lambda count: asyncio.ensure_future(received(count))


@pytest.fixture(params=["blocking", "asyncio"])
def relaying_engine(request: pytest.FixtureRequest, sqlite_engine: Engine) -> Engine | AsyncEngine:
    """Of both kinds; the database is that of `sqlite_engine`."""
    if request.param == "blocking":
        return sqlite_engine
    return create_async_engine(str(sqlite_engine.url).replace("sqlite:", "sqlite+aiosqlite:"))


async def test_what_was_committed_arrives_under_its_id_and_leaves_the_table(
    sqlite_engine: Engine, relaying_engine: Engine | AsyncEngine, stack: Stack
) -> None:
    topic = stack.create_topic(stack.fresh_name())
    before = add(sqlite_engine, Message(topic, b"before", tag="t", keys=("k",), properties={"p": "v"}))
    async with relay_of(relaying_engine, stack), subscribed(stack, topic) as received:
        [first] = await received(1)
        meanwhile = await asyncio.to_thread(add, sqlite_engine, Message(topic, b"meanwhile"))
        [second] = await received(1)
        await until(lambda: not unsent(sqlite_engine))
    if isinstance(relaying_engine, AsyncEngine):
        await relaying_engine.dispose()
    assert [first.message_id, second.message_id] == before + meanwhile
    assert (first.body, first.tag, first.keys, first.properties) == (b"before", "t", ("k",), {"p": "v"})


async def test_an_async_engine_of_postgresql_shares_rows_with_a_plain_one(
    postgres_engine: Engine, stack: Stack
) -> None:
    topic = stack.create_topic(stack.fresh_name(), type="fifo")
    ids = add(postgres_engine, *(Message(topic, b"%d" % one, message_group="g") for one in range(40)))
    other = create_async_engine(postgres_engine.url)
    async with (
        subscribed(stack, topic) as received,
        relay_of(postgres_engine, stack, batch_rows=3),
        relay_of(other, stack, batch_rows=3),
    ):
        views = await received(len(ids))
        await until(lambda: not unsent(postgres_engine))
    await other.dispose()
    assert [view.message_id for view in views] == ids


async def test_sent_rows_stay_marked_if_that_is_wanted(sqlite_engine: Engine, stack: Stack) -> None:
    topic = stack.create_topic(stack.fresh_name())
    add(sqlite_engine, Message(topic, b"x"))
    async with relay_of(sqlite_engine, stack, outbox=Outbox(MetaData(), keep_sent=True)):
        await until(lambda: not unsent(sqlite_engine))
    with sqlite_engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(OUTBOX.table)) == 1


async def test_message_groups_keep_their_order_and_all_arrives(engine: Engine, stack: Stack) -> None:
    topic = stack.create_topic(stack.fresh_name(), type="fifo")
    numbers = range(60)
    ids = add(engine, *(Message(topic, b"%d" % one, message_group=f"g{one % 3}") for one in numbers))
    async with subscribed(stack, topic) as received, relay_of(engine, stack, batch_rows=7):
        views = await received(len(numbers))
    assert sorted(view.message_id for view in views) == sorted(ids)
    for group in range(3):
        bodies = [int(view.body) for view in views if view.message_group == f"g{group}"]
        assert bodies == list(numbers)[group::3]


async def test_relays_that_share_a_database_send_each_row_once_in_the_order_of_its_group(
    postgres_engine: Engine, stack: Stack
) -> None:
    topic = stack.create_topic(stack.fresh_name(), type="fifo")
    numbers = range(200)
    ids = add(postgres_engine, *(Message(topic, b"%d" % one, message_group=f"g{one % 5}") for one in numbers))
    relays = [relay_of(postgres_engine, stack, batch_rows=9) for _ in range(3)]
    async with subscribed(stack, topic) as received:
        await asyncio.gather(*(relay.start() for relay in relays))
        await until(lambda: not unsent(postgres_engine))
        await asyncio.gather(*(relay.close() for relay in relays))
        views = await received(len(numbers))
    assert sorted(view.message_id for view in views) == sorted(ids)
    for group in range(5):
        assert [int(view.body) for view in views if view.message_group == f"g{group}"] == list(numbers)[group::5]


async def test_a_refused_row_stays_with_its_error_while_the_others_of_its_request_go(
    engine: Engine, stack: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    topic = stack.create_topic(stack.fresh_name())
    [_, bad, _] = add(engine, Message(topic, b"1"), Message(topic, bytes(5_000_000)), Message(topic, b"2"))
    async with relay_of(engine, stack), subscribed(stack, topic) as received:
        views = await received(2)
        await until(lambda: unsent(engine) == 1)
    assert {view.body for view in views} == {b"1", b"2"}
    with Session(engine) as session:
        [row] = session.execute(OUTBOX.waiting())
    assert row.message_id == bad
    assert "MESSAGE_BODY_TOO_LARGE" in row.error
    [said] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bad in said.getMessage()


async def test_what_is_behind_a_refused_row_of_its_group_waits_until_somebody_decides(
    engine: Engine, stack: Stack
) -> None:
    topic = stack.fresh_name()
    stack.create_topic(topic, type="normal")
    add(engine, Message(topic, b"first", message_group="g"), Message(topic, b"second", message_group="g"))
    async with relay_of(engine, stack):
        await until(lambda: [error is None for error in errors(engine)] == [False, True])
        with engine.begin() as connection:
            connection.execute(OUTBOX.table.update().values(topic=stack.create_topic(f"{topic}-f", type="fifo")))
            connection.execute(OUTBOX.retry_refused())
        async with subscribed(stack, f"{topic}-f") as received:
            assert [view.body for view in await received(2)] == [b"first", b"second"]


def errors(engine: Engine) -> Sequence[str | None]:
    with engine.connect() as connection:
        return [row.error for row in connection.execute(OUTBOX.waiting())]


async def test_rows_wait_for_a_broker_that_is_away(sqlite_engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ternmq.outbox")
    with Stack(test_clock=False) as own:
        topic = own.create_topic("orders")
        async with relay_of(sqlite_engine, own):
            await asyncio.to_thread(own.stop)
            await asyncio.to_thread(add, sqlite_engine, Message(topic, b"x"))
            await until(lambda: "can't be relayed" in caplog.text)
            with sqlite_engine.connect() as connection:
                assert connection.scalar(select(ROW.attempts)) == 0
            await asyncio.to_thread(own.start)
            await until(lambda: not unsent(sqlite_engine))
            await until(lambda: "relayed again" in caplog.text)


async def test_a_relay_goes_on_when_its_database_is_back(
    postgres_engine: Engine, stack: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    topic = stack.create_topic(stack.fresh_name())
    async with relay_of(postgres_engine, stack):
        with postgres_engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE ternmq_outbox RENAME TO away")
        await until(lambda: "can't be relayed" in caplog.text)
        with postgres_engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE away RENAME TO ternmq_outbox")
        add(postgres_engine, Message(topic, b"x"))
        await until(lambda: not unsent(postgres_engine))


async def test_a_database_without_the_table_is_an_error_at_the_start(tmp_path: Path, stack: Stack) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'empty.db'}")
    with pytest.raises(DBAPIError, match="ternmq_outbox"):
        await relay_of(engine, stack).start()
    engine.dispose()


@pytest.mark.parametrize("wrong", [{"batch_rows": 0}, {"batch_rows": 10_001}, {"batch_bytes": 0}, {"poll_interval": 0}])
def test_limits_that_mean_nothing_are_refused(sqlite_engine: Engine, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OutboxRelay(OUTBOX, sqlite_engine, "127.0.0.1:1", **wrong)  # type: ignore[arg-type]


async def test_a_row_that_holds_no_message_is_refused_and_the_others_go(sqlite_engine: Engine, stack: Stack) -> None:
    topic = stack.create_topic(stack.fresh_name())
    [bad, _] = add(sqlite_engine, Message(topic, b"1"), Message(topic, b"2"))
    with sqlite_engine.begin() as connection:
        connection.execute(OUTBOX.table.update().where(ROW.message_id == bad).values(keys="no json"))
    async with relay_of(sqlite_engine, stack), subscribed(stack, topic) as received:
        [view] = await received(1)
        await until(lambda: unsent(sqlite_engine) == 1)
    assert view.body == b"2"
