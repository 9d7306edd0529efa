"""Broadcasting: every consumer reads everything, and keeps its progress in a file."""

import asyncio
import json
import logging
import os
import threading
from pathlib import Path

import pytest

import ternmq
from ternmq import PullConsumer
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.route import RouteQueue
from ternmq.pull import offset_file as offset_file_module
from ternmq.pull.offset_file import OffsetFile
from ternmq.pull.offsets import StartFrom
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.pull_support import CALM, GROUP, SUBSCRIPTIONS, numbered, queue, taken, taken_bodies
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

ENDPOINTS = Endpoints.parse("127.0.0.1:8081")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "offsets.json"


def consumer_of(server: ScriptedServer, path: Path, start_from: StartFrom = "earliest") -> PullConsumer:
    return PullConsumer(
        server.endpoint,
        GROUP,
        SUBSCRIPTIONS,
        start_from=start_from,
        broadcasting=True,
        offsets_file=path,
        timing=CALM,
    )


def write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(text)


def written_to(path: Path) -> dict[str, object]:
    """What the file says, when it is all that there is in its folder."""
    assert list(path.parent.iterdir()) == [path]
    content = json.loads(path.read_bytes())
    assert isinstance(content, dict)
    return content


def route_queue(queue_id: int) -> RouteQueue:
    return RouteQueue(TOPIC, queue_id, "broker-a", ENDPOINTS, pb.MessageQueue())


async def test_every_consumer_reads_all_queues(server: ScriptedServer, tmp_path: Path) -> None:
    for queue_id in range(4):
        server.model.append(queue(queue_id), *numbered(5))
    async with consumer_of(server, tmp_path / "1") as one, consumer_of(server, tmp_path / "2") as two:
        assert len(one.assignment()) == len(two.assignment()) == 4
        assert len(await taken(one, 20)) == len(await taken(two, 20)) == 20
    for name in ("QueryAssignment", "GetOffset", "UpdateOffset"):
        assert server.requests[name] == []


async def test_a_consumer_goes_on_where_its_file_says(server: ScriptedServer, path: Path) -> None:
    for queue_id in range(4):
        server.model.append(queue(queue_id), *numbered(5))
    async with consumer_of(server, path) as consumer:
        seen = await taken(consumer, 13)
    async with consumer_of(server, path) as consumer:
        assert sum([await consumer.position(name) for name in consumer.assignment()]) == 13
        seen += await taken(consumer, 7)
        assert await consumer.committed(queue(0)) is not None
    assert sorted((view.queue_id, view.offset) for view in seen) == [(q, n) for q in range(4) for n in range(5)]


async def test_the_end_at_which_a_consumer_began_is_kept_too(server: ScriptedServer, path: Path) -> None:
    async with consumer_of(server, path, "latest"):
        pass
    server.model.append(queue(2), b"sent while nobody was there")
    async with consumer_of(server, path, "latest") as consumer:
        assert await taken_bodies(consumer, 1) == [b"sent while nobody was there"]


async def test_the_file_is_json_that_a_person_can_read(server: ScriptedServer, path: Path) -> None:
    server.model.append(queue(1), *numbered(3))
    async with consumer_of(server, path) as consumer:
        await taken(consumer, 3)
        await consumer.commit()
        content = written_to(path)
    expected = {"broker-a": {"0": 0, "1": 3, "2": 0, "3": 0}}
    assert content == {"version": 1, "offsets": {GROUP: {TOPIC: expected}}}


async def test_queues_that_the_route_does_not_name_any_more_are_given_up(server: ScriptedServer, path: Path) -> None:
    async with consumer_of(server, path) as consumer:
        server.queues = 6
        await consumer._refresh_routes()
        await consumer._assign_queues()
        assert len(consumer.assignment()) == 6
        server.queues = 2
        await consumer._refresh_routes()
        await consumer._assign_queues()
        assert consumer.assignment() == [queue(0), queue(1)]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\x00",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"version": 2, "offsets": {}}',
        b'{"version": 1}',
        b'{"version": 1, "offsets": {"g": []}}',
        b'{"version": 1, "offsets": {"g": {"orders": {"broker-a": {"0": -1}}}}}',
        b'{"version": 1, "offsets": {"g": {"orders": {"broker-a": {"0": true}}}}}',
        b'{"version": 1, "offsets": {"g": {"orders": {"broker-a": {"zero": 1}}}}}',
    ],
)
async def test_a_file_that_can_not_be_understood_is_an_empty_one(
    server: ScriptedServer, path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, text)
    server.model.append(queue(0), *numbered(3))
    async with consumer_of(server, path) as consumer:
        assert await taken_bodies(consumer, 3) == numbered(3)
    assert f"{path} is corrupt" in caplog.text
    expected = {"broker-a": {"0": 3, "1": 0, "2": 0, "3": 0}}
    assert written_to(path) == {"version": 1, "offsets": {GROUP: {TOPIC: expected}}}


