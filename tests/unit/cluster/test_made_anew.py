"""Topics and groups that were deleted and made anew, and brokers that have not heard of it: what is stored there, and
what is settled, stays so."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from ternmq_broker.server.registry_sync import LEARNING_TIMING, SyncTiming
from ternmq_common.catalog.cluster import RegistryDeletion, RegistrySnapshot
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import FlushMode
from ternmq_common.shard.model import (
    ConsumerGroup,
    HalfMessage,
    QueueBounds,
    QueueReaderId,
    QueueRef,
    SettleOutcome,
    TimedMessage,
    Topic,
)
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerRefused
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LinkTiming
from ternmq_proxy.message_service.cluster.service import ClusterMessageService
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from tests.support.cluster import BrokerNode, InProcessCluster, Timings, reached, running
from tests.support.message_service_conformance import body, message, order
from tests.support.scripted_broker import ScriptedBroker, ScriptedStream, calls_in
from tests.support.until import until
from tests.unit.cluster.test_in_process import BOTH, MINUTE_MS, ORDERS, POLL_S, queue

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from ternmq_common.shard.shard_frames import FramePiece

PATIENCE_S = 20.0
LEASE_MS = 60_000


def registry_sync(timing: SyncTiming) -> pytest.MarkDecorator:
    """The brokers of this test learn with that patience."""
    return pytest.mark.parametrize("timing", [timing], ids=["timed"])


impatient = registry_sync(SyncTiming(storing_patience_s=0.05, again_s=0.01))


@pytest.fixture
def timing() -> SyncTiming:
    return LEARNING_TIMING


@pytest.fixture
async def cluster(tmp_path: Path, timing: SyncTiming) -> AsyncIterator[InProcessCluster]:
    """Two brokers, which look at the registry only when they hear of a later version.

    A proxy repeats neither a send nor a retry whose answer is late, or whose link was lost: it may have been stored. So
    nobody waits for a busy disk here, and a machine that stands still for seconds loses no link.
    """
    timings = Timings(registry_sync=timing, link=LinkTiming(silence_s=PATIENCE_S), proxy_silence_s=PATIENCE_S)
    async with running(tmp_path, brokers=2, flush=FlushMode.ASYNC, timings=timings) as cluster:
        yield cluster


@contextmanager
def cut_off(node: BrokerNode) -> Iterator[None]:
    """The registry is out for that broker."""

    def out(*_: object) -> NoReturn:
        raise RegistryUnavailable("a test")

    with pytest.MonkeyPatch.context() as patch:
        for call in ("read_brokers", "read_snapshot", "list_deletions", "set_applied_version"):
            patch.setattr(node.directory.registry, call, out)
        yield


def registry_of(cluster: InProcessCluster) -> Registry:
    return cluster.proxy_directory.registry


async def make(cluster: InProcessCluster, topic: Topic = ORDERS) -> Topic:
    made, _ = await asyncio.to_thread(registry_of(cluster).create_topic, topic)
    await cluster.proxy_directory.refresh_snapshot()
    return made


async def make_anew(cluster: InProcessCluster, topic: Topic = ORDERS) -> Topic:
    """By a proxy from which no broker hears it."""
    await asyncio.to_thread(registry_of(cluster).delete_topic, topic.name)
    return await make(cluster, topic)


async def make_group(cluster: InProcessCluster) -> ConsumerGroup:
    made, _ = await asyncio.to_thread(registry_of(cluster).create_group, ConsumerGroup(name="g"))
    await cluster.proxy_directory.refresh_snapshot()
    return made


async def make_group_anew(cluster: InProcessCluster) -> ConsumerGroup:
    """By a proxy from which no broker hears it."""
    await asyncio.to_thread(registry_of(cluster).delete_group, "g")
    return await make_group(cluster)


async def with_group(cluster: InProcessCluster, topic: Topic = ORDERS) -> BrokerNode:
    """The first broker, which knows the topic and its group."""
    first, _ = cluster.nodes
    await make(cluster, topic)
    group = await make_group(cluster)
    assert await cluster.service.consuming.pop(order(), broker="broker-0", poll_s=0) == []
    assert first.proxies.registry_sync.is_synced_to(group.created_version)
    return first


async def asked_again(node: BrokerNode) -> None:
    """Return when the broker looks into the registry once more for what it does not know yet."""
    looks, at_least = asyncio.Event(), node.directory.wait_for_version

    async def look(version: int) -> None:
        looks.set()
        await at_least(version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node.directory, "wait_for_version", look)
        await looks.wait()


def calls_to(node: BrokerNode) -> int:
    return sum(connection.calls for connection in node.proxies._connections)


def stored(cluster: InProcessCluster) -> list[int]:
    """The offsets at which the queues 0 of the brokers end."""
    return [node.broker.reading.bounds(queue(node.name)).result.maximum for node in cluster.nodes]


async def bodies(cluster: InProcessCluster) -> list[bytes]:
    """What a group finds, on all brokers."""
    found: list[bytes] = []
    while received := await cluster.service.consuming.pop(order(), broker="", poll_s=0):
        found += map(body, received)
    return sorted(found)


# --- brokers that can't look


@impatient
async def test_what_is_sent_to_a_topic_made_anew_is_kept_whatever_a_broker_missed(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    await make(cluster)
    for name in BOTH:
        await cluster.service.sending.append(queue(name), [message(b"old")])
    with cut_off(first):
        topic = await make_anew(cluster)
        for number in range(3):
            await cluster.service.sending.append(queue("broker-0"), [message(b"%d" % number)])
        assert stored(cluster)[0] == 1
    await until(lambda: first.proxies.registry_sync.is_synced_to(topic.created_version))
    await cluster.service.sending.append(queue("broker-0"), [message(b"3")])
    assert await bodies(cluster) == [b"0", b"1", b"2", b"3"]


@impatient
async def test_timed_and_half_messages_and_retries_go_elsewhere_too(cluster: InProcessCluster) -> None:
    first, second = cluster.nodes
    await make(cluster)
    await cluster.service.sending.append(queue("broker-0"), [message(b"old")])
    due_ms = cluster.clock.now_ms() + MINUTE_MS
    with cut_off(first):
        await make_anew(cluster)
        (timed,) = await cluster.service.sending.schedule(queue("broker-0"), [TimedMessage(message(b"later"), due_ms)])
        assert timed.broker == "broker-1"
        await cluster.service.sending.begin_transaction(queue("broker-0"), HalfMessage(message(b"half"), "producer"))
        await cluster.service.administering.retry("g", ORDERS.name, [message(b"again")])
        assert (await first.broker.inspecting.remaining("broker-0")).is_nothing
        there = await second.broker.inspecting.remaining("broker-1")
        assert (there.timers, there.transactions) == (1, 1)
        received = await cluster.service.consuming.pop(order(), broker="broker-1", poll_s=POLL_S)
        assert [body(each) for each in received] == [b"again"]


@impatient
async def test_a_message_that_has_no_other_place_is_refused(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    fifo = replace(ORDERS, type=MessageType.FIFO)
    await make(cluster, fifo)
    with cut_off(first):
        topic = await make_anew(cluster, fifo)
        with pytest.raises(
            BrokerRefused, match=r"broker-0 does not know yet .* before topic 'orders' was created"
        ) as caught:
            await cluster.service.sending.append(queue("broker-0"), [message(b"a", group="m")])
        assert caught.value.code == definition_pb2.HA_NOT_AVAILABLE
        assert stored(cluster) == [0, 0]
    await until(lambda: first.proxies.registry_sync.is_synced_to(topic.created_version))
    await cluster.service.sending.append(queue("broker-0"), [message(b"a", group="m")])
    assert stored(cluster) == [1, 0]


@impatient
async def test_topics_that_are_known_go_on(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    await make(cluster)
    await cluster.service.sending.append(queue("broker-0"), [message(b"known")])
    with cut_off(first):
        await make(cluster, replace(ORDERS, name="another"))
        await cluster.service.sending.append(queue("broker-0"), [message(b"goes on")])
        assert stored(cluster) == [2, 0]


@impatient
async def test_a_broker_learns_of_topics_before_anybody_sends(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    topic = await make(cluster)
    await first.directory.refresh_snapshot()  # as it does every second
    await until(lambda: first.proxies.registry_sync.is_synced_to(topic.created_version))
    with cut_off(first):
        await cluster.service.sending.append(queue("broker-0"), [message(b"x")])
        assert stored(cluster) == [1, 0]


# --- a registry that is slow


@registry_sync(SyncTiming(patience_s=0.01))
async def test_a_send_waits_for_a_slow_registry_and_other_calls_do_not(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = cluster.nodes
    deletions, answers = first.directory.registry.list_deletions, threading.Event()

    def slow(after: int) -> list[RegistryDeletion]:
        answers.wait(PATIENCE_S)
        return deletions(after)

    monkeypatch.setattr(first.directory.registry, "list_deletions", slow)
    await make(cluster)
    await make_anew(cluster)
    sending = asyncio.ensure_future(cluster.service.sending.append(queue("broker-0"), [message(b"new")]))
    assert await cluster.service.reading.bounds(queue("broker-0")) == QueueBounds(0, 0)
    assert not sending.done()
    answers.set()
    await sending
    assert stored(cluster) == [1, 0]


async def test_a_send_makes_a_broker_learn_also_if_no_frame_did(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    topic = await make(cluster)
    assert await first.proxies.registry_sync.wait_to_store(topic.created_version)


# --- groups


@impatient
async def test_what_a_group_made_anew_did_is_kept_whatever_a_broker_missed(cluster: InProcessCluster) -> None:
    first = await with_group(cluster)
    service = cluster.service
    for name in BOTH:
        await service.sending.append(queue(name), [message(name.encode())])

    async def give_up() -> list[bytes]:
        """Make dead letters of all that the group gets."""
        found: list[bytes] = []
        while received := await service.consuming.pop(order(), broker="broker-0", poll_s=0):
            for each in received:
                assert await service.consuming.dead_letter("g", ORDERS.name, each.handle) is SettleOutcome.DONE
                found.append(body(each))
        return found

    with cut_off(first):
        group = await make_group_anew(cluster)
        assert await give_up() == [b"broker-1"]
    await until(lambda: first.proxies.registry_sync.is_synced_to(group.created_version))
    assert await give_up() == [b"broker-0"]
    await first.stop()
    await first.start()
    await reached(service, BOTH)
    assert await give_up() == []
    for name in BOTH:
        assert len(await service.inspecting.dead_letters("g", name, [0])) == 1


@impatient
@pytest.mark.parametrize("places", [tuple(BOTH), ("broker-0",)])
async def test_a_poll_waits_for_a_broker_that_refuses_it(cluster: InProcessCluster, places: tuple[str, ...]) -> None:
    first = await with_group(cluster, replace(ORDERS, brokers=places))
    await cluster.service.sending.append(queue("broker-0"), [message(b"x")])
    with cut_off(first):
        await make_group_anew(cluster)
        before = calls_to(first)
        polling = asyncio.create_task(cluster.service.consuming.pop(order(), broker="broker-0", poll_s=POLL_S))
        await until(lambda: cluster.service.polls.waiting_count == 1)
        for _ in range(3):
            await asked_again(first)
        assert calls_to(first) == before + 1, "it is not asked before it says so"
    (received,) = await polling
    assert body(received) == b"x"
    assert calls_to(first) == before + 2


@impatient
async def test_a_poll_gets_what_other_brokers_have_while_one_refuses(cluster: InProcessCluster) -> None:
    first = await with_group(cluster)
    await cluster.service.sending.append(queue("broker-0"), [message(b"later")])
    with cut_off(first):
        await make_group_anew(cluster)
        polling = asyncio.create_task(cluster.service.consuming.pop(order(), broker="broker-0", poll_s=POLL_S))
        await until(lambda: cluster.service.polls.waiting_count == 1)
        await cluster.service.sending.append(queue("broker-1"), [message(b"now")])
        (received,) = await polling
        assert body(received) == b"now"


@impatient
async def test_a_version_that_is_gone_from_the_registry_keeps_no_poll_waiting(cluster: InProcessCluster) -> None:
    first = await with_group(cluster)
    await cluster.service.sending.append(queue("broker-0"), [message(b"x")])
    with pytest.MonkeyPatch.context() as restored:
        restored.setattr(RegistrySnapshot, "group_created_version", lambda *_: first.directory.snapshot.version + 1000)
        polling = asyncio.create_task(cluster.service.consuming.pop(order(), broker="broker-0", poll_s=POLL_S))
        before = calls_to(first)
        await until(lambda: calls_to(first) > before + 2)
    (received,) = await polling
    assert body(received) == b"x"


async def test_a_group_that_was_just_made_waits_for_nothing(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await with_group(cluster)
    refused: list[str] = []
    monkeypatch.setattr(first.proxies.answers, "not_known_yet", lambda _, name: refused.append(name))
    await cluster.service.sending.append(queue("broker-0"), [message(b"x")])
    await make_group_anew(cluster)
    (received,) = await cluster.service.consuming.pop(order(), broker="broker-0", poll_s=POLL_S)
    assert body(received) == b"x"
    assert refused == []


async def skipped(service: ClusterMessageService, there: QueueRef) -> None:
    """The new group is not there yet, which is another answer."""
    try:
        await service.administering.skip("g", there, 0)
    except MessagingError as error:
        if error.code != definition_pb2.BAD_REQUEST:
            raise


READER = QueueReaderId("g", "client", 30_000)
CALLS_FOR_GROUPS: dict[str, Callable[[ClusterMessageService, QueueRef], Awaitable[object]]] = {
    "pop": lambda service, _: service.consuming.pop(order(), broker="", poll_s=0),
    "pull": lambda service, there: service.reading.pull(there, 0, ALL, batch=1, poll_s=0, reader=READER),
    "committed": lambda service, there: service.reading.committed("g", there),
    "set_committed": lambda service, there: service.reading.set_committed("g", there, 0),
    "skip": skipped,
    "retry": lambda service, there: service.administering.retry("g", there.topic, [message(b"again")]),
}


@impatient
@pytest.mark.parametrize("call", CALLS_FOR_GROUPS.values(), ids=CALLS_FOR_GROUPS)
async def test_what_is_for_a_group_that_a_broker_may_confuse_is_refused(
    cluster: InProcessCluster, call: Callable[[ClusterMessageService, QueueRef], Awaitable[object]]
) -> None:
    first = await with_group(cluster, replace(ORDERS, brokers=("broker-0",)))
    service, there = cluster.service, queue("broker-0")
    await service.sending.append(there, [message(b"x")])
    await service.reading.set_committed("g", there, 1)
    await cluster.nodes[1].stop()
    await reached(service, ["broker-0"])
    with cut_off(first):
        group = await make_group_anew(cluster)
        before = calls_to(first)
        with pytest.raises(BrokerRefused, match=r"broker-0 does not know yet .* before group 'g' was created"):
            await call(service, there)
        assert calls_to(first) == before + 1, "it is not asked again at once"
        assert first.broker.reading.committed("g", there).result == 1
        assert (await service.reading.pull(there, 0, ALL, batch=1, poll_s=0)).messages, "nobody's reads go on"
    await until(lambda: first.proxies.registry_sync.is_synced_to(group.created_version))
    await call(service, there)
    assert first.broker.reading.committed("g", there).result in (None, 0)


@impatient
async def test_handles_of_a_group_that_is_gone_settle_nothing_of_the_one_made_anew(cluster: InProcessCluster) -> None:
    first = await with_group(cluster)
    service = cluster.service
    for number in range(6):
        await service.sending.append(queue("broker-0", number % 4), [message(b"%d" % number)])
    handles = [each.handle for each in await service.consuming.pop(order(), broker="broker-0", poll_s=0)]
    with cut_off(first):
        group = await make_group_anew(cluster)
        assert await service.consuming.acknowledge("g", ORDERS.name, handles[:1]) == [SettleOutcome.DONE]
        assert await service.consuming.dead_letter("g", ORDERS.name, handles[1]) is SettleOutcome.DONE
        await service.consuming.release("g", ORDERS.name, handles[2:3], counts=True)
    await until(lambda: first.proxies.registry_sync.is_synced_to(group.created_version))
    assert await service.consuming.acknowledge("g", ORDERS.name, handles[:1]) == [SettleOutcome.STALE]
    assert await service.consuming.dead_letter("g", ORDERS.name, handles[1]) is SettleOutcome.STALE
    assert await service.consuming.prolong("g", ORDERS.name, handles[2:3], MINUTE_MS) == [False]
    await service.consuming.release("g", ORDERS.name, handles[3:4], counts=True)
    with pytest.raises(MessagingError, match="not in force"):
        await service.consuming.change_invisible("g", ORDERS.name, handles[4], MINUTE_MS, counts=True)
    # The other broker, where the receives found nothing, may not have heard of the deletion yet.
    assert await first.broker.inspecting.progress("g") == []
    received = await service.consuming.pop(order(), broker="broker-0", poll_s=0)
    assert sorted(map(body, received)) == [b"%d" % number for number in range(6)]


async def test_a_proxy_that_missed_a_deletion_takes_nothing_for_the_group(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await with_group(cluster)
    service = cluster.service
    await service.sending.append(queue("broker-0"), [message(b"x")])

    async def nothing(*_: object) -> None:
        """The registry can't be read."""

    with monkeypatch.context() as cut:
        cut.setattr(cluster.proxy_directory, "refresh_snapshot", nothing)
        cut.setattr(cluster.proxy_directory, "wait_for_version", nothing)
        version = await asyncio.to_thread(registry_of(cluster).delete_group, "g")
        await first.proxies.registry_sync.wait_for_version(version)
        await until(lambda: first.proxies.registry_sync.is_synced_to(version))
        with pytest.raises(MessagingError, match="group 'g' was deleted") as refused:
            await service.consuming.pop(order(), broker="broker-0", poll_s=0)
        assert refused.value.code == definition_pb2.CONSUMER_GROUP_NOT_FOUND
    await make_group(cluster)
    assert [body(each) for each in await service.consuming.pop(order(), broker="broker-0", poll_s=0)] == [b"x"]


