"""Moves a fleet from a real Apache RocketMQ under load, and prints what was lost and what came twice.

    python -m benchmarks.migration [--full] [--messages N] [--rate N] [--kills N]

Fleet     10 topics of 8 queues, 20 groups, two for each topic, producers and consumers of Java's client 4.9.8 in one
          process; numbered messages of 200 bytes, 100,000 or 1,000,000 of them, sent at a rate to all topics together
Move      `ternmq import rocketmq`, `ternmq mirror --state`, then topic by topic: in one half of them consumers move
          first, each group as soon as it stopped there, then the producer, in the middle of its messages; in the other
          half the producer moves first. The mirror is killed now and then, and starts again
Lost      a message that was acknowledged to its producer, and that a group received at neither cluster
Doubles   messages that a group got more than once, at both sides together. `repeats` are sends that the client repeated
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.interop.apache_rocketmq import ApacheRocketMQ
from tests.interop.remoting.running import Driver, RemotingStack, command_of
from tests.support.mirroring import MirrorProcess
from tests.support.remoting_client import RemotingClient

TOPICS, GROUPS_OF_TOPIC, QUEUES = 10, 2, 8
QUICK, FULL = 100_000, 1_000_000
SETTLE_S, LOOK_S = 8.0, 1.0
END_S = 3600.0
_CREATE_TOPIC = 17
JAVA_OPTIONS = ("-Xmx1500m",)


@dataclass(slots=True)
class Fleet:
    """The programs, and where both sides are."""

    there: str
    here: str
    driver: Driver
    each: int
    rate: float
    floods: dict[str, int] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        return [f"load-{number}" for number in range(TOPICS)]

    def groups_of(self, topic: str) -> list[str]:
        return [f"{topic}-group-{number}" for number in range(GROUPS_OF_TOPIC)]

    async def start_consumer(self, group: str, topic: str, *, moved: bool) -> None:
        side, address = ("here", self.here) if moved else ("there", self.there)
        await self.driver.run(
            "push", name=f"{group}-{side}", group=group, topic=topic, counts="yes", address=address, instance=side
        )

    async def flood(self, topic: str, first: int, count: int, *, moved: bool) -> None:
        """Begin to send a range of a topic's messages."""
        side = "here" if moved else "there"
        await self.driver.run(
            "flood", name=side, topic=topic, **{"from": first}, count=count, rate=int(max(1, self.rate / TOPICS))
        )

    async def until_flooded(self, count: int) -> None:
        """Wait until so many ranges have been sent."""
        async with asyncio.timeout(END_S):
            while len(found := [each for each in self.driver.events if each["event"] == "flooded"]) < count:
                if any(each["event"] == "failed" for each in self.driver.events):
                    raise AssertionError(self.driver.report())
                await asyncio.sleep(0.2)
                await self.driver.run("tally", group="none", topic="none", count=0)
        self.floods = {each["topic"]: self.floods.get(each["topic"], 0) for each in found}

    async def tally(self) -> tuple[int, int, dict[str, int]]:
        """Return how many messages groups have not got, how many they got twice, and those by topic."""
        missing, twice = 0, dict[str, int]()
        for topic in self.topics:
            for group in self.groups_of(topic):
                report = await self.driver.run("tally", group=group, topic=topic, count=self.each)
                missing += self.each - int(report["seen"])
                twice[topic] = twice.get(topic, 0) + int(report["doubles"])
        return missing, sum(twice.values()), twice

    async def until_delivered(self) -> tuple[int, int, dict[str, int]]:
        """Wait until nothing is missing, or nothing comes any more."""
        before, since = -1, time.monotonic()
        while True:
            missing, doubles, twice = await self.tally()
            if not missing or time.monotonic() - since > 60:
                return missing, doubles, twice
            if missing != before:
                before, since = missing, time.monotonic()
            await asyncio.sleep(1)


class Mirror:
    """The mirror, which can be killed and starts again."""

    def __init__(self, options: list[str], log: Path) -> None:
        self._options, self._log = options, log
        self._process: MirrorProcess | None = None
        self.kills = 0

    async def start(self) -> None:
        self._process = await MirrorProcess(self._options, self._log).__aenter__()

    async def kill_and_start(self) -> None:
        assert self._process is not None
        await self._process.kill()
        self.kills += 1
        await self.start()

    async def end(self) -> dict[str, int]:
        assert self._process is not None
        return await self._process.end()


