"""What `on_connection` hears of servers that come and go."""

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import grpc
import pytest

import ternmq.blocking
from ternmq import (
    ConnectionEvent,
    ConnectionState,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    Timing,
    TransportError,
)
from ternmq.background import THREAD_NAME
from ternmq.connections.connection_events import ConnectionEvents, ConnectionListener
from ternmq.errors import ConnectionFailed
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from tests.support.until import until
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq.client import Client

QUICK = Timing(heartbeat_s=0.02, route_refresh_s=0.02, settings_s=0.02, assignment_s=0.02, error_pause_s=0.02)
SUBSCRIPTIONS = {TOPIC: "*"}
CONNECTED, LOST = ConnectionState.CONNECTED, ConnectionState.LOST


@pytest.mark.parametrize(
    "make",
    [
        lambda endpoint, heard: Producer(endpoint, topics=[TOPIC], timing=QUICK, on_connection=heard),
        lambda endpoint, heard: SimpleConsumer(endpoint, "g", SUBSCRIPTIONS, timing=QUICK, on_connection=heard),
        lambda endpoint, heard: PushConsumer(
            endpoint, "g", SUBSCRIPTIONS, lambda _: None, timing=QUICK, on_connection=heard
        ),
        lambda endpoint, heard: PullConsumer(endpoint, "g", SUBSCRIPTIONS, timing=QUICK, on_connection=heard),
    ],
    ids=["producer", "simple", "push", "pull"],
)
async def test_a_server_is_connected_lost_and_connected_again(
    make: "Callable[[str, ConnectionListener], Client]", unused_tcp_port: int
) -> None:
    heard: asyncio.Queue[ConnectionEvent] = asyncio.Queue()
    async with ScriptedServer(port=unused_tcp_port) as before:
        client = await make(before.endpoint, heard.put_nowait).start()
        first = await heard.get()
    lost = await heard.get()
    async with ScriptedServer(port=before.port) as after:
        again = await heard.get()
        await after.asked("Heartbeat", 3)
        await client.close()
    assert [event.state for event in (first, lost, again)] == [CONNECTED, LOST, CONNECTED]
    assert {event.endpoint for event in (first, lost, again)} == {before.endpoint}
    assert {event.client_id for event in (first, lost, again)} == {client.client_id}
    assert isinstance(lost.error, TransportError)
    assert (first.error, lost.error.endpoint, again.error) == (None, before.endpoint, None)
    assert heard.empty()


async def test_a_session_that_broke_before_its_server_was_found_again_is_no_second_loss(server: ScriptedServer) -> None:
    """On a busy machine the end of an old stream is seen after the server that came in its place has answered."""
    heard: asyncio.Queue[ConnectionEvent] = asyncio.Queue()
    quiet = Timing(settings_s=1e6, heartbeat_s=1e6, route_refresh_s=1e6)
    async with Producer(server.endpoint, topics=[TOPIC], timing=quiet, on_connection=heard.put_nowait) as producer:
        [endpoints] = producer._sessions
        producer._isolated.note_lost(endpoints, ConnectionFailed(str(endpoints), "scripted"), 0)
        producer._isolated.note_found(endpoints, 1)
        server.script("Telemetry", grpc.StatusCode.UNAVAILABLE)
        await producer._send_settings()
        await server.asked("Telemetry", 3)
        events = [await heard.get() for _ in range(3)]
    assert [event.state for event in events] == [CONNECTED, LOST, CONNECTED]
    assert heard.empty()


async def test_a_call_that_began_before_its_server_was_found_again_is_no_second_loss(server: ScriptedServer) -> None:
    heard: asyncio.Queue[ConnectionEvent] = asyncio.Queue()
    async with Producer(server.endpoint, topics=[TOPIC], on_connection=heard.put_nowait) as producer:
        [endpoints] = producer._sessions
        isolated, broken = producer._isolated, ConnectionFailed(str(endpoints), "scripted")

        def call(*, meanwhile: bool) -> None:
            with isolated.watch_call(endpoints):
                if meanwhile:
                    isolated.note_lost(endpoints, broken, 0)
                    isolated.note_found(endpoints, 0)  # the answer to what was asked before the loss
                    isolated.note_found(endpoints, 1)
                raise broken

        for meanwhile in (True, False):
            with pytest.raises(ConnectionFailed):
                call(meanwhile=meanwhile)
        events = [await heard.get() for _ in range(4)]
    assert [event.state for event in events] == [CONNECTED, LOST, CONNECTED, LOST]


