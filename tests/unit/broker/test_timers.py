"""Timers of a broker that stops in the middle of work, and whose clock is set."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from ternmq_broker.store.timers.timer_jobs import FindJob, MergeJob
from ternmq_broker.upkeep.log_upkeep import RepairSources
from ternmq_common.clock import MovableClock, SystemClock
from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import FlushMode, ServerSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage, QueueRef, TimedMessage
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService
from ternmq_runtime.clock_watch import JUMP_MS, ClockWatch, catch_up_clock

QUEUE = QueueRef("orders", "broker-0", 0)
HOUR_MS = 3_600_000


def message(number: int) -> NewMessage:
    properties = definition_pb2.SystemProperties(message_id=f"m{number}")
    return NewMessage(0, properties.SerializeToString(), b"", (f"m{number}",))


async def opened(folder: Path, clock: SystemClock) -> LocalMessageService:
    settings = ServerSettings(data_dir=folder, flush=FlushMode.ASYNC)
    return await LocalMessageService.open_store(settings, lambda name: ConsumerGroup(name=name), clock)


async def test_a_merge_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start and end leaves a small run behind, until there are enough for a merge, which never ends by itself."""
    is_merging = threading.Event()
    merge = MergeJob.run_job

    def run_for_ever(job: MergeJob) -> None:
        is_merging.set()
        while not job._is_interrupted:
            threading.Event().wait(0.001)
        merge(job)

    monkeypatch.setattr(MergeJob, "run_job", run_for_ever)
    clock = MovableClock()
    for number in range(16):
        service = await opened(tmp_path, clock)
        await service.sending.schedule(QUEUE, [TimedMessage(message(number), clock.now_ms() + HOUR_MS)])
        await service.close()
    service = await opened(tmp_path, clock)
    await asyncio.to_thread(is_merging.wait)
    async with asyncio.timeout(20):
        await service.close()
    monkeypatch.undo()
    service = await opened(tmp_path, clock)
    clock.advance_by(2 * HOUR_MS)
    arrived = 0
    while arrived < 16:
        arrived = (await service.reading.pull(QUEUE, arrived, ALL, batch=32, poll_s=20)).next_offset
    assert (await service.reading.bounds(QUEUE)).maximum == 16
    await service.close()


@pytest.mark.plain
async def test_a_timer_whose_record_is_damaged_waits_for_its_repair_and_holds_up_no_other(tmp_path: Path) -> None:
    clock = MovableClock()
    service = await opened(tmp_path, clock)
    broker = service._broker
    store = broker.store
    store.damage.may_be_repaired = True
    broker.log_upkeep.sources = lambda: RepairSources(are_all=False)  # who may have it is away
    for number in range(2):
        await service.sending.schedule(QUEUE, [TimedMessage(message(number), clock.now_ms() + HOUR_MS)])
    await broker._flusher.wait_until_durable(store.log.log_end)
    [segment] = (tmp_path / "store" / "commitlog").iterdir()
    whole = store.replica_log.log_bytes(0, store.log.log_end, may_block=True)[1]
    with segment.open("r+b") as file:
        file.seek(70)
        file.write(bytes([whole[70] ^ 1]))
    store.repair.check_piece(0, 1 << 20)
    [(begin, end)] = store.damage.damaged_ranges
    assert begin == 0
    clock.advance_by(2 * HOUR_MS)
    first = await service.reading.pull(QUEUE, 0, ALL, batch=32, poll_s=20)
    assert [each.system for each in first.messages] == [message(1).system]
    store.repair.write_repair(begin, whole[begin:end])
    second = await service.reading.pull(QUEUE, 1, ALL, batch=32, poll_s=20)
    assert [each.system for each in second.messages] == [message(0).system]
    await service.close()


