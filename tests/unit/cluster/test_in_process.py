"""Two brokers and two proxies in one process: what only a cluster can get wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import ANY, Mock

import pytest
from msgspec import structs

from ternmq_broker.broker import Broker
from ternmq_broker.server.proxy_connections import ConnectionLimits
from ternmq_broker.upkeep.disk_room import DiskBytes
from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import MovableClock
from ternmq_common.errors import MessagingError
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.filters.sql_filter.expression import SqlFilter
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import (
    MEMBERS_CHANGED,
    HalfMessage,
    NewMessage,
    OrphanedTransaction,
    ProxyAnswer,
    PullingMember,
    QueueReaderId,
    QueueRef,
    SettleOutcome,
    TimedMessage,
    Topic,
    TopicSubscription,
    TransactionResolution,
    TransactionState,
)
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerRefused, BrokerUnavailable
from ternmq_proxy.message_service.cluster.broker_links.remote_broker import RemoteBroker
from ternmq_proxy.message_service.cluster.service import ClusterMessageService
from ternmq_registry.directory import RegistryDirectory
from ternmq_runtime.observability.figures import GroupLag
from tests.support.cluster import BrokerNode, InProcessCluster, reached
from tests.support.message_service_conformance import begin_at_once, body, body_of, end_at_once, message, order
from tests.support.scripted_broker import Wire
from tests.support.until import until, until_answered

BOTH = ["broker-0", "broker-1"]
PATIENCE_S = 20.0
POLL_S = 15.0
MINUTE_MS = 60_000
ORDERS = Topic(name="orders", type=MessageType.NORMAL, queues=4, brokers=tuple(BOTH))


@dataclass
class TwoByTwo:
    """Two brokers, of which the proxies reach the first one by a wire, and two proxies."""

    cluster: InProcessCluster
    one: ClusterMessageService
    other: ClusterMessageService
    other_directory: RegistryDirectory
    wire: Wire
    other_stack: AsyncExitStack

    @property
    def first(self) -> BrokerNode:
        return self.cluster.nodes[0]

    @property
    def second(self) -> BrokerNode:
        return self.cluster.nodes[1]

    async def changed(self, change: Callable[[], object]) -> object:
        """Change the registry, and have the proxies know it."""
        result = await asyncio.to_thread(change)
        await self.know()
        return result

    async def know(self) -> None:
        await self.cluster.proxy_directory.refresh_snapshot()
        await self.other_directory.refresh_snapshot()

    async def make(self, topic: Topic = ORDERS) -> None:
        await self.changed(lambda: self.cluster.proxy_directory.registry.create_topic(topic))

    def stored(self, queue_id: int = 0) -> list[int]:
        """How many messages each broker has in that queue."""
        return [node.broker.reading.bounds(queue(node.name, queue_id)).result.maximum for node in self.cluster.nodes]


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[TwoByTwo]:
    cluster = InProcessCluster(tmp_path, brokers=2)
    async with Wire() as wire, AsyncExitStack() as stack:
        cluster.nodes[0].wire = wire
        stack.push_async_callback(cluster.stop)
        one = await cluster.start()
        other_stack = await stack.enter_async_context(AsyncExitStack())
        directory = await cluster.directory(other_stack)
        other = await cluster.connect(directory, other_stack, name="other proxy")
        async with asyncio.timeout(PATIENCE_S):
            yield TwoByTwo(cluster, one, other, directory, wire, other_stack)


def queue(broker: str, queue_id: int = 0) -> QueueRef:
    return QueueRef(ORDERS.name, broker, queue_id)


# --- receiving


async def test_what_one_proxy_received_is_acknowledged_through_another(two: TwoByTwo) -> None:
    for name in BOTH:
        await two.one.sending.append(queue(name), [message(name.encode())])
    received = [each for _ in BOTH for each in await two.one.consuming.pop(order(), broker="", poll_s=POLL_S)]
    assert sorted(map(body, received)) == [b"broker-0", b"broker-1"]
    outcomes = await two.other.consuming.acknowledge("g", ORDERS.name, [each.handle for each in received])
    assert outcomes == [SettleOutcome.DONE, SettleOutcome.DONE]
    assert await two.one.consuming.pop(order(), broker="", poll_s=0) == []


@pytest.mark.parametrize("name", BOTH)
async def test_a_poll_hears_of_a_message_on_any_broker(two: TwoByTwo, name: str) -> None:
    polling = asyncio.create_task(two.one.consuming.pop(order(), broker="broker-0", poll_s=POLL_S))
    await until(lambda: two.one.polls.waiting_count == 1)
    await two.other.sending.append(queue(name), [message(b"here")])
    assert [body(each) for each in await polling] == [b"here"]


async def test_a_burst_gives_every_poll_something(two: TwoByTwo) -> None:
    polls = [asyncio.create_task(two.one.consuming.pop(order(batch=1), broker="", poll_s=POLL_S)) for _ in range(16)]
    await until(lambda: two.one.polls.waiting_count == 16)
    for name in BOTH:
        await two.other.sending.append(queue(name), [message(b"%d" % number) for number in range(8)])
    assert all(len(each) == 1 for each in await asyncio.gather(*polls))


async def test_a_poll_hears_when_its_topic_is_put_on_another_broker(two: TwoByTwo) -> None:
    await two.make(replace(ORDERS, brokers=("broker-0",)))
    await two.one.sending.append(queue("broker-1"), [message(b"there already")])
    polling = asyncio.create_task(two.one.consuming.pop(order(), broker="", poll_s=POLL_S))
    await until(lambda: two.one.polls.waiting_count == 1)
    await two.changed(lambda: two.cluster.proxy_directory.registry.update_topic(ORDERS))
    assert [body(each) for each in await polling] == [b"there already"]


async def test_messages_that_come_for_nobody_are_given_to_others_at_once(two: TwoByTwo) -> None:
    await two.one.sending.append(queue("broker-0"), [message(b"once")])
    two.wire.hold()
    polling = asyncio.create_task(two.one.consuming.pop(order(), broker="broker-0", poll_s=POLL_S))
    await until(lambda: any(row.in_flight for row in two.first.broker._consumption.group_progress("g")))
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    waiting = asyncio.create_task(two.other.consuming.pop(order(), broker="broker-0", poll_s=POLL_S))
    two.wire.release()
    assert [(body(each), each.attempt) for each in await waiting] == [(b"once", 1)]


async def test_what_a_broker_could_not_write_goes_to_others_at_once(two: TwoByTwo) -> None:
    await two.one.sending.append(queue("broker-0"), [message(bytes(1 << 20)) for _ in range(16)])
    two.wire.hold()
    polls = [
        asyncio.create_task(two.one.consuming.pop(order(batch=1), broker="broker-0", poll_s=POLL_S)) for _ in range(16)
    ]
    await until(lambda: sum(row.in_flight for row in two.first.broker._consumption.group_progress("g")) == 16)
    for poll in polls:
        poll.cancel()
    two.wire.cut()
    # What had left the broker's process is hidden until its time; the rest is not.
    received = await two.other.consuming.pop(order(batch=1), broker="broker-0", poll_s=POLL_S)
    assert [each.attempt for each in received] == [1]


class Gate:
    """A leader that can't prolong its lease."""

    def __init__(self) -> None:
        self.refused = 0

    def check_serves(self) -> None:
        self.refused += 1
        raise MessagingError(definition_pb2.HA_NOT_AVAILABLE, "a test")

    def check_sends(self, topic: str) -> None:
        self.check_serves()


