"""The load generator of `./run bench` on a real server: what it says that it sent and consumed is what was there."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.bench import load
from ternmq.admin import groups as group_calls
from ternmq.admin import topics as topic_calls
from ternmq_command.calls.admin import AdminClient
from tests.support.guarded import GuardedStack, dev_certificates
from tests.support.stack import Stack

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

# Enough that a server takes more than one tick of the kernel for their processor time, a hundredth of a second.
MESSAGES = 6400
CORES = os.sched_getaffinity(0)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    if load.missing_go():
        pytest.fail("go missing: run tests/interop/install_toolchains.sh")
    load.build_loader()
    with Stack(tmp_path, "--flush", "async") as stack:
        yield stack


def run(stack: Stack, work: str, *options: object) -> load.Run:
    found = load.run(work, stack.grpc, *options, pids=[stack.process.pid], cores=CORES)
    assert found.figures["errors"] == {}
    return found


def stored(stack: Stack, topic: str) -> int:
    with AdminClient(stack.grpc) as admin:
        return sum(queue.max_offset for queue in admin.send_call(topic_calls.describe_topic(topic)).queues)


@pytest.mark.parametrize("options", [("-batch", 32), ("-batch", 1, "-ack-each")], ids=["batches", "each"])
def test_what_was_sent_is_what_was_stored_and_consumed(stack: Stack, options: tuple[object, ...]) -> None:
    batch = options[:2]
    sent = run(stack, "send", "-topic", "t", *batch, "-count", MESSAGES)
    assert sent.figures["sent"] == stored(stack, "t") == MESSAGES
    assert sent.figures["latency_us"]["count"] == MESSAGES // int(str(batch[1]))
    assert sent.server_cpu_s > 0
    consumed = run(stack, "consume", "-topic", "t", "-group", "g", "-in-flight", 4, *options[2:], "-count", MESSAGES)
    assert consumed.figures["received"] == consumed.figures["acknowledged"] == MESSAGES
    with AdminClient(stack.grpc) as admin:
        progress = admin.send_call(group_calls.describe_group("g")).progress
    assert sum(queue.committed for queue in progress) == MESSAGES
    assert not any(queue.in_flight for queue in progress)


def test_each_message_that_goes_through_has_its_time(stack: Stack) -> None:
    with AdminClient(stack.grpc) as admin:
        admin.send_call(topic_calls.create_topic("t", "normal", 4))  # which is received from before anything is sent
    found = run(stack, "e2e", "-topic", "t", "-group", "g", "-rate", 200, "-seconds", 1)
    assert found.figures["sent"] == found.figures["received"] == found.figures["latency_us"]["count"] == 200


def test_delayed_messages_are_not_early_and_committed_ones_are_there(stack: Stack) -> None:
    with AdminClient(stack.grpc) as admin:
        admin.send_call(topic_calls.create_topic("later", "delay", 4))
        admin.send_call(topic_calls.create_topic("both", "transaction", 4))
    late = run(stack, "delayed", "-topic", "later", "-group", "g", "-rate", 100, "-seconds", 1, "-delay", "1s")
    assert late.figures["sent"] == late.figures["received"] == 100
    assert late.figures["early"] == 0
    committed = run(stack, "transactions", "-topic", "both", "-count", 100)
    assert committed.figures["sent"] == stored(stack, "both") == 100


def test_a_server_that_refuses_is_counted_by_the_code_of_its_refusal(stack: Stack) -> None:
    with AdminClient(stack.grpc) as admin:
        admin.send_call(topic_calls.create_topic("timed", "delay", 4))
    options = ("-topic", "timed", "-count", 10, "-in-flight", 1)
    found = load.run("send", stack.grpc, *options, pids=[stack.process.pid], cores=CORES)
    assert found.figures["sent"] == 0
    assert found.figures["errors"] == {"MESSAGE_PROPERTY_CONFLICT_WITH_TYPE": 10}


def test_a_guarded_server_is_loaded_over_tls_by_calls_that_are_signed(tmp_path: Path) -> None:
    certificates = dev_certificates(tmp_path / "certificates")
    with GuardedStack(tmp_path, "--flush", "async", certificates=certificates) as stack:
        with stack.admin() as admin:
            admin.create_topic("t", queues=4)
        ways = {
            "right": load.WayIn(stack.ca, stack.credentials),
            "unsigned": load.WayIn(stack.ca),
            "plain": load.WayIn(None, stack.credentials),
        }
        options = ("-topic", "t", "-count", 100)
        pids = [stack.process.pid]
        found = load.run("send", stack.grpc, *options, pids=pids, cores=CORES, way_in=ways["right"])
        assert (found.figures["sent"], found.figures["errors"]) == (100, {})
        with pytest.raises(load.LoadFailed, match="UNAUTHORIZED"):
            load.run("send", stack.grpc, *options, pids=pids, cores=CORES, way_in=ways["unsigned"])
        with pytest.raises(load.LoadFailed):
            load.run("send", stack.grpc, *options, pids=pids, cores=CORES, way_in=ways["plain"])


def test_the_figures_of_the_load_generator_pass_their_own_tests() -> None:
    if shutil.which("go") is None:
        pytest.fail("go missing: run tests/interop/install_toolchains.sh")
    tested = subprocess.run(["go", "test", "./..."], cwd=load.SOURCES, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr
