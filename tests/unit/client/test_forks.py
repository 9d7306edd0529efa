"""Clients and `fork()`, in processes of their own: pytest's has gRPC servers and threads, which no fork would outlive.

A process that hangs is killed after `PATIENCE_S`, and fails its test.
"""

import os
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


def said(endpoint: str, program: str, **variables: str) -> list[str]:
    """What a program prints that ends well."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", COMMON + program, endpoint],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | variables,
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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not name a process's native threads")
def test_no_thread_of_grpc_is_left_at_a_fork_when_all_is_closed(endpoint: str) -> None:
    """Its core ends its threads a little later than its channels: one fork in five came before that, hence many."""
    program = """
left = []
os.register_at_fork(after_in_parent=lambda: left.append(len(os.listdir("/proc/self/task"))))
for _ in range(10):
    send("parent")
    by_fork(lambda: None)
print(left)
"""
    # Two are Python's own, one of them the loop of the blocking clients. Handlers of gRPC would end others for a while.
    *sends, left = said(endpoint, program, GRPC_ENABLE_FORK_SUPPORT="0")
    assert sends == ["parent orders"] * 10
    assert left == str([2] * 10)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_parent_made_is_refused_in_the_child_and_goes_on_in_the_parent(endpoint: str, way: str) -> None:
    # gRPC's own handlers of forks, which can't know of its asyncio side, crash some of such children.
    program = f"""
producer = ternmq.blocking.Producer(endpoint, topics=["orders"]).start()
idle = ternmq.blocking.SimpleConsumer(endpoint, "g", {{"orders": "*"}})
admin = ternmq.blocking.Admin(endpoint).start()

def child():
    refused(lambda: producer.send(Message("orders", b"x")))
    refused(idle.start)
    refused(admin.list_topics)
    refused(lambda: send("new"))
    producer.close()
    admin.close()

{way}(child)
print(producer.send(Message("orders", b"x")).topic)
producer.close()
admin.close()
"""
    of_parent, of_idle, of_admin, new, parent = said(endpoint, program, GRPC_ENABLE_FORK_SUPPORT="0")
    assert of_parent == "this Producer was created before the process was forked; create a new one in the child"
    assert of_idle == "this SimpleConsumer was created before the process was forked; create a new one in the child"
    assert of_admin == "this Admin was created before the process was forked; create a new one in the child"
    assert "forked while its parent was connected" in new
    assert parent == "orders"


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
