"""What a group is told of a stream."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable

import pytest

from pyspark_ternmq.source.group import JOIN_INTERVAL_S, GroupProgress, OtherDrivers
from pyspark_ternmq.source.offsets.places import offsets_at
from pyspark_ternmq.source.offsets.position import StreamPosition
from pyspark_ternmq.source.topics import queues_of
from pyspark_ternmq.source.watch import SeenTopics
from ternmq import BadRequest, MessageQueue, Unsupported
from ternmq.pull.offset_reader import OffsetReader
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

QUEUE = MessageQueue(TOPIC, "broker-a", 1)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(queues=2) as running:
        running.model.append(QUEUE, b"0", b"1", b"2")
        yield running


async def told(server: ScriptedServer, use: Callable[[OffsetReader, SeenTopics, GroupProgress], None]) -> list[int]:
    """The offsets that the group was told of, in their order."""

    def work() -> None:
        with OffsetReader(server.endpoint, patience=10, kind="spark") as reader:
            queues = queues_of(reader, [TOPIC])
            seen = SeenTopics({TOPIC: "a-1"}, queues, offsets_at(reader, queues, "latest"))
            use(reader, seen, GroupProgress("reports"))

    await asyncio.to_thread(work)
    return [request.offset for request in server.requests["UpdateOffset"]]


def at(first: int, second: int, identity: str = "a-1") -> StreamPosition:
    return StreamPosition({TOPIC: {"broker-a/0": first, "broker-a/1": second}}, {TOPIC: identity})


async def test_only_what_has_changed_is_told_and_the_driver_is_a_member(server: ScriptedServer) -> None:
    def use(reader: OffsetReader, seen: SeenTopics, group: GroupProgress) -> None:
        for now_s, second in enumerate((1, 1, 3, 3)):
            group.commit_progress(reader, seen, at(0, second), now_s)
        group.commit_progress(reader, seen, at(0, 3), JOIN_INTERVAL_S)

    assert sorted(await told(server, use)) == [0, 1, 3]
    beats = server.requests["Heartbeat"]
    assert [(beat.client_type, beat.group.name) for beat in beats] == [(pb.PULL_CONSUMER, "reports")] * 2
    assert {dict(each)["x-mq-client-id"].split("@")[0] for each in server.metadata["Heartbeat"]} == {"spark"}


async def test_nothing_is_told_of_other_topics_and_of_what_is_lost(server: ScriptedServer) -> None:
    def use(reader: OffsetReader, seen: SeenTopics, group: GroupProgress) -> None:
        group.commit_progress(reader, seen, at(0, 3, identity="b-2"), 0)
        group.commit_progress(
            reader, seen, StreamPosition({TOPIC: {"broker-a/1": 4}, "elsewhere": {"broker-a/0": 1}}), 1
        )
        group.commit_progress(reader, seen, StreamPosition({}), 2)

    assert await told(server, use) == []
    assert server.requests["Heartbeat"] == []


async def test_a_group_that_can_not_be_told_now_is_told_the_next_time(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    busy = rpc.UpdateOffsetResponse(status=pb.Status(code=pb.HA_NOT_AVAILABLE, message="no leader"))
    server.script("UpdateOffset", busy, busy, busy, busy)

    def use(reader: OffsetReader, seen: SeenTopics, group: GroupProgress) -> None:
        for now_s in range(3):
            group.commit_progress(reader, seen, at(0, 1), now_s)
        assert len(caplog.records) == 1, "said once"

    assert sorted((await told(server, use))[-2:]) == [0, 1]


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The client ids that the server tells of the group."""
    found: list[str] = []
    monkeypatch.setattr(OffsetReader, "members", lambda self, group: [*found, self.client_id])
    return found


def looks(others: OtherDrivers, caplog: pytest.LogCaptureFixture, times_s: Iterable[float]) -> list[float]:
    """At which of these times something is said."""
    said = []
    with OffsetReader("127.0.0.1:1", kind="spark") as reader:
        for now_s in times_s:
            caplog.clear()
            others.check_drivers(reader, now_s)
            said += [now_s for record in caplog.records if record.levelno == logging.WARNING]
    return said


def test_a_driver_that_comes_while_this_one_is_there_is_said_each_minute(
    members: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    others = OtherDrivers("reports")
    members.append("push@elsewhere")
    assert looks(others, caplog, [0, 60]) == []
    members.append("spark@other")
    assert looks(others, caplog, range(61, 250, 10)) == [121, 181, 241]
    members.remove("spark@other")
    assert looks(others, caplog, [301, 361]) == []


def test_a_query_that_is_started_again_is_not_told_of_its_own_former_driver(
    members: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    members.append("spark@killed")
    others = OtherDrivers("reports")
    assert looks(others, caplog, [0, 60, 120]) == []
    members.remove("spark@killed")
    assert looks(others, caplog, [180, 240, 300]) == []


def test_a_driver_that_was_there_before_and_stays_is_said(members: list[str], caplog: pytest.LogCaptureFixture) -> None:
    members.append("spark@alive")
    assert looks(OtherDrivers("reports"), caplog, range(0, 301, 60)) == [180, 240, 300]


def test_a_server_that_does_not_tell_members_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def refuse(self: OffsetReader, group: str) -> list[str]:
        asked.append(group)
        raise Unsupported(pb.NOT_IMPLEMENTED, "no such call")

    monkeypatch.setattr(OffsetReader, "members", refuse)
    assert looks(OtherDrivers("reports"), caplog, [0, 60, 120]) == []
    assert asked == ["reports"]


async def test_a_group_that_can_not_be_told_at_all_ends_the_query(server: ScriptedServer) -> None:
    server.script("UpdateOffset", rpc.UpdateOffsetResponse(status=pb.Status(code=pb.ILLEGAL_CONSUMER_GROUP)))

    def use(reader: OffsetReader, seen: SeenTopics, group: GroupProgress) -> None:
        with pytest.raises(BadRequest):
            group.commit_progress(reader, seen, at(0, 1), 0)

    await told(server, use)
