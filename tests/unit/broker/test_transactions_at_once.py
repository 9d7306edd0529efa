"""A half message whose record must be waited for ends in a task, and a refusal leaves its transaction open."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.store.disk.files import DiskFile, WouldBlock
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.clock import MovableClock
from ternmq_common.errors import MessagingError
from ternmq_common.server_settings import FlushMode, StorageSettings
from ternmq_common.shard.model import (
    AppendedMessage,
    ConsumerGroup,
    HalfMessage,
    NewMessage,
    QueueRef,
    TransactionResolution,
)
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2

QUEUE = QueueRef("orders", "broker", 0)
COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK


def half(name: str) -> HalfMessage:
    system = definition_pb2.SystemProperties(message_id=name)
    return HalfMessage(NewMessage(0, system.SerializeToString(), b"", (name,)), "producer", None)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = BrokerSettings.from_storage(StorageSettings(data_dir=tmp_path, flush=FlushMode.ASYNC))
    opened = Broker.open(settings, lambda name: ConsumerGroup(name=name), MovableClock())
    opened.start()
    yield opened
    await opened.close()


def begin(broker: Broker, name: str) -> TransactionId:
    """Begin a transaction; it is acknowledged at once, since nothing is synced before."""
    begun: list[tuple[AppendedMessage | None, Exception | None]] = []
    assert broker.sending.begin_transaction_nowait(QUEUE, half(name), lambda *outcome: begun.append(outcome))
    [(appended, error)] = begun
    assert appended is not None, error
    return TransactionId.parse_id(appended.transaction_id)


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_record_that_must_be_waited_for_is_left_to_a_task(
    broker: Broker, is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = begin(broker, "cold")

    def wait(file: DiskFile, position: int, size: int, *, may_block: bool = True) -> bytes:
        assert not may_block
        raise AwaitsRepair if is_damaged else WouldBlock(file, position, size)

    ended: list[Exception | None] = []
    with monkeypatch.context() as cold:
        cold.setattr(DiskFile, "read", wait)
        assert not broker.sending.end_transaction_nowait("orders", transaction, COMMIT, ended.append)
        assert ended == []
    assert broker.sending.end_transaction_nowait("orders", transaction, COMMIT, ended.append)
    assert ended == [None]
    assert (await broker.reading.bounds(QUEUE)).maximum == 1


async def test_a_rollback_reads_nothing_and_a_second_end_is_left_to_a_task(broker: Broker) -> None:
    transaction = begin(broker, "undone")
    ended: list[Exception | None] = []
    assert broker.sending.end_transaction_nowait("orders", transaction, ROLLBACK, ended.append)
    assert ended == [None]
    assert not broker.sending.end_transaction_nowait("orders", transaction, ROLLBACK, ended.append)
    assert (await broker.reading.bounds(QUEUE)).maximum == 0
    with pytest.raises(MessagingError, match="contradicts"):
        await broker.sending.end_transaction("orders", transaction, COMMIT)


async def test_a_disk_that_refuses_the_end_leaves_the_transaction_open(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = begin(broker, "open")

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    ended: list[Exception | None] = []
    with monkeypatch.context() as broken:
        broken.setattr(DiskFile, "append", refuse)
        with pytest.raises(MessagingError, match="can't write to its disk"):
            broker.sending.end_transaction_nowait("orders", transaction, COMMIT, ended.append)
        with pytest.raises(MessagingError):
            broker.sending.begin_transaction_nowait(QUEUE, half("more"), lambda *_: ended.append(None))
    assert ended == []
    assert broker.sending.end_transaction_nowait("orders", transaction, COMMIT, ended.append)
    assert ended == [None]


async def test_a_transaction_of_another_topic_is_refused(broker: Broker) -> None:
    transaction = begin(broker, "mine")
    with pytest.raises(MessagingError, match="not 'others'"):
        broker.sending.end_transaction_nowait("others", transaction, COMMIT, lambda _: None)