@pytest.mark.parametrize("passing", [ALL, SqlFilter.parse_expression("a IS NULL")], ids=["tags", "sql"])
async def test_a_poll_that_a_leader_refused_hears_when_it_serves_again(two: TwoByTwo, passing: MessageFilter) -> None:
    await two.make(replace(ORDERS, brokers=("broker-0",)))
    await two.one.sending.append(queue("broker-0"), [message(b"there already")])
    gate = two.first.broker.admission.gate = Gate()
    asked = structs.replace(order(), filter=passing)
    polling = asyncio.create_task(two.one.consuming.pop(asked, broker="broker-0", poll_s=POLL_S))
    await until(lambda: gate.refused > 0 and two.one.polls.waiting_count == 1)
    two.first.broker.admission.gate = None
    two.first.proxies.retry_refused()
    assert [body(each) for each in await polling] == [b"there already"]


# --- what waits for a group


async def lags(node: BrokerNode) -> list[GroupLag]:
    return [lag async for lag in node.broker.figures.count_lags()]


async def test_progress_counts_brokers_that_a_group_never_came_to(two: TwoByTwo) -> None:
    for name in BOTH:
        await two.one.sending.append(queue(name), [message(b"1"), message(b"2")])
    (delivery,) = await two.one.consuming.pop(order(batch=1), broker="broker-0", poll_s=0)
    await two.one.consuming.acknowledge("g", ORDERS.name, [delivery.handle])
    for proxy in (two.one, two.other):
        rows = await proxy.inspecting.progress("g")
        assert [(row.queue.broker, row.cursor, row.max_offset) for row in rows] == [
            ("broker-0", 1, 2),
            ("broker-1", 0, 2),
        ]


