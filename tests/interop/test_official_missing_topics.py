"""The official clients of four languages, unmodified, and topics that are not there: the first message makes its topic,
by its type, and no consumer does."""

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import LANGUAGES, in_each
from tests.interop.consumers.running import at_least, attempts
from tests.interop.server import Server
from tests.interop.test_official_timers import due_in
from tests.support.embedded import code
from tests.support.until import until_answered

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]


async def type_of(server: Server, topic: str) -> str | None:
    """What the topic takes; None if it isn't there."""
    answer = await server.client.admin("DescribeTopic", name=topic)
    return pb.MessageType.Name(answer.topic.type) if code(answer) == "OK" else None


async def test_the_first_message_of_a_producer_makes_its_topic_by_its_type(server: Server) -> None:
    async def check(language: str) -> None:
        topics = {kind: f"{kind}-{language}" for kind in ("normal", "delay", "transaction")}
        async with server.producer(language, topics["normal"]) as producer:
            assert await type_of(server, topics["normal"]) is None
            await producer.tried("send", "good")
        async with server.producer(language, topics["delay"]) as producer:
            await producer.timed("good", due_in(1000, language))
        async with server.producer(language, topics["transaction"]) as producer:
            await producer.committed("good")
        assert {kind: await type_of(server, topic) for kind, topic in topics.items()} == {
            kind: kind.upper() for kind in topics
        }

    await in_each(LANGUAGES, check)


async def test_a_push_consumer_that_starts_before_its_topic_consumes_when_it_is_there(server: Server) -> None:
    async def check(language: str) -> None:
        topic, group = f"later-{language}", await server.create_group(f"early-{language}")

        async def has_begun() -> bool:
            answer = await server.client.admin("DescribeGroup", name=group)
            return len(answer.client_ids) == 1

        async with server.consumers(language, kind="push", topic=topic, group=group) as consumers:
            await until_answered(has_begun, answer=True)
            assert await type_of(server, topic) is None
            await server.client.send(topic, b"good-1")
            await server.client.send(topic, b"good-2")
            await consumers.until(at_least(2), "both messages")
            await server.finished(group)
        assert attempts(consumers.events) == {"good-1": [1], "good-2": [1]}

    await in_each(LANGUAGES, check)
