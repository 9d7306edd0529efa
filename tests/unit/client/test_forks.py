"""Clients and `fork()`, in processes of their own: pytest's has servers and threads, which no fork would outlive.

A process that hangs is killed after `PATIENCE_S`, and fails its test.
"""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ternmq.testing import Stack

PATIENCE_S = 100
COMMON = """
import asyncio, multiprocessing, os, sys, traceback
import ternmq, ternmq.blocking
from ternmq import Message, NotRunning

endpoint = sys.argv[1]

def send(body):
    with ternmq.blocking.Producer(endpoint, topics=["orders"]) as producer:
        print(body, producer.send(Message("orders", body.encode())).topic, flush=True)

def refused(used):
    try:
        used()
    except NotRunning as error:
        print(error.message, flush=True)

def by_fork(work):
    child = os.fork()
    if not child:
        try:
            work()
        except Exception:
            traceback.print_exc()
            os._exit(1)
        sys.exit(0)  # as a program ends: what the parent had is destroyed here too
    assert os.waitpid(child, 0)[1] == 0

def by_multiprocessing(work):
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
"""
WAYS = ["by_fork", "by_multiprocessing"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with Stack(test_clock=False) as stack:
        yield stack.endpoint


def said(endpoint: str, program: str) -> list[str]:
    """What a program prints that ends well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", COMMON + program, endpoint],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_a_child_has_a_loop_of_its_own(endpoint: str, way: str) -> None:
    """The parent's loop runs, as it does after the first call of any client, and was never connected."""
    program = f"""
from ternmq.background import call_on_loop
call_on_loop(print, "parent's loop", flush=True)
{way}(lambda: send("child"))
send("parent")
"""
    assert said(endpoint, program) == ["parent's loop", "child orders", "parent orders"]


@pytest.mark.parametrize("way", WAYS)
def test_a_child_may_connect_after_its_parent_has_closed(endpoint: str, way: str) -> None:
    program = f"""
send("parent")
{way}(lambda: {way}(lambda: send("grandchild")))
send("parent")
"""
    assert said(endpoint, program) == ["parent orders", "grandchild orders", "parent orders"]


@pytest.mark.parametrize("way", WAYS)
def test_a_child_connects_while_its_parent_is_connected(endpoint: str, way: str) -> None:
    """The parent's clients are refused in the child, whose own ones connect; the parent goes on as before."""
    program = f"""
producer = ternmq.blocking.Producer(endpoint, topics=["orders"]).start()
idle = ternmq.blocking.SimpleConsumer(endpoint, "g", {{"orders": "*"}})
admin = ternmq.blocking.Admin(endpoint).start()
admin.list_topics()

def child():
    refused(lambda: producer.send(Message("orders", b"x")))
    refused(idle.start)
    refused(admin.list_topics)
    send("child")
    {way}(lambda: send("grandchild"))
    producer.close()
    admin.close()

{way}(child)
print("parent", producer.send(Message("orders", b"x")).topic)
print([topic.name for topic in admin.list_topics()].count("orders"))
producer.close()
admin.close()
"""
    of_parent, of_idle, of_admin, *others = said(endpoint, program)
    assert of_parent == "this Producer was created before the process was forked; create a new one in the child"
    assert of_idle == "this SimpleConsumer was created before the process was forked; create a new one in the child"
    assert of_admin == "this Admin was created before the process was forked; create a new one in the child"
    assert others == ["child orders", "grandchild orders", "parent orders", "1"]


def test_children_and_their_parent_send_at_the_same_time(endpoint: str) -> None:
    """Each on connections of its own: what one writes is never mixed with what another writes."""
    program = """
producer = ternmq.blocking.Producer(endpoint, topics=["orders"]).start()

def child():
    with ternmq.blocking.Producer(endpoint, topics=["orders"]) as own:
        for _ in range(50):
            own.send(Message("orders", b"child"))

context = multiprocessing.get_context("fork")
children = [context.Process(target=child) for _ in range(3)]
for one in children: one.start()
for _ in range(50): producer.send(Message("orders", b"parent"))
for one in children: one.join()
print([one.exitcode for one in children])
producer.close()
"""
    assert said(endpoint, program) == ["[0, 0, 0]"]


def test_asyncio_clients_are_refused_and_made_anew_just_so(endpoint: str) -> None:
    program = """
async def used(producer):
    await producer.start()

async def sent():
    async with ternmq.Producer(endpoint, topics=["orders"]) as producer:
        print("child", (await producer.send(Message("orders", b"x"))).topic, flush=True)

made = ternmq.Producer(endpoint, topics=["orders"])
asyncio.run(sent())

def child():
    refused(lambda: asyncio.run(used(made)))
    asyncio.run(sent())

by_fork(child)
"""
    first, refusal, second = said(endpoint, program)
    assert (first, second) == ("child orders", "child orders")
    assert refusal == "this Producer was created before the process was forked; create a new one in the child"


def test_threads_that_begin_together_share_one_loop() -> None:
    program = """
import threading
from ternmq.background import THREAD_NAME, call_on_loop

sys.setswitchinterval(1e-6)
together = threading.Barrier(20)

def begin():
    together.wait()
    call_on_loop(int)

threads = [threading.Thread(target=begin) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print([thread.name for thread in threading.enumerate()].count(THREAD_NAME))
"""
    assert said("nowhere", program) == ["1"]