class SettableClock:
    """A wall clock in a test's hands."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000_000_000


@pytest.mark.parametrize(("jump_ms", "direction"), [(3_600_000, "forward"), (-90_000, "back")])
def test_a_clock_that_is_set_is_noticed_and_said(
    jump_ms: int, direction: str, caplog: pytest.LogCaptureFixture
) -> None:
    wall, clock = SettableClock(), SystemClock()
    jumps: list[int | None] = []
    clock.on_jump(lambda: jumps.append(None))
    clock.on_set(jumps.append)
    watch = ClockWatch(clock, wall_ms=lambda: wall.now_ms)
    watch.check_clock()
    assert not jumps
    wall.now_ms += jump_ms
    with caplog.at_level(logging.WARNING):
        watch.check_clock()
    by_ms, last = jumps
    assert by_ms is not None
    assert abs(by_ms - jump_ms) < JUMP_MS
    assert last is None, "first claims are rebased, then what is planned by the clock is looked at"
    assert f"set {direction} by {abs(jump_ms) / 1000:.1f} s" in caplog.text


def test_a_clock_that_drifts_is_no_jump() -> None:
    wall, clock, jumps = SettableClock(), SystemClock(), []
    clock.on_jump(lambda: jumps.append(1))
    watch = ClockWatch(clock, wall_ms=lambda: wall.now_ms)
    wall.now_ms += JUMP_MS // 2
    watch.check_clock()
    assert not jumps


def test_messages_from_the_future_are_made_up_for_or_said(caplog: pytest.LogCaptureFixture) -> None:
    movable, clock = MovableClock(), SystemClock()
    future_ms = clock.now_ms() + HOUR_MS
    catch_up_clock(movable, future_ms)
    assert movable.now_ms() >= future_ms
    with caplog.at_level(logging.WARNING):
        catch_up_clock(clock, future_ms)
        assert "behind" in caplog.text
        caplog.clear()
        catch_up_clock(clock, clock.now_ms())
        assert not caplog.text


class SlowFind:
    """Lets a look for timers begin, and go on when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()
        find = FindJob.run_job

        def run(job: FindJob) -> None:
            self.began.set()
            self.goes_on.wait(20)
            find(job)

        monkeypatch.setattr(FindJob, "run_job", run)


async def test_a_recall_whose_caller_leaves_goes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slow = MovableClock(), SlowFind(monkeypatch)
    service = await opened(tmp_path, clock)
    due_ms = clock.now_ms() + HOUR_MS
    await service.sending.schedule(QUEUE, [TimedMessage(message(1), due_ms), TimedMessage(message(2), due_ms)])
    recall = asyncio.create_task(service.sending.recall(RecallHandle(QUEUE.topic, QUEUE.broker, due_ms, "m1")))
    await asyncio.to_thread(slow.began.wait)
    recall.cancel()
    slow.goes_on.set()
    await service.sending.recall(RecallHandle(QUEUE.topic, QUEUE.broker, due_ms, "another"))
    clock.advance_by(HOUR_MS)
    [came] = (await service.reading.pull(QUEUE, 0, ALL, batch=9, poll_s=20)).messages
    assert definition_pb2.SystemProperties.FromString(came.system).message_id == "m2"
    await service.close()


async def test_a_recall_that_comes_too_late_while_it_looks_leaves_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, slow = MovableClock(), SlowFind(monkeypatch)
    service = await opened(tmp_path, clock)
    due_ms = clock.now_ms() + HOUR_MS
    await service.sending.schedule(QUEUE, [TimedMessage(message(1), due_ms)])
    recall = asyncio.create_task(service.sending.recall(RecallHandle(QUEUE.topic, QUEUE.broker, due_ms, "m1")))
    await asyncio.to_thread(slow.began.wait)
    clock.advance_by(HOUR_MS)
    slow.goes_on.set()
    with pytest.raises(MessagingError):
        await recall
    assert len((await service.reading.pull(QUEUE, 0, ALL, batch=9, poll_s=20)).messages) == 1
    await service.close()
