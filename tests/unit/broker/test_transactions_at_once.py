"""Transactions that begin and end in one turn of the event loop: one write, an answer for each, and one outcome."""

import asyncio
import errno
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.store.disk.files import DiskFile, WouldBlock
from ternmq_broker.store.repairing.damage import AwaitsRepair
from ternmq_common.clock import MovableClock
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.callbacks import wait_until_ended, wait_until_placed
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import DISCARD_TOPIC
from ternmq_common.server_settings import FlushMode, StorageSettings
from ternmq_common.shard.model import (
    AppendedMessage,
    ConsumerGroup,
    HalfMessage,
    NewMessage,
    QueueRef,
    TransactionResolution,
    TransactionState,
)
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2

QUEUE = QueueRef("orders", "broker", 0)
COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK
LARGE_BYTES = 100_000


def half(name: str, rest: bytes = b"") -> HalfMessage:
    system = definition_pb2.SystemProperties(message_id=name, keys=["k"])
    return HalfMessage(NewMessage(0, system.SerializeToString(), rest, (name, "k")), "producer", None)


@asynccontextmanager
async def opened(folder: Path, **limits: int) -> AsyncIterator[Broker]:
    storage = StorageSettings(data_dir=folder, flush=FlushMode.ASYNC, **limits)  # type: ignore[arg-type]
    broker = Broker.open(BrokerSettings.from_storage(storage), lambda name: ConsumerGroup(name=name), MovableClock())
    broker.start()
    try:
        yield broker
    finally:
        await broker.close()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with opened(tmp_path) as broker:
        yield broker


def placed_id(appended: AppendedMessage) -> TransactionId:
    return TransactionId.parse_id(appended.transaction_id)


async def begin(broker: Broker, name: str, rest: bytes = b"") -> TransactionId:
    """Begin a transaction without a task."""

    def start(done: Callable[[AppendedMessage | None, Exception | None], None]) -> None:
        assert broker.sending.begin_transaction_nowait(QUEUE, half(name, rest), done)

    return placed_id(await wait_until_placed(start))


async def end(broker: Broker, transaction: TransactionId, resolution: TransactionResolution) -> None:
    """End it without a task."""

    def start(done: Callable[[Exception | None], None]) -> None:
        assert broker.sending.end_transaction_nowait("orders", transaction, resolution, done)

    await wait_until_ended(start)


async def message_count(broker: Broker, topic: str = "orders") -> int:
    return (await broker.reading.bounds(QueueRef(topic, "broker", 0))).maximum


async def bodies(broker: Broker) -> list[bytes]:
    found = await broker.reading.pull(QUEUE, 0, ALL, batch=100, poll_s=0)
    return [each.rest for each in found.messages]


async def pending(broker: Broker) -> list[str]:
    """The ids of the transactions that wait, sorted."""
    page = await broker.inspecting.transactions(TransactionState.PENDING, topic="", start="", limit=100)
    return sorted(each.transaction_id for each in page.transactions)


@pytest.fixture
def writes(broker: Broker) -> list[int]:
    """How many bytes each write to the commit log has, in their order."""
    found: list[int] = []
    log = broker.store.log

    def note_write() -> None:
        found.append(log.log_end - sum(found))

    assert (log.log_end, log.on_append) == (0, None)
    log.on_append = note_write
    return found


async def test_what_begins_and_ends_in_one_turn_is_one_write(broker: Broker, writes: list[int]) -> None:
    first = await asyncio.gather(*(begin(broker, f"a{number}", b"%d" % number) for number in range(5)))
    assert len(writes) == 1
    ends = (end(broker, each, ROLLBACK if number == 2 else COMMIT) for number, each in enumerate(first))
    await asyncio.gather(*ends, *(begin(broker, f"b{number}") for number in range(5)))
    assert len(writes) == 2
    assert await bodies(broker) == [b"0", b"1", b"3", b"4"]
    assert [each.partition("@")[0] for each in await pending(broker)] == [f"b{number}" for number in range(5)]


