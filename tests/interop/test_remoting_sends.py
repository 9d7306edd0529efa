"""What producers of RocketMQ 4 send, as consumers of both protocols get it, and what producers of gRPC send."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from ternmq import Message, Producer, SimpleConsumer
from ternmq.consuming.received_message import ReceivedMessage
from tests.interop.processes import DEADLINE_S
from tests.interop.remoting.running import CLIENTS, Remoting, numbered, only_once

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

LEVEL_2_MS = 5000


async def receive_all(remoting: Remoting, topic: str, group: str, count: int) -> list[ReceivedMessage]:
    """Receive so many messages by gRPC, and acknowledge them."""
    received: list[ReceivedMessage] = []
    async with SimpleConsumer(remoting.stack.grpc, group, {topic: "*"}) as consumer, asyncio.timeout(DEADLINE_S):
        while len(received) < count:
            views = await consumer.receive()
            received += views
            await consumer.ack(views)
    return received


def bodies_of(received: Sequence[ReceivedMessage]) -> Counter[str]:
    return Counter(view.body.decode() for view in received)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_message_has_all_its_parts_in_both_protocols(client: str, remoting: Remoting) -> None:
    topic = f"parts-{client}"
    await remoting.create_topic(topic)
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        sent = await driver.run(
            "send", name="p", topic=topic, body="köner 中", tag="red", keys="k1 k2", property_color="blau ü"
        )
        await driver.run("push", name="c", group=f"remoting-{client}", topic=topic)
        [got] = await driver.until_got("c", 1)
        [view] = await receive_all(remoting, topic, f"grpc-{client}", 1)
        await driver.run("stop", name="c")
    assert sent["status"] == "SEND_OK"
    assert (got.body, got["tag"], got["keys"], got.properties["color"]) == ("köner 中", "red", "k1 k2", "blau ü")
    assert (got["id"], got["times"], got["topic"]) == (sent["id"], "0", topic)
    assert (view.body.decode(), view.tag, view.keys) == ("köner 中", "red", ("k1", "k2"))
    assert view.properties == {"color": "blau ü"}
    if client != "node4":  # which names a message by its place, and sets no id
        assert view.message_id == sent["id"]
    assert view.born_timestamp is not None
    assert int(view.born_timestamp.timestamp() * 1000) == int(got["born"])
    assert abs(int(got["born"]) - time.time() * 1000) < DEADLINE_S * 1000


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_grpc_message_has_all_its_parts_for_remoting_consumers(client: str, remoting: Remoting) -> None:
    topic, group = f"to-4-{client}", f"to-4-group-{client}"
    await remoting.create_topic(topic)
    async with Producer(remoting.stack.grpc) as producer:
        sent = await producer.send(
            Message(topic, "köner 中".encode(), tag="red", keys=("k1", "k2"), properties={"color": "blau ü"})
        )
        async with remoting.driver(client) as driver:
            await driver.run("push", name="c", group=group, topic=topic)
            [got] = await driver.until_got("c", 1)
            await driver.run("stop", name="c")
    assert (got.body, got["tag"], got["keys"], got.properties["color"]) == ("köner 中", "red", "k1 k2", "blau ü")
    assert (got.properties["UNIQ_KEY"], got["times"]) == (sent.message_id, "0")


@pytest.mark.parametrize("client", ["java4", "java5", "go4", "python4"])
async def test_all_ways_of_sending_store_each_message_once(client: str, remoting: Remoting) -> None:
    topic = f"ways-{client}"
    large = "compressed " * 2000
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        for mode in ("sync", "async", "oneway"):
            await driver.run("send", name="p", topic=topic, mode=mode, body=numbered(10, f"{mode}-"))
        await driver.run("batch", name="p", topic=topic, body=numbered(10, "batch-"), tag="red")
        await driver.run("send", name="p", topic=topic, body=large)
        views = await receive_all(remoting, topic, f"ways-grpc-{client}", 41)
        await driver.run("push", name="c", group=f"ways-remoting-{client}", topic=topic)
        await driver.until_got("c", 41)
        bodies = driver.bodies("c")
    expected = Counter({large: 1})
    for way in ("sync", "async", "oneway", "batch"):
        expected += only_once(10, f"{way}-")
    assert bodies_of(views) == expected
    assert bodies == expected
    assert len({view.message_id for view in views}) == 41


@pytest.mark.parametrize("client", ["java4", "java5", "go4", "python4"])
async def test_ordered_messages_stay_in_one_queue_in_order(client: str, remoting: Remoting) -> None:
    topic = f"ordered-{client}"
    await remoting.create_topic(topic)
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        for number in range(20):
            for key in ("a", "b", "c"):
                body = f"{key}-{number}"
                await driver.run("send", name="p", topic=topic, mode="ordered", order=key, body=body)
        await driver.run("push", name="c", group=f"ordered-{client}", topic=topic, orderly="yes")
        got = await driver.until_got("c", 60)
    for key in ("a", "b", "c"):
        of_key = [event for event in got if event.body.startswith(key)]
        assert [event.body for event in of_key] == numbered(20, f"{key}-")
        assert len({event["queue"] for event in of_key}) == 1


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_delay_level_delays_in_both_protocols(client: str, remoting: Remoting) -> None:
    topic = f"delayed-{client}"
    await remoting.create_topic(topic)
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("push", name="c", group=f"delayed-{client}", topic=topic)
        receiving = asyncio.create_task(receive_all(remoting, topic, f"delayed-grpc-{client}", 2))
        began_ms = time.time() * 1000
        await driver.run("send", name="p", topic=topic, body="delayed", delay=2)
        await driver.run("send", name="p", topic=topic, body="ordinary")
        got = await driver.until_got("c", 2)
        views = await receiving
    assert [event.body for event in got] == ["ordinary", "delayed"]
    assert LEVEL_2_MS - 100 <= int(got[1]["clock"]) - began_ms <= LEVEL_2_MS + 5000
    assert bodies_of(views) == Counter({"ordinary": 1, "delayed": 1})


async def test_messages_of_all_producers_come_once_to_each_group_of_all_consumers(remoting: Remoting) -> None:
    topic, count = "mixed", 100
    await remoting.create_topic(topic)
    expected = Counter[str]()
    async with AsyncExitStack() as started:
        drivers = {client: await started.enter_async_context(remoting.driver(client)) for client in CLIENTS}
        sender = await started.enter_async_context(Producer(remoting.stack.grpc))
        for client, driver in drivers.items():
            await driver.run("push", name="c", group=f"mixed-{client}", topic=topic)
            await driver.run("producer", name="p", group=f"mixed-producers-{client}")
        sends = [
            driver.run("send", name="p", topic=topic, body=numbered(count, f"{client}-"))
            for client, driver in drivers.items()
        ]
        messages = [Message(topic, body.encode()) for body in numbered(count, "grpc-")]
        await asyncio.gather(*sends, sender.send_many(messages))
        for origin in (*CLIENTS, "grpc"):
            expected += only_once(count, f"{origin}-")
        views = await receive_all(remoting, topic, "mixed-grpc", expected.total())
        for driver in drivers.values():
            await driver.until_got("c", expected.total())
        assert bodies_of(views) == expected
        for client, driver in drivers.items():
            assert driver.bodies("c") == expected, client
