"""The trace that clients of RocketMQ 4 write of their own messages, as mqadmin shows it."""

import asyncio
from pathlib import Path

import pytest

from tests.interop.mqadmin.running import MqAdmin
from tests.interop.remoting.running import Remoting

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

LOOKS, LOOK_S = 60, 0.5


@pytest.mark.parametrize("client", ["java4", "java5"])
async def test_a_trace_shows_who_sent_a_message_and_who_consumed_it(
    client: str, remoting: Remoting, tmp_path: Path
) -> None:
    topic = f"traced-{client}"
    await remoting.create_topic(topic)
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group=f"tracing-{client}", traces="yes")
        sent = await driver.run("send", name="p", topic=topic, body="traced", keys="traced-key", tag="red")
        await driver.run("push", name="c", group=f"traced-{client}", topic=topic, traces="yes")
        await driver.until_got("c", 1)
        printed = ""
        with MqAdmin("5.5.0", remoting.stack.addresses["remoting"], tmp_path) as mqadmin:
            for _ in range(LOOKS):
                printed = await asyncio.to_thread(mqadmin.run, "queryMsgTraceById", "-i", sent["id"])
                if "Pub" in printed and "Sub" in printed:
                    break
                await asyncio.sleep(LOOK_S)
    rows = [line.split() for line in printed.splitlines() if line.startswith(("Pub", "Sub"))]
    assert [(kind, group, status) for kind, group, *_, status in rows] == [
        ("Pub", f"tracing-{client}", "success"),
        ("Sub", f"traced-{client}", "success"),
    ]
