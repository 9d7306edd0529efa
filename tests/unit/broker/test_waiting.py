"""Timers and transactions on a store that loses power at any moment, is retained, spilled, merged and restarted.

Whatever happens: a timed message that was acknowledged comes exactly once, not before its time, unless it was
recalled; what was recalled in time never comes; a transaction ends once, and its message appears if it was committed,
never otherwise; what is pending stays so, also when retention removes the place where it was.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ternmq_broker.delivery.check_schedule import CheckRules
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.timers import TimerDelivery
from ternmq_broker.transactions.transaction_checks import TransactionChecks
from ternmq_broker.transactions.transaction_queries import TransactionQueries
from ternmq_broker.transactions.transactions import Transactions
from ternmq_common.clock import SystemClock
from ternmq_common.errors import MessagingError
from ternmq_common.names import DISCARD_TOPIC
from ternmq_common.receiving.poll_queues import PollQueues
from ternmq_common.shard.model import (
    HalfMessage,
    NewMessage,
    OrphanedTransaction,
    TimedMessage,
    TransactionResolution,
    TransactionState,
)
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.memory_disk import MemoryFolders
from tests.support.retention import remove_segments
from tests.support.spilling import spill_all

if TYPE_CHECKING:
    from ternmq_broker.sending.flusher import LogFlusher

pytestmark = pytest.mark.plain  # its flusher is a stand-in
TOPIC, BROKER = "orders", "b"
QUEUES = range(2)
FAR_MS = 10_000_000
T = TypeVar("T")


class SetClock(SystemClock):
    """Stands still until it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.time_ms = 1_000_000

    def now_ms(self) -> int:
        return self.time_ms


class SyncingFlusher:
    """Syncs at each acknowledgement, unless the test says that nothing is acknowledged."""

    failure = None

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.acknowledges = True

    async def wait_until_acknowledged(self, log_end: int, then: Callable[[], None]) -> None:
        assert log_end <= self._store.log.log_end
        if self.acknowledges:
            self._store.log.sync_segments()
        then()

    def when_acknowledged(self, log_end: int, done: Callable[[None], None]) -> None:
        assert log_end <= self._store.log.log_end
        if self.acknowledges:
            self._store.log.sync_segments()
        done(None)

    async def wait_until_durable(self, log_end: int) -> None:
        assert log_end <= self._store.log.log_end
        self._store.log.sync_segments()

    def when_readable(self, log_end: int, then: Callable[[], None]) -> None:
        assert log_end <= self._store.log.log_end
        then()


@dataclass
class Timer:
    """What the model knows of a timed message; `recalled` once that was acknowledged, `doubtful` if it was tried."""

    due_ms: int
    acknowledged: bool
    recalled: bool = False
    doubtful: bool = False


@dataclass
class Half:
    """What the model knows of a transaction: when its half message was stored, and what it may be now."""

    transaction: TransactionId
    stored_ms: int
    states: set[TransactionState]


