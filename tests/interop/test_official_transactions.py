"""The official clients of four languages, unmodified, as producers of transactions: ends, orphans and crashes.

The programs in `producers/` do what they are told, and their checkers answer what the bodies of the messages say; their
README has the words. All topics have one queue: a message that is committed last is behind all that there will ever be.
"""

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import LANGUAGES, in_each
from tests.interop.consumers.running import attempts, handled
from tests.interop.processes import NOTHING
from tests.interop.producers.running import COMMIT, ROLLBACK, UNKNOWN, Producer, ProducerEvent, answered, answers
from tests.interop.server import Server

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

SETTINGS: dict[str, str | int] = {"transaction_timeout_ms": "1s", "transaction_check_interval_ms": "1s"}
CHECKS_MAX = 3
FEW_CHECKS = {**SETTINGS, "transaction_check_max": CHECKS_MAX}
# Enough to kill the server between two checks.
RARE_CHECKS = {**SETTINGS, "transaction_check_interval_ms": "5s"}
# A slow machine must not use up the checks before the producer ends the transaction.
NO_CHECKS = {"transaction_timeout_ms": "1h"}
RETRY_S = 0.1
MARKER = "marker"
# Who is asked about the transactions of each language when its producer has left.
HEIRS = {"go": "java", "java": "node", "node": "python", "python": "go"}
# The clients that open a broken Telemetry stream again within a second or two. Those of Go and Python do it when they
# next send their settings, which is every five minutes: until then no server can ask them.
COMING_BACK = ("java", "node")


@pytest.fixture
def settings() -> dict[str, str | int]:
    return SETTINGS


@pytest.fixture
def options(settings: dict[str, str | int], tmp_path: Path) -> list[str]:
    config = tmp_path / "ternmq.toml"
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    return ["--config", str(config)]


async def create_topic(server: Server, name: str) -> str:
    return await server.client.create_topic(name, kind=pb.TRANSACTION)


ENDED = {"first": COMMIT, "second": ROLLBACK, "third": ROLLBACK, "fourth": COMMIT, "fifth": COMMIT}


async def test_what_is_committed_comes_once_and_what_is_rolled_back_never(server: Server) -> None:
    async def check(language: str) -> None:
        topic = await create_topic(server, f"ended-{language}")
        group = await server.create_group(f"ended-{language}")
        async with (
            server.consumers(language, kind="simple", topic=topic, group=group) as consumers,
            server.producer(language, topic) as producer,
        ):
            for body in ENDED:
                await producer.half(body)
            assert await server.messages(topic) == []
            for body in reversed(ENDED):
                await producer.end_transaction(body, ENDED[body])
            await producer.committed(MARKER)
            await consumers.until(handled(MARKER), "the marker")
            await server.finished(group)
        expected = [*(body for body in reversed(ENDED) if ENDED[body] == COMMIT), MARKER]
        await check_messages(server, topic, expected)
        assert attempts(consumers.events) == {body: [1] for body in expected}

    await in_each(LANGUAGES, check)


async def check_messages(server: Server, topic: str, bodies: Sequence[str]) -> None:
    """The topic holds these messages and no others, in this order, and no transaction of it is pending."""
    found = await server.messages(topic)
    assert [message.body.decode() for message in found] == list(bodies)
    assert {message.system_properties.message_type for message in found} == {pb.TRANSACTION}
    assert await server.transactions(topic, admin_pb2.PENDING) == []


async def test_the_same_end_again_is_accepted_and_the_other_one_refused(server: Server) -> None:
    async def check(language: str) -> None:
        topic = await create_topic(server, f"again-{language}")
        async with server.producer(language, topic) as producer:
            for body, end, other in (("kept", COMMIT, ROLLBACK), ("dropped", ROLLBACK, COMMIT)):
                await producer.half(body)
                await producer.end_transaction(body, end)
                await producer.end_transaction(body, end)
                check_refused(await producer.tried(other, body))
            await producer.committed(MARKER)
        await check_messages(server, topic, ["kept", MARKER])

    await in_each(LANGUAGES, check)


def check_refused(outcome: ProducerEvent) -> None:
    assert (outcome.kind, outcome.detail) == ("refused", str(int(pb.INVALID_TRANSACTION_ID)))


# orphan: what its checker answers
ORPHANS = {"commit-it": (COMMIT,), "rollback-it": (ROLLBACK,), "later-it": (UNKNOWN, COMMIT)}


async def test_orphans_end_as_the_checker_of_their_sender_says(server: Server) -> None:
    topic = await create_topic(server, "orphans")
    async with server.producers(topic) as producers:

        async def leave_orphans(language: str) -> None:
            mine = [f"{body}-{language}" for body in ORPHANS]
            for body in mine:
                await producers[language].half(body)
            await producers[language].until(answered(*mine), "an answer about each orphan")

        await in_each(LANGUAGES, leave_orphans)
        await server.settled(topic)
        await producers["go"].committed(MARKER)
        await check_delivered(server, topic, [f"{body}-it-{of}" for body in ("commit", "later") for of in LANGUAGES])
    for language, producer in producers.items():
        given = answers(producer.events)
        assert given.keys() == {f"{body}-{language}" for body in ORPHANS}
        for body, expected in ORPHANS.items():
            # A slow answer may be asked for again before it is there, but it stays the same.
            assert tuple(dict.fromkeys(given[f"{body}-{language}"])) == expected


