"""How far a pull consumer commits, by itself and when it is told to."""

import asyncio

import grpc
import pytest

import ternmq
from ternmq import PullConsumer
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.pull_support import CALM, GROUP, SUBSCRIPTIONS, commits, numbered, queue, taken
from tests.unit.client.scripted_server import ScriptedServer

SOON_S = 0.001
QUEUES = 2


@pytest.fixture
def shared(server: ScriptedServer) -> ScriptedServer:
    """The server gives two queues with ten messages each to the consumer."""
    server.script("QueryAssignment", server.assigned(*range(QUEUES)))
    for queue_id in range(QUEUES):
        server.model.append(queue(queue_id), *numbered(10))
        server.model.committed[GROUP, queue(queue_id)] = 0
    return server


def by_hand(server: ScriptedServer) -> PullConsumer:
    return PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, auto_commit=False, timing=CALM)


def automatic(server: ScriptedServer, interval_s: float = 5.0) -> PullConsumer:
    return PullConsumer(server.endpoint, GROUP, SUBSCRIPTIONS, auto_commit_interval=interval_s, timing=CALM)


def update_refused(code: pb.Code) -> rpc.UpdateOffsetResponse:
    return rpc.UpdateOffsetResponse(status=pb.Status(code=code, message="scripted"))


async def test_a_commit_is_of_all_that_was_handed_out(shared: ScriptedServer) -> None:
    async with by_hand(shared) as consumer:
        views = await taken(consumer, 13)
        await consumer.commit()
    expected = {(queue_id, 1 + max(view.offset for view in views if view.queue_id == queue_id)) for queue_id in (0, 1)}
    [request, _] = shared.requests["UpdateOffset"]
    assert set(commits(shared)) == expected
    assert sum(offset for _, offset in expected) == 13
    assert request.group.name == GROUP


async def test_a_commit_of_a_message_is_of_its_queue_up_to_it(shared: ScriptedServer) -> None:
    async with by_hand(shared) as consumer:
        views = await taken(consumer, 20)
        await consumer.commit(next(view for view in views if (view.queue_id, view.offset) == (1, 4)))
    assert commits(shared) == [(1, 5)]


async def test_what_is_committed_is_not_committed_again_nor_set_back(shared: ScriptedServer) -> None:
    async with by_hand(shared) as consumer:
        views = await taken(consumer, 20)
        await consumer.commit()
        await consumer.commit()
        await consumer.commit(views[0])
    assert sorted(commits(shared)) == [(0, 10), (1, 10)]


async def test_commits_of_one_queue_overtake_none_of_their_own(shared: ScriptedServer) -> None:
    async with by_hand(shared) as consumer:
        views = [view for view in await taken(consumer, 20) if view.queue_id == 0]
        await asyncio.gather(*(consumer.commit(view) for view in reversed(views)))
    assert commits(shared) == [(0, 10)]


