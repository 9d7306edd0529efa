"""Java's push consumer of RocketMQ 5.5.0 that pops, as `mqadmin setConsumeMode` says where the server rebalances."""

import asyncio
import itertools
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq import SimpleConsumer
from tests.interop.mqadmin.running import MqAdmin
from tests.interop.remoting.running import JAVA_5, Driver, Remoting, numbered, only_once

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

CLIENT = "java5"


async def set_mode(remoting: Remoting, home: Path, topic: str, group: str, mode: str) -> None:
    def run() -> str:
        with MqAdmin(JAVA_5, remoting.stack.addresses["remoting"], home) as mqadmin:
            return mqadmin.run(
                "setConsumeMode", "-c", "DefaultCluster", "-t", topic, "-g", group, "-m", mode, "-q", "0"
            )

    printed = await asyncio.to_thread(run)
    assert f"consume mode[{mode}]" in printed, printed


async def begin(driver: Driver, name: str, topic: str, **pairs: object) -> None:
    """Start a consumer that has the server rebalance."""
    await driver.run("push", name=name, group=topic, topic=topic, server_rebalance="yes", **pairs)  # type: ignore[arg-type]


async def test_two_members_pop_each_message_once(remoting: Remoting, tmp_path: Path) -> None:
    topic = await remoting.create_topic("popped")
    await set_mode(remoting, tmp_path, topic, topic, "POP")
    async with remoting.driver(CLIENT) as one, remoting.driver(CLIENT) as two:
        await one.run("producer", name="p", group="producers")
        await begin(one, "first", topic)
        await begin(two, "second", topic)
        sent = Counter[str]()

        async def bodies() -> Counter[str]:
            for driver in (one, two):
                await driver.attempt("nothing")
            return one.bodies("first") + two.bodies("second")

        # A member begins some time after it has joined: until then the other one gets all.
        for part in itertools.count():
            await one.run("send", name="p", topic=topic, tag="red", keys="k", body=numbered(100, f"{part}-"))
            sent += only_once(100, f"{part}-")
            while (await bodies()).total() < sent.total():
                pass
            if len(one.got("first")) >= 50 and len(two.got("second")) >= 50:
                break
        assert await bodies() == sent
        event = one.got("first")[0]
        assert (event["topic"], event["tag"], event["keys"], event["times"]) == (topic, "red", "k", "0")
        assert event["p.POP_CK"].split(" ")[4:6] == ["0", "broker-0"]
    # All were acknowledged: nothing comes again to a receiver by gRPC, which may join this group.
    async with SimpleConsumer(
        remoting.stack.grpc, topic, {topic: "*"}, await_duration=timedelta(seconds=1)
    ) as consumer:
        assert await consumer.receive() == []


async def test_a_failed_message_is_popped_again_and_dies_in_the_end(remoting: Remoting, tmp_path: Path) -> None:
    topic = await remoting.create_topic("popped-again")
    await remoting.run_command("group", "create", topic, "--max-attempts", "2", "--remoting-pop")
    async with remoting.driver(CLIENT) as driver:
        await driver.run("producer", name="p", group="producers")
        # Level n waits for the n-th of 10 s, 30 s, 1 min and so on: the first failure 10 s.
        await begin(driver, "c", topic)
        await driver.run("send", name="p", topic=topic, body=["fail-1-a", "poison-b", "good"])
        await driver.until_got("c", 5)
        assert driver.bodies("c") == Counter({"fail-1-a": 2, "poison-b": 2, "good": 1})
        assert sorted(event["times"] for event in driver.got("c")) == ["0", "0", "0", "1", "1"]
        async with SimpleConsumer(remoting.stack.grpc, "pop-readers", {f"%DLQ%{topic}": "*"}) as consumer:
            while not (views := await consumer.receive()):
                pass
            await consumer.ack(views)
    assert [view.body for view in views] == [b"poison-b"]


async def test_an_unfinished_message_comes_to_another_member(remoting: Remoting, tmp_path: Path) -> None:
    topic = await remoting.create_topic("popped-then-killed")
    await remoting.run_command("group", "create", topic, "--remoting-pop")
    async with remoting.driver(CLIENT) as other:
        async with remoting.driver(CLIENT) as killed:
            await killed.run("producer", name="p", group="producers")
            await begin(killed, "first", topic, sleep_ms=60_000, invisible_ms=10_000)
            await killed.run("send", name="p", topic=topic, body=numbered(10))
            await killed.until_got("first", 10)
        await begin(other, "second", topic)
        await other.until_got("second", 10)
        assert other.bodies("second") == only_once(10)
        assert {event["times"] for event in other.got("second")} == {"1"}


async def test_a_fifo_group_pops_message_groups_in_order(remoting: Remoting, tmp_path: Path) -> None:
    topic = "popped-fifo"
    await remoting.run_command("topic", "create", topic, "--type", "fifo", "--queues", "4")
    await remoting.run_command("group", "create", topic, "--fifo", "--remoting-pop")
    async with remoting.driver(CLIENT) as driver:
        await driver.run("producer", name="p", group="producers")
        for order in range(3):
            bodies = ["fail-1-x", *numbered(10, f"{order}-")] if order == 1 else numbered(10, f"{order}-")
            await driver.run("send", name="p", topic=topic, mode="ordered", order=order, body=bodies)
        await begin(driver, "c", topic)
        await driver.until_got("c", 32)
        for order in range(3):
            got = [event.body for event in driver.got("c") if event["queue"] == str(order)]
            assert got == (["fail-1-x"] * 2 if order == 1 else []) + numbered(10, f"{order}-")


async def test_a_group_goes_from_pulling_to_popping_and_back(remoting: Remoting, tmp_path: Path) -> None:
    topic = await remoting.create_topic("popped-later")
    async with remoting.driver(CLIENT) as driver:
        await driver.run("producer", name="p", group="producers")
        await begin(driver, "c", topic)
        await driver.run("send", name="p", topic=topic, body=numbered(20, "pulled-"))
        await driver.until(lambda _: only_once(20, "pulled-") <= driver.bodies("c"), "the pulled ones")
        assert all("p.POP_CK" not in event for event in driver.got("c"))
        await set_mode(remoting, tmp_path, topic, topic, "POP")
        await driver.run("send", name="p", topic=topic, body=numbered(20, "popped-"))
        await driver.until(lambda _: only_once(20, "popped-") <= driver.bodies("c"), "the popped ones")
        await driver.run("send", name="p", topic=topic, body=numbered(20, "surely-"))
        await driver.until(lambda _: only_once(20, "surely-") <= driver.bodies("c"), "more of them")
        assert all("p.POP_CK" in event for event in driver.got("c") if event.body.startswith("surely-"))
        await set_mode(remoting, tmp_path, topic, topic, "PULL")
        await driver.run("send", name="p", topic=topic, body=numbered(20, "again-"))
        await driver.until(lambda _: only_once(20, "again-") <= driver.bodies("c"), "what is pulled again")