class WaitingMachine(RuleBasedStateMachine):
    """Sends, recalls, ends, time, spills, merges, retention, restarts and power cuts in any order."""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folders = MemoryFolders()
        self.clock = SetClock()
        self.timers: dict[str, Timer] = {}
        self.halves: dict[str, Half] = {}
        self.removed: set[str] = set()
        self.count = 0
        self.open()

    def open(self) -> None:
        self.store = MessageStore(self.folders, segment_bytes=500)
        self.flusher = SyncingFlusher(self.store)
        flusher = cast("LogFlusher", self.flusher)
        self.service = TimerDelivery(self.store, flusher, PollQueues(), self.clock)
        self.transactions = Transactions(
            self.store,
            flusher,
            PollQueues(),
            self.clock,
            broker=BROKER,
            rules=CheckRules(first_check_ms=60, interval_ms=100, checks_max=3, age_max_ms=FAR_MS),
            open_max=1000,
            make_refusal=lambda error: error,
        )
        self.queries = TransactionQueries(self.transactions, self.store, broker=BROKER)
        self.transactions.restore_waiting()

    def run(self, step: Coroutine[None, None, T]) -> T:
        return self.loop.run_until_complete(step)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            try:
                self.everything_comes()
            finally:
                self.run(self.loop.shutdown_default_executor())
                self.loop.close()

    # --- timers

    def new_message(self, *, due_ms: int | None = None) -> NewMessage:
        self.count += 1
        message_id = f"m{self.count}"
        properties = pb.SystemProperties(message_id=message_id)
        if due_ms is not None:
            properties.delivery_timestamp.FromMilliseconds(due_ms)
        system = properties.SerializeToString()
        rest = pb.Message(body=bytes(self.count % 90)).SerializeToString()
        return NewMessage(0, system, rest, (message_id,))

    @rule(
        waits_ms=st.lists(st.integers(-50, 500) | st.integers(60_000, 400_000), min_size=1, max_size=5),
        queue_id=st.sampled_from(QUEUES),
        acknowledged=st.booleans(),
    )
    def messages_are_scheduled(self, waits_ms: list[int], queue_id: int, acknowledged: bool) -> None:
        self.flusher.acknowledges = acknowledged
        timed = []
        for wait_ms in waits_ms:
            due_ms = self.clock.time_ms + wait_ms
            message = self.new_message(due_ms=due_ms)
            timed.append(TimedMessage(message, due_ms))
            self.timers[message.message_id] = Timer(due_ms, acknowledged)
        self.run(self.service.store_timers(TOPIC, queue_id, timed))

    @precondition(lambda self: self.timers)
    @rule(data=st.data(), acknowledged=st.booleans())
    def one_is_recalled(self, data: st.DataObject, acknowledged: bool) -> None:
        self.flusher.acknowledges = acknowledged
        message_id = data.draw(st.sampled_from(sorted(self.timers)))
        timer = self.timers[message_id]
        handle = RecallHandle(TOPIC, BROKER, timer.due_ms, message_id)
        if timer.due_ms <= self.clock.time_ms:
            with pytest.raises(MessagingError):
                self.run(self.service.recall_message(handle))
        elif message_id not in self.present().keys() | self.removed:  # else it came, and the clock was set back
            timer.doubtful = True
            self.run(self.service.recall_message(handle))
            timer.recalled |= acknowledged

    @rule(milliseconds=st.integers(1, 300) | st.integers(-200, 0) | st.integers(50_000, 200_000))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.time_ms += milliseconds

    @rule(synced=st.booleans())
    def what_is_due_comes(self, synced: bool) -> None:
        before = self.present()
        while True:
            now_ms = self.clock.time_ms
            if self.service._index.wants_load(now_ms):
                self.run(self.service._load_due(now_ms))
            due = self.service._index.take_due(now_ms, 3)
            if not due:
                break
            self.run(self.service._deliver_messages(due))
        for message_id in (self.present() - before).keys() & self.timers.keys():
            assert self.timers[message_id].due_ms <= self.clock.time_ms, "nothing comes before its time"
            assert not self.timers[message_id].recalled, "what was recalled never comes"
        if synced:
            self.store.log.sync_segments()

    # --- transactions

    @rule(queue_id=st.sampled_from(QUEUES), acknowledged=st.booleans())
    def one_begins(self, queue_id: int, acknowledged: bool) -> None:
        self.flusher.acknowledges = acknowledged
        message = self.new_message()
        begun = self.run(self.transactions.begin_transaction(TOPIC, queue_id, HalfMessage(message, "sender")))
        if acknowledged:
            transaction = TransactionId.parse_id(begun.transaction_id)
            self.halves[message.message_id] = Half(
                transaction, self.store.writer.last_stored_ms, {TransactionState.PENDING}
            )

    @precondition(lambda self: self.halves)
    @rule(
        data=st.data(),
        resolution=st.sampled_from(TransactionResolution),
        acknowledged=st.booleans(),
        by_operator=st.booleans(),
    )
    def one_ends(
        self, data: st.DataObject, resolution: TransactionResolution, acknowledged: bool, by_operator: bool
    ) -> None:
        self.flusher.acknowledges = acknowledged
        half = self.halves[data.draw(st.sampled_from(sorted(self.halves)))]
        before = self.state(half)
        asked = (
            TransactionState.COMMITTED if resolution is TransactionResolution.COMMIT else TransactionState.ROLLED_BACK
        )
        ends = self.transactions.end_transaction(TOPIC, half.transaction, resolution, by_operator=by_operator)
        if before in (TransactionState.PENDING, asked) or (before is TransactionState.DISCARDED and by_operator):
            self.run(ends)
            half.states = {asked} if acknowledged else half.states | {asked}
            assert self.state(half) is asked
        else:
            with pytest.raises(MessagingError):
                self.run(ends)
            assert self.state(half) is before

    def state(self, half: Half) -> TransactionState:
        outcome = self.run(self.transactions.find_outcome(half.transaction))
        assert outcome.state in half.states, f"{half.transaction} is {outcome.state}, not {half.states}"
        assert outcome.stored_ms == half.stored_ms
        return outcome.state

    # --- the store

    @rule()
    def all_is_synced(self) -> None:
        self.store.log.sync_segments()

    @rule(checkpoint=st.booleans())
    def the_indexes_are_spilled(self, checkpoint: bool) -> None:
        spill_all(self.store)
        if checkpoint:
            self.store.checkpoints.save_checkpoint()

    @rule()
    def runs_are_merged(self) -> None:
        self.run(self.service._merge_some())

    @precondition(lambda self: len(self.store.log.segment_bases) > 2)
    @rule(data=st.data())
    def retention_removes_segments(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.store.log.segment_bases) - 1))
        start = self.store.log.segment_end(count)
        self.flusher.acknowledges = True
        waiting = {half.message_id for half in self.transactions.halves.waiting_below(start)}
        self.run(self.service.relocate_below(start))
        self.run(self.transactions.discard_below(start))
        for message_id in waiting & self.halves.keys():
            self.halves[message_id].states = {TransactionState.DISCARDED}
        spill_all(self.store)
        before = self.present()
        remove_segments(self.store, count)
        self.removed |= (before - self.present()).keys()
        # Of what ended, nothing may be left now: neither the half message nor what it became.
        self.halves = {
            message_id: half
            for message_id, half in self.halves.items()
            if half.transaction.log_offset >= start or half.states == {TransactionState.DISCARDED}
        }
        if self.discards_were_removed():
            self.halves = {key: half for key, half in self.halves.items() if half.transaction.log_offset >= start}

    def discards_were_removed(self) -> bool:
        return self.store.indexes.queues.queue_bounds(DISCARD_TOPIC, 0)[0] > 0

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule(data=st.data(), noise=st.binary(max_size=64) | st.integers(0, 600).map(bytes))
    def the_power_is_cut(self, data: st.DataObject, noise: bytes) -> None:
        self.folders = self.folders.crash(lambda count: data.draw(st.integers(0, count)), noise)
        self.open()
        for half in self.halves.values():
            half.states = {self.state(half)}
        self.no_message_is_doubled()

    # --- what is there

    def present(self) -> Counter[str]:
        """The ids of all messages in the queues."""
        found: Counter[str] = Counter()
        for queue_id in QUEUES:
            offset, end = self.store.indexes.queues.queue_bounds(TOPIC, queue_id)
            while offset < end:
                locations = self.store.indexes.queues.locate_messages(TOPIC, queue_id, offset, 100, may_block=True)
                records = [
                    record for record in self.store.reader.read_records(locations, may_block=True) if record is not None
                ]
                found.update(pb.SystemProperties.FromString(record.system).message_id for record in records)
                offset += len(locations)
        return found

    def no_message_is_doubled(self) -> None:
        present = self.present()
        assert max(present.values(), default=1) == 1
        assert not present.keys() & self.removed

    def everything_comes(self) -> None:
        """All that waits is due: now the accounts must be right."""
        self.flusher.acknowledges = True
        self.clock.time_ms += FAR_MS
        self.what_is_due_comes(synced=True)
        self.no_message_is_doubled()
        came = self.present().keys() | self.removed
        for message_id, timer in self.timers.items():
            if timer.recalled:
                assert message_id not in came
            elif timer.acknowledged and not timer.doubtful:
                assert message_id in came, f"{message_id} was acknowledged and never came"
        for message_id, half in self.halves.items():
            assert (message_id in came) == (self.state(half) is TransactionState.COMMITTED)


