"""Pages of rocketmq-dashboard show right numbers: a program makes their calls, by the client of the release that the
dashboard stands on."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.interop.remoting.running import JAVA_OPTIONS, Event, Remoting, numbered
from tests.support.maven import jars
from tests.support.remoting_client import RemotingClient

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

RELEASE = "5.3.1"
PROGRAM = Path(__file__).with_name("dashboard") / "ShowPages.java"
TOPIC, GROUP, PRODUCERS = "dashboard-orders", "dashboard-billing", "dashboard-shop"
WITHIN_S, LOOK_S = 60, 0.2


async def show_pages(remoting: Remoting, home: Path, message_id: str) -> dict[str, Event]:
    """Return what each page shows."""
    folder = jars(f"rocketmq-tools-{RELEASE}", [f"org.apache.rocketmq:rocketmq-tools:{RELEASE}"])
    java = ["java", *JAVA_OPTIONS, f"-Duser.home={home}", "-cp", f"{folder}/*", str(PROGRAM)]
    arguments = [remoting.stack.addresses["remoting"], TOPIC, GROUP, PRODUCERS, message_id]
    process = await asyncio.create_subprocess_exec(
        *java, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, f"{output.decode()}\n{errors.decode()}"
    pages = [Event.parse(line) for line in output.splitlines() if line.startswith(b"event=")]
    return {page["event"]: page for page in pages}


async def until_counted(address: str, count: int) -> None:
    """Wait until the broker's figures have so many messages sent and received, and the group has committed all."""
    async with await RemotingClient.connect(address) as operator, asyncio.timeout(WITHIN_S):
        while True:
            figures = [
                await operator.call(315, statsName=name, statsKey=key)
                for name, key in (("TOPIC_PUT_NUMS", TOPIC), ("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}"))
            ]
            progress = await operator.call(208, consumerGroup=GROUP, topic=TOPIC)
            ends, committed = (
                sum(map(int, re.findall(rb'"%s":(\d+)' % name, progress.body)))
                for name in (b"brokerOffset", b"consumerOffset")
            )
            sums = [json.loads(figure.body)["statsMinute"]["sum"] if not figure.code else 0 for figure in figures]
            if min(sums) >= count and ends == committed == count:
                return
            await asyncio.sleep(LOOK_S)


async def test_each_page_shows_what_is_so(own: Remoting, tmp_path: Path) -> None:
    await own.create_topic(TOPIC)
    async with own.driver("java4") as driver:
        await driver.run("producer", name="p", group=PRODUCERS)
        await driver.run("push", name="c", group=GROUP, topic=TOPIC, delay_level=-1)
        for number in range(10):
            sent = await driver.run("send", name="p", topic=TOPIC, body=str(number), tag="red", keys=f"key-{number}")
        last = sent["id"]
        await driver.run("send", name="p", topic=TOPIC, body="poison-x")
        await driver.until_got("c", 11)
        await until_counted(own.stack.addresses["remoting"], 11)
        pages = await show_pages(own, tmp_path, last)
        await driver.until_got("c", 12)
        assert driver.bodies("c")["9"] == 2  # it was sent to the listener again from the page of messages
    address = own.stack.addresses["remoting"]
    cluster = pages["cluster"]
    assert (cluster["cluster"], cluster["broker"], cluster["name"]) == ("DefaultCluster", "broker-0", "broker-0")
    assert (cluster["address"], cluster["version"][:7], cluster["morning"]) == (address, "TernMQ_", "0")
    assert all(len([float(rate) for rate in cluster[name].split()]) == 3 for name in ("put", "got"))
    topics = pages["topics"]
    assert (topics["listed"], topics["all"], topics["brokers"], topics["config"]) == ("true", "true", "1", "4/4/6")
    assert (topics["queues"], topics["stats"], topics["messages"], topics["groups"]) == ("4", "4", "11", f"[{GROUP}]")
    consumers = pages["consumers"]
    assert (consumers["listed"], consumers["tries"], consumers["lag"], consumers["read"]) == ("true", "16", "0", "11")
    assert (consumers["members"], consumers["version"], consumers["language"]) == ("1", "409", "JAVA")
    assert (consumers["type"], consumers["model"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert (consumers["from"], consumers["queues"]) == ("CONSUME_FROM_FIRST_OFFSET", "4")
    assert consumers["subscriptions"] == f"[%RETRY%{GROUP}, {TOPIC}]"
    assert (consumers["running"], consumers["subscribed"]) == ("5", "2")  # the retry topic has a queue too
    assert TOPIC in consumers["topics"]
    producers = pages["producers"]
    assert (producers["version"], producers["language"], producers["client"][-2:]) == ("409", "JAVA", "@p")
    messages = pages["messages"]
    assert messages["by_time"].split(",") == [*numbered(10), "poison-x"]
    assert (messages["before"], messages["by_key"], messages["by_id"]) == ("", "3", "9")
    assert (messages["tags"], messages["keys"]) == ("red", "key-9")
    assert (messages["track"], messages["resent"]) == ("CONSUMED", "CR_SUCCESS")
    assert (pages["dead"]["brokers"], pages["dead"]["bodies"]) == ("1", "poison-x")
    changed = pages["changed"]
    assert (changed["sent"], changed["messages"], changed["listed"]) == ("SEND_OK", "1", "false")
    assert (pages["group"]["tries"], pages["group"]["listed"]) == ("3", "false")
    users = pages["users"]
    assert (users["names"], users["resource"], users["left"]) == ("[dashboard-user]", "Topic:x", "0")
    assert (pages["start"]["sent"], int(pages["start"]["got"]) >= 11) == ("11", True)
