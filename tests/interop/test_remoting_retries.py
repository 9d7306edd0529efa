"""Messages that listeners of RocketMQ 4 fail on come again, and become dead letters."""

from collections import Counter

import pytest

from ternmq import SimpleConsumer
from tests.interop.clients import in_each
from tests.interop.remoting.running import CLIENTS, Remoting

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

FIRST_RETRY_MS = 10_000


async def test_a_message_comes_again_after_its_listener_failed(remoting: Remoting) -> None:
    async def check(client: str) -> None:
        topic = await remoting.create_topic(f"retried-{client}")
        async with remoting.driver(client) as driver:
            await driver.run("producer", name="p", group="producers")
            await driver.run("push", name="c", group=f"retried-{client}", topic=topic)
            await driver.run("send", name="p", topic=topic, tag="red", body=["fail-1-a", "good"])
            await driver.until_got("c", 3)
            assert driver.bodies("c") == Counter({"fail-1-a": 2, "good": 1})
            first, again = [event for event in driver.got("c") if event.body == "fail-1-a"]
        assert (first["times"], again["times"]) == ("0", "1")
        assert (again["topic"], again["tag"]) == (topic, "red")
        assert int(again["clock"]) - int(first["clock"]) >= FIRST_RETRY_MS - 500

    await in_each(CLIENTS, check)


async def test_a_message_without_tries_left_is_a_dead_letter(remoting: Remoting) -> None:
    async def check(client: str) -> None:
        topic, group = await remoting.create_topic(f"dead-{client}"), f"dead-{client}"
        async with remoting.driver(client) as driver:
            await driver.run("producer", name="p", group="producers")
            await driver.run("push", name="c", group=group, topic=topic, max_times=1, delay_level=1)
            await driver.run("send", name="p", topic=topic, body="poison-a", keys="k")
            await driver.until_got("c", 2)
            async with SimpleConsumer(remoting.stack.grpc, f"readers-{client}", {f"%DLQ%{group}": "*"}) as consumer:
                views = await consumer.receive()
                while not views:
                    views = await consumer.receive()
                await consumer.ack(views)
        [dead] = views
        assert (dead.body, dead.keys) == (b"poison-a", ("k",))
        assert [event["times"] for event in driver.got("c")] == ["0", "1"]

    await in_each(("java4", "java5", "go4"), check)


@pytest.mark.parametrize("client", ["java4", "go4"])
async def test_an_orderly_listener_keeps_the_order_over_a_failure(client: str, remoting: Remoting) -> None:
    topic = f"in-order-{client}"
    await remoting.create_topic(topic, queues=1)
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("send", name="p", topic=topic, body=["a", "fail-1-b", "c"])
        await driver.run("push", name="c", group=topic, topic=topic, orderly="yes")
        await driver.until_got("c", 4)
        assert [event.body for event in driver.got("c")] == ["a", "fail-1-b", "fail-1-b", "c"]
