"""`PushConsumer.run`: a program that consumes until it is told to end, and says goodbye then."""

import asyncio
import signal
import subprocess
import sys

import pytest

import ternmq
import ternmq.blocking
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


async def test_another_thread_than_the_main_one_is_refused(server: ScriptedServer) -> None:
    consumer = ternmq.blocking.PushConsumer(server.endpoint, "g", {TOPIC: "*"}, print)
    with pytest.raises(ValueError, match="main thread"):
        await asyncio.to_thread(consumer.run)