async def test_every_broker_counts_what_waits_for_who_subscribes_also_one_that_comes_back(two: TwoByTwo) -> None:
    for name in BOTH:
        await two.one.sending.append(queue(name), [message(b"1"), message(b"2")])
    new, known = TopicSubscription("g", ORDERS.name), TopicSubscription("h", ORDERS.name)
    await two.one.notify_subscriptions([known], lambda: [known])
    await two.one.notify_subscriptions([new], lambda: [known, new])
    expected = [GroupLag("g", ORDERS.name, 2, 0, ANY), GroupLag("h", ORDERS.name, 2, 0, ANY)]
    assert [await lags(two.first), await lags(two.second)] == [expected, expected]
    await two.second.stop()
    await reached(two.one, ["broker-0"])
    await two.one.notify_subscriptions([], list)
    await two.second.start()
    await two.know()
    await reached(two.one, BOTH)
    assert await lags(two.second) == []
    await two.one.notify_subscriptions([], lambda: [known, new])
    assert await lags(two.second) == expected


# --- sending


async def test_a_send_to_a_broker_that_is_down_goes_to_another(two: TwoByTwo) -> None:
    await two.make()
    await two.first.stop()
    await reached(two.one, ["broker-1"])
    await two.one.sending.append(queue("broker-0", 2), [message(b"elsewhere")])
    assert two.stored(2)[1] == 1
    (timed,) = await two.one.sending.schedule(
        queue("broker-0"), [TimedMessage(message(b"later"), two.cluster.clock.now_ms() + MINUTE_MS)]
    )
    assert timed.broker == "broker-1"
    half = await two.one.sending.begin_transaction(queue("broker-0"), HalfMessage(message(b"half"), "producer", None))
    page = await two.second.broker.inspecting.transactions(TransactionState.PENDING, topic="", start="", limit=10)
    assert [each.transaction_id for each in page.transactions] == [half.transaction_id]


async def test_a_send_to_a_broker_without_room_goes_to_another_and_producers_hear_it_when_none_has_any(
    two: TwoByTwo,
) -> None:
    await two.make()
    has_no_room(two.first.broker)
    await two.one.sending.append(queue("broker-0"), [message(b"elsewhere")])
    (timed,) = await two.one.sending.schedule(
        queue("broker-0"), [TimedMessage(message(b"later"), two.cluster.clock.now_ms() + MINUTE_MS)]
    )
    half = await two.one.sending.begin_transaction(queue("broker-0"), HalfMessage(message(b"half"), "producer", None))
    assert timed.broker == "broker-1"
    assert half.transaction_id is not None
    assert two.first.broker.store.log.log_end == 0
    assert two.stored() == [0, 1]
    has_no_room(two.second.broker)
    with pytest.raises(BrokerUnavailable, match="disk_free_min_bytes") as caught:
        await two.one.sending.append(queue("broker-0"), [message(b"nowhere")])
    assert (caught.value.code, caught.value.maybe_done) == (definition_pb2.HA_NOT_AVAILABLE, False)
    assert two.stored() == [0, 1]


