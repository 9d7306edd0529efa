"""Groups whose members pull: how the queues of a topic are shared out, and how far such a group is
(`pulling.md, Shares`)."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, code
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group, describe_group
from tests.system.test_offsets import Pulled, pull, queue

pytestmark = SERVER_LOOP


class Member:
    """A client under a name of the test's choice, and what it asks for its group."""

    def __init__(self, server: Embedded, name: str, group: str, topic: str) -> None:
        self.name, self.group, self.topic = name, group, topic
        self.client = RawClient(server.grpc, metadata=(("x-mq-client-id", name),))

    async def tell(self, *topics: str, kind: "pb.ClientType" = pb.PULL_CONSUMER) -> pb.Settings:
        """Send settings, and give back those in force."""
        entries = [{"topic": {"name": topic}} for topic in topics]
        subscription = {"group": {"name": self.group}, "subscriptions": entries}
        answer = await self.client.configure(pb.Settings(client_type=kind, subscription=subscription))
        assert answer.status.code == pb.OK
        return answer.settings

    async def assigned(self, topic: str = "") -> list[int]:
        """The queues that the server wants this member to read."""
        request = rpc.QueryAssignmentRequest(topic={"name": topic or self.topic}, group={"name": self.group})
        answer = await self.client.call("QueryAssignment", request)
        assert code(answer) == "OK"
        return [assignment.message_queue.id for assignment in answer.assignments]

    async def leave(self) -> None:
        assert code(await self.client.call("NotifyClientTermination", group={"name": self.group})) == "OK"

    async def pull(self, offset: int, queue_id: int = 0, *, poll_s: float = 0.0, **fields: Proto) -> Pulled:
        place = {"group": {"name": self.group}, "message_queue": queue(self.topic, queue_id)}
        return await pull(self.client, self.topic, offset, poll_s=poll_s, **place, **fields)

    async def commit(self, offset: int, queue_id: int = 0) -> str:
        request = rpc.UpdateOffsetRequest(
            group={"name": self.group}, message_queue=queue(self.topic, queue_id), offset=offset
        )
        return code(await self.client.call("UpdateOffset", request))

    async def committed(self, queue_id: int = 0) -> int | None:
        """None while the group has no offset in the queue."""
        request = rpc.GetOffsetRequest(group={"name": self.group}, message_queue=queue(self.topic, queue_id))
        answer = await self.client.call("GetOffset", request)
        return answer.offset if code(answer) == "OK" else None


# Makes a member of a group under a name.
Joins = Callable[[str], Awaitable[Member]]


@asynccontextmanager
async def joining(server: Embedded, group: str, topic: str) -> AsyncIterator[Joins]:
    """Members of one group that pull the topic; their names begin with the group's, for no two tests share any."""
    async with AsyncExitStack() as stack:

        async def join(name: str) -> Member:
            member = Member(server, f"{group}-{name}", group, topic)
            stack.push_async_callback(member.client.channel.close)
            await member.tell(topic)
            return member

        yield join


@pytest_asyncio.fixture(loop_scope="session")
async def topic(client: RawClient, new_topic: str) -> str:
    """A topic with eight queues."""
    return await client.create_topic(new_topic, queues=8)


@pytest_asyncio.fixture(loop_scope="session")
async def joins(server: Embedded, group: str, topic: str) -> AsyncIterator[Joins]:
    async with joining(server, group, topic) as join:
        yield join


async def shares(*members: Member) -> list[list[int]]:
    return [await member.assigned() for member in members]


async def update(client: RawClient, group: str, **settings: Proto) -> None:
    """Give a group other settings."""
    assert code(await client.admin("UpdateGroup", group={"name": group, **settings})) == "OK"


# --- sharing out


async def test_the_only_member_has_every_queue_one_by_one(joins: Joins) -> None:
    assert await (await joins("a")).assigned() == [*range(8)]


async def test_shares_follow_members_that_come_and_go(joins: Joins) -> None:
    first = await joins("a")
    second = await joins("b")
    assert await shares(first, second) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    await first.leave()
    assert await second.assigned() == [*range(8)]
    third = await joins("0")
    assert await shares(third, second) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("averagely", [[0, 1, 2], [3, 4, 5], [6, 7]]),
        ("averagely-by-circle", [[0, 3, 6], [1, 4, 7], [2, 5]]),
        ("by-config:{group}-a=7;{group}-b=broker-0/0,1", [[7], [0, 1], []]),
        ("machine-room:elsewhere", [[], [], []]),
    ],
)
async def test_the_groups_strategy_says_who_reads_what(
    client: RawClient, joins: Joins, group: str, strategy: str, expected: list[list[int]]
) -> None:
    await create_group(client, name=group, assignment=strategy.format(group=group))
    assert await shares(*[await joins(name) for name in "abc"]) == expected


