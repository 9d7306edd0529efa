"""A relay that is killed after the server has stored messages and before the database knows it, over and over: each row
arrives, and what a consumer with an inbox makes of it happens once."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL

import pytest
from sqlalchemy import Column, Engine, Integer, Table, Text, func, insert, select
from sqlalchemy.orm import Session

from ternmq import Message, MessageView, PushConsumer
from ternmq.testing import Stack
from tests.support.until import until, until_in_thread
from tests.unit.outbox.conftest import INBOX, METADATA, OUTBOX

pytestmark = pytest.mark.slow
MESSAGES = 200
BATCH_ROWS = 10  # of the relay's process
KILLED_AFTER_REQUESTS = (1, 3, 7, 2, 5)
GROUP = "billing"
BILLS = Table("bills", METADATA, Column("id", Integer, primary_key=True), Column("order_id", Text, nullable=False))
TIMEOUT_S = 100.0


class Billing:
    """Makes one bill of each order, in the transaction of the inbox."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.deliveries = 0
        self.ids: set[str] = set()

    def __call__(self, view: MessageView) -> None:
        self.deliveries += 1
        with Session(self._engine) as session, session.begin():
            if INBOX.first_time(session, view, GROUP):
                session.execute(insert(BILLS).values(order_id=view.body.decode()))
        self.ids.add(view.message_id)


async def relay(engine: Engine, stack: Stack, requests: int) -> "asyncio.subprocess.Process":
    url = engine.url.render_as_string(hide_password=False)
    command = (sys.executable, "-m", "tests.support.outbox_relay", url, stack.endpoint, str(requests))
    return await asyncio.create_subprocess_exec(*command, stdout=DEVNULL)


def rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(OUTBOX.table)) or 0


async def test_every_row_arrives_and_takes_effect_once_though_relays_are_killed(
    postgres_engine: Engine, stack: Stack
) -> None:
    topic = stack.create_topic(stack.fresh_name())
    stack.create_group(GROUP, consume_from="earliest")
    with Session(postgres_engine) as session, session.begin():
        ids = {OUTBOX.add(session, Message(topic, b"%d" % number)) for number in range(MESSAGES)}
    billing = Billing(postgres_engine)
    async with (
        asyncio.timeout(TIMEOUT_S),
        PushConsumer(stack.endpoint, GROUP, {topic: "*"}, billing, concurrency=4),
    ):
        for requests in KILLED_AFTER_REQUESTS:
            process = await relay(postgres_engine, stack, requests)
            assert await process.wait() == -9
        last = await relay(postgres_engine, stack, 0)
        await until_in_thread(lambda: rows(postgres_engine) == 0)
        last.terminate()
        assert await last.wait() == 0
        sends = MESSAGES + BATCH_ROWS * len(KILLED_AFTER_REQUESTS)
        await until(lambda: billing.ids == ids and billing.deliveries >= sends)
    with postgres_engine.connect() as connection:
        billed = sorted(map(int, connection.scalars(select(BILLS.c.order_id))))
    assert billed == list(range(MESSAGES))


async def test_a_message_group_keeps_its_order_though_relays_are_killed(postgres_engine: Engine, stack: Stack) -> None:
    topic = stack.create_topic(stack.fresh_name(), type="fifo")
    group = stack.create_group(stack.fresh_name(), fifo=True, consume_from="earliest")
    numbers = range(60)
    with Session(postgres_engine) as session, session.begin():
        for number in numbers:
            OUTBOX.add(session, Message(topic, b"%d" % number, message_group=f"g{number % 3}"))
    heard: list[int] = []
    async with (
        asyncio.timeout(TIMEOUT_S),
        PushConsumer(stack.endpoint, group, {topic: "*"}, lambda view: heard.append(int(view.body))),
    ):
        for requests in (2, 5, 1):  # in the middle of a batch, whose rows of one group are a request each
            process = await relay(postgres_engine, stack, requests)
            assert await process.wait() == -9
        last = await relay(postgres_engine, stack, 0)
        await until(lambda: set(heard) == set(numbers))
        last.terminate()
        assert await last.wait() == 0
    assert len(heard) > len(numbers)
    first_heard = list(dict.fromkeys(heard))
    for one in range(3):
        assert [number for number in first_heard if number % 3 == one] == list(numbers)[one::3]
