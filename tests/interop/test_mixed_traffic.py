"""Producers and consumers of both protocols, of Java and Go, on one topic at the same time."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.interop.clients import CONSUMERS, PRODUCERS, Clients, in_each
from tests.interop.consumers.running import Consumers, at_least, deliveries
from tests.interop.remoting.running import PROGRAMS, Driver, Remoting, numbered

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

REMOTING, GRPC = ("java4", "java5", "go4"), ("java", "go")
EACH = 50
TOPIC = "mixed-traffic"
SENT = Counter(body for client in (*REMOTING, *GRPC) for body in numbered(EACH, f"{client}-"))


def origin_of(body: str) -> str:
    return body.rpartition("-")[0]


async def test_each_group_gets_each_message_of_both_protocols_once(remoting: Remoting, tmp_path: Path) -> None:
    for client in GRPC:
        CONSUMERS.build(client)
        PRODUCERS.build(client)
    for program in ("java4", "go4"):
        PROGRAMS.build(program)
    await remoting.create_topic(TOPIC)
    clients = Clients(remoting.stack.grpc, tmp_path)
    async with AsyncExitStack() as started:
        drivers = {client: await started.enter_async_context(remoting.driver(client)) for client in REMOTING}
        receivers = {
            client: await started.enter_async_context(
                clients.consumers(client, kind="push", topic=TOPIC, group=f"mixed-{client}")
            )
            for client in GRPC
        }
        senders = {client: await started.enter_async_context(clients.producer(client, TOPIC)) for client in GRPC}

        async def send(client: str) -> None:
            """Send messages, and wait until the group of the same client has those of all."""
            if client in GRPC:
                for body in numbered(EACH, f"{client}-"):
                    assert (await senders[client].tried("send", body)).kind == "sent"
                await receivers[client].until(at_least(SENT.total()), "all messages")
                return
            driver = drivers[client]
            await driver.run("producer", name="p", group=f"producers-{client}")
            await driver.run("push", name="c", group=f"mixed-{client}", topic=TOPIC)
            bodies = numbered(EACH, f"{client}-")
            await driver.run(
                "send", name="p", topic=TOPIC, tag=client, keys=f"key-{client}", property_color=client, body=bodies
            )
            await driver.until_got("c", SENT.total())

        await in_each((*REMOTING, *GRPC), send)
        # What came twice would have come by now: the last of all groups has all messages, and a further one follows.
        await drivers["java4"].run("send", name="p", topic=TOPIC, tag="java4", keys="key-java4", body="end-0")
        await asyncio.gather(
            *(drivers[client].until_got("c", SENT.total() + 1) for client in REMOTING),
            *(receivers[client].until(at_least(SENT.total() + 1), "the end") for client in GRPC),
        )
    for client in REMOTING:
        check_remoting(drivers[client])
    for client in GRPC:
        check_grpc(receivers[client])


def check_remoting(driver: Driver) -> None:
    """A consumer of the remoting protocol has all messages once, as they were sent."""
    got = driver.got("c")
    assert driver.bodies("c") == SENT + Counter(["end-0"])
    assert len({event["id"] for event in got}) == len(got)
    for event in got:
        assert (event["topic"], event["times"]) == (TOPIC, "0")
        origin = origin_of(event.body)
        if origin in REMOTING:
            assert (event["tag"], event["keys"], event.properties["color"]) == (origin, f"key-{origin}", origin)


def check_grpc(consumers: Consumers) -> None:
    """A consumer of gRPC has all messages once, as they were sent."""
    got = deliveries(consumers.events)
    assert Counter(event.body for event in got) == SENT + Counter(["end-0"])
    for event in got:
        origin = origin_of(event.body)
        if origin in REMOTING:
            assert (event.attempt, event.tag, event.properties) == (1, origin, f"color={origin}")
        else:
            assert event.attempt == 1
