"""The official clients of four languages, unmodified, as producers and consumers of delayed messages; recall.

The programs in `producers/` do what they are told; their README has the words. All topics have one queue. A clock that
a test compares with is that of the machine: servers and programs all use it.
"""

import asyncio
import time
from collections.abc import Mapping

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import LANGUAGES, in_each
from tests.interop.consumers.running import Event, attempts, deliveries, handled
from tests.interop.producers.running import ProducerEvent
from tests.interop.server import Server
from tests.support.embedded import code, duration

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

HOUR_MS = 3_600_000
# The client of Python takes delivery timestamps in whole seconds.
GRAINS_MS = {"python": 1000}
# Who recalls what the producer of each language has sent.
OTHERS = {"go": "java", "java": "node", "node": "python", "python": "go"}


@pytest.fixture
def options() -> list[str]:
    """The server's command line."""
    return []


async def create_topic(server: Server, name: str) -> str:
    return await server.client.create_topic(name, kind=pb.DELAY)


def due_in(after_ms: int, language: str) -> int:
    """The first delivery timestamp, so many milliseconds from now or later, that a client of the language can say."""
    grain_ms = GRAINS_MS.get(language, 1)
    return -(-(time.time_ns() // 1_000_000 + after_ms) // grain_ms) * grain_ms


async def test_delayed_messages_come_and_none_before_its_time(server: Server) -> None:
    async def check(language: str) -> None:
        topic = await create_topic(server, f"delayed-{language}")
        group = await server.create_group(f"delayed-{language}")
        async with (
            server.consumers(language, kind="simple", topic=topic, group=group) as consumers,
            server.producer(language, topic) as producer,
        ):
            afters_ms = {"last": 6000, "first": 4000, "past": -5000}
            due_ms = {body: due_in(after_ms, language) for body, after_ms in afters_ms.items()}
            due_ms["twin"] = due_ms["first"]
            sent = {body: await producer.timed(body, due) for body, due in due_ms.items()}
            assert {body for body, event in sent.items() if event.handle != "-"} == due_ms.keys() - {"past"}
            await consumers.until(handled(*due_ms), "all messages")
            await server.finished(group)
        check_times(deliveries(consumers.events), due_ms)
        assert [got.body for got in deliveries(consumers.events)] in (
            ["past", "first", "twin", "last"],
            ["past", "twin", "first", "last"],
        )
        await check_messages(server, topic, due_ms)

    await in_each(LANGUAGES, check)


def check_times(got: list[Event], due_ms: Mapping[str, int]) -> None:
    """Each of these messages came once, with its delivery timestamp, and not before it."""
    assert sorted(event.body for event in got) == sorted(due_ms)
    for event in got:
        assert event.attempt == 1
        assert event.due_ms == due_ms[event.body]
        assert event.clock_ms >= event.due_ms


async def check_messages(server: Server, topic: str, due_ms: Mapping[str, int]) -> None:
    """The topic holds these messages and no others, each once."""
    found = [(message.body.decode(), message.system_properties) for message in await server.messages(topic)]
    assert sorted(body for body, _ in found) == sorted(due_ms)
    for body, system in found:
        assert system.message_type == pb.DELAY
        assert system.delivery_timestamp.ToMilliseconds() == due_ms[body]
        assert system.store_timestamp.ToMilliseconds() >= due_ms[body]


async def check_received_by_each(server: Server, topic: str, due_ms: Mapping[str, int]) -> None:
    """A group of each language gets these messages and no others."""

    async def receive(language: str) -> None:
        group = await server.create_group(f"{topic}-{language}")
        async with server.consumers(language, kind="simple", topic=topic, group=group) as consumers:
            await consumers.until(handled(*due_ms), "what was not recalled")
            await server.finished(group)
        check_times(deliveries(consumers.events), due_ms)

    await in_each(LANGUAGES, receive)


async def test_what_is_recalled_never_comes_while_its_neighbour_does(server: Server) -> None:
    topic = await create_topic(server, "recalled")
    async with server.producers(topic) as producers:

        async def send(language: str) -> dict[str, tuple[int, ProducerEvent]]:
            due_ms = dict.fromkeys(("neighbour", "by-sender", "by-other"), due_in(10_000, language))
            due_ms["last"] = due_in(12_000, language)
            return {
                body: (due, await producers[language].timed(f"{body}-{language}", due)) for body, due in due_ms.items()
            }

        async def recall(language: str) -> None:
            for _ in range(2):  # again is fine
                await producers[language].recall(sent[language]["by-sender"][1])
            await producers[language].recall(sent[OTHERS[language]]["by-other"][1])

        async def recall_late(language: str) -> ProducerEvent:
            return await producers[language].tried("recall", "last", sent[language]["last"][1].handle)

        sent = await in_each(LANGUAGES, send)
        await in_each(LANGUAGES, recall)
        due_ms = {f"{body}-{of}": sent[of][body][0] for of in LANGUAGES for body in ("neighbour", "last")}

        await check_received_by_each(server, topic, due_ms)
        late = await in_each(LANGUAGES, recall_late)
    assert {(event.kind, event.detail) for event in late.values()} == {("refused", str(int(pb.BAD_REQUEST)))}
    await check_messages(server, topic, due_ms)


async def test_timers_and_recalls_outlive_a_server_that_is_killed(server: Server) -> None:
    topic = await create_topic(server, "killed")
    async with server.producers(topic) as producers:

        async def send(language: str) -> dict[str, int]:
            due_ms = {"missed": due_in(2000, language), "recalled": due_in(8000, language)}
            due_ms["neighbour"] = due_ms["recalled"]
            sent = {body: await producers[language].timed(f"{body}-{language}", due) for body, due in due_ms.items()}
            await producers[language].recall(sent["recalled"])
            return {f"{body}-{language}": due_ms[body] for body in ("missed", "neighbour")}

        due_ms = {body: due for each in (await in_each(LANGUAGES, send)).values() for body, due in each.items()}
    await server.kill9()
    # Only time makes a message late.
    await asyncio.sleep(max(due for body, due in due_ms.items() if body.startswith("missed")) / 1000 - time.time())
    await server.start()

    await check_received_by_each(server, topic, due_ms)
    await check_messages(server, topic, due_ms)


async def test_delays_go_up_to_a_day(server: Server) -> None:
    async def check(language: str) -> None:
        topic = await create_topic(server, f"far-{language}")
        async with server.producer(language, topic) as producer:
            within = await producer.timed("within", due_in(24 * HOUR_MS - 60_000, language))
            beyond = await producer.tried("timed", "beyond", str(due_in(24 * HOUR_MS + 60_000, language)))
            assert (beyond.kind, beyond.detail) == ("refused", str(int(pb.ILLEGAL_DELIVERY_TIME)))
            await producer.recall(within)

    await in_each(LANGUAGES, check)


@pytest.mark.parametrize("options", [["--test-clock"]])
async def test_a_message_that_is_due_in_hours_comes_when_the_test_clock_says_so(server: Server) -> None:
    topic = await create_topic(server, "hours")
    group = await server.create_group("hours")
    async with (
        server.consumers(*LANGUAGES, kind="simple", topic=topic, group=group) as consumers,
        server.producers(topic) as producers,
    ):
        due_ms = {language: due_in(23 * HOUR_MS, language) for language in LANGUAGES}
        await in_each(LANGUAGES, lambda language: producers[language].timed(language, due_ms[language]))
        assert await server.messages(topic) == []
        assert code(await server.client.admin("AdvanceClock", by=duration(23 * 3600 + 1))) == "OK"
        await consumers.until(handled(*LANGUAGES), "all messages")
    assert attempts(consumers.events) == {language: [1] for language in LANGUAGES}
    await check_messages(server, topic, due_ms)