async def test_a_missing_file_is_said(server: ScriptedServer, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with consumer_of(server, path):
        pass
    assert f"{path} doesn't exist yet" in caplog.text


async def test_a_file_that_can_not_be_read_stops_the_start(server: ScriptedServer, tmp_path: Path) -> None:
    with pytest.raises(ternmq.OffsetFileError, match="can't be read"):
        await consumer_of(server, tmp_path).start()


async def test_a_file_that_can_not_be_written_fails_the_commit_and_not_the_close(
    server: ScriptedServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.model.append(queue(0), *numbered(3))
    async with consumer_of(server, path) as consumer:
        await taken(consumer, 3)
        write(path / "in the way", b"")
        with pytest.raises(ternmq.OffsetFileError, match="can't be written"):
            await consumer.commit()
    assert "the progress is not committed" in caplog.text
    assert len(server.requests["NotifyClientTermination"]) == 1


async def test_what_the_file_says_of_other_groups_is_kept(path: Path) -> None:
    one = OffsetFile(path, "one")
    await one.open_store()
    await one.store_offset(route_queue(0), 7)
    two = OffsetFile(path, "two")
    await two.open_store()
    await two.store_offset(route_queue(0), 9)
    again = OffsetFile(path, "one")
    await again.open_store()
    assert (await again.load_offset(route_queue(0)), await again.load_offset(route_queue(1))) == (7, None)


@pytest.fixture
def held_writes(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Semaphore, threading.Semaphore, list[bytes]]:
    """Semaphores of writes that began and writes that may go on, and what was written."""
    began, go_on, written = threading.Semaphore(0), threading.Semaphore(0), list[bytes]()

    def replace(path: Path, text: bytes) -> None:
        began.release()
        assert go_on.acquire(timeout=60)
        written.append(text)

    monkeypatch.setattr(offset_file_module, "_replace_file", replace)
    return began, go_on, written


async def begin_store(path: Path, began: threading.Semaphore) -> "tuple[OffsetFile, asyncio.Task[None]]":
    """A file with a store whose write has begun."""
    file = OffsetFile(path, GROUP)
    first = asyncio.create_task(file.store_offset(route_queue(0), 1))
    await asyncio.to_thread(began.acquire)
    return file, first


async def test_stores_that_come_together_are_one_write(
    path: Path, held_writes: tuple[threading.Semaphore, threading.Semaphore, list[bytes]]
) -> None:
    began, go_on, written = held_writes
    file, first = await begin_store(path, began)
    others = [asyncio.create_task(file.store_offset(route_queue(queue_id), 5)) for queue_id in range(100)]
    go_on.release(2)
    await asyncio.gather(first, *others)
    assert len(written) == 2
    assert json.loads(written[1])["offsets"][GROUP][TOPIC]["broker-a"] == {str(n): 5 for n in range(100)}


async def test_a_cancelled_store_does_not_let_two_writes_run_at_a_time(
    path: Path, held_writes: tuple[threading.Semaphore, threading.Semaphore, list[bytes]]
) -> None:
    began, go_on, written = held_writes
    file, first = await begin_store(path, began)
    first.cancel()
    second = asyncio.create_task(file.store_offset(route_queue(0), 2))
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not began.acquire(blocking=False)
    go_on.release(2)
    await second
    assert [json.loads(text)["offsets"][GROUP][TOPIC]["broker-a"]["0"] for text in written] == [1, 2]


async def test_a_write_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OffsetFile(path, GROUP)
    await file.store_offset(route_queue(0), 1)

    def broken(_: int) -> None:
        raise OSError("scripted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(ternmq.OffsetFileError, match="scripted"):
            await file.store_offset(route_queue(0), 2)
    after = OffsetFile(path, GROUP)
    await after.open_store()
    assert await after.load_offset(route_queue(0)) == 1
    await file.store_offset(route_queue(1), 3)
    await after.open_store()
    assert await after.load_offset(route_queue(0)) == 2