async def test_closing_a_client_is_no_loss(server: ScriptedServer) -> None:
    heard: list[ConnectionState] = []
    async with Producer(server.endpoint, topics=[TOPIC], on_connection=lambda event: heard.append(event.state)):
        await until(lambda: bool(heard))
    assert heard == [CONNECTED]


async def test_a_coroutine_function_hears_one_event_after_the_other() -> None:
    begun, may_end = asyncio.Semaphore(0), asyncio.Semaphore(0)
    heard: list[ConnectionState] = []

    async def listen(event: ConnectionEvent) -> None:
        begun.release()
        await may_end.acquire()
        heard.append(event.state)

    async with ScriptedServer() as before:
        client = await Producer(before.endpoint, topics=[TOPIC], timing=QUICK, on_connection=listen).start()
        await begun.acquire()
    await until(lambda: len(client._events._waiting) == 1)
    assert heard == []
    may_end.release()
    await begun.acquire()
    may_end.release()
    await until(lambda: heard == [CONNECTED, LOST])
    await client.close()


async def test_a_name_that_no_route_has_is_found_again_too() -> None:
    heard: asyncio.Queue[ConnectionEvent] = asyncio.Queue()
    async with ScriptedServer() as broker, ScriptedServer() as front:
        front.brokers = {"broker-a": broker.port}
        client = Producer(front.endpoint, topics=[TOPIC], timing=QUICK, on_connection=heard.put_nowait)
        await client.start()
        assert (await heard.get()).endpoint == broker.endpoint
        await front.__aexit__(None, None, None)
        lost = await heard.get()
        async with ScriptedServer(port=front.port) as again:
            again.brokers = front.brokers
            found = await heard.get()
            await client.close()
    assert [(event.endpoint, event.state) for event in (lost, found)] == [
        (front.endpoint, LOST),
        (front.endpoint, CONNECTED),
    ]


async def test_a_listener_that_fails_is_logged_once_and_harms_nothing(
    unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[ConnectionEvent] = []

    def fails(event: ConnectionEvent) -> None:
        calls.append(event)
        raise RuntimeError("scripted")

    async with ScriptedServer(port=unused_tcp_port) as before:
        client = await Producer(before.endpoint, topics=[TOPIC], timing=QUICK, on_connection=fails).start()
        await until(lambda: len(calls) == 1)
    await until(lambda: len(calls) == 2)
    async with ScriptedServer(port=before.port):
        await until(lambda: len(calls) == 3)
        assert (await client.send(Message(TOPIC, b"x"))).offset == 1
        await client.close()
    [logged] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert logged.getMessage() == f"{client.client_id}: on_connection failed"
    assert logged.exc_info is not None


async def test_a_blocking_client_calls_in_a_thread_where_clients_can_be_used(server: ScriptedServer) -> None:
    threads: list[str] = []
    sent = threading.Event()

    def listen(event: ConnectionEvent) -> None:
        threads.append(threading.current_thread().name)
        producer.send(Message(TOPIC, event.state.value.encode()))
        sent.set()

    def use() -> None:
        with producer:
            sent.wait(timeout=60)

    producer = ternmq.blocking.Producer(server.endpoint, topics=[TOPIC], on_connection=listen)
    await asyncio.to_thread(use)
    assert server.requests["SendMessage"][0].messages[0].body == b"connected"
    assert threads
    assert THREAD_NAME not in threads


async def test_a_listener_may_close_its_client(server: ScriptedServer) -> None:
    closed = asyncio.Event()

    async def listen(_: ConnectionEvent) -> None:
        await producer.close()
        closed.set()

    producer = Producer(server.endpoint, on_connection=listen)
    await producer.start()
    await producer.send(Message(TOPIC, b"x"))
    await closed.wait()
    assert len(server.requests["NotifyClientTermination"]) == 1


async def test_a_listener_that_hangs_makes_no_client_grow() -> None:
    async def hangs(_: ConnectionEvent) -> None:
        await asyncio.Event().wait()

    tasks = BackgroundTasks()
    events = ConnectionEvents(hangs, tasks, waiting_max=5)
    for number in range(20):
        events.add_event(ConnectionEvent("c", str(number), LOST))
    assert [event.endpoint for event in events._waiting] == ["15", "16", "17", "18", "19"]
    assert len(tasks) == 1
    await tasks.stop()