async def test_no_write_is_so_long_that_others_wait_for_it(broker: Broker, writes: list[int]) -> None:
    begun = await asyncio.gather(*(begin(broker, f"n{number}", bytes(LARGE_BYTES)) for number in range(8)))
    await asyncio.gather(*(end(broker, each, COMMIT) for each in begun))
    assert max(writes) < 4 * LARGE_BYTES
    assert len(writes) == 6
    assert await message_count(broker) == 8


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_large_record_that_must_be_waited_for_is_left_to_a_task(
    broker: Broker, is_damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = await begin(broker, "cold", bytes(LARGE_BYTES))

    def wait(file: DiskFile, position: int, size: int, *, may_block: bool = True) -> bytes:
        assert not may_block
        raise AwaitsRepair if is_damaged else WouldBlock(file, position, size)

    ended: list[Exception | None] = []
    with monkeypatch.context() as cold:
        cold.setattr(DiskFile, "read", wait)
        assert not broker.sending.end_transaction_nowait("orders", transaction, COMMIT, ended.append)
    await end(broker, transaction, COMMIT)
    assert ended == []
    assert await bodies(broker) == [bytes(LARGE_BYTES)]


async def test_the_commit_of_a_small_message_reads_nothing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    transaction = await begin(broker, "warm", b"body")

    def refuse(*_: object, **__: object) -> bytes:
        raise AssertionError("read")

    with monkeypatch.context() as blind:
        blind.setattr(DiskFile, "read", refuse)
        await end(broker, transaction, COMMIT)
    assert await bodies(broker) == [b"body"]


async def test_a_message_that_is_committed_from_memory_is_found_like_one_that_was_read(broker: Broker) -> None:
    sizes = {"small": 10, "large": LARGE_BYTES}
    for name, size in sizes.items():
        await end(broker, await begin(broker, name, bytes(size)), COMMIT)
    for key in (*sizes, "k"):
        found = await broker.inspecting.find_by_key("orders", key, 10)
        assert sorted(len(each.rest) for each in found) == sorted([sizes[key]] if key in sizes else sizes.values())


async def test_a_rollback_reads_nothing_and_a_second_end_is_left_to_a_task(broker: Broker) -> None:
    transaction = await begin(broker, "undone")
    await end(broker, transaction, ROLLBACK)
    assert not broker.sending.end_transaction_nowait("orders", transaction, ROLLBACK, lambda _: None)
    assert await message_count(broker) == 0
    with pytest.raises(MessagingError, match="contradicts"):
        await broker.sending.end_transaction("orders", transaction, COMMIT)


async def test_a_second_end_in_the_same_turn_meets_the_first(broker: Broker) -> None:
    transaction = await begin(broker, "twice")
    ended: list[Exception | None] = []
    assert broker.sending.end_transaction_nowait("orders", transaction, COMMIT, ended.append)
    assert not broker.sending.end_transaction_nowait("orders", transaction, COMMIT, ended.append)
    await broker.sending.end_transaction("orders", transaction, COMMIT)
    with pytest.raises(MessagingError, match="contradicts"):
        await broker.sending.end_transaction("orders", transaction, ROLLBACK)
    assert ended == [None]
    assert await message_count(broker) == 1


async def test_a_half_message_that_comes_twice_in_one_turn_is_one_transaction(broker: Broker) -> None:
    async def start(rest: bytes) -> TransactionId:
        return placed_id(await broker.sending.begin_transaction(QUEUE, half("same", rest)))

    direct = asyncio.create_task(begin(broker, "same", b"1"))
    first, second, other = await asyncio.gather(direct, start(b"1"), start(b"2"))
    assert first == second
    assert other != first
    assert not broker.sending.begin_transaction_nowait(QUEUE, half("same", b"1"), lambda *_: None)


async def test_a_half_message_whose_commit_is_not_stored_yet_is_not_discarded(broker: Broker) -> None:
    transactions = broker._transactions
    transaction = await begin(broker, "late")
    waiting = transactions.halves.waiting[transaction.log_offset]
    commit = asyncio.create_task(end(broker, transaction, COMMIT))
    discard = asyncio.create_task(transactions.discard_half(waiting))
    await asyncio.gather(commit, discard)
    assert (await message_count(broker), await message_count(broker, DISCARD_TOPIC)) == (1, 0)


async def test_a_deleted_topic_has_no_transaction_that_began_before(broker: Broker) -> None:
    committed = await begin(broker, "committed")
    done = [asyncio.create_task(end(broker, committed, COMMIT)), asyncio.create_task(begin(broker, "begun"))]
    await asyncio.sleep(0)
    broker._transactions.forget_topic("orders")
    await asyncio.gather(*done)
    assert not broker._transactions.halves.waiting


async def test_no_more_may_be_open_than_are_allowed_even_in_one_turn(tmp_path: Path) -> None:
    async with opened(tmp_path, transactions_max=2) as broker:
        outcomes = await asyncio.gather(*(begin(broker, str(number)) for number in range(4)), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, MessagingError)]
    assert [each.code for each in refused] == [ErrorCode.TOO_MANY_REQUESTS] * 2


