"""The official clients of four languages with a namespace: it changes nothing of what they do, and parts nobody.

As in Apache's server, a topic or a group is the same in all namespaces, and clients see the one that they came with.
"""

from pathlib import Path

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import LANGUAGES, in_each
from tests.interop.consumers.running import at_least, attempts, handled
from tests.interop.producers.running import ROLLBACK, answered
from tests.interop.server import CURVE, MAX_ATTEMPTS, STEPS, Server

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

NAMESPACE = "tenant-7"
QUICK_CHECKS = 'transaction_timeout_ms = "1s"\ntransaction_check_interval_ms = "1s"\n'


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    config = tmp_path / "ternmq.toml"
    config.write_text(QUICK_CHECKS)
    return ["--config", str(config)]


@pytest.mark.parametrize("kind", ["push", "simple"])
async def test_what_is_sent_in_a_namespace_is_consumed_and_retried_in_it_and_seen_without(
    server: Server, kind: str
) -> None:
    expected = {"good-1": 1, "fail-1-2": 2, "good-3": 1}

    async def check(language: str) -> None:
        topic = await server.client.create_topic(f"sent-{language}", queues=2)
        inside, outside = [await server.create_group(f"{each}-{language}") for each in ("inside", "outside")]
        async with (
            server.producer(language, topic, namespace=NAMESPACE) as producer,
            server.consumers(language, kind=kind, topic=topic, group=inside, namespace=NAMESPACE) as consumers,
            server.consumers(language, kind=kind, topic=topic, group=outside) as others,
        ):
            for body in expected:
                await producer.tried("send", body)
            for each, group in ((consumers, inside), (others, outside)):
                await each.until(at_least(sum(expected.values())), "all deliveries")
                await server.finished(group)
        for each in (consumers, others):
            assert {body: len(found) for body, found in attempts(each.events).items()} == expected

    await in_each(LANGUAGES, check)


async def test_a_fifo_group_and_its_dead_letters_are_the_same_in_a_namespace(server: Server) -> None:
    bodies = ["good-1", "poison-2", "good-3"]

    async def check(language: str) -> None:
        topic = await server.client.create_topic(f"ordered-{language}", queues=2, kind=pb.FIFO)
        # What each client reads, as in `test_official_consumers.FIFO_GROUPS`.
        backoff = CURVE if language == "node" else STEPS
        group = await server.create_group(f"ordered-{language}", fifo=True, retry_backoff=backoff)
        await server.client.send(topic, *(body.encode() for body in bodies), message_group="m")
        async with server.consumers(language, kind="fifo", topic=topic, group=group, namespace=NAMESPACE) as consumers:
            await consumers.until(handled(*bodies), "all of them")
            await server.finished(group)
        assert len(attempts(consumers.events)["poison-2"]) == MAX_ATTEMPTS
        assert [letter.body for letter in await server.dead_letters(group)] == [b"poison-2"]

    await in_each(LANGUAGES, check)


async def test_transactions_end_and_are_asked_about_and_delays_are_recalled_in_a_namespace(server: Server) -> None:
    async def check(language: str) -> None:
        topic = await server.client.create_topic(f"half-{language}", kind=pb.TRANSACTION)
        delayed = await server.client.create_topic(f"delayed-{language}", kind=pb.DELAY)
        async with (
            server.producer(language, topic, namespace=NAMESPACE) as producer,
            server.producer(language, delayed, namespace=NAMESPACE) as other,
        ):
            await producer.committed("committed")
            await producer.half("dropped")
            await producer.end_transaction("dropped", ROLLBACK)
            await producer.half("commit-by-checker")
            await producer.until(answered("commit-by-checker"), "its check")
            await server.settled(topic)
            in_a_minute = await server.client.server_ms() + 60_000
            await other.recall(await other.timed("recalled", in_a_minute))
        assert [message.body for message in await server.messages(topic)] == [b"committed", b"commit-by-checker"]

    await in_each(LANGUAGES, check)
