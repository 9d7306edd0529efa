"""The broker's side of the streams: what proxies send, what the registry does not say, and what was deleted."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import grpc
import pytest
from grpc import aio

from ternmq_broker.server import proxy_connection
from ternmq_broker.server.proxy_connections import ConnectionLimits
from ternmq_broker.server.registry_sync import SyncTiming
from ternmq_common.errors import MessagingError
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.model import AppendOutcome, ConsumerGroup, DeliveredMessage, Stored, Topic
from ternmq_common.shard.shard_frames import FramePiece
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LinkTiming
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from tests.support.cluster import AS_SERVED, BrokerNode, InProcessCluster, Timings, reached, running
from tests.support.message_service_conformance import body, message, order, versions
from tests.support.scripted_broker import Wire
from tests.support.until import until
from tests.unit.cluster.test_in_process import ORDERS, POLL_S, queue

PATIENCE_S = 20.0
TOPIC = replace(ORDERS, brokers=("broker-0",))


@pytest.fixture
def timings() -> Timings:
    return AS_SERVED


@pytest.fixture
async def cluster(tmp_path: Path, timings: Timings) -> AsyncIterator[InProcessCluster]:
    async with running(tmp_path, brokers=1, timings=timings) as cluster:
        yield cluster


class RawStream:
    """A proxy that sends whatever the test wants."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stream = channel.stream_stream("/ternmq.storage.v1.Storage/Exchange")()

    async def send(self, data: bytes) -> None:
        await self._stream.write(data)

    async def hear(self, what: str) -> FramePiece:
        """The next piece of that name."""
        while True:
            data = await self._stream.read()
            assert data is not aio.EOF
            for piece in shard_frames.decode_frame(data):
                if piece.what == what:
                    return piece


def registry_of(cluster: InProcessCluster) -> Registry:
    return cluster.proxy_directory.registry


async def later_version(cluster: InProcessCluster, name: str) -> int:
    """The registry changes, and the proxy knows it."""
    await asyncio.to_thread(registry_of(cluster).create_group, ConsumerGroup(name=name))
    await cluster.proxy_directory.refresh_snapshot()
    return cluster.proxy_directory.snapshot.version


# --- what proxies send


async def test_what_is_no_frame_ends_its_stream_and_no_other(
    cluster: InProcessCluster, caplog: pytest.LogCaptureFixture
) -> None:
    node = cluster.nodes[0]
    async with aio.insecure_channel(node.address) as channel:
        stream = RawStream(channel)
        await stream.send(b"\xff\xff\xff")
        with pytest.raises(aio.AioRpcError) as caught:
            await stream.hear("nothing")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "an invalid frame" in caplog.text
    await until(lambda: len(node.proxies) == 1)
    await cluster.service.sending.append(queue("broker-0"), [message(b"goes on")])


async def test_a_call_of_a_later_version_is_refused_by_its_name(cluster: InProcessCluster) -> None:
    async with aio.insecure_channel(cluster.nodes[0].address) as channel:
        stream = RawStream(channel)
        await stream.send(shard_frames.join_pieces([shard_frames.encode_piece("levitate", 5, [1, {"a": None}])]))
        answer = await stream.hear(shard_frames.FAILED.what)
        failure = shard_frames.FAILED.decode_note(answer)
        assert (answer.number, failure.code) == (5, definition_pb2.NOT_IMPLEMENTED)
        assert "levitate" in failure.message


