"""Transactions and requests of producers of RocketMQ 4."""

from collections import Counter

import pytest

from tests.interop.remoting.running import Remoting

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("client", ["java4", "java5", "go4"])
async def test_transactions_end_as_the_producer_says(client: str, remoting: Remoting) -> None:
    topic = f"transactions-{client}"
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group=f"transactions-{client}", transactions="yes")
        for body in ("rollback-a", "commit-a", "rollback-b", "commit-b"):
            await driver.run("transaction", name="p", topic=topic, body=body, tag="red", property_color="blue")
        await driver.run("push", name="c", group=f"transactions-{client}", topic=topic)
        got = await driver.until_got("c", 2)
        assert driver.bodies("c") == Counter(["commit-a", "commit-b"])
        assert {(event["tag"], event.properties["color"]) for event in got} == {("red", "blue")}


@pytest.mark.parametrize("client", ["java4", "java5"])
async def test_a_request_gets_the_reply_of_another_client(client: str, remoting: Remoting) -> None:
    topic = f"requests-{client}"
    await remoting.create_topic(topic)
    async with remoting.driver(client) as asking, remoting.driver("java4") as answering:
        await answering.run("push", name="c", group=f"requests-{client}", topic=topic, replies="yes")
        await asking.run("producer", name="p", group=f"asking-{client}")
        answer = await asking.run("request", name="p", topic=topic, body="question")
        assert answer["body"] == "reply to question"
