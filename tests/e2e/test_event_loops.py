"""A server does the same on each event loop."""

from pathlib import Path

import pytest

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from ternmq_common.server_settings import EventLoop
from tests.support.stack import Stack

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("loop", [EventLoop.ASYNCIO, EventLoop.UVLOOP])
def test_a_server_starts_serves_and_ends_on_each_loop(tmp_path: Path, loop: EventLoop) -> None:
    with Stack(tmp_path, "--loop", loop, "--log-level", "debug") as stack:
        with Producer(stack.grpc) as producer, SimpleConsumer(stack.grpc, "g", {"orders": "*"}) as consumer:
            producer.send(Message("orders", b"body"))
            (received,) = consumer.receive()
            consumer.ack(received)
        assert stack.terminate() == 0
        assert f"the event loop is of {loop}" in stack.log.read_text()
