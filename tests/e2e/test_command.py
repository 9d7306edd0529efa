"""The command as a user has it: processes, exit codes and output, against a real `ternmq up`."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ternmq import Message
from ternmq.blocking import Producer
from tests.support.command_line import CommandLine
from tests.support.stack import Stack
from tests.support.until import until
from tests.system.test_consumption_commands import received, send

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "ternmq_command.main")
Done = subprocess.CompletedProcess[str]
Call = Callable[..., Done]


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERNMQ_")}
    return kept | variables


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def call(stack: Stack) -> Call:
    def run(*arguments: str, stdin: str = "") -> Done:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=environment(TERNMQ_ENDPOINT=stack.grpc),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@contextmanager
def running(stack: Stack, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A command that goes on until it is ended; its output can be read."""
    environ = environment(TERNMQ_ENDPOINT=stack.grpc)
    command = [*COMMAND, *arguments]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """What Ctrl-C makes of it: its exit code, and what it wrote last."""
    process.send_signal(signal.SIGINT)
    written, said = process.communicate(timeout=60)
    return process.returncode, written, said.strip()


def test_lines_of_a_pipe_are_messages_and_messages_are_lines_of_one(call: Call) -> None:
    created = call("topic", "create", "lines", "--queues", "4")
    assert (created.returncode, created.stdout, created.stderr) == (0, "topic lines created\n", "")
    lines = [f"line {number}" for number in range(250)]
    sent = call("send", "lines", "--file", "-", "--json", stdin="\n".join([*lines, "", ""]))
    assert len(sent.stdout.splitlines()) == 250, sent.stderr
    received = call("receive", "lines", "--group", "lines", "--json", "--max", "250", "--wait", "2s")
    assert received.returncode == 0, received.stderr
    assert sorted(json.loads(line)["body"] for line in received.stdout.splitlines()) == sorted(lines)
    gone = call("topic", "describe", "nowhere")
    assert (gone.returncode, gone.stdout, len(gone.stderr.splitlines())) == (1, "", 1)


def test_tail_shows_old_messages_and_then_new_ones(stack: Stack) -> None:
    with Producer(stack.grpc) as producer, running(stack, "tail", "tailed", "--from-beginning", "--json") as process:
        assert process.stdout is not None
        for body in ("old", "new"):
            producer.send(Message("tailed", body.encode(), tag="t"))
            assert json.loads(process.stdout.readline())["body"] == body
        assert ended(process) == (130, "", "")
    assert "tailed" not in CommandLine(stack.grpc)("group", "list").stdout


def test_a_bench_that_is_interrupted_leaves_nothing(stack: Stack) -> None:
    command = CommandLine(stack.grpc)

    def names() -> list[str]:
        lists = [command(noun, "list", "--format", "{name}").stdout.split() for noun in ("topic", "group")]
        return [name for each in lists for name in each if "bench" in name]

    with running(stack, "bench", "--messages", "1000000") as bench:
        asyncio.run(until(lambda: len(names()) == 2))  # the topic, and the group, which the first receive made
        assert ended(bench)[0] == 130
    assert names() == []


@pytest.mark.parametrize(
    "arguments", [("version",), ("topic", "list"), ("config",), ("--help",), ("group", "list", "--json")], ids=" ".join
)
def test_a_call_answers_at_once(call: Call, seconds_of_imports: float, arguments: tuple[str, ...]) -> None:
    """Four times what a Python costs that only imports gRPC, on the same machine: how fast that is does not count.

    Processor time is measured, since the clock also measures what else the machine does. The bound leaves a third above
    what is seen; a library that belongs to a server or to Spark costs more than that.
    """

    def answers() -> None:
        assert call(*arguments).returncode == 0

    assert min(seconds(answers) for _ in range(3)) < 4 * seconds_of_imports


def seconds(run: Callable[[], object]) -> float:
    """Processor time of the processes that it runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.fixture(scope="module")
def seconds_of_imports() -> float:
    command = [sys.executable, "-c", "import asyncio, grpc.aio"]
    return min(seconds(lambda: subprocess.run(command, check=True)) for _ in range(5))


def test_what_was_sent_and_what_was_purged_outlive_a_kill(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        command = CommandLine(stack.grpc)
        command("send", "kept", "safe")
        send(stack.grpc, "orders", 20)
        assert len(received(stack.grpc, "orders", "began", ack=False)) == 20
        assert command.record("topic", "purge", "orders", "--dry-run")["messages"] == 20
        assert command.record("topic", "purge", "orders", "--yes")["messages"] == 20
        stack.kill9()
        stack.start()
        assert [each["body"] for each in command.records("receive", "kept", "--group", "g")] == ["safe"]
        assert command.records("message", "find", "orders") == []
        send(stack.grpc, "orders", 3)
        assert received(stack.grpc, "orders", "new") == received(stack.grpc, "orders", "began") == [b"0", b"1", b"2"]
        total = command.record("group", "offset", "show", "began", "--topic", "orders")["total"]
        assert total["lag"] == total["in_flight"]  # nothing but what it was given before and has not settled
        assert stack.terminate() == 0