async def test_messages_of_a_queue_that_is_not_known_are_left_out(
    shared: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with by_hand(shared) as consumer:
        [view, *_] = await taken(consumer, 1)
        view.broker = "broker-z"
        await consumer.commit(view)
    assert commits(shared) == []
    assert "its queue was given up" in caplog.text


async def test_a_commit_that_broke_is_repeated(shared: ScriptedServer) -> None:
    shared.script("UpdateOffset", grpc.StatusCode.UNAVAILABLE, update_refused(pb.TOO_MANY_REQUESTS))
    async with by_hand(shared) as consumer:
        views = await taken(consumer, 20)
        await consumer.commit(views[-1])
    assert len(commits(shared)) == 3


async def test_a_commit_that_fails_is_raised_after_the_others_were_made(shared: ScriptedServer) -> None:
    shared.script("UpdateOffset", update_refused(pb.ILLEGAL_OFFSET))
    async with by_hand(shared) as consumer:
        await taken(consumer, 20)
        with pytest.raises(ternmq.BadRequest, match="ILLEGAL_OFFSET: scripted"):
            await consumer.commit()
        assert sorted(shared.model.committed.values()) == [0, 10]
        await consumer.commit()
    assert sorted(shared.model.committed.values()) == [10, 10]


async def test_a_cancelled_commit_stays_under_way_so_the_next_can_not_be_overtaken(shared: ScriptedServer) -> None:
    shared.script("UpdateOffset", grpc.StatusCode.UNAVAILABLE)
    async with by_hand(shared) as consumer:
        consumer.pause(queue(1))
        views = await taken(consumer, 10)
        first = asyncio.create_task(consumer.commit(views[3]))
        await shared.asked("UpdateOffset")
        first.cancel()
        await consumer.commit()
    assert first.cancelled()
    assert commits(shared) == [(0, 4), (0, 4), (0, 10)]


async def test_without_automatic_commits_closing_commits_nothing(shared: ScriptedServer) -> None:
    async with by_hand(shared) as consumer:
        await taken(consumer, 20)
        await consumer.poll(timeout=0)
    assert commits(shared) == []


async def test_automatic_commits_leave_out_what_may_still_be_worked_on(shared: ScriptedServer) -> None:
    async with automatic(shared, SOON_S) as consumer:
        consumer.pause(queue(1))
        for offset in range(3):
            [view] = await taken(consumer, 1)
            if offset:
                await shared.asked("UpdateOffset", offset)
            assert (view.offset, shared.model.committed[GROUP, queue(0)]) == (offset, offset)
    assert shared.model.committed[GROUP, queue(0)] == 3


async def test_a_start_that_was_found_by_the_policy_is_committed(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.model.append(queue(), *numbered(10))
    async with automatic(server, SOON_S):
        await server.asked("UpdateOffset")
    assert commits(server) == [(0, 10)]


async def test_an_automatic_commit_that_failed_is_made_up_by_the_next(
    shared: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    shared.script("UpdateOffset", update_refused(pb.UNAUTHORIZED))
    async with automatic(shared, SOON_S) as consumer:
        consumer.pause(queue(1))
        await taken(consumer, 10)
        await consumer.poll(timeout=0)
        await shared.asked("UpdateOffset", 2)
        while shared.model.committed[GROUP, queue(0)] < 10:
            await shared.asked("UpdateOffset", len(commits(shared)) + 1)
    assert "the progress is not committed: UNAUTHORIZED" in caplog.text


async def test_closing_commits_what_was_handed_out_before_it_says_goodbye(shared: ScriptedServer) -> None:
    def committed_first(_: rpc.NotifyClientTerminationRequest) -> rpc.NotifyClientTerminationResponse:
        assert sorted(shared.model.committed.values()) == [10, 10]
        return rpc.NotifyClientTerminationResponse()

    shared.script("NotifyClientTermination", committed_first)
    async with automatic(shared) as consumer:
        await taken(consumer, 20)
    assert len(shared.requests["NotifyClientTermination"]) == 1


async def test_a_last_commit_that_fails_does_not_keep_the_consumer_from_closing(
    shared: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    shared.script("UpdateOffset", *[update_refused(pb.UNAUTHORIZED)] * 2)
    async with automatic(shared) as consumer:
        await taken(consumer, 20)
    assert "the progress is not committed" in caplog.text
    assert len(shared.requests["NotifyClientTermination"]) == 1


async def test_an_exception_that_ends_the_consumer_leaves_its_message_uncommitted(shared: ScriptedServer) -> None:
    async def read() -> None:
        async with automatic(shared) as consumer:
            consumer.pause(queue(1))
            async for view in consumer:
                if view.offset == 7:
                    raise RuntimeError("scripted")

    with pytest.raises(RuntimeError, match="scripted"):
        await read()
    assert shared.model.committed[GROUP, queue(0)] == 7


async def test_cancelling_an_iteration_that_waits_commits_all_that_was_handled(shared: ScriptedServer) -> None:
    async def read() -> None:
        async with automatic(shared) as consumer:
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == 20:
                    asyncio.get_running_loop().call_soon(reading.cancel)

    reading = asyncio.create_task(read())
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert sorted(shared.model.committed.values()) == [10, 10]


async def test_a_forbidden_commit_gives_the_queue_up_and_is_not_raised(
    shared: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[ternmq.MessageQueue] = []
    told = asyncio.Event()

    def listen(_: list[ternmq.MessageQueue], revoked: list[ternmq.MessageQueue]) -> None:
        lost.extend(revoked)
        if revoked:
            told.set()

    shared.script("UpdateOffset", update_refused(pb.FORBIDDEN))
    consumer = PullConsumer(shared.endpoint, GROUP, SUBSCRIPTIONS, on_assignment=listen, timing=CALM)
    async with consumer:
        views = await taken(consumer, 20)
        shared.model.append(queue(views[-1].queue_id), b"late")
        await consumer.commit(views[-1])
        await told.wait()
        assert lost == [queue(views[-1].queue_id)]
        assert len(consumer.assignment()) == 1
        assert await consumer.poll(timeout=0) == []
        shared.script("QueryAssignment", shared.assigned(0, 1))
        await consumer._assign_queues()
        assert consumer.assignment() == [queue(0), queue(1)]
        [first, *_] = await taken(consumer, 1)
        assert (first.queue_id, first.offset) == (views[-1].queue_id, 0)
    assert "FORBIDDEN: scripted" in caplog.text