@impatient
async def test_handles_of_a_group_made_anew_settle_after_a_restart(cluster: InProcessCluster) -> None:
    first = await with_group(cluster)
    service = cluster.service
    await service.sending.append(queue("broker-0"), [message(b"x")])
    with cut_off(first):
        group = await make_group_anew(cluster)
        assert await service.consuming.pop(order(), broker="broker-0", poll_s=0) == []
    await until(lambda: first.proxies.registry_sync.is_synced_to(group.created_version))
    (received,) = await service.consuming.pop(order(), broker="broker-0", poll_s=POLL_S)
    await first.stop()
    await first.start()
    await reached(service, BOTH)
    assert first.proxies.registry_sync.is_synced_to(group.created_version)
    assert await service.consuming.acknowledge("g", ORDERS.name, [received.handle]) == [SettleOutcome.DONE]
    assert await service.reading.committed("g", queue("broker-0")) == 1


# --- what the proxy makes of a refusal


class Refusing:
    """A broker that answers every call with that error."""

    def __init__(self, code: definition_pb2.Code) -> None:
        self._error = MessagingError(code, "not now")
        self.calls: list[FramePiece] = []

    async def __call__(self, stream: ScriptedStream) -> None:
        await stream.welcome("broker-9")
        while (frame := await stream.frame()) is not None:
            for call in calls_in(frame):
                self.calls.append(call)
                await stream.refuse(call, self._error)


