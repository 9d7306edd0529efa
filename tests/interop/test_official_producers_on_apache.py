"""The programs in `producers/` with Apache RocketMQ: what they do there, other tests expect of TernMQ."""

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.interop.clients import LANGUAGES, Clients, build_all, in_each
from tests.interop.consumers.running import Consumers, attempts, deliveries, handled
from tests.interop.producers.running import COMMIT, ROLLBACK, Producer, ProducerEvent

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

# It writes down that a transaction has ended once in three seconds, unless told otherwise, and asks again until then.
CHECKS = {"transactionTimeOut": 1000, "transactionCheckInterval": 1000, "transactionOpBatchInterval": 100}
COMMITTED = ("kept", "commit-it", "later-it", "elsewhere-it")
ROLLED_BACK = ("dropped", "rollback-it")


@pytest.fixture(scope="module")
def peer() -> Iterator[ApacheRocketMQ]:
    build_all()
    with ApacheRocketMQ(**CHECKS) as running:
        yield running


async def test_transactions_end_as_producers_and_checkers_say(peer: ApacheRocketMQ, tmp_path: Path) -> None:
    peer.create_topic("transactions", "TRANSACTION", queues=1)
    peer.create_groups(LANGUAGES)
    clients = Clients(peer.endpoint, tmp_path)
    expected = [f"{body}-{language}" for body in COMMITTED for language in LANGUAGES]
    async with clients.producers("transactions") as producers, AsyncExitStack() as started:

        async def check(language: str) -> Consumers:
            consumers = clients.consumers(language, kind="push", topic="transactions", group=language)
            await started.enter_async_context(consumers)
            await begin(producers[language], language)
            await consumers.until(handled(*expected), "what is committed")
            return consumers

        consumers = await in_each(LANGUAGES, check)
        await producers["go"].committed("marker")
        await in_each(LANGUAGES, lambda language: consumers[language].until(handled("marker"), "the marker"))
    for each in consumers.values():
        assert attempts(each.events) == {body: [1] for body in (*expected, "marker")}


async def begin(producer: Producer, language: str) -> None:
    for body in (*COMMITTED, *ROLLED_BACK):
        await producer.half(f"{body}-{language}")
    await producer.end_transaction(f"kept-{language}", COMMIT)
    await producer.end_transaction(f"dropped-{language}", ROLLBACK)


async def test_delayed_messages_come_in_their_time_unless_they_are_recalled(
    peer: ApacheRocketMQ, tmp_path: Path
) -> None:
    peer.create_topic("delayed", "DELAY", queues=1)
    groups = {language: f"delayed-{language}" for language in LANGUAGES}
    peer.create_groups(groups.values())
    clients = Clients(peer.endpoint, tmp_path)
    # Whole seconds: the client of Python takes no others.
    past = int(time.time() - 5) * 1000
    async with clients.producers("delayed") as producers, AsyncExitStack() as started:

        async def check(language: str) -> ProducerEvent:
            producer, due = producers[language], int(time.time() + 8) * 1000
            assert (await producer.timed(f"past-{language}", past)).handle == "-"
            await producer.timed(f"neighbour-{language}", due)
            recalled = await producer.timed(f"recalled-{language}", due)
            last = await producer.timed(f"last-{language}", due + 2000)
            for _ in range(2):  # again is fine
                await producer.recall(recalled)
            await consumers[language].until(handled(*expected), "what was not recalled")
            return await producer.tried("recall", "last", last.handle)

        consumers = {
            language: await started.enter_async_context(
                clients.consumers(language, kind="push", topic="delayed", group=group)
            )
            for language, group in groups.items()
        }
        expected = [f"{body}-{language}" for body in ("past", "neighbour", "last") for language in LANGUAGES]
        late = await in_each(LANGUAGES, check)
    assert {(event.kind, event.detail) for event in late.values()} == {("refused", str(int(pb.INTERNAL_SERVER_ERROR)))}
    for each in consumers.values():
        assert attempts(each.events) == {body: [1] for body in expected}
        assert all(got.clock_ms >= got.due_ms >= past for got in deliveries(each.events))
