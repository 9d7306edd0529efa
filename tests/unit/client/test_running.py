"""`PushConsumer.run`: a program that consumes until it is told to end, and says goodbye then."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ternmq
import ternmq.blocking
from tests.support.until import until
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, stored_message

pytestmark = pytest.mark.slow

PLAIN = """
import sys
from ternmq.blocking import PushConsumer
PushConsumer(sys.argv[1], "g", {sys.argv[2]: "*"}, lambda view: print("got", view.message_id, flush=True)).run()
print("closed", flush=True)
"""
ASYNCIO = """
import asyncio, sys
from ternmq import PushConsumer
async def listener(view):
    print("got", view.message_id, flush=True)
asyncio.run(PushConsumer(sys.argv[1], "g", {sys.argv[2]: "*"}, listener).run())
print("closed", flush=True)
"""

HANGING = """
import asyncio, os, sys, threading, time
import ternmq, ternmq.blocking

def write_line():
    os.write(sys.stdout.fileno(), b"got\\n")  # whole, also beside another thread

def in_thread(view):
    write_line()
    if view.body.endswith(b"1"):
        threading.Event().wait()

async def on_the_loop(view):
    write_line()
    time.sleep(1000)

async def swallowing(view):
    write_line()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

endpoint, topic, world, listener, drain_s, request_timeout_s = sys.argv[1:]
kind = ternmq.PushConsumer if world == "asyncio" else ternmq.blocking.PushConsumer
times = {"drain_timeout": float(drain_s), "request_timeout": float(request_timeout_s)}
consumer = kind(endpoint, "g", {topic: "*"}, globals()[listener], **times)
running = consumer.run()
if world == "asyncio":
    asyncio.run(running)
print("closed", flush=True)
"""
WORLDS = ("blocking", "asyncio")
LONG_S = 60.0


async def hanging(
    server: ScriptedServer, world: str, listener: str, drain_s: float, request_timeout_s: float = 0.5
) -> tuple[asyncio.subprocess.Process, asyncio.StreamReader]:
    """A program whose listener has a message and does not come back, and its output."""
    command = [
        sys.executable,
        "-c",
        HANGING,
        server.endpoint,
        TOPIC,
        world,
        listener,
        str(drain_s),
        str(request_timeout_s),
    ]
    program = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None
    assert await program.stdout.readline() == b"got\n"
    return program, program.stdout


@pytest.mark.parametrize("program", [PLAIN, ASYNCIO], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_program_consumes_until_it_is_told_to_end(
    server: ScriptedServer, program: str, number: signal.Signals
) -> None:
    server.deliver(stored_message(1))
    command = [sys.executable, "-c", program, server.endpoint, TOPIC]
    consumer = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert consumer.stdout is not None
    assert (await consumer.stdout.readline()).startswith(b"got ")
    consumer.send_signal(number)
    assert await consumer.stdout.readline() == b"closed\n"
    assert await consumer.wait() == 0
    assert len(server.requests["AckMessage"]) == 1
    assert len(server.requests["NotifyClientTermination"]) == 1


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
async def test_in_another_thread_than_the_main_one_it_runs_until_it_is_closed(
    server: ScriptedServer, kind: str
) -> None:
    """That thread hears no signals."""
    consumer = ternmq.blocking.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, print)

    async def run() -> None:
        inner = ternmq.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, print)
        running = asyncio.create_task(inner.run())
        asked.add_done_callback(lambda _: loop.call_soon_threadsafe(closing.set))
        loop, closing = asyncio.get_running_loop(), asyncio.Event()
        await closing.wait()
        await inner.close()
        await running

    asked: asyncio.Future[object] = asyncio.ensure_future(server.asked("ReceiveMessage"))
    running = asyncio.create_task(asyncio.to_thread(consumer.run if kind == "blocking" else lambda: asyncio.run(run())))
    await asked
    if kind == "blocking":
        await asyncio.to_thread(consumer.close)
    await running
    assert len(server.requests["NotifyClientTermination"]) == 1


async def test_a_program_ends_when_its_consumer_is_closed(server: ScriptedServer) -> None:
    consumer = ternmq.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, print)
    running = asyncio.create_task(consumer.run())
    await server.asked("ReceiveMessage")
    await consumer.close()
    await running


@pytest.mark.parametrize("world", WORLDS)
async def test_a_thread_that_hangs_keeps_no_program_and_what_others_did_is_acknowledged(
    server: ScriptedServer, world: str
) -> None:
    server.deliver(stored_message(1), stored_message(2))
    # Its calls end the program only if they hang, and the other listener has returned before it is to end.
    program, output = await hanging(server, world, "in_thread", 0.2, LONG_S)
    assert await output.readline() == b"got\n"
    await server.asked("AckMessage")
    program.send_signal(signal.SIGTERM)
    rest, errors = await program.communicate()
    assert (rest, program.returncode) == (b"closed\n", 0)
    (said,) = errors.decode().splitlines()
    assert "listener __main__.in_thread has not come back from MessageView(" in said
    assert "delivered again" in said
    (acknowledged,) = server.requests["AckMessage"]
    assert len(acknowledged.entries) == 1
    assert len(server.requests["NotifyClientTermination"]) == 1


@pytest.mark.parametrize(
    ("world", "listener", "code"),
    [
        ("blocking", "on_the_loop", 1),
        ("asyncio", "on_the_loop", 1),
        ("asyncio", "swallowing", 1),
        ("blocking", "swallowing", 0),
    ],
)
async def test_a_listener_that_can_not_be_stopped_keeps_no_program(
    server: ScriptedServer, world: str, listener: str, code: int
) -> None:
    server.deliver(stored_message(1))
    program, _ = await hanging(server, world, listener, 0.2)
    program.send_signal(signal.SIGTERM)
    rest, errors = await program.communicate()
    assert (rest, program.returncode) == (b"" if code else b"closed\n", code)
    assert f"listener __main__.{listener} has not come back from MessageView(" in errors.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("listener", ["in_thread", "on_the_loop"])
@pytest.mark.parametrize("world", WORLDS)
async def test_a_second_signal_ends_a_program_at_once(
    server: ScriptedServer, world: str, listener: str, number: signal.Signals
) -> None:
    server.deliver(stored_message(1))
    program, _ = await hanging(server, world, listener, 1000)
    program.send_signal(number)
    async with asyncio.timeout(20):
        await until(lambda: not _is_caught(program.pid, number))
    program.send_signal(number)
    await program.communicate()
    assert program.returncode == -number


def _is_caught(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) & 1 << (number - 1))
