"""The stack's process dies under a load of timed messages and transactions, several times.

In the end each timed message that was acknowledged is in its topic exactly once, and none came early; each transaction
ended as its producer said, or as its checker did where that was not heard.
"""

import asyncio
import random
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq import ClientError, Message, MessageView, Producer, SimpleConsumer, TransactionResolution
from ternmq.admin import messages as message_calls
from ternmq.admin import topics as topic_calls
from ternmq_command.calls.admin import AdminClient
from tests.support.stack import Stack

pytestmark = [pytest.mark.slow]

TIMED, PAID = "timed", "paid"
ROUNDS = 4
SENDERS = 3
SETTINGS = """
transaction_timeout_ms = "1s"
transaction_check_interval_ms = "1s"
transaction_check_max = 1000
"""


class Account:
    """What was acknowledged, by body: when a timed message is due; what a producer wanted of a transaction."""

    def __init__(self) -> None:
        self.due_ms: dict[bytes, int] = {}
        self.wanted: dict[bytes, bool] = {}
        self.steps = 0
        self._progress = asyncio.Event()

    def step(self) -> None:
        self.steps += 1
        self._progress.set()

    async def grows(self, count: int) -> None:
        """Wait until so many more steps are acknowledged."""
        target = self.steps + count
        while self.steps < target:
            self._progress.clear()
            await self._progress.wait()

    def check(self, view: MessageView) -> TransactionResolution:
        """What the producer would have said."""
        commit = self.wanted.get(view.body, False)
        return TransactionResolution.COMMIT if commit else TransactionResolution.ROLLBACK


async def keep_scheduling(endpoint: str, name: str, account: Account) -> None:
    chance = random.Random(name)
    async with Producer(endpoint, topics=[TIMED], max_attempts=1) as producer:
        for number in range(1 << 30):
            due_ms = int(time.time() * 1000) + chance.randint(0, 3000)
            bodies = [f"{name}-{number}-{each}".encode() for each in range(chance.randint(1, 10))]
            try:
                await producer.send_many([Message(TIMED, body, delivery_timestamp=due_ms) for body in bodies])
            except ClientError:
                await asyncio.sleep(0)  # not acknowledged: it may come or not
            else:
                account.due_ms.update(dict.fromkeys(bodies, due_ms))
                account.step()


async def keep_paying(endpoint: str, name: str, account: Account) -> None:
    chance = random.Random(name)
    async with Producer(endpoint, topics=[PAID], max_attempts=1, checker=account.check) as producer:
        for number in range(1 << 30):
            body = f"{name}-{number}".encode()
            try:
                transaction = producer.begin_transaction()
                await transaction.send(Message(PAID, body))
                account.wanted[body] = chance.random() < 0.6
                account.step()
                if chance.random() < 0.9:
                    await (transaction.commit() if account.wanted[body] else transaction.rollback())
            except ClientError:
                await asyncio.sleep(0)


async def all_of(endpoint: str, topic: str) -> Counter[bytes]:
    """How often each body is in the topic."""
    found: Counter[bytes] = Counter()
    consumer = SimpleConsumer(
        endpoint, group=f"readers-of-{topic}", subscriptions={topic: "*"}, await_duration=timedelta(seconds=3)
    )
    async with consumer:
        while views := await consumer.receive(max_messages=32, invisible_duration=timedelta(minutes=5)):
            for view in views:
                found[view.body] += 1
                if view.delivery_timestamp is not None and view.store_timestamp is not None:
                    assert view.store_timestamp >= view.delivery_timestamp, "nothing comes before its time"
            await asyncio.gather(*(consumer.ack(view) for view in views))
    return found


async def until_nothing_waits(endpoint: str, account: Account) -> None:
    """Its last timer is due, and every orphan was asked about."""
    producer = Producer(endpoint, topics=[PAID], checker=account.check)
    async with producer:
        with AdminClient(endpoint) as admin:
            while await asyncio.to_thread(  # noqa: ASYNC110 - in another process
                lambda: admin.send_call(message_calls.list_transactions("pending", topic=PAID)).transactions
            ):
                await asyncio.sleep(0.2)
    last_ms = max(account.due_ms.values())
    await asyncio.sleep(max(0.0, last_ms / 1000 - time.time()))


async def test_what_waits_outlives_a_process_that_dies_under_load(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    account = Account()
    with Stack(tmp_path / "stack", "--config", str(settings)) as stack:
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.create_topic(TIMED, "delay", 4))
            admin.send_call(topic_calls.create_topic(PAID, "transaction", 4))
        senders = [asyncio.create_task(keep_scheduling(stack.grpc, f"t{each}", account)) for each in range(SENDERS)]
        senders += [asyncio.create_task(keep_paying(stack.grpc, f"p{each}", account)) for each in range(SENDERS)]
        for each in range(ROUNDS):
            await account.grows(random.Random(each).randint(100, 400))
            stack.kill9()
            await asyncio.to_thread(stack.start)
        await account.grows(100)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        await until_nothing_waits(stack.grpc, account)
        timed, paid = await all_of(stack.grpc, TIMED), await all_of(stack.grpc, PAID)
    missing = account.due_ms.keys() - timed.keys()
    assert not missing, f"{len(missing)} of {len(account.due_ms)} timed messages never came"
    assert max(timed.values()) == max(paid.values()) == 1
    wanted = {body for body, commit in account.wanted.items() if commit}
    assert wanted <= paid.keys(), f"{len(wanted - paid.keys())} of {len(wanted)} commits are missing"
    assert not paid.keys() & (account.wanted.keys() - wanted), "what was rolled back appeared"