async def test_a_disk_that_refuses_leaves_the_transactions_open(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await begin(broker, "first"), await begin(broker, "second")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    ended: list[Exception | None] = []
    begun: list[tuple[object, Exception | None]] = []
    with monkeypatch.context() as broken:
        broken.setattr(DiskFile, "append", refuse)
        for each in (first, second):
            assert broker.sending.end_transaction_nowait("orders", each, COMMIT, ended.append)
        assert broker.sending.begin_transaction_nowait(QUEUE, half("more"), lambda *outcome: begun.append(outcome))
        with pytest.raises(MessagingError, match="can't write to its disk"):
            await broker.sending.end_transaction("orders", first, COMMIT)
    (nothing, refusal), *_ = begun
    assert nothing is None
    assert ["can't write to its disk" in str(each) for each in (*ended, refusal)] == [True] * 3
    assert await message_count(broker) == 0
    await asyncio.gather(end(broker, first, COMMIT), end(broker, second, ROLLBACK))
    assert await message_count(broker) == 1


async def test_what_a_disk_has_room_for_is_stored_though_all_together_is_not(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = DiskFile.append

    def nearly_full(file: DiskFile, pieces: Sequence[bytes]) -> None:
        if sum(map(len, pieces)) > 1000:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, pieces)

    monkeypatch.setattr(DiskFile, "append", nearly_full)
    sizes = (10, 2000, 500, 600)
    outcomes = await asyncio.gather(*(begin(broker, f"n{size}", bytes(size)) for size in sizes), return_exceptions=True)
    assert [isinstance(each, MessagingError) for each in outcomes] == [False, True, False, False]
    assert broker.figures.counts.sent.copy_counts()["orders"] == 3


async def test_a_transaction_of_another_topic_is_refused(broker: Broker) -> None:
    transaction = await begin(broker, "mine")
    with pytest.raises(MessagingError, match="not 'others'"):
        broker.sending.end_transaction_nowait("others", transaction, COMMIT, lambda _: None)


Step = tuple[TransactionResolution | None, int]
"""Begin, with None, or end the transaction of the half message with that number."""
STEPS = st.tuples(st.sampled_from([None, None, COMMIT, ROLLBACK]), st.integers(0, 5))


@settings(max_examples=40)
@given(turns=st.lists(st.lists(STEPS, min_size=1, max_size=8), max_size=12))
def test_each_transaction_has_one_outcome_whatever_comes_in_one_turn(turns: list[list[Step]]) -> None:
    asyncio.run(check_turns(turns))


@dataclass
class Known:
    """What the producers were answered: the transactions of each half message, and how those that ended did."""

    begun: dict[int, set[TransactionId]] = field(default_factory=lambda: defaultdict(set))
    ended: dict[TransactionId, TransactionResolution] = field(default_factory=dict)

    def open_ones(self) -> list[TransactionId]:
        return [each for transactions in self.begun.values() for each in transactions if each not in self.ended]


async def check_turns(turns: list[list[Step]]) -> None:
    """Run the steps of each turn together, each on the latest transaction of its number."""
    known = Known()
    with TemporaryDirectory() as folder:
        async with opened(Path(folder)) as broker:
            for turn in turns:
                await run_together(broker, turn, known)
            await check_outcome(broker, known)
        async with opened(Path(folder)) as broker:
            await check_outcome(broker, known)


async def run_together(broker: Broker, turn: list[Step], known: Known) -> None:
    refused: list[tuple[TransactionId, TransactionResolution, int]] = []

    async def begin_one(number: int) -> None:
        appended = await broker.sending.begin_transaction(QUEUE, half(f"h{number}", b"%d" % number))
        known.begun[number].add(placed_id(appended))

    async def end_one(transaction: TransactionId, resolution: TransactionResolution) -> None:
        try:
            await broker.sending.end_transaction("orders", transaction, resolution)
        except MessagingError as error:
            refused.append((transaction, resolution, error.code))
        else:
            assert known.ended.setdefault(transaction, resolution) is resolution

    work: list[Coroutine[None, None, None]] = []
    for step, number in turn:
        if step is None:
            work.append(begin_one(number))
        elif known.begun[number]:
            work.append(end_one(max(known.begun[number], key=lambda each: each.log_offset), step))
    await asyncio.gather(*work)
    for transaction, resolution, code in refused:
        assert code == ErrorCode.INVALID_TRANSACTION_ID
        assert known.ended[transaction] is not resolution
    for transactions in known.begun.values():
        assert len(transactions - known.ended.keys()) <= 1


async def check_outcome(broker: Broker, known: Known) -> None:
    committed = [each for each, resolution in known.ended.items() if resolution is COMMIT]
    assert sorted(await bodies(broker)) == sorted(each.message_id[1:].encode() for each in committed)
    assert await pending(broker) == sorted(map(str, known.open_ones()))
