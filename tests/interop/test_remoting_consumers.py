"""What consumers of RocketMQ 4 get: filters, shares of a topic, progress, and where they begin."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from tests.interop.remoting.running import CLIENTS, Driver, Remoting, numbered, only_once
from tests.support.embedded import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

LOOK_S = 0.1
SQL_CLIENTS = ("java4", "java5", "go4", "node4")


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_tag_filter_passes_its_tags_only(client: str, remoting: Remoting) -> None:
    topic = await remoting.create_topic(f"tags-{client}")
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("push", name="c", group=f"tags-{client}", topic=topic, tags="red || blue")
        for tag in ("red", "green", "blue"):
            await driver.run("send", name="p", topic=topic, tag=tag, body=numbered(10, f"{tag}-"))
        await driver.run("send", name="p", topic=topic, tag="red", body="last")
        await driver.until_got("c", 21)
        assert driver.bodies("c") == only_once(10, "red-") + only_once(10, "blue-") + Counter(["last"])


@pytest.mark.parametrize("client", SQL_CLIENTS)
async def test_an_sql_filter_passes_what_it_says(client: str, remoting: Remoting) -> None:
    topic = await remoting.create_topic(f"sql-{client}")
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("push", name="c", group=f"sql-{client}", topic=topic, sql="color = 'blue' AND TAGS = 'red'")
        for color in ("blue", "green"):
            await driver.run(
                "send", name="p", topic=topic, tag="red", property_color=color, body=numbered(10, f"{color}-")
            )
        await driver.run("send", name="p", topic=topic, property_color="blue", body="without a tag")
        await driver.run("send", name="p", topic=topic, tag="red", property_color="blue", body="last")
        await driver.until_got("c", 11)
        assert driver.bodies("c") == only_once(10, "blue-") + Counter(["last"])


@pytest.mark.parametrize("client", CLIENTS)
async def test_two_members_share_all_messages(client: str, remoting: Remoting) -> None:
    topic, group = await remoting.create_topic(f"shared-{client}"), f"shared-{client}"
    async with remoting.driver(client) as one, remoting.driver(client) as two:
        # The driver makes the name part of the client's id: two of one id would be one member.
        first, second = Member(one, "first"), Member(two, "second")
        await one.run("producer", name="p", group="producers")
        await one.run("push", name=first.name, group=group, topic=topic)
        await one.run("send", name="p", topic=topic, body=numbered(20, "alone-"))
        await one.until_got(first.name, 20)
        await two.run("push", name=second.name, group=group, topic=topic)
        sent, rounds = 0, 0
        # It has a part of the queues some time after it has joined, and the other one gives them up some time after
        # that: then a round comes once, in parts.
        while rounds < 3:
            bodies = [str(number) for number in range(sent, sent + 8)]
            before = await second.count_got()
            await one.run("send", name="p", topic=topic, body=bodies)
            sent += 8
            came = await gather(first, second, Counter(bodies))
            is_shared = await second.count_got() > before and all(came[body] == 1 for body in bodies)
            rounds = rounds + 1 if is_shared else 0
        await one.run("send", name="p", topic=topic, body=numbered(100, "together-"))
        expected = only_once(100, "together-") + only_once(20, "alone-") + only_once(sent)
        whole = await gather(first, second, expected)
        # While queues change hands, what was not committed comes to both. ali-ons hears of no change of members, and
        # looks every ten seconds only.
        assert client == "node4" or {body: whole[body] for body in numbered(100, "together-")} == only_once(
            100, "together-"
        )
        assert await second.count_got() >= 25


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer of a driver."""

    driver: Driver
    name: str

    async def count_got(self) -> int:
        """How many messages it has got; a command first, so that what came is read."""
        await self.driver.attempt("nothing")
        return len(self.driver.got(self.name))


