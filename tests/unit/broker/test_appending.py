"""Sends of a turn are one write, and each hears of its own end alone."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from ternmq_broker.sending.flusher import LogFlusher
from ternmq_broker.sending.message_appender import MessageAppender
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.upkeep.disk_room import DiskErrors, DiskShort, DiskSpaceWatch
from ternmq_common.clock import MovableClock
from ternmq_common.errors import MessagingError
from ternmq_common.receiving.poll_queues import PollQueues
from ternmq_common.server_settings import FlushMode
from ternmq_common.shard.model import NewMessage, QueueRef
from ternmq_protos.v2 import definition_pb2
from ternmq_runtime.observability.name_counts import NameCounts
from tests.support.memory_disk import MemoryFolders

pytestmark = pytest.mark.plain
Told = dict[str, int | Exception]


def message(name: str, size: int = 10) -> NewMessage:
    return NewMessage(0, b"", bytes(size), (name,))


class Room:
    """That of a disk which is watched."""

    refuses = False

    def append_failed(self, _: OSError) -> None:
        self.refuses = True

    def write_failed(self, _: OSError) -> None:
        self.refuses = True


class CountingStore(MessageStore):
    """Counts writes; its syncs may be held up, or fail."""

    def __init__(self, folders: MemoryFolders) -> None:
        super().__init__(folders, segment_bytes=1 << 30)
        self.go_on = threading.Event()
        self.go_on.set()
        self.error: OSError | None = None
        self._sync_segments = self.log.sync_segments
        self.log.sync_segments = self._sync_later  # type: ignore[method-assign]

    def _sync_later(self) -> int:
        self.go_on.wait(timeout=30)
        if self.error is not None:
            raise self.error
        return self._sync_segments()


class Sends:
    """Appends, and remembers what each was told."""

    def __init__(self, mode: FlushMode) -> None:
        self.folders = MemoryFolders()
        self.store = CountingStore(self.folders)
        self.flusher = LogFlusher(self.store, mode)
        self.pollers = PollQueues()
        self.sent = NameCounts()
        self.told: Told = {}
        self.all_told = asyncio.Event()
        self.refuses: MessagingError | None = None
        room = Room()
        self.appending = MessageAppender(
            self.store,
            self.flusher,
            self.pollers,
            MovableClock(),
            DiskErrors(cast("DiskSpaceWatch", room)),
            self.sent,
            self.check,
        )
        [self.file] = self.folders.commit_log.files.values()
        self.writes = 0
        write = self.file.append

        def counted(pieces: list[bytes]) -> None:
            self.writes += 1
            write(pieces)

        self.file.append = counted  # type: ignore[assignment,method-assign]

    def check(self, _topic: str) -> None:
        if self.refuses is not None:
            raise self.refuses

    def send(self, topic: str, queue_id: int, *names: str, size: int = 10) -> None:
        def done(first: int, error: Exception | None) -> None:
            assert names[0] not in self.told, "a request is answered once"
            self.told[names[0]] = first if error is None else error
            self.all_told.set()

        self.appending.append_nowait(
            QueueRef(topic, "broker-0", queue_id), [message(name, size) for name in names], done
        )

    async def wait(self, count: int) -> Told:
        while len(self.told) < count:
            self.all_told.clear()
            async with asyncio.timeout(20):
                await self.all_told.wait()
        return self.told


@asynccontextmanager
async def sends(mode: FlushMode = FlushMode.ASYNC) -> AsyncIterator[Sends]:
    made = Sends(mode)
    made.flusher.start()
    made.appending.start()
    yield made
    await made.flusher.stop()


@pytest.mark.parametrize("mode", FlushMode)
async def test_requests_of_a_turn_are_one_write_and_each_has_its_own_offsets(mode: FlushMode) -> None:
    async with sends(mode) as made:
        made.send("a", 0, "a0", "a1")
        made.send("b", 3, "b0")
        made.send("a", 0, "a2")
        assert made.told == {}
        assert await made.wait(3) == {"a0": 0, "b0": 0, "a2": 2}
        assert made.writes == 1
        assert made.sent.copy_counts() == {"a": 3, "b": 1}
        made.send("a", 0, "a3")
        assert (await made.wait(4))["a3"] == 3
    assert made.writes == 2
    records = made.store.reader.read_records(
        made.store.indexes.queues.locate_messages("a", 0, 0, 9, may_block=True), may_block=True
    )
    assert [record.queue_offset for record in records if record] == [0, 1, 2, 3]


async def test_a_topic_s_own_flush_mode_says_when_its_requests_are_answered() -> None:
    for broker_s, own in ((FlushMode.SYNC, FlushMode.ASYNC), (FlushMode.ASYNC, FlushMode.SYNC)):
        async with sends(broker_s) as made:
            made.appending.flush_of = lambda topic, own=own: own if topic == "own" else None  # type: ignore[misc]
            made.store.go_on.clear()
            made.send("own", 0, "o0")
            made.send("a", 0, "a0")
            made.send("own", 0, "o1")
            first = {"a0": 0} if own is FlushMode.SYNC else {"o0": 0, "o1": 1}
            assert dict(await made.wait(len(first))) == first, (
                "what waits for a disk that does not answer is not answered"
            )
            assert made.writes == 1
            made.store.go_on.set()
            assert await made.wait(3) == {"o0": 0, "a0": 0, "o1": 1}


async def test_what_is_answered_before_a_sync_is_read_after_it() -> None:
    async with sends(FlushMode.SYNC) as made:
        made.appending.flush_of = lambda _: FlushMode.ASYNC
        poll = asyncio.create_task(made.pollers.wait_for_messages("group", "a", 20))
        await asyncio.sleep(0)
        made.store.go_on.clear()
        made.send("a", 0, "a0")
        await made.wait(1)
        assert made.flusher.readable_end < made.store.log.log_end
        assert not poll.done()
        made.store.go_on.set()
        await poll
        assert made.flusher.readable_end == made.store.log.log_end


async def test_a_disk_that_fails_is_told_to_those_who_come_after_also_of_a_topic_that_waits_for_none() -> None:
    async with sends(FlushMode.SYNC) as made:
        made.appending.flush_of = lambda topic: FlushMode.ASYNC if topic == "own" else None
        made.store.error = OSError("broken")
        made.send("own", 0, "o0")
        made.send("a", 0, "a0")
        told = dict(await made.wait(2))
        assert told["o0"] == 0
        assert isinstance(told["a0"], MessagingError)
        made.send("own", 0, "o1")
        assert isinstance((await made.wait(3))["o1"], MessagingError)


async def test_polls_are_woken_once_for_all_messages_of_a_topic() -> None:
    async with sends() as made:
        polls = [asyncio.create_task(made.pollers.wait_for_messages("group", "a", 20)) for _ in range(4)]
        await asyncio.sleep(0)
        made.send("a", 0, "a0", "a1")
        made.send("a", 1, "a2")
        await made.wait(2)
        done, waiting = await asyncio.wait(polls, timeout=0)
        while len(done) < 3:
            done, waiting = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        assert len(waiting) == 1
        made.pollers.close()
        await asyncio.gather(*polls)


async def test_where_there_is_no_room_for_all_there_may_be_for_one() -> None:
    async with sends() as made:
        made.file.full_after = made.file.size + 500
        made.send("a", 0, "large", size=1000)
        made.send("a", 0, "small")
        told = await made.wait(2)
        assert isinstance(told["large"], DiskShort)
        assert told["small"] == 0


async def test_what_is_wrong_with_one_request_is_nothing_to_the_others() -> None:
    async with sends() as made:
        made.send("a", 0, "a0")
        made.send("t" * 70_000, 0, "no header has room for its topic")
        made.send("a", 0, "a1")
        told = await made.wait(3)
        assert isinstance(told.pop("no header has room for its topic"), OverflowError)
        assert told == {"a0": 0, "a1": 1}
    records = made.store.reader.read_records(
        made.store.indexes.queues.locate_messages("a", 0, 0, 9, may_block=True), may_block=True
    )
    assert [record.queue_offset for record in records if record] == [0, 1]


async def test_one_who_fails_to_hear_it_holds_up_no_other() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    async with sends() as made:
        made.appending.append_nowait(QueueRef("a", "broker-0", 0), [message("deaf")], fails)
        made.send("a", 0, "a1")
        assert await made.wait(1) == {"a1": 1}
    assert [type(error) for error in told] == [ZeroDivisionError]


async def test_what_is_refused_is_refused_to_all_and_nothing_is_stored() -> None:
    async with sends() as made:
        made.refuses = MessagingError(definition_pb2.INTERNAL_SERVER_ERROR, "no")
        made.send("a", 0, "one")
        made.send("a", 0, "two")
        assert await made.wait(2) == {"one": made.refuses, "two": made.refuses}
    assert made.store.indexes.queues.queue_bounds("a", 0) == (0, 0)


async def test_a_failed_sync_is_told_to_all_that_waited_for_it() -> None:
    async with sends(FlushMode.SYNC) as made:
        made.store.error = OSError(5, "Input/output error")
        made.send("a", 0, "one")
        made.send("b", 0, "two")
        told = await made.wait(2)
        assert [type(each) for each in told.values()] == [MessagingError, MessagingError]


async def test_much_is_written_before_the_turn_ends() -> None:
    async with sends() as made:
        made.send("a", 0, "large", size=300 << 10)
        assert made.told == {"large": 0}


async def test_who_waited_and_left_has_its_message_stored() -> None:
    async with sends() as made:
        task = asyncio.create_task(made.appending.append(QueueRef("a", "broker-0", 0), [message("one")]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await made.appending.append(QueueRef("a", "broker-0", 0), [message("two")]) == 1


@pytest.mark.parametrize("mode", FlushMode)
async def test_topics_that_wait_for_no_replica_are_answered_first_and_read_with_the_others(mode: FlushMode) -> None:
    async with sends(mode) as made:
        asked: list[str] = []
        made.appending.answers_alone = lambda topic: asked.append(topic) or topic == "alone"  # type: ignore[func-returns-value]
        made.send("a", 0, "a0")
        assert await made.wait(1) == {"a0": 0}
        assert asked == [], "there are no replicas yet"
        made.flusher.raise_limit(made.store.log.log_end)
        poll = asyncio.create_task(made.pollers.wait_for_messages("group", "alone", 20))
        await asyncio.sleep(0)
        made.send("a", 0, "a1")
        made.send("alone", 0, "first", "second")
        made.send("a", 0, "a2")
        assert await made.wait(2) == {"a0": 0, "first": 0}
        assert set(asked) == {"a", "alone"}
        assert not poll.done()
        made.flusher.raise_limit(made.store.log.log_end)
        assert await made.wait(4) == {"a0": 0, "first": 0, "a1": 1, "a2": 2}
        assert await poll