async def check_delivered(server: Server, topic: str, bodies: Collection[str]) -> None:
    """Consumers of each language get these messages once each, in any order, then the marker, and no others."""

    async def check(language: str) -> None:
        group = await server.create_group(f"{topic}-{language}")
        async with server.consumers(language, kind="simple", topic=topic, group=group) as consumers:
            await consumers.until(handled(MARKER), "the marker")
            await server.finished(group)
        assert attempts(consumers.events) == {body: [1] for body in (*bodies, MARKER)}
        assert consumers.events[-1].body == MARKER

    await in_each(LANGUAGES, check)
    await check_messages(server, topic, [message.body.decode() for message in await server.messages(topic)])


@pytest.mark.parametrize("killed", [False, True])
async def test_a_producer_of_another_language_is_asked_when_the_sender_has_left(server: Server, killed: bool) -> None:
    async def check(language: str) -> None:
        topic = await create_topic(server, f"left-{language}")
        async with server.producer(HEIRS[language], topic) as heir:
            async with server.producer(language, topic) as sender:
                await sender.half("elsewhere-it")
                await sender.until(lambda events: len(asked(events)) >= 2, "the second check")
                if killed:
                    await sender.end()
                else:
                    await sender.leave()
            await heir.until(answered("elsewhere-it"), "the heir's answer")
            await server.settled(topic)
            await heir.committed(MARKER)
        assert set(asked(sender.events)) == {UNKNOWN}
        assert set(asked(heir.events)) == {COMMIT}
        await check_messages(server, topic, ["elsewhere-it", MARKER])

    await in_each(LANGUAGES, check)


def asked(events: Sequence[ProducerEvent]) -> list[str]:
    """The answers about the only orphan."""
    return answers(events).get("elsewhere-it", [])


@pytest.mark.parametrize("settings", [FEW_CHECKS])
async def test_an_orphan_that_nobody_knows_is_discarded_after_the_last_check(server: Server) -> None:
    async def check(language: str) -> None:
        topic = await create_topic(server, f"discarded-{language}")
        async with server.producer(language, topic) as producer:
            await producer.half("forgotten")
            await producer.until(lambda events: len(answers(events).get("forgotten", [])) == CHECKS_MAX, "all checks")
            await server.settled(topic)
            [discarded] = await server.transactions(topic, admin_pb2.DISCARDED)
            assert discarded.checks == CHECKS_MAX
            check_refused(await producer.tried(COMMIT, "forgotten"))
            check_refused(await producer.tried(ROLLBACK, "forgotten"))
            await producer.committed(MARKER)
        assert answers(producer.events) == {"forgotten": [UNKNOWN] * CHECKS_MAX}
        await check_messages(server, topic, [MARKER])

    await in_each(LANGUAGES, check)


@pytest.mark.parametrize("settings", [NO_CHECKS], ids=["no checks"])
async def test_a_transaction_is_ended_by_its_producer_after_the_server_was_killed(server: Server) -> None:
    async with AsyncExitStack() as started:

        async def begin(language: str) -> Producer:
            topic = await create_topic(server, f"ended-later-{language}")
            producer = await started.enter_async_context(server.producer(language, topic))
            await producer.half("kept")
            await producer.half("dropped")
            return producer

        producers = await in_each(LANGUAGES, begin)
        await server.kill9()
        await server.start()

        async def check(language: str) -> None:
            producer, topic = producers[language], f"ended-later-{language}"
            await until_done(producer, COMMIT, "kept")
            await producer.end_transaction("kept", COMMIT)
            await producer.end_transaction("dropped", ROLLBACK)
            await producer.committed(MARKER)
            await check_messages(server, topic, ["kept", MARKER])

        await in_each(LANGUAGES, check)


async def until_done(producer: Producer, *words: str) -> None:
    """Give the command again as long as the client is not connected again; what it says then has no status code."""
    while (outcome := await producer.tried(*words)).kind == "refused":
        assert outcome.detail == NOTHING, outcome
        await asyncio.sleep(RETRY_S)  # nobody outside sees it connect


async def test_a_new_producer_is_asked_about_orphans_from_before_the_server_was_killed(server: Server) -> None:
    async def orphan(language: str) -> None:
        topic = await create_topic(server, f"orphan-{language}")
        async with server.producer(language, topic) as sender:
            await sender.half("elsewhere-it")

    async def check(language: str) -> None:
        topic = f"orphan-{language}"
        async with server.producer(language, topic) as heir:
            await heir.until(answered("elsewhere-it"), "the answer")
            await server.settled(topic)
            await heir.committed(MARKER)
        await check_messages(server, topic, ["elsewhere-it", MARKER])

    await in_each(LANGUAGES, orphan)
    await server.kill9()
    await server.start()
    await in_each(LANGUAGES, check)


@pytest.mark.parametrize("settings", [RARE_CHECKS])
async def test_a_sender_that_comes_back_is_asked_after_the_server_was_killed(server: Server) -> None:
    async with AsyncExitStack() as started:

        async def start(language: str) -> Producer:
            topic = await create_topic(server, f"back-{language}")
            return await started.enter_async_context(server.producer(language, topic))

        async def leave_orphan(language: str) -> None:
            await producers[language].half("later-it")
            await producers[language].until(lambda events: "later-it" in answers(events), "the first check")

        producers = await in_each(COMING_BACK, start)
        await in_each(COMING_BACK, leave_orphan)
        await server.kill9()
        await server.start()

        async def check(language: str) -> None:
            await producers[language].until(answered("later-it"), "the second check")
            await server.settled(f"back-{language}")
            await producers[language].committed(MARKER)
            await check_messages(server, f"back-{language}", ["later-it", MARKER])

        await in_each(COMING_BACK, check)
