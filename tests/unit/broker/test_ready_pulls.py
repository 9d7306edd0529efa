"""Pulls of what is in memory: they are answered at once, and leave no trace where they have to wait after all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ternmq_broker.store.disk.files import DiskFile, WouldBlock
from ternmq_common.clock import SystemClock
from ternmq_common.event_loop.done_result import DoneResult
from ternmq_common.filters.tag_filter import ALL, TagFilter
from ternmq_common.receiving.output_room import PLACES_MAX, AnswerRoom, OutputRoom
from ternmq_common.receiving.poll_queues import PollQueues
from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage, PulledMessages, QueueReaderId, QueueRef
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService
from tests.support.until import until

QUEUE = QueueRef("orders", "broker-0", 0)
READER = QueueReaderId("billing", "client-1", 0)
ROOM_BYTES = 10


class Room:
    """The room of a connection with so many unread bytes."""

    def __init__(self) -> None:
        self.unread = 0
        self.room = OutputRoom(lambda: self.unread, ROOM_BYTES, patience_s=0.01)

    def answer(self) -> AnswerRoom:
        return AnswerRoom(self.room)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[LocalMessageService]:
    settings = ServerSettings(data_dir=tmp_path, flush=FlushMode.ASYNC)
    opened = await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name), SystemClock())
    ids = [f"m{number}" for number in range(3)]
    systems = [definition_pb2.SystemProperties(message_id=each).SerializeToString() for each in ids]
    messages = [NewMessage(0, system, b"", (each,)) for each, system in zip(ids, systems, strict=True)]
    await opened.sending.append(QUEUE, messages)
    yield opened
    await opened.close()


@pytest.mark.parametrize("reader", [None, READER])
async def test_messages_in_memory_are_there_at_once_and_keep_their_place(
    service: LocalMessageService, reader: QueueReaderId | None
) -> None:
    answer = Room().answer()
    pull = service.reading.pull(QUEUE, 1, ALL, batch=32, poll_s=20, reader=reader, room=answer)
    assert isinstance(pull, DoneResult)
    pulled = await pull
    assert ([each.queue_offset for each in pulled.messages], pulled.next_offset) == ([1, 2], 3)
    assert answer._held


async def test_messages_that_the_filter_leaves_out_are_passed_at_once_without_a_place(
    service: LocalMessageService,
) -> None:
    answer = Room().answer()
    pull = service.reading.pull(QUEUE, 0, TagFilter.parse_expression("a"), batch=32, poll_s=20, room=answer)
    assert isinstance(pull, DoneResult)
    assert await pull == PulledMessages([], 3)
    assert not answer._held


async def test_a_pull_at_the_end_waits_and_holds_no_place_meanwhile(service: LocalMessageService) -> None:
    room = Room()
    pull = service.reading.pull(QUEUE, 3, ALL, batch=32, poll_s=0.01, room=room.answer())
    assert not isinstance(pull, DoneResult)
    assert (room.room._taken, await pull, room.room._taken) == (0, PulledMessages([], 3), 0)


async def test_nothing_is_read_for_a_client_that_does_not_read(service: LocalMessageService) -> None:
    room = Room()
    room.unread = ROOM_BYTES
    pull = service.reading.pull(QUEUE, 0, ALL, batch=32, poll_s=0, room=room.answer())
    assert not isinstance(pull, DoneResult)
    assert await pull == PulledMessages([], 0)
    room.unread = 0
    for _ in range(PLACES_MAX):
        assert isinstance(service.reading.pull(QUEUE, 0, ALL, batch=1, poll_s=0, room=room.answer()), DoneResult)
    assert await service.reading.pull(QUEUE, 0, ALL, batch=1, poll_s=0, room=room.answer()) == PulledMessages([], 0)


async def test_a_group_that_locks_its_queues_is_asked_for_its_lock(service: LocalMessageService) -> None:
    first, second = (QueueReaderId("billing", client, 60_000) for client in ("client-1", "client-2"))
    assert len((await service.reading.pull(QUEUE, 0, ALL, batch=32, poll_s=0, reader=first)).messages) == 3
    pull = service.reading.pull(QUEUE, 0, ALL, batch=32, poll_s=0, reader=second)
    assert not isinstance(pull, DoneResult)
    assert (await pull).messages == []


@pytest.mark.plain
async def test_messages_on_the_disk_are_read_in_a_thread(
    service: LocalMessageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = DiskFile.read

    def read_cold(file: DiskFile, position: int, size: int, *, may_block: bool = True) -> bytes:
        if not may_block:
            monkeypatch.undo()
            raise WouldBlock(file, position, size)
        return read(file, position, size)

    monkeypatch.setattr(DiskFile, "read", read_cold)
    answer = Room().answer()
    pull = service.reading.pull(QUEUE, 0, ALL, batch=32, poll_s=0, room=answer)
    assert not isinstance(pull, DoneResult)
    assert not answer._held
    assert len((await pull).messages) == 3
    assert answer._held


@pytest.mark.plain
async def test_a_message_of_another_queue_does_not_wake_a_pull(
    service: LocalMessageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    wait = PollQueues.wait_at_end

    async def wait_noted(polls: PollQueues, topic: str, queue_id: int, seconds: float) -> bool:
        waits.append(queue_id)
        return await wait(polls, topic, queue_id, seconds)

    monkeypatch.setattr(PollQueues, "wait_at_end", wait_noted)
    pull = asyncio.ensure_future(service.reading.pull(QUEUE, 3, ALL, batch=32, poll_s=20))
    await until(lambda: bool(waits))
    for queue_id in (1, 2, 0):
        properties = definition_pb2.SystemProperties(message_id=f"n{queue_id}").SerializeToString()
        queue = QueueRef(QUEUE.topic, QUEUE.broker, queue_id)
        await service.sending.append(queue, [NewMessage(0, properties, b"", (f"n{queue_id}",))])
    assert [each.queue_offset for each in (await pull).messages] == [3]
    assert waits == [0]
