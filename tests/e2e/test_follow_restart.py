"""`ternmq tail` and `ternmq receive --follow` outlive their server, say so once each way, and go on where they were."""

import json
import os
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

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "ternmq_command.main")
FOLLOWERS = {
    "tail": ("tail", "orders", "--from-beginning"),
    "receive": ("receive", "orders", "--group", "g", "--follow"),
}
BOTH = pytest.mark.parametrize("arguments", FOLLOWERS.values(), ids=list(FOLLOWERS))


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path) as running:
        yield running


@contextmanager
def following(stack: Stack, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    environ = {**os.environ, "TERNMQ_ENDPOINT": stack.grpc}
    with subprocess.Popen(
        [*COMMAND, *arguments, "--json"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def send(stack: Stack, *bodies: str) -> None:
    with Producer(stack.grpc, topics=["orders"]) as producer:
        for body in bodies:
            producer.send(Message("orders", body.encode()))


def bodies(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return sorted(json.loads(process.stdout.readline())["body"] for _ in range(count))


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    process.send_signal(signal.SIGINT)
    written, told = process.communicate(timeout=30)
    return process.returncode, written, told.strip()


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("tail", Stack.terminate),
        ("tail", Stack.kill9),
        ("receive", Stack.terminate),  # one that is killed forgets the last second of acknowledgements
    ],
    ids=["tail, ended", "tail, killed", "receive, ended"],
)
def test_a_restart_is_told_once_each_way_and_nothing_is_missed_or_repeated(
    stack: Stack, name: str, end: Callable[[Stack], object]
) -> None:
    send(stack, "1", "2", "3")
    with following(stack, *FOLLOWERS[name]) as process:
        assert bodies(process, 3) == ["1", "2", "3"]
        for round_ in ("a", "b", "c"):
            end(stack)
            assert said(process).startswith(f"ternmq: lost the connection to {stack.grpc} (")
            stack.start()
            assert said(process) == f"ternmq: connected to {stack.grpc} again\n"
            send(stack, f"{round_}1", f"{round_}2")
            assert bodies(process, 2) == [f"{round_}1", f"{round_}2"]
        assert ended(process) == (130, "", "")


def test_what_was_printed_and_could_not_be_acknowledged_is_so_later(stack: Stack) -> None:
    filler = "x" * 40_000  # more than a pipe holds, so that the command has to wait for its reader
    send(stack, *(f"{number}{filler}" for number in range(8)))
    with following(stack, *FOLLOWERS["receive"]) as process:
        first = bodies(process, 1)
        stack.terminate()
        rest = bodies(process, 7)
        assert sorted(body[0] for body in first + rest) == list("01234567")
        assert "lost the connection" in said(process)
        stack.start()
        assert "again" in said(process)
        send(stack, "next")
        assert bodies(process, 1) == ["next"]
        assert ended(process) == (130, "", "")


@BOTH
def test_who_finds_nobody_at_first_does_not_wait(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    stack = Stack(tmp_path)
    stack.grpc = "127.0.0.1:1"
    with following(stack, *arguments) as process:
        _, told = process.communicate(timeout=30)
    assert process.returncode == 3
    assert len(told.splitlines()) == 1


@BOTH
def test_a_topic_that_is_gone_after_the_restart_is_a_failure(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Stack(tmp_path, "--no-auto-create") as stack:
        command = CommandLine(stack.grpc)
        for name in (("topic", "create", "orders"), ("group", "create", "g")):
            command(*name)
        send(stack, "1")
        with following(stack, *arguments) as process:
            assert bodies(process, 1) == ["1"]
            command("topic", "delete", "orders", "--yes")
            stack.restart()
            _, told = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "TOPIC_NOT_FOUND" in told.splitlines()[-1]
