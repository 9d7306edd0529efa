"""What the log says while a server is away, and when it is back."""

import logging
from typing import TYPE_CHECKING

import grpc
import pytest

from ternmq import Producer, PullConsumer, PushConsumer, SimpleConsumer, Timing
from tests.support.until import until
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq.client import Client

QUICK = Timing(heartbeat_s=0.02, route_refresh_s=0.02, settings_s=0.02, assignment_s=0.02, error_pause_s=0.02)
SUBSCRIPTIONS = {TOPIC: "*"}


@pytest.mark.parametrize(
    "make",
    [
        lambda endpoint: Producer(endpoint, topics=[TOPIC], timing=QUICK),
        lambda endpoint: SimpleConsumer(endpoint, "g", SUBSCRIPTIONS, timing=QUICK),
        lambda endpoint: PushConsumer(endpoint, "g", SUBSCRIPTIONS, lambda _: None, timing=QUICK),
        lambda endpoint: PullConsumer(endpoint, "g", SUBSCRIPTIONS, auto_commit_interval=0.02, timing=QUICK),
    ],
    ids=["producer", "simple", "push", "pull"],
)
async def test_a_connection_is_lost_once_and_found_once(
    make: "Callable[[str], Client]", unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    def of(level: int) -> list[str]:
        ours = [record for record in caplog.records if record.name.startswith("ternmq.")]
        return [record.getMessage() for record in ours if record.levelno == level]

    caplog.set_level(logging.DEBUG, "ternmq")
    async with ScriptedServer(port=unused_tcp_port) as before:
        client = await make(before.endpoint).start()
    await until(lambda: len(of(logging.DEBUG)) > 20)
    [lost] = of(logging.WARNING)
    async with ScriptedServer(port=before.port) as after:
        await until(lambda: bool(of(logging.INFO)))
        await after.asked("Heartbeat", 3)
        await client.close()
    assert f"no connection, it is tried again: {before.endpoint}: " in lost
    assert of(logging.INFO) == [f"{client.client_id}: connected again: {before.endpoint}"]
    assert of(logging.WARNING) == [lost]


async def test_a_call_that_the_server_cuts_is_no_lost_connection(caplog: pytest.LogCaptureFixture) -> None:
    """So does a server that ends, and it may answer others until it has."""
    caplog.set_level(logging.INFO, "ternmq")
    async with ScriptedServer() as server:
        server.script("Heartbeat", *[grpc.StatusCode.CANCELLED] * 3)
        async with Producer(server.endpoint, topics=[TOPIC], timing=QUICK):
            await server.asked("Heartbeat", 5)
    assert "no connection" not in caplog.text
    assert "connected again" not in caplog.text
