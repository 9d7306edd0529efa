"""Where a pull consumer begins, and how a user moves it about."""

import asyncio
from datetime import UTC, datetime, timedelta

import grpc
import pytest

import ternmq
from ternmq import PullConsumer
from ternmq.pull.offsets import StartFrom
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.pull_support import (
    CALM,
    GROUP,
    SUBSCRIPTIONS,
    commits,
    numbered,
    pulls,
    queue,
    taken,
    taken_bodies,
)
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def consumer_of(server: ScriptedServer, start_from: StartFrom = "earliest") -> PullConsumer:
    return PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, start_from=start_from, timing=CALM)


@pytest.mark.parametrize(
    ("start_from", "expected"),
    [("latest", 5), ("earliest", 2), (EPOCH + timedelta(seconds=25), 3), (EPOCH, 2), (datetime.now(UTC), 5)],
)
async def test_a_group_that_was_never_there_begins_by_the_policy(
    server: ScriptedServer, start_from: StartFrom, expected: int
) -> None:
    server.model.append(queue(), *numbered(5))
    server.model.remove_before(queue(), 2)
    async with consumer_of(server, start_from) as consumer:
        assert await consumer.position(queue()) == expected


async def test_a_group_goes_on_where_it_committed(server: ScriptedServer) -> None:
    for queue_id in range(4):
        server.model.append(queue(queue_id), *numbered(5))
        server.model.committed[GROUP, queue(queue_id)] = queue_id
    async with consumer_of(server) as consumer:
        assert [await consumer.position(queue(queue_id)) for queue_id in range(4)] == [0, 1, 2, 3]
    assert server.requests["QueryOffset"] == []


async def test_latest_means_from_the_start_of_the_consumer_on(server: ScriptedServer) -> None:
    server.model.append(queue(), b"before")
    async with consumer_of(server, "latest") as consumer:
        server.model.append(queue(), b"after")
        assert await taken_bodies(consumer, 1) == [b"after"]


