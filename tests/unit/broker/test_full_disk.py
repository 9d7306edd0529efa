"""A broker without room refuses what is new before it writes a byte, goes on with what it has, and ends in order."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_broker import store_opening
from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.server.main import BrokerServer
from ternmq_broker.store.disk.files import DiskFile, DiskFolder
from ternmq_broker.upkeep.disk_room import DiskBytes, DiskShort
from ternmq_common.clock import MovableClock
from ternmq_common.errors import StartupError
from ternmq_common.names import dead_letter_topic
from ternmq_common.server_settings import BrokerServerSettings, FlushMode, StorageSettings
from ternmq_common.shard.model import (
    RETRY_QUEUE_ID,
    ConsumerGroup,
    HalfMessage,
    NewMessage,
    QueueRef,
    SettleOutcome,
    TimedMessage,
    TransactionResolution,
)
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.local import LocalMessageService
from tests.support.message_service_conformance import order

TOPIC, GROUP = "orders", "g"  # as `order` has them
QUEUE = QueueRef(TOPIC, "broker", 0)
MINUTE_MS = 60_000


def message(name: str) -> NewMessage:
    system = definition_pb2.SystemProperties(message_id=name)
    return NewMessage(0, system.SerializeToString(), b"", (name,))


def settings(folder: Path) -> BrokerSettings:
    return BrokerSettings.from_storage(StorageSettings(data_dir=folder, flush=FlushMode.SYNC))


def opened(folder: Path, clock: MovableClock) -> Broker:
    return Broker.open(settings(folder), lambda name: ConsumerGroup(name=name, max_attempts=2), clock)


def has_no_room(broker: Broker) -> None:
    broker._room._read_disk = lambda: DiskBytes(0, 1 << 40)
    broker._room.check_disk()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: MovableClock) -> AsyncIterator[Broker]:
    made = opened(tmp_path, clock)
    made.start()
    yield made
    await made.close()


async def test_everything_new_is_refused_and_nothing_of_it_is_written(broker: Broker, clock: MovableClock) -> None:
    has_no_room(broker)
    half = HalfMessage(message("half"), "producer", None)
    for refused in (
        broker.sending.append(QUEUE, [message("a")]),
        broker.sending.schedule(QUEUE, [TimedMessage(message("b"), clock.now_ms() + MINUTE_MS)]),
        broker.sending.begin_transaction(QUEUE, half),
        broker.administering.retry(GROUP, TOPIC, [message("c")]),
    ):
        with pytest.raises(DiskShort, match="disk_free_min_bytes") as caught:
            await refused
        assert caught.value.code == definition_pb2.INTERNAL_SERVER_ERROR
    assert broker.store.log.log_end == 0
    assert broker.problem is not None


async def test_what_is_there_is_consumed_settled_retried_and_ended(broker: Broker, clock: MovableClock) -> None:
    await broker.sending.append(QUEUE, [message(name) for name in ("acked", "failed", "dead")])
    await broker.sending.schedule(QUEUE, [TimedMessage(message("timed"), clock.now_ms() + MINUTE_MS)])
    begun = await broker.sending.begin_transaction(QUEUE, HalfMessage(message("half"), "producer", None))
    has_no_room(broker)
    acked, failed, dead = await broker.consuming.pop(order(batch=3), 5)
    assert await broker.consuming.acknowledge(GROUP, TOPIC, [acked.handle]) == [SettleOutcome.DONE]
    assert await broker.consuming.dead_letter(GROUP, TOPIC, dead.handle) is SettleOutcome.DONE
    assert (await broker.reading.bounds(QueueRef(dead_letter_topic(GROUP), broker.name, 0))).maximum == 1
    await broker.consuming.change_invisible(GROUP, TOPIC, failed.handle, 0, counts=True)
    (again,) = await broker.consuming.pop(order(batch=3), 5)
    assert again.handle.queue_id == RETRY_QUEUE_ID, "a copy was made"
    assert begun.transaction_id is not None
    transaction = TransactionId.parse_id(begun.transaction_id)
    await broker.sending.end_transaction(TOPIC, transaction, TransactionResolution.COMMIT, by_operator=False)
    (committed,) = await broker.consuming.pop(order(batch=3), 5)
    assert (
        await broker.consuming.acknowledge(GROUP, TOPIC, [each.handle for each in (again, committed)])
        == [SettleOutcome.DONE] * 2
    )
    clock.advance_by(MINUTE_MS)
    (timed,) = await broker.consuming.pop(order(batch=3), 5)
    assert await broker.consuming.acknowledge(GROUP, TOPIC, [timed.handle]) == [SettleOutcome.DONE]


async def test_sends_work_again_when_there_is_room(broker: Broker) -> None:
    has_no_room(broker)
    with pytest.raises(DiskShort):
        await broker.sending.append(QUEUE, [message("a")])
    broker._room._read_disk = lambda: DiskBytes(1 << 39, 1 << 40)
    broker._room.check_disk()
    await broker.sending.append(QUEUE, [message("a")])
    assert broker.problem is None


async def test_a_broker_process_and_an_embedded_stack_are_not_ready_then(broker: Broker, clock: MovableClock) -> None:
    server = BrokerServer(BrokerServerSettings(), clock)
    server._not_started = None
    server._broker = broker
    embedded = LocalMessageService(broker)
    assert (server._problem_reason(), embedded.outage_reason) == (None, None)
    has_no_room(broker)
    assert server._problem_reason() == embedded.outage_reason == broker.problem
    figures = broker.figures.current_figures()
    assert (figures.disk_refuses, figures.disk_free_bytes, figures.disk_free_min_bytes) == (True, 0, (1 << 40) // 20)


def no_room(self: object, *_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


async def test_a_send_that_meets_the_end_of_the_disk_is_told_so_and_has_the_disk_looked_at(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiskFile, "append", no_room)
    broker._room._read_disk = lambda: DiskBytes(0, 1 << 40)
    with pytest.raises(DiskShort, match="No space left"):
        await broker.sending.append(QUEUE, [message("a")])
    assert broker._room.refuses


async def test_an_end_for_which_even_the_reserve_is_too_small_says_it_in_two_lines_and_loses_nothing(
    tmp_path: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Nothing is written before the end, however slow the machine is; nor does the scrub, which begins with the broker,
    # save its position just then.
    writes_late = replace(settings(tmp_path), consumption_flush_interval_ms=MINUTE_MS, store_scrub_days=0)
    broker = Broker.open(writes_late, lambda name: ConsumerGroup(name=name), clock)
    broker.start()
    await broker.sending.append(QUEUE, [message("a"), message("b")])
    await broker.sending.schedule(QUEUE, [TimedMessage(message("timed"), clock.now_ms() + MINUTE_MS)])
    await broker.consuming.pop(order(batch=1), 5)
    with monkeypatch.context() as full:
        full.setattr(DiskFile, "append", no_room)
        full.setattr(DiskFolder, "replace", no_room)
        await broker.close()
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 2, "one of the groups' progress, one of the indexes"
    assert all(record.exc_info is None for record in errors)
    again = opened(tmp_path, clock)
    again.start()
    assert (await again.reading.bounds(QUEUE)).maximum == 2
    assert await again.figures.count_timers() == 1
    await again.close()


def test_a_store_that_can_not_be_made_for_want_of_room_is_an_error_in_one_line(
    tmp_path: Path, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(DiskFolder, "replace", no_room)
        with pytest.raises(StartupError, match="No space left"):
            opened(tmp_path, clock)
    opened(tmp_path, clock)._lock.release()


def test_a_start_on_a_full_disk_gives_the_reserve_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    reserve = folder / "reserve"
    reserve.write_bytes(bytes(2 << 20))
    monkeypatch.setattr(store_opening, "disk_bytes", lambda _: DiskBytes((2 << 20) - reserve.stat().st_size, 64 << 20))
    LocalMessageService.make_room_to_start(tmp_path)
    assert reserve.stat().st_size == 1 << 20, "as much as a start needs, and no more"