async def test_an_answer_that_can_not_be_written_gives_its_messages_back(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.service.sending.append(queue("broker-0"), [message(b"kept")])

    written = shard_frames.encode_piece

    def defect(what: str, *of_piece: object) -> bytes:
        if what == shard_frames.ANSWER:
            raise RuntimeError("a defect")
        return written(what, *of_piece)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(shard_frames, "encode_piece", defect)
        with pytest.raises(Exception, match="unexpected error"):
            await cluster.service.consuming.pop(order(), broker="", poll_s=POLL_S)
    (delivery,) = await cluster.service.consuming.pop(order(), broker="", poll_s=POLL_S)
    assert (body(delivery), delivery.attempt) == (b"kept", 1)


async def test_a_proxy_that_asks_faster_than_it_reads_is_heard_later(cluster: InProcessCluster) -> None:
    cluster.nodes[0].proxies.limits = ConnectionLimits(answers_bytes_max=100)
    await cluster.service.sending.append(queue("broker-0"), [message(bytes(200)) for _ in range(4)])
    reads, written = asyncio.Event(), list[bytes]()

    async def write(frame: bytes) -> None:
        await reads.wait()
        written.append(frame)

    slow = proxy_connection.ProxyConnection(cluster.nodes[0].proxies, write)
    writer = asyncio.create_task(slow.write_forever())
    pops = [CALLS["pop"].encode_call(number, (order(batch=2), False)) for number in (1, 2)]
    taking = asyncio.create_task(slow.serve_frame(shard_frames.join_pieces(pops)))
    await until(lambda: slow.calls == 2)
    await asyncio.sleep(0)
    assert not taking.done()
    reads.set()
    await taking
    answers = [CALLS["pop"].decode_result(piece) for each in written for piece in shard_frames.decode_frame(each)]
    assert [len(cast("list[DeliveredMessage]", deliveries)) for deliveries in answers] == [2, 2]
    slow.close()
    writer.cancel()


@pytest.mark.plain
async def test_a_proxy_that_leaves_is_told_of_its_sends_that_wait_for_the_disk(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Stored] = []
    monkeypatch.setattr(
        cluster.nodes[0].broker.sending, "append_nowait", lambda _queue, _messages, done: waiting.append(done)
    )
    written = asyncio.Queue[bytes]()
    leaving = proxy_connection.ProxyConnection(cluster.nodes[0].proxies, written.put)
    writer = asyncio.create_task(leaving.write_forever())
    sends = [CALLS["append_each"].encode_call(number, ([(queue("broker-0"), [message(b"a")])],)) for number in (1, 2)]
    await leaving.serve_frame(shard_frames.join_pieces(sends))
    await until(lambda: len(waiting) == 2)
    finished = asyncio.create_task(leaving.wait_until_answered())
    waiting[0](7, None)
    (stored,) = shard_frames.decode_frame(await written.get())
    assert CALLS["append_each"].decode_result(stored) == [AppendOutcome(7, definition_pb2.OK)]
    await asyncio.sleep(0)
    assert not finished.done()
    waiting[1](0, MessagingError(definition_pb2.HA_NOT_AVAILABLE, "its disk"))
    (failed,) = shard_frames.decode_frame(await written.get())
    assert CALLS["append_each"].decode_result(failed) == [AppendOutcome(0, definition_pb2.HA_NOT_AVAILABLE, "its disk")]
    await finished
    assert (stored.number, failed.number) == (1, 2)
    leaving.close()
    writer.cancel()


async def test_a_broker_remembers_no_watchers_of_what_was_deleted(cluster: InProcessCluster) -> None:
    polling = asyncio.create_task(cluster.service.consuming.pop(order(), broker="", poll_s=POLL_S))
    await until(lambda: cluster.service.polls.waiting_count == 1)
    polling.cancel()
    pollers = cluster.nodes[0].broker._pollers
    assert pollers.has_waiting("g", "orders")
    await cluster.service.administering.forget_group("g", version=next(versions))
    assert not pollers.has_waiting("g", "orders")


async def test_a_proxy_that_has_gone_without_a_word_is_forgotten(tmp_path: Path) -> None:
    timings = Timings(proxy_silence_s=0.3, link=LinkTiming(silence_s=3600.0))
    cluster = InProcessCluster(tmp_path, brokers=1, timings=timings)
    node = cluster.nodes[0]
    async with Wire() as wire, asyncio.timeout(PATIENCE_S):
        node.wire = wire
        await cluster.start()
        try:
            assert len(node.proxies) == 1
            wire.hold()
            await until(lambda: len(node.proxies) == 0)
        finally:
            wire.cut()
            await cluster.stop()


# --- what the registry does not say


async def test_calls_do_not_wait_long_for_a_registry_that_does_not_answer(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(version: int) -> None:
        del version
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster.nodes[0].directory, "wait_for_version", never)
    await later_version(cluster, "unheard-of")
    await cluster.service.sending.append(queue("broker-0"), [message(b"not held up")])
    assert cluster.service.links.is_connected("broker-0")


@pytest.mark.parametrize("timings", [Timings(registry_sync=SyncTiming(again_s=0.01))], ids=["timed"])
async def test_what_could_not_be_looked_up_is_as_soon_as_it_can(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    outages = 3
    deletions = Registry.list_deletions

    def out(self: Registry, after: int) -> list[object]:
        nonlocal outages
        outages -= 1
        if outages >= 0:
            raise RegistryUnavailable("a test")
        return list(deletions(self, after))

    monkeypatch.setattr(Registry, "list_deletions", out)
    version = await later_version(cluster, "heard-of-late")
    await cluster.service.sending.append(queue("broker-0"), [message(b"x")])
    await until(lambda: cluster.nodes[0].proxies.registry_sync.is_synced_to(version))
    assert outages < 0


# --- what was deleted


async def make(cluster: InProcessCluster, topic: Topic = TOPIC) -> None:
    await asyncio.to_thread(registry_of(cluster).create_topic, topic)
    await cluster.proxy_directory.refresh_snapshot()


async def restart(cluster: InProcessCluster, node: BrokerNode) -> None:
    await node.stop()
    await node.start()
    await cluster.proxy_directory.refresh_snapshot()
    await reached(cluster.service, ["broker-0"])


async def test_a_deletion_of_which_the_registry_could_not_be_told_is_not_done_again(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the messages of the topic that was made anew would be lost."""

    def out(*_: object) -> None:
        raise RegistryUnavailable("a test")

    await make(cluster)
    await cluster.service.sending.append(queue("broker-0"), [message(b"old")])
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "set_applied_version", out)
        version = await asyncio.to_thread(registry_of(cluster).delete_topic, TOPIC.name)
        await cluster.service.administering.forget_topic(TOPIC.name, version=version)
        await make(cluster)
        await cluster.service.sending.append(queue("broker-0"), [message(b"new")])
    assert await asyncio.to_thread(registry_of(cluster).applied_version, "broker-0") < version
    await restart(cluster, cluster.nodes[0])
    assert await asyncio.to_thread(registry_of(cluster).applied_version, "broker-0") == version
    received = await cluster.service.consuming.pop(order(), broker="", poll_s=POLL_S)
    assert [body(each) for each in received] == [b"new"]


async def test_a_broker_that_was_removed_and_is_back_forgets_nothing_again(cluster: InProcessCluster) -> None:
    node = cluster.nodes[0]
    await asyncio.to_thread(registry_of(cluster).register_broker, "away", "another store", "127.0.0.1:1", "test", 0)
    await make(cluster)
    version = await asyncio.to_thread(registry_of(cluster).delete_topic, TOPIC.name)
    await cluster.service.administering.forget_topic(TOPIC.name, version=version)
    await make(cluster)
    await cluster.service.sending.append(queue("broker-0"), [message(b"new")])
    assert await asyncio.to_thread(registry_of(cluster).list_deletions, 0)  # "away" has not done it
    await node.stop()
    await asyncio.to_thread(lambda: registry_of(cluster).remove_broker("broker-0", force=True))
    node.rejoin = True
    await node.start()
    await asyncio.to_thread(registry_of(cluster).update_topic, TOPIC)
    await cluster.proxy_directory.refresh_snapshot()
    await reached(cluster.service, ["broker-0"])
    received = await cluster.service.consuming.pop(order(), broker="", poll_s=POLL_S)
    assert [body(each) for each in received] == [b"new"]


async def test_a_deletion_that_comes_late_is_not_done_again(cluster: InProcessCluster) -> None:
    await make(cluster)
    version = await asyncio.to_thread(registry_of(cluster).delete_topic, TOPIC.name)
    await make(cluster)
    await cluster.service.sending.append(queue("broker-0"), [message(b"new")])
    await cluster.service.administering.forget_topic(TOPIC.name, version=version)
    received = await cluster.service.consuming.pop(order(), broker="", poll_s=POLL_S)
    assert [body(each) for each in received] == [b"new"]
