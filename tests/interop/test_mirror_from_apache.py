"""`ternmq mirror` beside a real Apache RocketMQ: messages of all kinds, groups that move, and a mirror that is killed.

The steps are those of docs/migration.md.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ternmq_common.shard.mirror_origin import MIRROR_PROPERTY, parse_origin
from ternmq_common.shard.property_text import read_properties
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.interop.remoting.running import Driver, RemotingStack, command_of
from tests.support.mirroring import MirrorProcess
from tests.support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

TOPIC, GROUP = "orders", "billing"
QUEUES = 4
RETRIED = "fail-3-times"
ENOUGH_S = 120.0


async def run_command(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "ternmq_command.main", *words)
    assert await process.wait() == 0, words


async def read_queue(address: str, queue_id: int, topic: str = TOPIC) -> list[MessageRecord]:
    """Return all messages of a queue at either side."""
    found: list[MessageRecord] = []
    offset = 0
    async with await RemotingClient.connect(address) as client:
        while True:
            answer = await client.pull(
                "TOOLS_CONSUMER",
                topic,
                queue_id=queue_id,
                offset=offset,
                sysFlag=4,
                subscription="*",
                expressionType="TAG",
            )
            if answer.code != 0:
                return found
            found += decode_records(answer.body)
            offset = int(answer.fields["nextBeginOffset"])


async def send_all_kinds(driver: Driver, number: int) -> list[str]:
    """Send messages of all kinds that 4.x clients send; return their bodies."""
    sent = [f"plain-{number}-{each}" for each in range(40)]
    await driver.run("send", name="p", topic=TOPIC, body=sent, tag="paid", keys="k1 k2", property_city="Köln", flag=7)
    batch = [f"batch-{number}-{each}" for each in range(20)]
    await driver.run("batch", name="p", topic=TOPIC, body=batch, tag="batched")
    ordered = [f"ordered-{number}-{each}" for each in range(20)]
    await driver.run("send", name="p", topic=TOPIC, body=ordered, mode="ordered", order=f"o{number}")
    late = [f"late-{number}"]
    await driver.run("send", name="p", topic=TOPIC, body=late, delay=1)
    large = ["x" * 20_000 + str(number)]  # which Java's client compresses
    await driver.run("send", name="p", topic=TOPIC, body=large)
    await driver.run("transaction", name="t", topic=TOPIC, body=f"commit-{number}")
    await driver.run("transaction", name="t", topic=TOPIC, body=f"rollback-{number}")
    return [*sent, *batch, *ordered, *late, *large, f"commit-{number}"]


async def start_consumer(driver: Driver, name: str) -> None:
    await driver.run("push", name=name, group=GROUP, topic=TOPIC, delay_level=2)


async def until_moved(status: Path) -> None:
    """Wait until the mirror has read the offsets that the group committed at its end, and has moved it."""
    stopped = datetime.now(UTC)
    async with asyncio.timeout(ENOUGH_S):
        while True:
            said = json.loads(await asyncio.to_thread(status.read_text))
            seen_s = (datetime.fromisoformat(said["time"]) - stopped).total_seconds()
            if seen_s > 1 and said["groups"][GROUP] == 0:
                return
            await asyncio.sleep(0.2)


async def until_got(drivers: list[tuple[Driver, str]], wanted: set[str], *, times: int = 1) -> Counter[str]:
    """Wait until the consumers together have got all bodies, so many times at least; return how often each came."""
    async with asyncio.timeout(ENOUGH_S):
        while True:
            got = sum((driver.bodies(name) for driver, name in drivers), Counter[str]())
            if all(got[body] >= times for body in wanted):
                return got
            await drivers[0][0].run("send", name="p", topic="ticks", body="tick")
            for driver, _ in drivers[1:]:
                await driver.run("send", name="p", topic="ticks", body="tick")
            await asyncio.sleep(0.5)


async def test_a_fleet_moves_while_both_run(tmp_path: Path) -> None:
    # A busy machine is no reason for it to refuse sends.
    with ApacheRocketMQ(waitTimeMillsInSendQueue=30_000) as peer, RemotingStack(tmp_path / "server") as stack:
        for topic in (TOPIC, "ticks"):
            # Without a type, as in 4.x: it is mixed here.
            peer.admin("updateTopic", "-t", topic, "-r", str(QUEUES), "-w", str(QUEUES))
        peer.create_groups([GROUP])
        here = stack.addresses["remoting"]
        source = ("--namesrv", peer.namesrv_address, "--endpoint", stack.grpc)
        options = (*source, "--remoting", here, "--topic", TOPIC, "--state", str(tmp_path / "state"))
        log = tmp_path / "mirror.log"
        async with (
            Driver([*command_of("java4", tmp_path / "there"), peer.namesrv_address], tmp_path / "there") as there,
            Driver([*command_of("java4", tmp_path / "here"), here], tmp_path / "here") as moved,
        ):
            await there.run("producer", name="p", group="producers")
            await there.run("producer", name="t", group="transactions", transactions="yes")
            bodies = set(await send_all_kinds(there, 1))
            await start_consumer(there, "c")
            got = await until_got([(there, "c")], bodies)  # and the group has committed them
            # 1. topics and groups; 2. the mirror, which is killed in the middle of its work
            await run_command("import", "rocketmq", *source, "--yes")
            async with MirrorProcess(options, log) as mirror:
                bodies |= set(await send_all_kinds(there, 2))
                await mirror.kill()
            async with MirrorProcess(options, log) as mirror:
                bodies |= {RETRIED}
                await there.run("send", name="p", topic=TOPIC, body=RETRIED)
                await until_got([(there, "c")], bodies)
                # 3. consumers: all of the group stop there, then start here
                await there.run("stop", name="c")
                bodies |= set(await send_all_kinds(there, 3))
                await until_moved(tmp_path / "state" / "status.json")
                await moved.run("producer", name="p", group="producers")
                await moved.run("producer", name="t", group="transactions", transactions="yes")
                await start_consumer(moved, "c")
                await until_got([(there, "c"), (moved, "c")], bodies)
                # 4. producers
                bodies |= set(await send_all_kinds(moved, 4))
                got = await until_got([(there, "c"), (moved, "c")], bodies)
                got = await until_got([(there, "c"), (moved, "c")], {RETRIED}, times=4)
                result = await mirror.end()
            async with MirrorProcess([*options, "--until-caught-up"], log) as mirror:
                last = await mirror.wait()
        assert (last["copied"], last["lag"], last["lost"], last["doubles"]) == (0, 0, 0, 0), (last, log.read_text())
        assert result["lost"] == result["doubles"] == 0
        twice = {body: count for body, count in got.items() if count > 1 and not body.startswith("fail-")}
        assert not twice
        assert not any(body.startswith("rollback-") for body in got)
        assert got[RETRIED] == 4  # it failed three times, at either side, and then it did not
        for queue_id in range(QUEUES):
            before = await read_queue(peer.broker_address, queue_id)
            after = [each for each in await read_queue(here, queue_id) if MIRROR_PROPERTY in each.properties]
            check_copies(before, after)


def check_copies(before: list[MessageRecord], after: list[MessageRecord]) -> None:
    """Check that each message of a queue is there once, in order, with all that it had."""
    for old, new in zip(before, after, strict=True):
        assert (old.flag, old.born_ms, old.born_host) == (new.flag, new.born_ms, new.born_host)
        assert old.system_flag & 1 or old.body == new.body
        kept = read_properties(new.properties)
        origin = parse_origin(kept[MIRROR_PROPERTY])
        assert origin is not None
        assert (origin.broker, origin.queue_offset) == ("broker-a", old.queue_offset)
        for name in ("UNIQ_KEY", "TAGS", "KEYS", "city"):
            assert read_properties(old.properties).get(name) == kept.get(name)
