"""Which queues a pull consumer reads, and what happens to those that it has to give up."""

import asyncio
import dataclasses

import grpc
import pytest

from ternmq import MessageQueue, PullConsumer
from ternmq.pull.queue_rebalancer import AssignmentListener
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
)
from tests.unit.client.scripted_server import OK, TOPIC, ScriptedServer


def queues(*queue_ids: int) -> list[MessageQueue]:
    return [queue(queue_id) for queue_id in queue_ids]


def consumer_of(
    server: ScriptedServer, *, auto_commit: bool = True, on_assignment: AssignmentListener | None = None
) -> PullConsumer:
    return PullConsumer(
        server.endpoint,
        GROUP,
        SUBSCRIPTIONS,
        start_from="earliest",
        auto_commit=auto_commit,
        on_assignment=on_assignment,
        timing=CALM,
    )


def fill(server: ScriptedServer, *queue_ids: int) -> None:
    for queue_id in queue_ids:
        server.model.append(queue(queue_id), *numbered(10))
        server.model.committed[GROUP, queue(queue_id)] = 0


async def test_the_server_says_which_queues_and_is_asked_again(server: ScriptedServer) -> None:
    server.script("QueryAssignment", server.assigned(0, 1), server.assigned(1, 2), server.assigned())
    async with consumer_of(server) as consumer:
        assert consumer.assignment() == queues(0, 1)
        await consumer._assign_queues()
        assert consumer.assignment() == queues(1, 2)
        requests = await server.asked("PullMessage", 3)
        await consumer._assign_queues()
        assert consumer.assignment() == []
    assert sorted(request.message_queue.id for request in requests) == [0, 1, 2]
    [request, *_] = server.requests["QueryAssignment"]
    assert (request.topic.name, request.group.name) == (TOPIC, GROUP)


async def test_assignments_are_asked_for_regularly(server: ScriptedServer) -> None:
    timing = dataclasses.replace(CALM, assignment_s=0.001)
    async with PullConsumer(server.endpoint, GROUP, {TOPIC: "*", "invoices": "*"}, timing=timing) as consumer:
        requests = await server.asked("QueryAssignment", 8)
        assert len(consumer.assignment()) == 8
    assert {request.topic.name for request in requests} == {TOPIC, "invoices"}


async def test_a_server_that_does_not_share_out_means_all_queues_of_all_brokers() -> None:
    async with ScriptedServer(queues=2) as other, ScriptedServer(queues=2) as server:
        server.brokers = {"broker-a": server.port, "broker-b": other.port}
        other.model.append(queue(1, "broker-b"), b"there")
        async with consumer_of(server) as consumer:
            [view] = await taken(consumer, 1)
            assert consumer.assignment() == [*queues(0, 1), queue(0, "broker-b"), queue(1, "broker-b")]
            await consumer.commit()
        assert (view.broker, view.body) == ("broker-b", b"there")
        assert other.model.committed[GROUP, queue(1, "broker-b")] == 1


async def test_a_failed_question_changes_nothing(server: ScriptedServer) -> None:
    refused = rpc.QueryAssignmentResponse(status=pb.Status(code=pb.TOPIC_NOT_FOUND))
    server.script("QueryAssignment", server.assigned(0), grpc.StatusCode.UNAVAILABLE, refused)
    async with consumer_of(server) as consumer:
        await consumer._assign_queues()
        await consumer._assign_queues()
        assert consumer.assignment() == queues(0)
        assert await consumer.position(queue(0)) == 0


async def test_a_consumer_that_gets_no_queues_waits_for_some(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", grpc.StatusCode.UNAVAILABLE, server.assigned(0))
    async with consumer_of(server) as consumer:
        assert consumer.assignment() == []
        await consumer._assign_queues()
        assert len(await taken(consumer, 10)) == 10


async def test_what_is_buffered_of_a_queue_that_is_gone_is_not_handed_out(server: ScriptedServer) -> None:
    fill(server, 0, 1)
    server.script("QueryAssignment", server.assigned(0, 1), server.assigned(1))
    async with consumer_of(server) as consumer:
        await server.asked("PullMessage", 4)
        await consumer._assign_queues()
        assert {view.queue_id for view in await taken(consumer, 10)} == {1}
        assert await consumer.poll(timeout=0) == []


async def test_what_was_handled_of_a_queue_is_committed_when_it_goes(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned())
    async with consumer_of(server) as consumer:
        await taken(consumer, 3)
        await consumer.poll(1, timeout=0)
        await consumer._assign_queues()
        assert commits(server) == [(0, 3)]


async def test_what_is_worked_on_when_its_queue_goes_is_committed_by_the_next_step(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned())
    async with consumer_of(server) as consumer:
        await taken(consumer, 2)
        await taken(consumer, 2)
        await consumer._assign_queues()
        assert commits(server) == [(0, 2)]
        assert await consumer.poll(timeout=0) == []
        await server.asked("UpdateOffset", 2)
    assert commits(server) == [(0, 2), (0, 4)]


async def test_what_is_worked_on_when_its_queue_goes_is_committed_by_close(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned())
    async with consumer_of(server) as consumer:
        await taken(consumer, 4)
        await consumer._assign_queues()
    assert commits(server) == [(0, 4)]


async def test_a_user_may_commit_what_he_has_of_a_queue_that_is_gone(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned())
    async with consumer_of(server, auto_commit=False) as consumer:
        views = await taken(consumer, 4)
        await consumer._assign_queues()
        await consumer.commit(views[1])
        await consumer.commit()
        assert consumer._buffer.given_up == {}
    assert commits(server) == [(0, 2), (0, 4)]


async def test_a_late_commit_does_not_set_back_the_member_that_has_the_queue_now(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned())
    async with consumer_of(server, auto_commit=False) as consumer:
        await taken(consumer, 4)
        await consumer._assign_queues()
        server.model.committed[GROUP, queue(0)] = 9
        await consumer.commit()
        assert consumer._buffer.given_up == {}
    assert commits(server) == []


async def test_a_late_commit_that_is_forbidden_is_the_last(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned())
    server.script("UpdateOffset", rpc.UpdateOffsetResponse(status=pb.Status(code=pb.FORBIDDEN)))
    async with consumer_of(server, auto_commit=False) as consumer:
        await taken(consumer, 4)
        await consumer._assign_queues()
        await consumer.commit()
        await consumer.commit()
    assert commits(server) == [(0, 4)]


async def test_a_queue_that_comes_back_begins_at_what_the_group_committed(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned(), server.assigned(0))
    async with consumer_of(server, auto_commit=False) as consumer:
        await taken(consumer, 4)
        await consumer._assign_queues()
        server.model.committed[GROUP, queue(0)] = 2
        await consumer._assign_queues()
        assert [view.offset for view in await taken(consumer, 8)] == list(range(2, 10))


async def test_a_queue_that_comes_back_is_committed_by_what_is_handed_out_since(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0), server.assigned(), server.assigned(0))
    async with consumer_of(server) as consumer:
        await taken(consumer, 4)
        await consumer._assign_queues()
        await consumer._assign_queues()
        assert [view.offset for view in await taken(consumer, 1)] == [0]
    assert commits(server) == [(0, 1)]


