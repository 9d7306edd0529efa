"""How a proxy's stream ends at the broker, and what becomes of what was under way."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ternmq_broker.server import proxy_connection
from ternmq_broker.server.proxy_connections import ConnectionLimits
from ternmq_broker.server.storage_front import METHOD, StorageFront
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.shard_frames import PeerGreeting
from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode
from ternmq_rpc.grpc_http2.headers.literal_headers import literal_block
from ternmq_rpc.grpc_http2.messages import PREFIX, GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.grpc_stream.stream import MessageStream
from tests.support.cluster import BrokerNode, InProcessCluster, running
from tests.support.message_service_conformance import bodies_and_attempts, message, order
from tests.support.until import until
from tests.unit.cluster.test_in_process import POLL_S, queue
from tests.unit.rpc.grpc_stream.peer import Peer, client

if TYPE_CHECKING:
    from ternmq_common.shard.model import AppendedMessage, DeliveredMessage, QueueRef, TimedMessage

PATIENCE_S = 20.0
FIELDS = ((":method", "POST"), (":scheme", "http"), (":path", METHOD), ("content-type", "application/grpc"))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with running(tmp_path, brokers=1) as cluster:
        yield cluster


@pytest.fixture
def node(cluster: InProcessCluster, caplog: pytest.LogCaptureFixture) -> BrokerNode:
    """The broker, to which the cluster's own proxy is connected."""
    caplog.set_level(logging.INFO, "ternmq_broker.server.storage_front")
    (node,) = cluster.nodes
    assert len(node.proxies) == 1
    return node


def hello(name: str) -> bytes:
    return shard_frames.HELLO.encode_note(PeerGreeting(name, "test"))


def say(peer: Peer, *pieces: bytes, end_stream: bool = False) -> None:
    data = shard_frames.join_pieces(pieces)
    flags = h2.END_STREAM if end_stream else 0
    peer.say(h2.encode_frame(h2.DATA, flags, 1, PREFIX.pack(0, len(data)) + data))


async def begin(peer: Peer) -> None:
    """Open the stream of a proxy "p" that gives no more room than HTTP/2 begins with."""
    peer.say(h2.header_frames(1, literal_block(FIELDS), 16_384, end_stream=False))
    say(peer, hello("p"))


def pop(number: int, batch: int) -> bytes:
    return CALLS["pop"].encode_call(number, (order(batch=batch), False))


@pytest.mark.parametrize("answers_bytes_max", [proxy_connection.ANSWERS_BYTES_MAX, 100_000], ids=["heard", "not heard"])
async def test_messages_on_their_way_to_a_proxy_that_is_lost_go_to_others(
    cluster: InProcessCluster, node: BrokerNode, answers_bytes_max: int
) -> None:
    """The first is sent in part when it is lost, and the others wait behind it; the broker may hear it no more."""
    node.proxies.limits = ConnectionLimits(answers_bytes_max=answers_bytes_max)
    bodies = [bytes([number]) * 70_000 for number in range(3)]
    await cluster.service.sending.append(queue("broker-0"), [message(each) for each in bodies])
    async with client(node.address) as peer:
        await begin(peer)
        say(peer, pop(1, batch=1))
        got = 0
        while got < h2.DEFAULT_WINDOW:
            got += len((await peer.expect(h2.DATA)).payload)
        say(peer, pop(2, batch=2))
        await until(lambda: node.proxies._connections[-1].calls == 2)
        assert await cluster.service.consuming.pop(order(), broker="", poll_s=0) == []
    received: list[DeliveredMessage] = []
    while len(received) < len(bodies):
        received += await cluster.service.consuming.pop(order(), broker="", poll_s=POLL_S)
    assert sorted(bodies_and_attempts(received)) == [(each, 1) for each in bodies]
    await until(lambda: len(node.proxies) == 1)


async def test_what_a_proxy_asked_for_is_done_though_it_breaks_off_while_it_is_waited_for(
    node: BrokerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_for, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    finished = proxy_connection.ProxyConnection.wait_until_answered

    async def slow(queue: "QueueRef", messages: "list[TimedMessage]") -> "list[AppendedMessage]":
        del queue, messages
        await go_on.wait()
        done.set()
        return []

    async def told(self: proxy_connection.ProxyConnection) -> None:
        waited_for.set()
        await finished(self)

    monkeypatch.setitem(node.proxies.answers.methods, "schedule", slow)
    monkeypatch.setattr(proxy_connection.ProxyConnection, "wait_until_answered", told)
    stream = await open_stream(node.address, METHOD, timeout_s=PATIENCE_S)
    stream.write_messages(
        shard_frames.join_pieces([hello("p"), CALLS["schedule"].encode_call(1, (queue(node.name), []))])
    )
    await stream.end_stream()
    await waited_for.wait()
    stream.abort_stream("a test")
    await until(lambda: len(node.proxies) == 1)
    go_on.set()
    await done.wait()


async def test_the_log_says_why_a_proxys_stream_ended(node: BrokerNode, caplog: pytest.LogCaptureFixture) -> None:
    async def says(text: str) -> None:
        await until(lambda: text in caplog.text)
        assert len(node.proxies) == 1
        caplog.clear()

    async with client(node.address) as peer:
        await begin(peer)
        say(peer, shard_frames.PING.encode_note(None), end_stream=True)
        await says("proxy p is gone: it has ended its stream")
    async with client(node.address) as peer:
        await begin(peer)
        await peer.expect(h2.DATA)
        peer.say(h2.reset_frame(1, ErrorCode.CANCEL))
        await says("broke the stream off: CANCEL")
    async with client(node.address) as peer:
        await begin(peer)
        await peer.expect(h2.DATA)
    await says("closed the connection")
    async with client(node.address) as peer:
        await begin(peer)
        peer.say(h2.encode_frame(h2.DATA, 0, 1, PREFIX.pack(0, 1) + b"\xc1"))
        await says("proxy p is gone: it sent an invalid frame")


async def leaving(stream: MessageStream) -> None:
    """Return when the broker has said that it ends."""
    while True:
        for data in await stream.read_all():
            if any(piece.what == shard_frames.LEAVING.what for piece in shard_frames.decode_frame(data)):
                return


async def all_read(stream: MessageStream) -> None:
    """Return when the broker has ended the stream in order, whatever it said before, as versions of the registry."""
    while await stream.read_message() is not None:
        pass


async def test_a_broker_that_ends_lets_proxies_end_their_streams_and_then_ends_them(node: BrokerNode) -> None:
    front = StorageFront("127.0.0.1:0")
    await front.start(node.proxies)
    stays, goes = [await open_stream(front.address, METHOD, timeout_s=PATIENCE_S) for _ in range(2)]
    for stream in (stays, goes):
        stream.write_messages(shard_frames.join_pieces([hello("p")]))
        assert await stream.read_message()
    stopping = asyncio.create_task(front.stop(0.3))
    await asyncio.gather(leaving(stays), leaving(goes))
    await goes.end_stream()
    await all_read(goes)
    with pytest.raises(StreamBroken, match="the server ends") as broken:
        await all_read(stays)
    assert broken.value.status == GrpcStatus.UNAVAILABLE
    await stopping