async def gather(first: Member, second: Member, expected: Counter[str]) -> Counter[str]:
    """What both have got, when that has all that is expected; some of it may have come twice."""
    deadline = time.monotonic() + 60
    while True:
        whole = first.driver.bodies(first.name) + second.driver.bodies(second.name)
        if whole >= expected:
            return whole
        assert time.monotonic() < deadline, (
            f"{expected - whole} are missing\n{first.driver.report()}\n{second.driver.report()}"
        )
        await first.count_got()
        await second.count_got()


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_group_goes_on_after_restarts_of_consumer_and_server(client: str, own: Remoting) -> None:
    topic, group = await own.create_topic("kept"), "kept"
    async with own.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        for part in range(2):
            await driver.run("send", name="p", topic=topic, body=numbered(20, f"{part}-"))
            await driver.run("push", name=f"c{part}", group=group, topic=topic)
            await driver.until(lambda _, part=part: only_once(20, f"{part}-") <= driver.bodies(f"c{part}"), "its part")  # type: ignore[misc]
            await until_committed(own, group, 20 * (part + 1))
            await driver.run("stop", name=f"c{part}")
            assert driver.bodies(f"c{part}") == only_once(20, f"{part}-")
        await driver.run("stop", name="p")
    own.stack.restart()
    async with own.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("send", name="p", topic=topic, body=numbered(20, "after-"))
        await driver.run("push", name="c", group=group, topic=topic)
        await driver.until(lambda _: only_once(20, "after-") <= driver.bodies("c"), "what came after")
        assert driver.bodies("c") == only_once(20, "after-")


async def until_committed(remoting: Remoting, group: str, count: int) -> None:
    """Wait until the group has committed so many messages of its queues: clients do every five seconds, and at a stop
    only for listeners that have returned."""
    request = admin_pb2.DescribeGroupRequest(name=group)
    async with asyncio.timeout(60), RawClient(remoting.stack.grpc) as client:
        while sum(each.committed for each in (await client.admin("DescribeGroup", request)).progress) < count:  # noqa: ASYNC110 - nothing tells of commits
            await asyncio.sleep(LOOK_S)


@pytest.mark.parametrize("client", ["java4", "java5", "go4"])
async def test_each_broadcasting_member_gets_all(client: str, remoting: Remoting) -> None:
    topic = await remoting.create_topic(f"broadcast-{client}")
    async with remoting.driver(client) as first, remoting.driver(client) as second:
        for driver in (first, second):
            await driver.run("push", name="c", group=f"broadcast-{client}", topic=topic, model="BROADCASTING")
        await first.run("producer", name="p", group="producers")
        await first.run("send", name="p", topic=topic, body=numbered(20))
        for driver in (first, second):
            await driver.until_got("c", 20)
            assert driver.bodies("c") == only_once(20)


@pytest.mark.parametrize("client", ["java4", "java5", "go4", "node4"])
@pytest.mark.parametrize("where", ["FIRST_OFFSET", "LAST_OFFSET"])
async def test_a_new_group_reads_a_young_topic_from_its_beginning(client: str, where: str, remoting: Remoting) -> None:
    topic = await remoting.create_topic(f"young-{where}-{client}")
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("send", name="p", topic=topic, body=numbered(20))
        await driver.run("push", name="c", group=topic, topic=topic, **{"from": f"CONSUME_FROM_{where}"})
        await driver.until_got("c", 20)
        assert driver.bodies("c") == only_once(20)


@pytest.mark.parametrize("client", ["java4", "java5"])
async def test_a_lite_pull_consumer_subscribes_assigns_and_seeks(client: str, remoting: Remoting) -> None:
    topic = await remoting.create_topic(f"lite-{client}")
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("send", name="p", topic=topic, body=numbered(20))
        await driver.run("lite", name="subscribed", group=f"lite-{client}", topic=topic)
        await driver.run("lite", name="assigned", group=f"lite-assigned-{client}", topic=topic, assign="yes")
        for name in ("subscribed", "assigned"):
            await driver.until_got(name, 20)
            assert driver.bodies(name) == only_once(20)
        await driver.run("seek", name="assigned", offset=0)
        await driver.until_got("assigned", 40)
        assert set(driver.bodies("assigned").values()) == {2}


@pytest.mark.parametrize("client", ["java4", "java5", "python4"])
async def test_a_pull_consumer_reads_all_queues(client: str, remoting: Remoting) -> None:
    topic = await remoting.create_topic(f"pulled-{client}")
    async with remoting.driver(client) as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("send", name="p", topic=topic, body=numbered(50))
        pulled = await driver.run("pull", name="c", group=f"pulled-{client}", topic=topic)
        assert pulled["count"] == "50"
        assert driver.bodies("c") == only_once(50)