async def test_a_position_that_could_not_be_found_is_looked_for_again(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.script("GetOffset", grpc.StatusCode.UNAVAILABLE, rpc.GetOffsetResponse(status=pb.Status(code=pb.FORBIDDEN)))
    server.script("QueryOffset", *[grpc.StatusCode.UNAVAILABLE] * 2)
    server.model.append(queue(), b"0")
    async with consumer_of(server) as consumer:
        assert await taken_bodies(consumer, 1) == [b"0"]


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        PullConsumer("127.0.0.1:8081", GROUP, SUBSCRIPTIONS, start_from=datetime(2026, 1, 1))  # noqa: DTZ001


async def test_committed_is_what_the_server_says_of_any_queue(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.committed[GROUP, queue(0)] = 3
    server.model.committed[GROUP, queue(2)] = 7
    async with consumer_of(server) as consumer:
        assert consumer.assignment() == [queue(0)]
        assert [await consumer.committed(queue(queue_id)) for queue_id in (0, 1, 2)] == [3, None, 7]
        with pytest.raises(ternmq.BadRequest, match=f"there is no queue {TOPIC}/broker-a/4"):
            await consumer.committed(queue(4))


async def test_the_position_is_that_of_the_next_message_handed_out(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(5))
    async with consumer_of(server) as consumer:
        await taken(consumer, 2)
        assert await consumer.position(queue()) == 2


async def test_a_seek_drops_what_is_buffered_and_what_is_on_its_way(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(10))
    async with consumer_of(server) as consumer:
        await server.asked("PullMessage", 2)
        consumer.seek(queue(), 7)
        assert await taken_bodies(consumer, 3) == numbered(3, start=7)
        consumer.seek(queue(), 2)
        assert await consumer.position(queue()) == 2
        assert await taken_bodies(consumer, 8) == numbered(8, start=2)


async def test_what_a_seek_left_behind_is_not_committed_and_a_commit_may_go_back(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(10))
    async with consumer_of(server) as consumer:
        await taken(consumer, 8)
        await consumer.commit()
        consumer.seek(queue(), 3)
        await consumer.commit()
    assert commits(server) == [(0, 8), (0, 3)]


async def test_a_seek_while_a_commit_is_on_its_way_is_the_last_word(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(10))

    def seeking(request: rpc.UpdateOffsetRequest) -> rpc.UpdateOffsetResponse:
        consumer.seek(queue(), 3)
        return server.model.update_offset(request)

    server.script("UpdateOffset", seeking)
    async with consumer_of(server) as consumer:
        await taken(consumer, 8)
        await asyncio.gather(consumer.commit(), consumer.commit())
        await consumer.commit()
    assert commits(server) == [(0, 8), (0, 3)]


async def test_a_seek_before_the_start_was_found_is_the_start(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(10))

    def seek(assigned: list[ternmq.MessageQueue], _: list[ternmq.MessageQueue]) -> None:
        consumer.seek(assigned[0], 8)

    consumer = PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, on_assignment=seek, timing=CALM)
    async with consumer:
        assert await taken_bodies(consumer, 2) == [b"8", b"9"]
    assert server.requests["GetOffset"] == []


async def test_seeking_to_places(server: ScriptedServer) -> None:
    for queue_id in range(4):
        server.model.append(queue(queue_id), *numbered(6))
        server.model.remove_before(queue(queue_id), 1)
    async with consumer_of(server) as consumer:

        async def positions() -> list[int]:
            return [await consumer.position(name) for name in consumer.assignment()]

        await consumer.seek_to_end()
        assert await positions() == [6] * 4
        await consumer.seek_to_beginning(queue(2))
        assert await positions() == [6, 6, 1, 6]
        await consumer.seek_to_time(EPOCH + timedelta(seconds=30), [queue(0), queue(1)])
        assert await positions() == [3, 3, 1, 6]
        with pytest.raises(ValueError, match="no time zone"):
            await consumer.seek_to_time(datetime(2026, 1, 1))  # noqa: DTZ001
        with pytest.raises(ValueError, match="must not be negative"):
            consumer.seek(queue(), -1)


async def test_a_paused_queue_is_neither_pulled_nor_handed_out_until_it_is_resumed(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0, 1))
    server.model.append(queue(0), *numbered(4))
    server.model.append(queue(1), *numbered(4))
    async with consumer_of(server) as consumer:
        await server.asked("PullMessage", 4)
        consumer.pause(queue(0))
        pulled_before = pulls(server, queue_id=0)
        assert {view.queue_id for view in await taken(consumer, 4)} == {1}
        server.model.append(queue(0), b"4")
        server.model.append(queue(1), b"4")
        assert {view.queue_id for view in await taken(consumer, 1)} == {1}
        assert pulls(server, queue_id=0) == pulled_before
        consumer.resume(queue(0))
        assert [(view.queue_id, view.offset) for view in await taken(consumer, 5)] == [(0, n) for n in range(5)]


async def test_all_queues_can_be_paused_and_moved_while_they_are(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(4))
    async with consumer_of(server) as consumer:
        consumer.pause()
        consumer.seek(queue(), 2)
        assert await consumer.poll(timeout=0) == []
        consumer.resume()
        assert await taken_bodies(consumer, 2) == [b"2", b"3"]


async def test_queues_of_others_are_refused(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    async with consumer_of(server) as consumer:
        refused = f"not assigned to this consumer: {TOPIC}/broker-a/1"
        with pytest.raises(ternmq.BadRequest, match=refused):
            consumer.pause(queue(1))
        with pytest.raises(ternmq.BadRequest, match=refused):
            consumer.resume([queue(0), queue(1)])
        with pytest.raises(ternmq.BadRequest, match=refused):
            consumer.seek(queue(1), 0)
        with pytest.raises(ternmq.BadRequest, match=refused):
            await consumer.position(queue(1))


async def test_a_queue_that_went_while_its_place_was_looked_for_is_not_moved(server: ScriptedServer) -> None:
    def find(request: rpc.QueryOffsetRequest) -> rpc.QueryOffsetResponse:
        consumer._buffer.revoke_queues([queue(0)])
        return server.model.query_offset(request)

    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(4))
    async with consumer_of(server) as consumer:
        await server.asked("PullMessage")
        server.script("QueryOffset", find)
        await consumer.seek_to_end()
        assert consumer._buffer.given_up[queue(0)].next_offset == 0