@asynccontextmanager
async def beside(cluster: InProcessCluster, script: Refusing, topic: Topic) -> AsyncIterator[Topic]:
    """The topic is on broker-0 and on broker-9, which does what the script says."""
    async with ScriptedBroker(script) as broker:
        await asyncio.to_thread(
            registry_of(cluster).register_broker, "broker-9", "store 9", broker.address, "1.0", LEASE_MS
        )
        yield await make(cluster, replace(topic, brokers=("broker-0", "broker-9")))
        await asyncio.to_thread(lambda: registry_of(cluster).remove_broker("broker-9", force=True))
        await cluster.proxy_directory.refresh_snapshot()


@pytest.mark.parametrize("name", ["append", "schedule", "begin_transaction"])
async def test_a_send_that_is_refused_goes_to_another_broker(cluster: InProcessCluster, name: str) -> None:
    refusing, there = Refusing(definition_pb2.HA_NOT_AVAILABLE), queue("broker-9")
    async with beside(cluster, refusing, ORDERS) as topic:
        await reached(cluster.service, [*BOTH, "broker-9"])
        if name == "append":
            await cluster.service.sending.append(there, [message(b"x")])
            assert stored(cluster) == [1, 0]
        elif name == "schedule":
            (timed,) = await cluster.service.sending.schedule(there, [TimedMessage(message(b"x"), 0)])
            assert timed.broker == "broker-0"
        else:
            half = await cluster.service.sending.begin_transaction(there, HalfMessage(message(b"x"), "producer"))
            assert half.transaction_id
        (call,) = refusing.calls
        assert (call.what, call.topic_created_version) == (name, topic.created_version)
        assert topic.created_version > 0
        assert list(cluster.service.routes._failing) == ["broker-9"]  # backed off for a tenth of a second