async def test_another_strategy_holds_from_the_next_question_on(client: RawClient, joins: Joins, group: str) -> None:
    members = [await joins(name) for name in "ab"]
    assert await shares(*members) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    await update(client, group, assignment="averagely-by-circle")
    assert await shares(*members) == [[0, 2, 4, 6], [1, 3, 5, 7]]


async def test_a_strategy_that_can_not_be_is_refused(client: RawClient, group: str) -> None:
    assert code(await create_group(client, name=group, assignment="by-luck")) == "BAD_REQUEST"


async def test_members_that_pull_other_topics_have_no_share(client: RawClient, joins: Joins, topic: str) -> None:
    first, second = await joins("a"), await joins("b")
    elsewhere = await client.create_topic(f"{topic}-elsewhere", queues=2)
    await second.tell(elsewhere)
    assert await shares(first, second) == [[*range(8)], []]
    assert await second.assigned(elsewhere) == [0, 1]
    assert await first.assigned(elsewhere) == []


async def test_a_member_that_names_no_topic_may_pull_any(client: RawClient, joins: Joins, topic: str) -> None:
    first, second = await joins("a"), await joins("b")
    await second.tell()
    assert await shares(first, second) == [[0, 1, 2, 3], [4, 5, 6, 7]]


async def test_members_of_different_groups_share_nothing(
    server: Embedded, joins: Joins, group: str, topic: str
) -> None:
    first = await joins("a")
    stranger = Member(server, f"{group}-stranger", f"{group}-neighbour", topic)
    await stranger.tell(topic)
    assert await shares(first, stranger) == [[*range(8)], [*range(8)]]
    await stranger.client.channel.close()


@pytest.mark.parametrize("kind", [pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER])
async def test_members_that_receive_have_all_queues_and_take_none_from_those_that_pull(
    joins: Joins, topic: str, kind: "pb.ClientType"
) -> None:
    pulling, receiving = await joins("b"), await joins("a")
    await receiving.tell(topic, kind=kind)
    assert await shares(pulling, receiving) == [[*range(8)], [-1]]


async def test_a_client_that_told_nothing_has_all_queues(client: RawClient, joins: Joins, group: str) -> None:
    member = await joins("a")
    answer = await client.call("QueryAssignment", topic={"name": member.topic}, group={"name": group})
    assert [assignment.message_queue.id for assignment in answer.assignments] == [-1]
    assert await member.assigned() == [*range(8)]


async def test_a_member_that_pulls_is_told_of_no_order(client: RawClient, joins: Joins, group: str, topic: str) -> None:
    await create_group(client, name=group, fifo=True)
    member = await joins("a")
    assert not (await member.tell(topic)).subscription.fifo
    assert (await member.tell(topic, kind=pb.PUSH_CONSUMER)).subscription.fifo
    assert await member.assigned() == [*range(8)]


# --- how far


async def test_a_group_that_pulls_is_as_far_as_it_says(client: RawClient, joins: Joins, group: str, topic: str) -> None:
    first, second = await joins("a"), await joins("b")
    for number in range(16):  # two for each queue
        await client.send(topic, b"%d" % number)
    assert await first.committed(3) is None
    for member, queue_id, offset in ((first, 3, 1), (second, 4, 2)):
        pulled = await member.pull(0, queue_id)
        assert (pulled.code, pulled.next_offset) == ("OK", 2)
        assert await member.commit(offset, queue_id) == "OK"
    described = await describe_group(client, group)
    assert [(member.client_id, member.client_type) for member in described.members] == [
        (first.name, pb.PULL_CONSUMER),
        (second.name, pb.PULL_CONSUMER),
    ]
    assert [
        (entry.queue_id, entry.committed, entry.cursor, entry.in_flight, entry.max_offset)
        for entry in described.progress
    ] == [(queue_id, at, at, 0, 2) for queue_id, at in enumerate([0, 0, 0, 1, 2, 0, 0, 0])]


async def test_the_lag_of_a_group_is_the_age_of_the_first_message_that_it_has_not_finished(
    client: RawClient, joins: Joins, group: str, topic: str
) -> None:
    member = await joins("a")
    await client.send(topic, b"0")
    await client.send(topic, b"1", b"2")
    [lagging] = (await member.pull(0, 1, batch_size=1)).messages
    stored_ms = lagging.system_properties.store_timestamp.ToMilliseconds()
    await member.commit(1, 0)
    await member.commit(0, 1)
    before_ms = time.time_ns() // 1_000_000
    finished, open_queue = (await describe_group(client, group)).progress
    after_ms = time.time_ns() // 1_000_000
    assert not finished.HasField("oldest_age")
    assert before_ms - stored_ms <= open_queue.oldest_age.ToMilliseconds() <= after_ms - stored_ms