async def test_a_transaction_that_no_coroutine_waits_for_begins_elsewhere_if_its_broker_cannot(two: TwoByTwo) -> None:
    await two.make()

    async def began_at(body: bytes) -> str:
        half = HalfMessage(message(body), "producer", None)
        appended = await begin_at_once(two.one, queue("broker-0"), half)
        transaction = TransactionId.parse_id(appended.transaction_id)
        await end_at_once(two.one, transaction, TransactionResolution.COMMIT)
        return transaction.broker

    assert await began_at(b"first") == "broker-0"
    has_no_room(two.first.broker)
    assert await began_at(b"second") == "broker-1"
    await two.first.stop()
    await reached(two.one, ["broker-1"])
    assert await began_at(b"third") == "broker-1"
    has_no_room(two.second.broker)
    with pytest.raises(BrokerUnavailable, match="disk_free_min_bytes"):
        await began_at(b"nowhere")
    assert two.second.broker.reading.bounds(queue("broker-1")).result.maximum == 2
    lost = TransactionId("m", "broker-9", 0)
    with pytest.raises(MessagingError, match="which this cluster has not") as caught:
        await end_at_once(two.one, lost, TransactionResolution.COMMIT)
    assert caught.value.code == definition_pb2.INVALID_TRANSACTION_ID


def has_no_room(broker: Broker) -> None:
    broker._room._read_disk = lambda: DiskBytes(0, 1 << 40)
    broker._room.check_disk()


async def test_who_does_not_wait_for_a_send_hears_where_it_went(two: TwoByTwo) -> None:
    await two.make()
    told: asyncio.Queue[tuple[int, Exception | None]] = asyncio.Queue()
    two.one.sending.append_nowait(queue("broker-0"), [message(b"first")], lambda *ended: told.put_nowait(ended))
    assert await told.get() == (0, None)
    has_no_room(two.first.broker)
    two.one.sending.append_nowait(queue("broker-0"), [message(b"elsewhere")], lambda *ended: told.put_nowait(ended))
    assert await told.get() == (0, None)
    assert two.stored() == [1, 1]
    has_no_room(two.second.broker)
    two.one.sending.append_nowait(queue("broker-0"), [message(b"nowhere")], lambda *ended: told.put_nowait(ended))
    first, error = await told.get()
    assert (first, type(error)) == (0, BrokerRefused)
    assert two.stored() == [1, 1]


