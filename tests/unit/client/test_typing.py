"""What a type checker says of programs that use the client library: right ones pass, and misuse is an error.

A line that is wrong says so: `# E: attr-defined`. `assert_type` holds what is inferred.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXPECTED = re.compile(r"# E: ([a-z-]+)$")
REPORTED = re.compile(r"^[^:]+:(\d+): error: .* \[([a-z-]+)\]$")

PROGRAM = """
import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

import pydantic

import ternmq
from ternmq import blocking

MINUTE = timedelta(minutes=1)


@dataclass
class Order:
    number: int


class Customer(pydantic.BaseModel):
    name: str


async def on_asyncio(producer: ternmq.Producer, consumer: ternmq.SimpleConsumer, pulling: ternmq.PullConsumer) -> None:
    assert_type(await producer.send(ternmq.Message("t", b"")), ternmq.SendReceipt)
    views = await consumer.receive()
    assert_type(views, list[ternmq.ReceivedMessage])
    settling: Coroutine[Any, Any, None] = views[0].ack()
    await settling
    await views[0].ack()
    await views[0].nack(MINUTE)
    await views[0].nack(60)  # E: arg-type
    views[0].ack()  # E: unused-coroutine
    views[0].nack(MINUTE)  # E: unused-coroutine
    consumer.ack(views)  # E: unused-coroutine
    await consumer.ack(views)
    for pulled in await pulling.poll():
        assert_type(pulled, ternmq.MessageView)
        await pulled.ack()  # E: attr-defined
        await pulling.commit(pulled)
    async for pulled in pulling:
        pulled.nack()  # E: attr-defined
    async with producer.begin_transaction() as transaction:
        await transaction.send(ternmq.Message("t", b""))
        transaction.commit()  # E: unused-coroutine


async def of_lite_topics(consumer: ternmq.LiteSimpleConsumer, blocked: blocking.LiteSimpleConsumer) -> None:
    await consumer.subscribe_lite("a")
    await consumer.subscribe_lite("a", "earliest")
    await consumer.subscribe_lite("a", ternmq.Tail(3))
    await consumer.subscribe_lite("a", "newest")  # E: arg-type
    consumer.subscribe_lite("a")  # E: unused-coroutine
    assert_type(await consumer.receive(), list[ternmq.ReceivedMessage])
    assert_type(consumer.lite_topics, frozenset[str])
    blocked.subscribe_lite("a", 17)
    assert_type(blocked.receive(), list[blocking.ReceivedMessage])


def without_async(
    producer: blocking.Producer, consumer: blocking.SimpleConsumer, pulling: blocking.PullConsumer
) -> None:
    assert_type(producer.send(ternmq.Message("t", b"")), ternmq.SendReceipt)
    views = consumer.receive()
    assert_type(views, list[blocking.ReceivedMessage])
    views[0].ack()
    views[0].nack()
    views[0].nack(delay=MINUTE)
    views[0].nack(60)  # E: arg-type
    got = views[0].ack()  # E: func-returns-value
    consumer.ack(views)
    consumer.change_invisible_duration(views[0], MINUTE)
    for pulled in pulling.poll():
        pulled.ack()  # E: attr-defined
    for pulled in pulling:
        assert_type(pulled, ternmq.MessageView)
    with producer.begin_transaction() as transaction:
        assert_type(transaction, blocking.Transaction)
        assert_type(transaction.send(ternmq.Message("t", b"")), ternmq.SendReceipt)
    with producer as entered:
        assert_type(entered, blocking.Producer)
    with ternmq.Producer("e"):  # E: attr-defined
        pass


async def blocking_is_not_awaited(consumer: blocking.SimpleConsumer) -> None:
    await consumer.receive()  # E: misc
    async with consumer:  # E: attr-defined
        pass


def bodies(view: ternmq.MessageView, received: blocking.ReceivedMessage) -> None:
    assert_type(view.json(), Any)
    assert_type(view.json(Order), Order)
    assert_type(received.json(Customer), Customer)
    view.json(Order).nmber  # E: attr-defined
    view.json(int)  # E: type-var
    view.json(Order(1))  # E: call-overload
    ternmq.Message.json("t", Order(1), keys=["k"], delay=MINUTE)
    ternmq.Message.json("t", Order(1), key=["k"])  # E: call-arg
    ternmq.Message.json("t", Order(1), delay=5)  # E: arg-type
    ternmq.Message("t", "text")  # E: arg-type


def listener(view: ternmq.MessageView) -> ternmq.ConsumeResult | None:
    view.ack()  # E: attr-defined
    return None


def wrong_listener(view: ternmq.MessageView) -> bool:
    return True


async def hears(event: ternmq.ConnectionEvent) -> None:
    assert_type(event.state, ternmq.ConnectionState)
    assert_type(event.error, ternmq.ClientError | None)


def hears_plainly(event: ternmq.ConnectionEvent) -> None: ...


def hears_nothing() -> None: ...


def arguments() -> None:
    ternmq.PushConsumer("e", "g", {"t": "*"}, listener, on_connection=hears)
    blocking.PushConsumer("e", "g", {"t": "*"}, listener, on_connection=hears_plainly)
    blocking.PushConsumer("e", "g", {"t": "*"}, wrong_listener)  # E: arg-type
    ternmq.Producer("e", on_connection=hears_nothing)  # E: arg-type
    blocking.Producer("e", on_connection=hears_nothing)  # E: arg-type
    ternmq.Producer("e", max_attempt=3)  # E: call-arg
    blocking.Producer("e", max_attempt=3)  # E: call-arg
    ternmq.SimpleConsumer("e", "g", ["t"])  # E: arg-type
    ternmq.PullConsumer("e", "g", {"t": "*"}, start_from="newest")  # E: arg-type
    ternmq.LitePushConsumer("e", "g", "t", listener, lite_topics=["a"], concurrency=3)
    ternmq.LitePushConsumer("e", "g", {"t": "*"}, listener)  # E: arg-type
    ternmq.LiteSimpleConsumer("e", "g", "t", lite_topic=["a"])  # E: call-arg


asyncio.run(ternmq.PushConsumer("e", "g", {"t": "*"}, listener).run())
blocking.PushConsumer("e", "g", {"t": "*"}, listener).run()
asyncio.run(ternmq.LitePushConsumer("e", "g", "t", listener).run())
blocking.LitePushConsumer("e", "g", "t", listener).run()
"""


@pytest.mark.slow
def test_a_type_checker_passes_what_is_right_and_reports_what_is_wrong(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    mypy = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary", "--no-pretty"]
    done = subprocess.run([*mypy, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.stderr == ""
    lines = [line for line in done.stdout.splitlines() if ": note: " not in line]
    reported = [REPORTED.match(line) for line in lines]
    assert None not in reported, done.stdout
    found = {(int(one[1]), one[2]) for one in reported if one is not None}
    expected = {
        (number, wrong[1])
        for number, line in enumerate(PROGRAM.splitlines(), start=1)
        if (wrong := EXPECTED.search(line)) is not None
    }
    assert found == expected, done.stdout
    assert len(expected) > 20
