"""Consumers of RocketMQ 4 that are at work go on where an operator moves their group to."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta

import pytest

from tests.interop.clients import in_each
from tests.interop.remoting.running import CLIENTS, Remoting, numbered, only_once

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_at_work_reads_again_from_where_its_group_is_moved_to(client: str, remoting: Remoting) -> None:
    topic = group = await remoting.create_topic(f"moved-{client}")
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("push", name="c", group=group, topic=topic)
        await driver.run("send", name="p", topic=topic, body=numbered(20))
        await driver.until_got("c", 20)
        await remoting.run_command("group", "offset", "reset", group, "--topic", topic, "--to-earliest", "--yes")
        await driver.until_got("c", 40)
        assert set(driver.bodies("c")) == set(numbered(20))
        assert min(driver.bodies("c").values()) >= 2
        await driver.run("send", name="p", topic=topic, body="after")
        await driver.until(lambda _: driver.bodies("c")["after"] == 1, "what comes after")


async def test_a_new_group_begins_at_its_time_in_a_topic_that_lost_its_first_messages(remoting: Remoting) -> None:
    async def check(client: str) -> None:
        # One queue: Go's client sends to any, and in one without purged messages the group would begin as in a young
        # topic, at its first message.
        topic = await remoting.create_topic(f"timed-{client}", queues=1)
        async with remoting.driver(client) as driver:
            await driver.run("producer", name="p", group="producers")
            await driver.run("send", name="p", topic=topic, body=numbered(20, "purged-"))
            await remoting.run_command("topic", "purge", topic, "--yes")
            await driver.run("send", name="p", topic=topic, body=numbered(20, "before-"))
            await asyncio.sleep(1.5)  # clients know seconds only
            began = datetime.now().astimezone() + timedelta(seconds=0.5)
            await asyncio.sleep(1.5)
            await driver.run("send", name="p", topic=topic, body=numbered(20, "after-"))
            where = {"from": "CONSUME_FROM_TIMESTAMP", "timestamp": began.strftime("%Y%m%d%H%M%S")}
            await driver.run("push", name="c", group=topic, topic=topic, **where)
            await driver.until_got("c", 20)
            await driver.run("send", name="p", topic=topic, body="last")
            await driver.until(lambda _: "last" in driver.bodies("c"), "the last one")
            places = [(each.body, each["queue"], each["offset"], each["stored"]) for each in driver.got("c")]
            assert driver.bodies("c") == only_once(20, "after-") + Counter(["last"]), (began.timestamp(), places)

    await in_each(("java4", "java5", "go4"), check)