async def test_a_retry_says_too_when_its_topic_and_its_group_were_made(cluster: InProcessCluster) -> None:
    refusing = Refusing(definition_pb2.HA_NOT_AVAILABLE)
    for node in cluster.nodes:
        await node.stop()
    async with beside(cluster, refusing, ORDERS) as topic:
        group = await make_group(cluster)
        await reached(cluster.service, ["broker-9"])
        with pytest.raises(BrokerRefused, match="not now"):
            await cluster.service.administering.retry("g", ORDERS.name, [message(b"again")])
        (call,) = refusing.calls
        assert call.topic_created_version == topic.created_version > 0
        assert call.group_created_version == group.created_version > topic.created_version


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (definition_pb2.HA_NOT_AVAILABLE, MessageType.FIFO),  # has no other place
        (definition_pb2.INTERNAL_SERVER_ERROR, MessageType.NORMAL),  # nobody knows what was done
    ],
)
async def test_a_send_that_can_go_nowhere_else_is_asked_once(
    cluster: InProcessCluster, code: definition_pb2.Code, kind: MessageType
) -> None:
    refusing = Refusing(code)
    async with beside(cluster, refusing, replace(ORDERS, type=kind)):
        await reached(cluster.service, [*BOTH, "broker-9"])
        with pytest.raises(MessagingError, match="not now") as caught:
            await cluster.service.sending.append(queue("broker-9"), [message(b"x", group="m")])
        assert caught.value.code == code
        assert len(refusing.calls) == 1
        assert stored(cluster) == [0, 0]
