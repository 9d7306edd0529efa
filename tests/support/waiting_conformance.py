"""What every MessageService must do with messages that wait: timed ones, half messages, and those of low priority.

Used as `message_service_conformance` is; `stack` also has the clock of the brokers, and `transactions` of the settings
is 3 checks, the first after 6 s, the others every 30 s.
"""

import asyncio
from typing import Protocol

import pytest

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import MovableClock
from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import DISCARD_TOPIC
from ternmq_common.shard.model import (
    AppendedMessage,
    ConsumerGroup,
    HalfMessage,
    OrphanedTransaction,
    PopOrder,
    QueueRef,
    StoredMessage,
    TimedMessage,
    Topic,
    TransactionResolution,
    TransactionState,
    WaitingTimer,
)
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.interface import MessageService
from tests.support.message_service_conformance import Restart, body_of, message, versions

TOPIC = Topic(name="orders", type=MessageType.DELAY, queues=4)
SECOND_MS = 1000
HOUR_MS = 3600 * SECOND_MS
POLL_S = 10.0
RETENTION_MS = 72 * HOUR_MS
COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK


class HasClock(Protocol):
    """What the fixture `stack` is."""

    clock: MovableClock
    groups: dict[str, ConsumerGroup]


class Producers:
    """Answers transaction checks as the test says; `asked` has them."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[OrphanedTransaction] = asyncio.Queue()
        self.are_there = True
        self.turned_away = asyncio.Event()

    async def ask(self, orphan: OrphanedTransaction) -> bool:
        if not self.are_there:
            self.turned_away.set()
            return False
        self.asked.put_nowait(orphan)
        return True


async def queue_of(service: MessageService, queue_id: int = 0, topic: Topic = TOPIC) -> QueueRef:
    return QueueRef(topic.name, service.find_route(topic).brokers[0], queue_id)


async def pulled(
    service: MessageService, queue: QueueRef, *, start: int = 0, poll_s: float = POLL_S
) -> list[StoredMessage]:
    """What is in the queue from an offset on; waits for the first of it."""
    return (await service.reading.pull(queue, start, ALL, batch=32, poll_s=poll_s)).messages


class WaitingConformance:
    """Timers, transactions and priority, as `MessageService` describes them."""

    # --- timers

    async def schedule(
        self, service: MessageService, stack: HasClock, *waits_ms: int, queue_id: int = 0
    ) -> list[tuple[RecallHandle, bytes]]:
        """Store messages that are due after so long; their recall handles and bodies."""
        queue = await queue_of(service, queue_id)
        now = stack.clock.now_ms()
        messages = [message(f"due in {wait_ms}".encode()) for wait_ms in waits_ms]
        timed = [TimedMessage(each, now + wait_ms) for each, wait_ms in zip(messages, waits_ms, strict=True)]
        appended = await service.sending.schedule(queue, timed)
        assert [each.message_id for each in appended] == [each.message_id for each in messages]
        return [
            (
                RecallHandle(queue.topic, queue.broker, each.due_ms, each.message.message_id),
                f"due in {wait_ms}".encode(),
            )
            for each, wait_ms in zip(timed, waits_ms, strict=True)
        ]

    async def test_a_timed_message_comes_on_time_and_not_before(self, service: MessageService, stack: HasClock) -> None:
        queue = await queue_of(service)
        await self.schedule(service, stack, HOUR_MS, 2 * HOUR_MS, 60 * SECOND_MS)
        assert not await pulled(service, queue, poll_s=0)
        stack.clock.advance_by(60 * SECOND_MS)
        [first] = await pulled(service, queue)
        assert (first.queue_offset, body_of(first)) == (0, b"due in 60000")
        assert first.stored_ms >= stack.clock.now_ms() - 5 * SECOND_MS, "stored when it came, not when it was sent"
        stack.clock.advance_by(10 * HOUR_MS)
        others = await pulled(service, queue, start=1)
        others += await pulled(service, queue, start=2) if len(others) == 1 else []
        assert [body_of(each) for each in others] == [b"due in 3600000", b"due in 7200000"]

    async def test_while_nobody_knows_the_time_nothing_is_timed(self, service: MessageService, stack: HasClock) -> None:
        queue = await queue_of(service)
        [(_, body)] = await self.schedule(service, stack, HOUR_MS)
        problem: str | None = None
        stack.clock.set_judge(lambda: problem)
        problem = "the clock is off"
        stack.clock.advance_by(2 * HOUR_MS)
        with pytest.raises(MessagingError, match="the clock is off") as refused:
            await self.schedule(service, stack, HOUR_MS)
        assert refused.value.code == definition_pb2.HA_NOT_AVAILABLE
        [ordinary] = await service.sending.append(queue, [message(b"ordinary")])
        [came] = await pulled(service, queue)
        assert (came.queue_offset, body_of(came)) == (ordinary.queue_offset, b"ordinary")
        assert not await pulled(service, queue, start=came.queue_offset + 1, poll_s=0)
        problem = None
        [late] = await pulled(service, queue, start=came.queue_offset + 1)
        assert body_of(late) == body
        await self.schedule(service, stack, HOUR_MS)

    async def listed(self, service: MessageService, topic: str = "", *, limit: int = 2) -> list[WaitingTimer]:
        """All of them, page by page."""
        found: list[WaitingTimer] = []
        start = ""
        while True:
            page = await service.inspecting.timers(topic=topic, start=start, limit=limit)
            assert len(page.timers) <= limit
            found += page.timers
            start = page.following
            if not start:
                return found

    async def test_what_waits_is_listed_by_its_time(
        self, service: MessageService, stack: HasClock, restarted: Restart
    ) -> None:
        queue = await queue_of(service, 3)
        waits = [5 * HOUR_MS, 60 * SECOND_MS, 2 * HOUR_MS, 2 * HOUR_MS, 40 * HOUR_MS]
        handles = [handle for handle, _ in await self.schedule(service, stack, *waits, queue_id=3)]
        assert await self.listed(service, "another") == []
        found = await self.listed(service)
        assert [each.due_ms for each in found] == sorted(handle.due_ms for handle in handles)
        assert {each.queue for each in found} == {queue}
        ids = {definition_pb2.SystemProperties.FromString(each.system).message_id for each in found}
        assert ids == {handle.message_id for handle in handles}
        assert all(each.size > len(each.system) for each in found)
        assert await self.listed(service, TOPIC.name, limit=100) == found
        again = await restarted()
        assert await self.listed(again) == found
        await again.sending.recall(handles[2])
        stack.clock.advance_by(60 * SECOND_MS)
        assert len(await pulled(again, queue)) == 1
        assert [each.due_ms for each in await self.listed(again)] == [handles[at].due_ms for at in (3, 0, 4)]
        for start in ("x", "1", "1-", "-1", "00-zz", "@", "1-1-1"):
            with pytest.raises(MessagingError) as refused:
                await again.inspecting.timers(topic="", start=start, limit=2)
            assert refused.value.code == definition_pb2.BAD_REQUEST

    async def test_a_time_that_has_passed_is_now(self, service: MessageService, stack: HasClock) -> None:
        await self.schedule(service, stack, -HOUR_MS)
        [came] = await pulled(service, await queue_of(service))
        assert body_of(came) == b"due in -3600000"

    async def test_a_timed_message_wakes_who_waits_for_it(self, service: MessageService, stack: HasClock) -> None:
        await self.schedule(service, stack, HOUR_MS, queue_id=3)
        wanted = PopOrder(
            group="g", topic=TOPIC.name, queues=range(TOPIC.queues), filter=ALL, batch=1, invisible_ms=HOUR_MS
        )
        waiting = asyncio.ensure_future(service.consuming.pop(wanted, broker="", poll_s=POLL_S))
        await asyncio.sleep(0)
        stack.clock.advance_by(HOUR_MS)
        [delivery] = await waiting
        assert delivery.message.queue.queue_id == 3

    async def test_timers_outlive_a_restart(self, service: MessageService, stack: HasClock, restarted: Restart) -> None:
        await self.schedule(service, stack, HOUR_MS, 2 * HOUR_MS)
        service = await restarted()
        queue = await queue_of(service)
        assert not await pulled(service, queue, poll_s=0)
        stack.clock.advance_by(HOUR_MS)
        assert len(await pulled(service, queue)) == 1
        service = await restarted()
        assert len(await pulled(service, queue, poll_s=0)) == 1, "it does not come a second time"
        stack.clock.advance_by(HOUR_MS)
        assert [body_of(each) for each in await pulled(service, queue, start=1)] == [b"due in 7200000"]

    async def test_what_is_recalled_never_comes(
        self, service: MessageService, stack: HasClock, restarted: Restart
    ) -> None:
        queue = await queue_of(service)
        (near, _), (_, kept), (far, _) = await self.schedule(service, stack, 5 * SECOND_MS, HOUR_MS, HOUR_MS + 1)
        await service.sending.recall(near)
        await service.sending.recall(far)
        await service.sending.recall(far)  # again, which is fine
        await service.sending.recall(far._replace(message_id="never-sent"))
        service = await restarted()
        await service.sending.recall(far)
        stack.clock.advance_by(2 * HOUR_MS)
        assert [body_of(each) for each in await pulled(service, queue)] == [kept]
        await self.schedule(service, stack, 0)
        assert [body_of(each) for each in await pulled(service, queue, start=1)] == [b"due in 0"]

    async def test_a_recall_takes_back_every_copy_of_a_repeated_send(
        self, service: MessageService, stack: HasClock
    ) -> None:
        queue, due_ms = await queue_of(service), stack.clock.now_ms() + HOUR_MS
        twice, other = message(b"twice"), message(b"other")
        await service.sending.schedule(queue, [TimedMessage(twice, due_ms), TimedMessage(other, due_ms)])
        await service.sending.schedule(await queue_of(service, 1), [TimedMessage(twice, due_ms)])
        await service.sending.recall(RecallHandle(queue.topic, queue.broker, due_ms, twice.message_id))
        stack.clock.advance_by(HOUR_MS)
        assert [body_of(each) for each in await pulled(service, queue)] == [b"other"]
        assert not await pulled(service, await queue_of(service, 1), poll_s=0)

    async def test_what_has_come_can_not_be_recalled(self, service: MessageService, stack: HasClock) -> None:
        [(handle, _)] = await self.schedule(service, stack, HOUR_MS)
        stack.clock.advance_by(HOUR_MS)
        assert await pulled(service, await queue_of(service))
        with pytest.raises(MessagingError) as refused:
            await service.sending.recall(handle)
        assert refused.value.code == definition_pb2.BAD_REQUEST

    async def test_timers_of_a_deleted_topic_never_come(
        self, service: MessageService, stack: HasClock, restarted: Restart
    ) -> None:
        await self.schedule(service, stack, HOUR_MS)
        await service.administering.forget_topic(TOPIC.name, version=next(versions))
        [(_, body)] = await self.schedule(service, stack, HOUR_MS)
        service = await restarted()
        stack.clock.advance_by(2 * HOUR_MS)
        queue = await queue_of(service)
        [came] = await pulled(service, queue, start=(await service.reading.bounds(queue)).minimum)
        assert body_of(came) == body

    async def test_a_timed_message_can_be_found_when_it_has_come(
        self, service: MessageService, stack: HasClock
    ) -> None:
        [(handle, _)] = await self.schedule(service, stack, HOUR_MS)
        assert not await service.inspecting.find_by_key(TOPIC.name, handle.message_id, 10)
        stack.clock.advance_by(HOUR_MS)
        assert await pulled(service, await queue_of(service))
        assert len(await service.inspecting.find_by_key(TOPIC.name, handle.message_id, 10)) == 1

    # --- transactions

    async def begin(
        self, service: MessageService, body: bytes, *, recovery_ms: int | None = None, sender: str = "sender"
    ) -> AppendedMessage:
        queue = await queue_of(service, 2)
        return await service.sending.begin_transaction(queue, HalfMessage(message(body), sender, recovery_ms))

    async def end(
        self,
        service: MessageService,
        begun: AppendedMessage,
        resolution: TransactionResolution,
        *,
        topic: str = TOPIC.name,
        by_operator: bool = False,
    ) -> None:
        transaction = TransactionId.parse_id(begun.transaction_id)
        await service.sending.end_transaction(topic, transaction, resolution, by_operator=by_operator)

    async def refused(
        self,
        service: MessageService,
        begun: AppendedMessage,
        resolution: TransactionResolution,
        topic: str = TOPIC.name,
    ) -> None:
        with pytest.raises(MessagingError) as refusal:
            await self.end(service, begun, resolution, topic=topic)
        assert refusal.value.code == definition_pb2.INVALID_TRANSACTION_ID

    async def state(self, service: MessageService, begun: AppendedMessage) -> TransactionState:
        transaction, half = await service.inspecting.transaction(TransactionId.parse_id(begun.transaction_id))
        assert (transaction.topic, transaction.message_id) == (TOPIC.name, begun.message_id)
        assert half.queue.queue_id == 2
        return transaction.state

    async def committed(self, service: MessageService) -> list[bytes]:
        return [body_of(each) for each in await pulled(service, await queue_of(service, 2), poll_s=0)]

    async def test_a_half_message_is_invisible_until_it_is_committed(self, service: MessageService) -> None:
        begun = await self.begin(service, b"half")
        assert not await self.committed(service)
        assert not await service.inspecting.find_by_key(TOPIC.name, begun.message_id, 10)
        assert (await service.reading.bounds(await queue_of(service, 2))).maximum == 0
        assert await self.state(service, begun) is TransactionState.PENDING
        await self.end(service, begun, COMMIT)
        assert await self.committed(service) == [b"half"]
        assert len(await service.inspecting.find_by_key(TOPIC.name, begun.message_id, 10)) == 1
        assert await self.state(service, begun) is TransactionState.COMMITTED

    async def test_a_rolled_back_message_never_appears(self, service: MessageService) -> None:
        begun = await self.begin(service, b"half")
        await self.end(service, begun, ROLLBACK)
        assert not await self.committed(service)
        assert await self.state(service, begun) is TransactionState.ROLLED_BACK

    @pytest.mark.parametrize("restart", [False, True])
    async def test_the_same_end_again_is_fine_and_another_is_refused(
        self, service: MessageService, restarted: Restart, restart: bool
    ) -> None:
        good, bad = await self.begin(service, b"good"), await self.begin(service, b"bad")
        for _ in range(2):
            await self.end(service, good, COMMIT)
            await self.end(service, bad, ROLLBACK)
        service = await restarted() if restart else service
        await self.end(service, good, COMMIT)
        await self.end(service, bad, ROLLBACK)
        await self.refused(service, good, ROLLBACK)
        await self.refused(service, bad, COMMIT)
        assert await self.committed(service) == [b"good"]
        assert await self.state(service, good) is TransactionState.COMMITTED
        assert await self.state(service, bad) is TransactionState.ROLLED_BACK

    async def test_ends_that_race_have_one_winner(self, service: MessageService) -> None:
        begun = await self.begin(service, b"raced")
        ends = [self.end(service, begun, COMMIT if number % 2 else ROLLBACK) for number in range(8)]
        outcomes = await asyncio.gather(*ends, return_exceptions=True)
        won = outcomes.index(None) % 2
        assert [outcome is None for outcome in outcomes] == [number % 2 == won for number in range(8)]
        assert await self.committed(service) == ([b"raced"] if won else [])

    async def test_foreign_and_unknown_transactions_are_refused(self, service: MessageService) -> None:
        begun = await self.begin(service, b"half")
        transaction = TransactionId.parse_id(begun.transaction_id)
        await self.refused(service, begun, COMMIT, topic="another")
        for other in (
            transaction._replace(message_id="other"),
            transaction._replace(log_offset=transaction.log_offset + 1),
            transaction._replace(log_offset=1 << 50),
            transaction._replace(broker="elsewhere"),
        ):
            foreign = AppendedMessage(other.message_id, 0, str(other))
            await self.refused(service, foreign, COMMIT)
            await self.refused(service, foreign, ROLLBACK)
        await self.end(service, begun, COMMIT)
        await self.refused(service, begun, COMMIT, topic="another")

    async def test_a_message_is_no_half_message(self, service: MessageService) -> None:
        queue = await queue_of(service)
        plain = message(b"plain")
        await service.sending.append(queue, [plain])
        transaction = TransactionId(plain.message_id, queue.broker, 0)
        await self.refused(service, AppendedMessage(plain.message_id, 0, str(transaction)), COMMIT)

    async def test_pending_transactions_outlive_a_restart(self, service: MessageService, restarted: Restart) -> None:
        begun = [await self.begin(service, b"%d" % number) for number in range(3)]
        service = await restarted()
        assert not await self.committed(service)
        assert [await self.state(service, each) for each in begun] == [TransactionState.PENDING] * 3
        await self.end(service, begun[1], COMMIT)
        await self.end(service, begun[0], ROLLBACK)
        service = await restarted()
        assert await self.committed(service) == [b"1"]
        page = await service.inspecting.transactions(TransactionState.PENDING, topic="", start="", limit=10)
        assert [each.transaction_id for each in page.transactions] == [begun[2].transaction_id]

    async def test_a_producer_is_asked_again_and_again_until_the_message_is_discarded(
        self, service: MessageService, stack: HasClock
    ) -> None:
        producers = Producers()
        service.watch_orphans(producers.ask)
        begun = await self.begin(service, b"orphan")
        stack.clock.advance_by(5 * SECOND_MS)
        assert producers.asked.empty()
        for number, wait_ms in enumerate((SECOND_MS, 30 * SECOND_MS, 30 * SECOND_MS), start=1):
            stack.clock.advance_by(wait_ms)
            orphan = await producers.asked.get()
            assert (orphan.transaction_id, orphan.topic, orphan.sender) == (begun.transaction_id, TOPIC.name, "sender")
            assert body_of(orphan.message) == b"orphan"
            await self.noted(service, begun, number)
        stack.clock.advance_by(30 * SECOND_MS)
        await self.until_discarded(service, 1)
        assert producers.asked.empty()
        assert await self.state(service, begun) is TransactionState.DISCARDED
        assert not await self.committed(service)
        await self.refused(service, begun, COMMIT)
        await self.refused(service, begun, ROLLBACK)

    async def noted(self, service: MessageService, begun: AppendedMessage, checks: int) -> None:
        """Wait until the check is counted: that happens in the step after it was put."""
        transaction = TransactionId.parse_id(begun.transaction_id)
        while (await service.inspecting.transaction(transaction))[0].checks < checks:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)

    async def until_discarded(self, service: MessageService, count: int) -> None:
        broker = service.find_route(TOPIC).brokers[0]
        found = 0
        while found < count:
            more = await pulled(service, QueueRef(DISCARD_TOPIC, broker, 0), start=found)
            assert more
            found += len(more)

    async def test_the_recovery_duration_of_a_message_is_waited_for(
        self, service: MessageService, stack: HasClock
    ) -> None:
        producers = Producers()
        service.watch_orphans(producers.ask)
        patient = await self.begin(service, b"patient", recovery_ms=HOUR_MS)
        hasty = await self.begin(service, b"hasty", recovery_ms=SECOND_MS)
        stack.clock.advance_by(SECOND_MS)
        assert (await producers.asked.get()).transaction_id == hasty.transaction_id
        await self.end(service, hasty, COMMIT)
        stack.clock.advance_by(HOUR_MS - 2 * SECOND_MS)
        await self.begin(service, b"marker", recovery_ms=1)
        stack.clock.advance_by(1)
        assert body_of((await producers.asked.get()).message) == b"marker"
        stack.clock.advance_by(SECOND_MS)
        assert (await producers.asked.get()).transaction_id == patient.transaction_id

    async def test_questions_without_producers_do_not_count(self, service: MessageService, stack: HasClock) -> None:
        producers = Producers()
        producers.are_there = False
        service.watch_orphans(producers.ask)
        begun = await self.begin(service, b"lonely")
        for _ in range(10):
            producers.turned_away.clear()
            stack.clock.advance_by(30 * SECOND_MS)
            await producers.turned_away.wait()
        producers.are_there = True
        stack.clock.advance_by(30 * SECOND_MS)
        assert (await producers.asked.get()).transaction_id == begun.transaction_id
        await self.end(service, begun, COMMIT)
        assert await self.committed(service) == [b"lonely"]

    async def test_questions_are_counted_across_a_restart(
        self, service: MessageService, stack: HasClock, restarted: Restart
    ) -> None:
        producers = Producers()
        service.watch_orphans(producers.ask)
        begun = await self.begin(service, b"orphan")
        for number in (1, 2):
            stack.clock.advance_by(30 * SECOND_MS)
            await producers.asked.get()
            await self.noted(service, begun, number)
        service = await restarted()
        service.watch_orphans(producers.ask)
        stack.clock.advance_by(30 * SECOND_MS)
        assert (await producers.asked.get()).sender == "sender"
        await self.noted(service, begun, 3)
        stack.clock.advance_by(30 * SECOND_MS)
        await self.until_discarded(service, 1)
        assert producers.asked.empty()

    @pytest.mark.parametrize("resolution", TransactionResolution)
    @pytest.mark.parametrize("restart", [False, True])
    async def test_an_operator_decides_about_what_was_discarded(
        self,
        service: MessageService,
        stack: HasClock,
        restarted: Restart,
        resolution: TransactionResolution,
        restart: bool,
    ) -> None:
        before_ms = stack.clock.now_ms()
        begun, other = [await self.begin(service, body) for body in (b"late", b"other")]
        after_ms = stack.clock.now_ms()
        stack.clock.advance_by(RETENTION_MS)
        await self.until_discarded(service, 2)
        service = await restarted() if restart else service
        assert await self.discarded(service) == [begun.transaction_id, other.transaction_id]
        described, half = await service.inspecting.transaction(TransactionId.parse_id(begun.transaction_id))
        assert before_ms <= half.stored_ms <= after_ms
        listed = await service.inspecting.transactions(TransactionState.DISCARDED, topic=TOPIC.name, start="", limit=1)
        assert described.stored_ms == half.stored_ms == listed.transactions[0].stored_ms
        for _ in range(2):
            await self.end(service, begun, resolution, by_operator=True)
        service = await restarted() if restart else service
        await self.end(service, begun, resolution, by_operator=True)
        assert await self.committed(service) == ([b"late"] if resolution is COMMIT else [])
        assert await self.discarded(service) == [other.transaction_id]
        with pytest.raises(MessagingError):
            await self.end(service, begun, ROLLBACK if resolution is COMMIT else COMMIT, by_operator=True)

    async def discarded(self, service: MessageService) -> list[str]:
        found: list[str] = []
        start, is_more = "", True
        while is_more:
            page = await service.inspecting.transactions(
                TransactionState.DISCARDED, topic=TOPIC.name, start=start, limit=1
            )
            found += [each.transaction_id for each in page.transactions]
            start, is_more = page.following, page.following != ""
        return found

    async def test_an_operator_decides_about_what_is_pending(self, service: MessageService) -> None:
        first, second = [await self.begin(service, body) for body in (b"first", b"second")]
        await self.end(service, first, COMMIT, by_operator=True)
        await self.end(service, second, ROLLBACK, by_operator=True)
        assert await self.committed(service) == [b"first"]

    async def test_pending_transactions_are_listed_by_page_and_topic(self, service: MessageService) -> None:
        begun = [(await self.begin(service, b"%d" % number)).transaction_id for number in range(5)]
        found: list[str] = []
        start, is_more = "", True
        while is_more:
            page = await service.inspecting.transactions(
                TransactionState.PENDING, topic=TOPIC.name, start=start, limit=2
            )
            assert len(page.transactions) <= 2
            found += [each.transaction_id for each in page.transactions]
            start, is_more = page.following, page.following != ""
        assert found == begun
        page = await service.inspecting.transactions(TransactionState.PENDING, topic="another", start="", limit=2)
        assert (page.transactions, page.following) == ([], "")

    async def test_transactions_of_a_deleted_topic_end(self, service: MessageService) -> None:
        begun = await self.begin(service, b"half")
        await service.administering.forget_topic(TOPIC.name, version=next(versions))
        await self.refused(service, begun, COMMIT)
        assert not (
            await service.inspecting.transactions(TransactionState.PENDING, topic="", start="", limit=9)
        ).transactions

    # --- priority

    def receives(self, group: str, *, batch: int = 1) -> PopOrder:
        return PopOrder(
            group=group,
            topic=TOPIC.name,
            queues=range(TOPIC.queues),
            filter=ALL,
            batch=batch,
            invisible_ms=60 * SECOND_MS,
            by_priority=True,
        )

    async def test_higher_priorities_come_first(self, service: MessageService) -> None:
        for number, queue_id in enumerate((0, 1, 2, 3, 3, 1, 3, 0, 2)):
            await service.sending.append(await queue_of(service, queue_id), [message(b"%d-%d" % (queue_id, number))])
        came = []
        for _ in range(9):
            [delivery] = await service.consuming.pop(self.receives("g"), broker="", poll_s=0)
            came.append(body_of(delivery.message))
        assert came == [b"3-3", b"3-4", b"3-6", b"2-2", b"2-8", b"1-1", b"1-5", b"0-0", b"0-7"]

    async def test_what_fails_comes_after_what_is_new(self, service: MessageService) -> None:
        await service.sending.append(await queue_of(service, 3), [message(b"high")])
        [delivery] = await service.consuming.pop(self.receives("g"), broker="", poll_s=0)
        await service.consuming.change_invisible("g", TOPIC.name, delivery.handle, 0, counts=True)
        await service.sending.append(await queue_of(service, 0), [message(b"low")])
        came = await service.consuming.pop(self.receives("g", batch=2), broker="", poll_s=POLL_S)
        assert [body_of(each.message) for each in came] == [b"low", b"high"]

    @pytest.mark.parametrize(("factor", "low_comes_at"), [(100, 150), (99, 99), (90, 9), (0, 0)])
    async def test_low_priorities_do_not_starve(
        self, service: MessageService, stack: HasClock, factor: int, low_comes_at: int
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", priority_factor=factor)
        await service.sending.append(await queue_of(service, 3), [message(b"high")] * 150)
        await service.sending.append(await queue_of(service, 1), [message(b"low")])
        came = []
        for _ in range(151):
            [delivery] = await service.consuming.pop(self.receives("g"), broker="", poll_s=0)
            came.append(body_of(delivery.message))
        assert came.index(b"low") == low_comes_at