async def test_a_broker_that_moved_is_followed_without_a_break(server: ScriptedServer) -> None:
    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0))
    changes: list[int] = []
    async with (
        ScriptedServer() as new,
        consumer_of(server, on_assignment=lambda a, _: changes.append(len(a))) as reader,
    ):
        new.model.append(queue(0), *numbered(11))
        await taken(reader, 10)
        await server.asked("PullMessage", 2)
        moved = pb.Assignment(message_queue=new.queue("broker-a", new.port, 0))
        server.script("QueryAssignment", rpc.QueryAssignmentResponse(status=OK, assignments=[moved]))
        await reader._assign_queues()
        server.model.append(queue(0), b"last of the old place")
        assert [view.offset for view in await taken(reader, 1)] == [10]
        new.model.append(queue(0), b"first of the new one")
        assert [view.body for view in await taken(reader, 1)] == [b"first of the new one"]
    assert changes == [1]
    assert pulls(new)[0] == 11


async def test_the_listener_is_told_and_may_commit_what_goes_and_seek_in_what_comes(server: ScriptedServer) -> None:
    fill(server, 0, 1)
    told: list[tuple[list[MessageQueue], list[MessageQueue]]] = []

    async def listen(assigned: list[MessageQueue], revoked: list[MessageQueue]) -> None:
        told.append((assigned, revoked))
        await consumer.commit()
        for name in assigned:
            consumer.seek(name, 5)

    server.script("QueryAssignment", server.assigned(0), server.assigned(1), server.assigned(1))
    consumer = consumer_of(server, auto_commit=False, on_assignment=listen)
    async with consumer:
        assert [view.offset for view in await taken(consumer, 5)] == [5, 6, 7, 8, 9]
        await consumer._assign_queues()
        assert commits(server) == [(0, 10)]
        assert [view.offset for view in await taken(consumer, 5)] == [5, 6, 7, 8, 9]
        await consumer._assign_queues()
    assert told == [(queues(0), []), (queues(1), queues(0))]
    assert pulls(server, queue_id=1)[0] == 5


async def test_a_listener_that_fails_keeps_no_queue_from_being_read(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(_: list[MessageQueue], __: list[MessageQueue]) -> None:
        raise RuntimeError("scripted")

    fill(server, 0)
    server.script("QueryAssignment", server.assigned(0))
    async with consumer_of(server, on_assignment=listen) as consumer:
        assert len(await taken(consumer, 10)) == 10
    assert "the listener for assignments failed" in caplog.text


async def test_a_queue_that_is_lost_while_the_listener_hears_of_it_is_not_pulled(server: ScriptedServer) -> None:
    fill(server, 0, 1)
    lost = asyncio.Event()

    async def listen(assigned: list[MessageQueue], _: list[MessageQueue]) -> None:
        if not assigned:
            lost.set()
            return
        consumer.seek(queue(1), 4)
        await consumer.commit()

    server.script("QueryAssignment", server.assigned(0, 1))
    server.script("UpdateOffset", rpc.UpdateOffsetResponse(status=pb.Status(code=pb.FORBIDDEN)))
    consumer = consumer_of(server, on_assignment=listen)
    async with consumer:
        await lost.wait()
        assert consumer.assignment() == queues(0)
        assert {view.queue_id for view in await taken(consumer, 10)} == {0}
    assert pulls(server, queue_id=1) == []


async def test_members_that_share_read_everything_once(server: ScriptedServer) -> None:
    fill(server, 0, 1)
    server.script("QueryAssignment", server.assigned(0, 1), server.assigned(0), server.assigned(1))
    async with consumer_of(server) as one:
        both = await taken(one, 6)
        await one.commit()
        await one._assign_queues()
        async with consumer_of(server) as two:
            of_zero = sum(view.queue_id == 0 for view in both)
            rest = [*await taken(one, 10 - of_zero), *await taken(two, 10 - (6 - of_zero))]
    assert sorted((view.queue_id, view.offset) for view in [*both, *rest]) == [
        (queue_id, offset) for queue_id in (0, 1) for offset in range(10)
    ]
    assert set(server.model.committed.values()) == {10}
