"""An environment that names a web proxy: no client goes by it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import ternmq.blocking
from ternmq import Admin, Message, Producer, PullConsumer, PushConsumer, SimpleConsumer
from ternmq.pull.offset_reader import OffsetReader
from ternmq_command.message.follower import TopicFollower
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, local_settings

TOPIC = "orders"
ALL = {TOPIC: "*"}


class WebProxy:
    """Counts who comes, and lets nobody in."""

    def __init__(self) -> None:
        self.came = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        await reader.readline()
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        writer.close()


@pytest.fixture
async def web_proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WebProxy]:
    proxy = WebProxy()
    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for name in ("grpc_proxy", "https_proxy", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("no_grpc_proxy", raising=False)
        yield proxy


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Embedded]:
    async with Embedded(local_settings(tmp_path)) as running:
        yield running


async def test_no_client_goes_by_it(web_proxy: WebProxy, stack: Embedded) -> None:
    seen = asyncio.Event()

    async def listener(_: ternmq.MessageView) -> None:
        seen.set()

    def read() -> list[str]:
        with ternmq.blocking.Admin(stack.grpc) as admin, OffsetReader(stack.grpc) as reader:
            return [*(topic.name for topic in admin.list_topics()), *reader.topics()]

    async with Admin(stack.grpc) as admin:
        await admin.create_topic(TOPIC)
    async with Producer(stack.grpc, topics=[TOPIC]) as producer:
        await producer.send(Message(TOPIC, b"x"))
    async with SimpleConsumer(stack.grpc, "simple", ALL) as consumer:
        assert await consumer.receive(1, timedelta(minutes=1))
    async with PushConsumer(stack.grpc, "push", ALL, listener):
        await seen.wait()
    async with PullConsumer(stack.grpc, "pull", ALL):
        pass
    async with TopicFollower(
        stack.grpc, TOPIC, pb.FilterExpression(type=pb.TAG, expression="*"), long_poll=timedelta(seconds=1)
    ) as follower:
        assert await follower._query_queues()
    assert (await asyncio.to_thread(read)).count(TOPIC) == 2
    assert web_proxy.came == 0