WaitingMachine.TestCase.settings = settings(max_examples=3 * settings().max_examples // 2, stateful_step_count=40)
TestWaitingMachine = WaitingMachine.TestCase


def test_half_messages_whose_records_are_lost_do_not_hold_up_retention() -> None:
    """One is lost while the broker runs, one before it starts."""
    machine = WaitingMachine()
    machine.start()
    for _ in range(2):
        machine.one_begins(queue_id=0, acknowledged=True)
        machine.store.log.roll_segment()
    machine.messages_are_scheduled(waits_ms=[5], queue_id=0, acknowledged=True)
    for log_offset in list(machine.store.indexes.halves.waiting):
        file = machine.folders.commit_log.files[f"{log_offset:020d}"]
        file.content[60] ^= 1
        if log_offset == 0:
            machine.the_indexes_are_spilled(checkpoint=True)
            machine.open()
            assert [half.log_offset for half in machine.transactions.halves.waiting_in_order()] != [log_offset]
            assert len(machine.transactions.halves.waiting) == 1
    machine.run(machine.transactions.discard_below(machine.store.log.segment_end(2)))
    remove_segments(machine.store, 2)
    assert not machine.store.indexes.halves.waiting
    machine.loop.close()


@pytest.mark.parametrize("says_when", [True, False])
def test_a_discarded_half_message_says_when_it_was_stored_if_its_copy_or_the_log_does(says_when: bool) -> None:
    """The first builds wrote copies that don't."""
    machine = WaitingMachine()
    machine.start()
    machine.one_begins(queue_id=1, acknowledged=True)
    [half] = machine.halves.values()
    machine.store.log.roll_segment()
    machine.time_passes(50_000)
    [waiting] = machine.store.indexes.halves.waiting_in_order()
    record = machine.run(machine.transactions.read_half(waiting))
    if says_when:
        machine.run(machine.transactions.discard_half(waiting))
    else:
        properties = {"REAL_TOPIC": TOPIC, "REAL_QID": "1", "TRAN_MSG": "0"}
        copied = record.rest + pb.Message(user_properties=properties).SerializeToString()
        message = NewMessage(0, record.system, copied, (waiting.message_id,))
        origin = RecordOrigin(waiting.log_offset)
        machine.store.writer.append_drafts(
            [RecordDraft(RecordKind.MESSAGE, DISCARD_TOPIC, 0, message, origin=origin)], 1
        )

    def stored_ms() -> list[int | None]:
        outcome = machine.run(machine.transactions.find_outcome(half.transaction))
        assert outcome.message.rest == record.rest, "what is delivered has nothing of its copy"
        listed = machine.run(machine.queries.list_page(TransactionState.DISCARDED, topic=TOPIC, start="", limit=9))
        return [outcome.stored_ms, *(each.stored_ms for each in listed.transactions)]

    assert stored_ms() == [half.stored_ms, half.stored_ms]
    machine.store.log.roll_segment()
    spill_all(machine.store)
    remove_segments(machine.store, 1)
    assert stored_ms() == ([half.stored_ms] * 2 if says_when else [None, None])
    machine.loop.close()


def test_a_half_message_that_can_not_be_read_at_one_start_waits_again_after_the_next() -> None:
    """Also if a checkpoint is written between."""
    machine = WaitingMachine()
    machine.start()
    machine.one_begins(queue_id=0, acknowledged=True)
    machine.the_indexes_are_spilled(checkpoint=True)
    [half] = machine.store.indexes.halves.waiting_in_order()
    [name] = machine.folders.commit_log.files
    machine.folders.commit_log.files[name].content[60] ^= 1
    machine.open()
    assert not machine.transactions.halves.waiting
    machine.store.writer.append_drafts([RecordDraft(RecordKind.MESSAGE, TOPIC, 0, machine.new_message())], 1)
    machine.store.log.sync_segments()
    machine.the_indexes_are_spilled(checkpoint=True)
    machine.folders.commit_log.files[name].content[60] ^= 1
    machine.open()
    assert [again.message_id for again in machine.transactions.halves.waiting_in_order()] == [half.message_id]
    machine.loop.close()


def test_a_half_message_that_is_lost_does_not_keep_others_from_being_asked_about() -> None:
    machine = WaitingMachine()
    machine.start()
    for _ in range(3):
        machine.one_begins(queue_id=0, acknowledged=True)
        machine.store.log.roll_segment()
    before, lost, behind = machine.store.indexes.halves.waiting_in_order()
    file = machine.folders.commit_log.files[f"{lost.log_offset:020d}"]
    file.content[60] ^= 1
    orphans = TransactionChecks(machine.transactions, machine.store, machine.clock, broker=BROKER)
    asked: list[str] = []

    async def ask(orphan: OrphanedTransaction) -> bool:
        asked.append(TransactionId.parse_id(orphan.transaction_id).message_id)
        return True

    orphans.set_watcher(ask)
    machine.clock.time_ms += 60
    assert machine.run(orphans._check_due())
    assert asked == [before.message_id, behind.message_id]
    file.content[60] ^= 1
    for _ in range(2):
        assert [half.checks for half in machine.transactions.halves.waiting_in_order()] == [1, 0, 1]
        machine.open()
    machine.loop.close()
