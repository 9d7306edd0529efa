"""Topics that were deleted and made anew, and brokers that have not heard of it: what they acknowledge they keep."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from ternmq_broker.server import learning
from ternmq_common.cluster import Deletion
from ternmq_common.errors import MessagingError
from ternmq_common.model import HalfMessage, QueueBounds, TimedMessage, Topic
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.calls import BrokerRefused
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from tests.support.cluster import BrokerNode, InProcessCluster, reached
from tests.support.message_service_conformance import body, message, order
from tests.support.scripted_broker import ScriptedBroker, ScriptedStream
from tests.support.until import until
from tests.unit.cluster.test_in_process import BOTH, MINUTE_MS, ORDERS, POLL_S, queue

PATIENCE_S = 20.0
LEASE_MS = 60_000


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """Two brokers, which look at the registry only when they hear of a later version."""
    cluster = InProcessCluster(tmp_path, brokers=2)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await cluster.start()
            yield cluster
    finally:
        await cluster.stop()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "STORING_PATIENCE_S", 0.05)
    monkeypatch.setattr(learning, "LEARN_AGAIN_S", 0.01)


@contextmanager
def cut_off(node: BrokerNode) -> Iterator[None]:
    """The registry is out for that broker."""

    def out(*_: object) -> NoReturn:
        raise RegistryUnavailable("a test")

    with pytest.MonkeyPatch.context() as patch:
        for call in ("look", "snapshot", "deletions", "set_applied"):
            patch.setattr(node.directory.registry, call, out)
        yield


def registry_of(cluster: InProcessCluster) -> Registry:
    return cluster.proxy_directory.registry


async def make(cluster: InProcessCluster, topic: Topic = ORDERS) -> Topic:
    made, _ = await asyncio.to_thread(registry_of(cluster).create_topic, topic)
    await cluster.proxy_directory.refresh()
    return made


async def make_anew(cluster: InProcessCluster, topic: Topic = ORDERS) -> Topic:
    """By a proxy from which no broker hears it."""
    await asyncio.to_thread(registry_of(cluster).delete_topic, topic.name)
    return await make(cluster, topic)


def stored(cluster: InProcessCluster) -> list[int]:
    """The offsets at which the queues 0 of the brokers end."""
    return [node.broker.bounds(ORDERS.name, 0).maximum for node in cluster.nodes]


async def bodies(cluster: InProcessCluster) -> list[bytes]:
    """What a group finds, on all brokers."""
    found: list[bytes] = []
    while received := await cluster.service.pop(order(), broker="", poll_s=0):
        found += map(body, received)
    return sorted(found)


# --- brokers that can't look


@pytest.mark.usefixtures("impatient")
async def test_what_is_sent_to_a_topic_made_anew_is_kept_whatever_a_broker_missed(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    await make(cluster)
    for name in BOTH:
        await cluster.service.append(queue(name), [message(b"old")])
    with cut_off(first):
        topic = await make_anew(cluster)
        for number in range(3):
            await cluster.service.append(queue("broker-0"), [message(b"%d" % number)])
        assert stored(cluster)[0] == 1
    await until(lambda: first.proxies.learning.knows(topic.made))
    await cluster.service.append(queue("broker-0"), [message(b"3")])
    assert await bodies(cluster) == [b"0", b"1", b"2", b"3"]


@pytest.mark.usefixtures("impatient")
async def test_timed_and_half_messages_and_retries_go_elsewhere_too(cluster: InProcessCluster) -> None:
    first, second = cluster.nodes
    await make(cluster)
    await cluster.service.append(queue("broker-0"), [message(b"old")])
    due_ms = cluster.clock.now_ms() + MINUTE_MS
    with cut_off(first):
        await make_anew(cluster)
        (timed,) = await cluster.service.schedule(queue("broker-0"), [TimedMessage(message(b"later"), due_ms)])
        assert timed.broker == "broker-1"
        await cluster.service.begin_transaction(queue("broker-0"), HalfMessage(message(b"half"), "producer"))
        await cluster.service.retry("g", ORDERS.name, [message(b"again")])
        assert (await first.broker.looking.remaining()).is_nothing
        there = await second.broker.looking.remaining()
        assert (there.timers, there.transactions) == (1, 1)
        received = await cluster.service.pop(order(), broker="broker-1", poll_s=POLL_S)
        assert [body(each) for each in received] == [b"again"]


@pytest.mark.usefixtures("impatient")
async def test_a_message_that_has_no_other_place_is_refused(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    fifo = replace(ORDERS, type=definition_pb2.FIFO)
    await make(cluster, fifo)
    with cut_off(first):
        topic = await make_anew(cluster, fifo)
        with pytest.raises(
            BrokerRefused, match=r"broker-0 does not know yet .* before topic 'orders' was made"
        ) as caught:
            await cluster.service.append(queue("broker-0"), [message(b"a", group="m")])
        assert caught.value.code == definition_pb2.HA_NOT_AVAILABLE
        assert stored(cluster) == [0, 0]
    await until(lambda: first.proxies.learning.knows(topic.made))
    await cluster.service.append(queue("broker-0"), [message(b"a", group="m")])
    assert stored(cluster) == [1, 0]


@pytest.mark.usefixtures("impatient")
async def test_topics_that_are_known_go_on(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    await make(cluster)
    await cluster.service.append(queue("broker-0"), [message(b"known")])
    with cut_off(first):
        await make(cluster, replace(ORDERS, name="another"))
        await cluster.service.append(queue("broker-0"), [message(b"goes on")])
        assert stored(cluster) == [2, 0]


@pytest.mark.usefixtures("impatient")
async def test_a_broker_learns_of_topics_before_anybody_sends(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    topic = await make(cluster)
    await first.directory.refresh()  # as it does every second
    await until(lambda: first.proxies.learning.knows(topic.made))
    with cut_off(first):
        await cluster.service.append(queue("broker-0"), [message(b"x")])
        assert stored(cluster) == [1, 0]


# --- a registry that is slow


async def test_a_send_waits_for_a_slow_registry_and_other_calls_do_not(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "PATIENCE_S", 0.01)
    first, _ = cluster.nodes
    deletions, answers = first.directory.registry.deletions, threading.Event()

    def slow(after: int) -> list[Deletion]:
        answers.wait(PATIENCE_S)
        return deletions(after)

    monkeypatch.setattr(first.directory.registry, "deletions", slow)
    await make(cluster)
    await make_anew(cluster)
    sending = asyncio.create_task(cluster.service.append(queue("broker-0"), [message(b"new")]))
    assert await cluster.service.bounds(queue("broker-0")) == QueueBounds(0, 0)
    assert not sending.done()
    answers.set()
    await sending
    assert stored(cluster) == [1, 0]


async def test_a_send_makes_a_broker_learn_also_if_no_frame_did(cluster: InProcessCluster) -> None:
    first, _ = cluster.nodes
    topic = await make(cluster)
    assert await first.proxies.learning.known_soon(topic.made)


# --- what the proxy makes of a refusal


class Refusing:
    """A broker that answers every call with that error."""

    def __init__(self, code: definition_pb2.Code) -> None:
        self._error = definition_pb2.Status(code=code, message="not now")
        self.calls: list[storage.Call] = []

    async def __call__(self, stream: ScriptedStream) -> None:
        await stream.welcome("broker-9")
        while (frame := await stream.frame()) is not None:
            for call in frame.calls:
                self.calls.append(call)
                await stream.say(storage.BrokerFrame(answers=[storage.Answer(id=call.id, error=self._error)]))


@asynccontextmanager
async def beside(cluster: InProcessCluster, script: Refusing, topic: Topic) -> AsyncIterator[Topic]:
    """The topic is on broker-0 and on broker-9, which does what the script says."""
    async with ScriptedBroker(script) as broker:
        await asyncio.to_thread(registry_of(cluster).register, "broker-9", "store 9", broker.address, "1.0", LEASE_MS)
        yield await make(cluster, replace(topic, brokers=("broker-0", "broker-9")))
        await asyncio.to_thread(lambda: registry_of(cluster).remove_broker("broker-9", force=True))
        await cluster.proxy_directory.refresh()


@pytest.mark.parametrize("name", ["append", "schedule", "begin_transaction"])
async def test_a_send_that_is_refused_goes_to_another_broker(cluster: InProcessCluster, name: str) -> None:
    refusing, there = Refusing(definition_pb2.HA_NOT_AVAILABLE), queue("broker-9")
    async with beside(cluster, refusing, ORDERS) as topic:
        await reached(cluster.service, [*BOTH, "broker-9"])
        if name == "append":
            await cluster.service.append(there, [message(b"x")])
            assert stored(cluster) == [1, 0]
        elif name == "schedule":
            (timed,) = await cluster.service.schedule(there, [TimedMessage(message(b"x"), 0)])
            assert timed.broker == "broker-0"
        else:
            half = await cluster.service.begin_transaction(there, HalfMessage(message(b"x"), "producer"))
            assert half.transaction_id
        (call,) = refusing.calls
        assert getattr(call, name).topic_made == topic.made > 0
        assert cluster.service.routes.aside() == ["broker-9"]


async def test_a_retry_says_too_when_its_topic_was_made(cluster: InProcessCluster) -> None:
    refusing = Refusing(definition_pb2.HA_NOT_AVAILABLE)
    for node in cluster.nodes:
        await node.stop()
    async with beside(cluster, refusing, ORDERS) as topic:
        await reached(cluster.service, ["broker-9"])
        with pytest.raises(BrokerRefused, match="not now"):
            await cluster.service.retry("g", ORDERS.name, [message(b"again")])
        (call,) = refusing.calls
        assert call.retry.topic_made == topic.made


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (definition_pb2.HA_NOT_AVAILABLE, definition_pb2.FIFO),  # has no other place
        (definition_pb2.INTERNAL_SERVER_ERROR, definition_pb2.NORMAL),  # nobody knows what was done
    ],
)
async def test_a_send_that_can_go_nowhere_else_is_asked_once(
    cluster: InProcessCluster, code: definition_pb2.Code, kind: definition_pb2.MessageType
) -> None:
    refusing = Refusing(code)
    async with beside(cluster, refusing, replace(ORDERS, type=kind)):
        await reached(cluster.service, [*BOTH, "broker-9"])
        with pytest.raises(MessagingError, match="not now") as caught:
            await cluster.service.append(queue("broker-9"), [message(b"x", group="m")])
        assert caught.value.code == code
        assert len(refusing.calls) == 1
        assert stored(cluster) == [0, 0]