async def move_fleet(
    fleet: Fleet, mirror: Mirror, import_options: list[str], kills: int, status_file: Path
) -> dict[str, object]:
    """Move all topics, and return what came of it."""
    began = time.monotonic()
    half = fleet.each // 2
    for side, address in (("there", fleet.there), ("here", fleet.here)):
        await fleet.driver.run("producer", name=side, group=f"producers-{side}", address=address, instance=f"p-{side}")
    for topic in fleet.topics:
        for group in fleet.groups_of(topic):
            await fleet.start_consumer(group, topic, moved=False)
        await fleet.flood(topic, 0, half, moved=False)
    await run_command("import", "rocketmq", *import_options, "--yes")
    await mirror.start()
    consumers_first, producers_first = fleet.topics[: TOPICS // 2], fleet.topics[TOPICS // 2 :]
    for number, topic in enumerate(consumers_first):
        await move_groups(fleet, topic, status_file)
        if number < kills:
            await mirror.kill_and_start()
    sent_s = time.monotonic()
    await fleet.until_flooded(TOPICS)
    for topic in fleet.topics:
        await fleet.flood(topic, half, fleet.each - half, moved=True)
    for topic in producers_first:
        await move_groups(fleet, topic, status_file)
    await fleet.until_flooded(2 * TOPICS)
    missing, doubles, twice = await fleet.until_delivered()
    result = await mirror.end()
    repeats = sum(int(each["repeats"]) for each in fleet.driver.events if each["event"] == "flooded")
    return {
        "messages": fleet.each * TOPICS,
        "deliveries": fleet.each * TOPICS * GROUPS_OF_TOPIC,
        "lost": missing,
        "doubles": doubles,
        "doubles_consumers_first": sum(twice[topic] for topic in consumers_first),
        "doubles_producers_first": sum(twice[topic] for topic in producers_first),
        "doubles_by_topic": twice,
        "repeats": repeats,
        "kills": mirror.kills,
        "moving_s": round(sent_s - began, 1),
        "seconds": round(time.monotonic() - began, 1),
        "mirror": result,
    }


def read_status(path: Path) -> dict[str, Any]:
    """Return the mirror's last status; empty before the first one."""
    status: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return status


async def until_moved(status_file: Path, groups: list[str]) -> None:
    """Wait until the mirror has looked at the groups after they stopped, and says that nothing would come twice, or as
    much as before."""
    stopped = datetime.now(UTC)
    before, since = -1, time.monotonic()
    while time.monotonic() - since < SETTLE_S:
        await asyncio.sleep(0.2)
        status = await asyncio.to_thread(read_status, status_file)
        if not status or (datetime.fromisoformat(status["time"]) - stopped).total_seconds() < LOOK_S:
            since = time.monotonic()
            continue
        behind = sum(status["groups"].get(group, 0) for group in groups)
        if not behind:
            return
        if behind != before:
            before, since = behind, time.monotonic()


async def move_groups(fleet: Fleet, topic: str, status_file: Path) -> None:
    """Move both groups of a topic: stop there, wait until the mirror has moved the group, start here."""
    for group in fleet.groups_of(topic):
        await fleet.driver.run("stop", name=f"{group}-there")
    await until_moved(status_file, fleet.groups_of(topic))
    for group in fleet.groups_of(topic):
        await fleet.start_consumer(group, topic, moved=True)


async def create_topics(broker: str, topics: list[str]) -> None:
    """Create topics without a type at the source; its admin tool takes seconds for each."""
    async with await RemotingClient.connect(broker) as client:
        for topic in topics:
            answer = await client.call(
                _CREATE_TOPIC,
                topic=topic,
                defaultTopic="TBW102",
                readQueueNums=QUEUES,
                writeQueueNums=QUEUES,
                perm=6,
                topicFilterType="SINGLE_TAG",
                topicSysFlag=0,
                order=False,
            )
            assert answer.code == 0, answer.remark


async def run_command(*words: str) -> None:
    command = [sys.executable, "-m", "ternmq_command.main", *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    if await process.wait():
        raise SystemExit(f"{words} failed")


async def main() -> None:
    """Move a fleet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help=f"{FULL:,} messages")
    parser.add_argument("--messages", type=int, help=f"by default {QUICK:,}")
    parser.add_argument("--rate", type=float, default=2500, help="messages per second, of all producers")
    parser.add_argument("--kills", type=int, default=2, help="how often the mirror is killed")
    arguments = parser.parse_args()
    messages = arguments.messages or (FULL if arguments.full else QUICK)
    with tempfile.TemporaryDirectory(prefix="migration-") as name:
        folder = Path(name)
        with ApacheRocketMQ(waitTimeMillsInSendQueue=30_000) as peer, RemotingStack(folder / "server") as stack:
            command = [*command_of("java4", folder / "clients", options=JAVA_OPTIONS), peer.namesrv_address]
            async with Driver(command, folder / "clients") as driver:
                here = stack.addresses["remoting"]
                fleet = Fleet(peer.namesrv_address, here, driver, messages // TOPICS, arguments.rate)
                await create_topics(peer.broker_address, fleet.topics)
                peer.create_groups([group for topic in fleet.topics for group in fleet.groups_of(topic)])
                source = ["--namesrv", peer.namesrv_address, "--endpoint", stack.grpc]
                mirror = Mirror(
                    [*source, "--remoting", here, "--topic", "load-*", "--state", str(folder / "state")],
                    folder / "mirror.log",
                )
                result = await move_fleet(fleet, mirror, source, arguments.kills, folder / "state" / "status.json")
                print(json.dumps(result))
                print((folder / "mirror.log").read_text()[-2000:], file=sys.stderr)
    raise SystemExit(1 if result["lost"] else 0)


if __name__ == "__main__":
    asyncio.run(main())
