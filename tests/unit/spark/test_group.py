"""What a group is told of a stream."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from pyspark_ternmq.source.group import JOIN_INTERVAL_S, GroupProgress
from pyspark_ternmq.source.places import offsets_at
from pyspark_ternmq.source.position import Position
from pyspark_ternmq.source.topics import queues_of
from pyspark_ternmq.source.watch import Seen
from ternmq import BadRequest, MessageQueue
from ternmq.offset_reader import OffsetReader
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

QUEUE = MessageQueue(TOPIC, "broker-a", 1)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(queues=2) as running:
        running.model.append(QUEUE, b"0", b"1", b"2")
        yield running


async def told(server: ScriptedServer, use: Callable[[OffsetReader, Seen, GroupProgress], None]) -> list[int]:
    """The offsets that the group was told of, in their order."""

    def work() -> None:
        with OffsetReader(server.endpoint, patience=10, kind="spark") as reader:
            queues = queues_of(reader, [TOPIC])
            seen = Seen({TOPIC: "a-1"}, queues, offsets_at(reader, queues, "latest"))
            use(reader, seen, GroupProgress("reports"))

    await asyncio.to_thread(work)
    return [request.offset for request in server.requests["UpdateOffset"]]


def at(first: int, second: int, identity: str = "a-1") -> Position:
    return Position({TOPIC: {"broker-a/0": first, "broker-a/1": second}}, {TOPIC: identity})


async def test_only_what_has_changed_is_told_and_the_driver_is_a_member(server: ScriptedServer) -> None:
    def use(reader: OffsetReader, seen: Seen, group: GroupProgress) -> None:
        for now_s, second in enumerate((1, 1, 3, 3)):
            group.tell(reader, seen, at(0, second), now_s)
        group.tell(reader, seen, at(0, 3), JOIN_INTERVAL_S)

    assert sorted(await told(server, use)) == [0, 1, 3]
    beats = server.requests["Heartbeat"]
    assert [(beat.client_type, beat.group.name) for beat in beats] == [(pb.PULL_CONSUMER, "reports")] * 2
    assert {dict(each)["x-mq-client-id"].split("@")[0] for each in server.metadata["Heartbeat"]} == {"spark"}


async def test_nothing_is_told_of_other_topics_and_of_what_is_lost(server: ScriptedServer) -> None:
    def use(reader: OffsetReader, seen: Seen, group: GroupProgress) -> None:
        group.tell(reader, seen, at(0, 3, identity="b-2"), 0)
        group.tell(reader, seen, Position({TOPIC: {"broker-a/1": 4}, "elsewhere": {"broker-a/0": 1}}), 1)
        group.tell(reader, seen, Position({}), 2)

    assert await told(server, use) == []
    assert server.requests["Heartbeat"] == []


async def test_a_group_that_can_not_be_told_now_is_told_the_next_time(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    busy = rpc.UpdateOffsetResponse(status=pb.Status(code=pb.HA_NOT_AVAILABLE, message="no leader"))
    server.script("UpdateOffset", busy, busy, busy, busy)

    def use(reader: OffsetReader, seen: Seen, group: GroupProgress) -> None:
        for now_s in range(3):
            group.tell(reader, seen, at(0, 1), now_s)
        assert len(caplog.records) == 1, "said once"

    assert sorted((await told(server, use))[-2:]) == [0, 1]


async def test_a_group_that_can_not_be_told_at_all_ends_the_query(server: ScriptedServer) -> None:
    server.script("UpdateOffset", rpc.UpdateOffsetResponse(status=pb.Status(code=pb.ILLEGAL_CONSUMER_GROUP)))

    def use(reader: OffsetReader, seen: Seen, group: GroupProgress) -> None:
        with pytest.raises(BadRequest):
            group.tell(reader, seen, at(0, 1), 0)

    await told(server, use)