async def test_who_does_not_wait_for_a_send_hears_what_nobody_foresaw(
    two: TwoByTwo, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two.make()
    told: asyncio.Queue[tuple[int, Exception | None]] = asyncio.Queue()
    for error in (MessagingError(definition_pb2.TOO_MANY_REQUESTS, "full"), ZeroDivisionError()):
        monkeypatch.setattr(RemoteBroker, "append_each_nowait", Mock(side_effect=error))
        two.one.sending.append_nowait(queue("broker-0"), [message(b"second")], lambda *ended: told.put_nowait(ended))
        assert await told.get() == (0, error)


async def test_who_does_not_wait_for_an_acknowledgement_hears_it_of_any_brokers(two: TwoByTwo) -> None:
    await two.make()
    told: asyncio.Queue[tuple[list[SettleOutcome] | None, Exception | None]] = asyncio.Queue()
    handles = []
    for name in BOTH:
        await two.one.sending.append(queue(name), [message(b"a"), message(b"b")])
        handles.append([each.handle for each in await two.one.consuming.pop(order(batch=2), broker=name, poll_s=0)])
    (one, other), (third, fourth) = handles
    for acknowledged in ([one], [one, third, other], [fourth]):
        two.other.consuming.acknowledge_nowait("g", "orders", acknowledged, lambda *ended: told.put_nowait(ended))
        outcomes, error = await told.get()
        assert (len(outcomes or ()), error) == (len(acknowledged), None)
    assert outcomes == [SettleOutcome.DONE]
    with pytest.raises(MessagingError, match="which this cluster has not"):
        two.other.consuming.acknowledge_nowait(
            "g", "orders", [structs.replace(one, broker="broker-9")], lambda *ended: told.put_nowait(ended)
        )
    assert told.empty()


async def test_a_fifo_message_has_no_other_place(two: TwoByTwo) -> None:
    await two.make(replace(ORDERS, type=MessageType.FIFO))
    await two.first.stop()
    await reached(two.one, ["broker-1"])
    with pytest.raises(BrokerUnavailable) as caught:
        await two.one.sending.append(queue("broker-0"), [message(b"a", group="m")])
    assert caught.value.code == definition_pb2.HA_NOT_AVAILABLE
    assert two.stored()[1] == 0
    await two.first.start()
    await two.know()
    await reached(two.one, BOTH)
    await two.one.sending.append(queue("broker-0"), [message(b"a", group="m")])


async def test_a_send_whose_answer_was_lost_is_not_repeated(two: TwoByTwo) -> None:
    await two.make()
    two.wire.hold()
    sending = asyncio.ensure_future(two.one.sending.append(queue("broker-0"), [message(b"once")]))
    await until(lambda: two.stored() == [1, 0])
    two.wire.cut()
    with pytest.raises(BrokerUnavailable) as caught:
        await sending
    assert caught.value.maybe_done
    await reached(two.one, BOTH)
    assert two.stored() == [1, 0]


async def test_a_broker_that_ends_answers_every_send_and_no_producer_sees_it(two: TwoByTwo) -> None:
    await two.make()
    stopped = asyncio.Event()
    sent = 0

    async def producer(number: int) -> None:
        nonlocal sent
        while not stopped.is_set():
            name = BOTH[sent % 2] if two.one.links.is_connected("broker-0") else "broker-0"
            await two.one.sending.append(queue(name, number % 4), [message(b"x")])
            sent += 1

    producers = [asyncio.create_task(producer(number)) for number in range(8)]
    await until(lambda: sent > 50)
    before = two.first.broker
    await two.first.stop()
    ended_at = sent
    await until(lambda: sent > ended_at + 50)
    stopped.set()
    await asyncio.gather(*producers)
    stored = [
        broker.reading.bounds(queue(broker.name, each)).result.maximum
        for broker in (before, two.second.broker)
        for each in range(4)
    ]
    assert sum(stored) == sent


@pytest.mark.parametrize("lock_hold_ms", [0, MINUTE_MS])
async def test_a_broker_that_ends_answers_pulls_that_wait(two: TwoByTwo, lock_hold_ms: int) -> None:
    reader = QueueReaderId("g", "client", lock_hold_ms)
    pulling = asyncio.create_task(
        two.one.reading.pull(queue("broker-0"), 0, ALL, batch=1, poll_s=POLL_S, reader=reader)
    )
    await until(lambda: two.first.broker._pollers.waiting_count == 1)
    async with asyncio.timeout(3):
        await two.first.stop()
        assert (await pulling).messages == []


# --- members and producers


def announce(service: ClusterMessageService, *members: PullingMember) -> None:
    """Report that all members of a proxy have joined."""
    service.announce_members(members, [], lambda: members)


async def test_pulling_members_are_seen_by_all_proxies_until_theirs_is_gone(two: TwoByTwo) -> None:
    announce(two.one, PullingMember("g", "here", ("orders",)), PullingMember("g", "elsewhere", ("bills",)))
    announce(two.other, PullingMember("g", "there"))
    for service in (two.one, two.other):
        await until_answered(lambda: service.pulling_members("g", "orders", ()), ["here", "there"])  # noqa: B023
    await two.other_stack.aclose()
    await until_answered(lambda: two.one.pulling_members("g", "orders", ["here"]), ["here"])


async def test_proxies_hear_of_members_that_another_could_not_report_before_it_was_connected(two: TwoByTwo) -> None:
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def answer(question: str, argument: str) -> bytes | None:
        heard.put_nowait((question, argument))
        return b"1"

    announce(two.one, PullingMember("known", "here"))
    await until_answered(lambda: two.other.pulling_members("known", "", ()), ["here"])
    two.one.answer_proxies(answer)
    third = ClusterMessageService(two.other_directory, proxy="third proxy", link_timing=two.cluster.timings.link)
    two.other_stack.push_async_callback(third.close)
    members = PullingMember("g", "there"), PullingMember("known", "here")
    announce(third, *members)
    with pytest.raises(BrokerUnavailable):
        await third.ask_proxies(MEMBERS_CHANGED, "g")
    third.start()
    assert [await heard.get() for _ in BOTH] == [(MEMBERS_CHANGED, "g")] * 2
    # A broker that knows the members reports nothing.
    third.announce_members([], members, list)
    await until_answered(lambda: two.one.pulling_members("g", "", ()), [])
    assert heard.empty()


async def test_proxies_ask_each_other_by_way_of_a_broker(two: TwoByTwo) -> None:
    async def answer(question: str, argument: str) -> bytes | None:
        return None if question == "unknown" else f"{question} {argument}".encode()

    two.one.answer_proxies(answer)
    two.other.answer_proxies(answer)
    await reached(two.other, BOTH)
    assert await two.one.ask_proxies("who", "is there") == [ProxyAnswer("other proxy", b"who is there")]
    assert await two.other.ask_proxies("who", "") == [ProxyAnswer("proxy", b"who ")]
    assert await two.one.ask_proxies("unknown", "") == [ProxyAnswer("other proxy", None)]
    await two.first.stop()
    await until(lambda: not two.one.links.is_connected("broker-0"))
    assert await two.one.ask_proxies("by", "another") == [ProxyAnswer("other proxy", b"by another")]
    await two.second.stop()
    await until(lambda: not two.one.links.is_connected("broker-1"))
    with pytest.raises(BrokerUnavailable, match="none of the brokers can be reached"):
        await two.one.ask_proxies("who", "")


async def test_a_proxy_that_cannot_answer_another_or_hangs_is_named(
    two: TwoByTwo, caplog: pytest.LogCaptureFixture
) -> None:
    two.first.proxies.limits = two.second.proxies.limits = ConnectionLimits(notify_s=0.1)

    async def fails(question: str, argument: str) -> bytes:
        if question == "hangs":
            await asyncio.Event().wait()
        raise RuntimeError(f"a defect of {question} {argument}")

    silent = [ProxyAnswer("other proxy", None)]
    await reached(two.other, BOTH)
    assert await two.one.ask_proxies("nobody", "answers yet") == silent
    two.other.answer_proxies(fails)
    assert await two.one.ask_proxies("fails", "") == silent
    assert "cannot answer" in caplog.text
    assert await two.one.ask_proxies("hangs", "") == silent
    await two.other_stack.aclose()
    await until_answered(lambda: two.one.ask_proxies("who", ""), [])


async def test_a_broker_that_comes_back_is_told_who_pulls(two: TwoByTwo) -> None:
    announce(two.one, PullingMember("g", "here"))
    for node in (two.first, two.second):
        await node.stop()
        await node.start()
        await two.know()
        await reached(two.other, BOTH)
        await reached(two.one, BOTH)
    await until_answered(lambda: two.other.pulling_members("g", "orders", ()), ["here"])


async def test_the_sender_of_a_half_message_is_asked_wherever_it_is(two: TwoByTwo) -> None:
    asked: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()

    def producers(name: str, client: str) -> Callable[[OrphanedTransaction], Awaitable[bool]]:
        async def ask(orphan: OrphanedTransaction) -> bool:
            asked.put_nowait((name, orphan.sender_only))
            return not orphan.sender_only or orphan.sender == client

        return ask

    clock = two.cluster.clock
    assert isinstance(clock, MovableClock)
    two.one.watch_orphans(producers("one", "somebody"))
    two.other.watch_orphans(producers("other", "sender"))
    await two.one.sending.begin_transaction(queue("broker-0"), HalfMessage(message(b"half"), "sender", None))
    clock.advance_by(7_000)
    heard = [await asked.get()]
    while heard[-1] != ("other", True):
        heard.append(await asked.get())
    assert all(each == ("one", True) for each in heard[:-1])


async def test_somebody_else_is_asked_where_the_sender_is_gone(two: TwoByTwo) -> None:
    asked: asyncio.Queue[tuple[bool, bytes]] = asyncio.Queue()

    async def ask(orphan: OrphanedTransaction) -> bool:
        asked.put_nowait((orphan.sender_only, body_of(orphan.message)))
        return not orphan.sender_only

    clock = two.cluster.clock
    assert isinstance(clock, MovableClock)
    two.other.watch_orphans(ask)
    await two.one.sending.begin_transaction(queue("broker-1"), HalfMessage(message(b"half"), "gone", None))
    clock.advance_by(7_000)
    assert await asked.get() == (True, b"half")
    assert await asked.get() == (False, b"half")


# --- of all brokers


async def test_pages_of_transactions_go_from_broker_to_broker(two: TwoByTwo) -> None:
    begun = [
        (await two.one.sending.begin_transaction(queue(name), HalfMessage(message(b"half"), "p", None))).transaction_id
        for name in BOTH
        for _ in range(3)
    ]
    found, start, pages = list[str](), "", 0
    while True:
        page = await two.other.inspecting.transactions(TransactionState.PENDING, topic="orders", start=start, limit=2)
        found += [each.transaction_id for each in page.transactions]
        pages += 1
        if not page.following:
            break
        start = page.following
    assert found == begun
    assert pages <= 6


async def test_a_topic_that_was_deleted_while_a_broker_was_down_is_forgotten_when_it_is_back(two: TwoByTwo) -> None:
    await two.make()
    for name in BOTH:
        await two.one.sending.append(queue(name), [message(b"old")])
    await two.first.stop()
    await reached(two.one, ["broker-1"])
    registry = two.cluster.proxy_directory.registry
    version = await two.changed(lambda: registry.delete_topic(ORDERS.name))
    assert isinstance(version, int)
    await two.one.administering.forget_topic(ORDERS.name, version=version)
    await two.make()
    await two.first.start()
    await two.know()
    await reached(two.one, BOTH)
    await two.one.sending.append(queue("broker-0"), [message(b"new")])
    received = await two.one.consuming.pop(order(), broker="", poll_s=POLL_S)
    assert [body(each) for each in received] == [b"new"]
    assert await two.one.consuming.pop(order(), broker="", poll_s=0) == []


async def test_a_draining_broker_gives_and_takes_nothing(two: TwoByTwo) -> None:
    await two.make()
    await two.one.sending.append(queue("broker-0"), [message(b"left")])
    registry = two.cluster.proxy_directory.registry
    await two.changed(lambda: registry.set_broker("broker-0", draining=True))
    route = two.one.find_route(two.cluster.proxy_directory.snapshot.topics["orders"])
    assert (route.writable, route.readable) == (("broker-1",), ("broker-0", "broker-1"))
    assert [body(each) for each in await two.one.consuming.pop(order(), broker="", poll_s=POLL_S)] == [b"left"]
    await two.changed(lambda: registry.set_broker("broker-0", permission=QueuePermission.NONE))
    route = two.one.find_route(two.cluster.proxy_directory.snapshot.topics["orders"])
    assert route.readable == ("broker-1",)


async def test_a_big_batch_passes(two: TwoByTwo) -> None:
    big: list[NewMessage] = [message(bytes(4 << 20)) for _ in range(8)]
    await two.one.sending.append(queue("broker-0"), big)
    received = 0
    while received < len(big):
        received += len(await two.one.consuming.pop(order(), broker="broker-0", poll_s=POLL_S))
    assert received == len(big)
