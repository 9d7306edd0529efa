"""What the README and the pages under docs/ tell people to type works as it stands there, in that order, on an empty
broker."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from ternmq.testing import Stack
from tests.support.command_line import CommandLine
from tests.support.stack import Stack as ServerStack

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
README = "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str, language: str, containing: str) -> list[str]:
    text = (ROOT / page).read_text()
    return [block for kind, block in BLOCK.findall(text) if kind == language and containing in block]


@pytest.fixture
def stack() -> Iterator[Stack]:
    with Stack() as stack:
        yield stack


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerStack]:
    """A process, whose files others may look into."""
    with ServerStack(tmp_path) as server:
        yield server


def run(command: list[str], stack: Stack, folder: Path) -> str:
    environ = {**os.environ, "TERNMQ_ENDPOINT": stack.endpoint}
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=110, check=False)
    assert ended.returncode == 0, f"{shlex.join(command)}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def type_in(stack: Stack | ServerStack, folder: Path, *words: str) -> str:
    """What a command prints that was called in that folder, and must succeed."""
    with chdir(folder):
        return CommandLine(stack.endpoint if isinstance(stack, Stack) else stack.grpc)(*words).stdout


def test_the_first_commands_work(stack: Stack, tmp_path: Path) -> None:
    (commands,) = blocks(README, "", "./run ternmq send")
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        assert words[:2] == ["./run", "ternmq"]
        printed = type_in(stack, tmp_path, *words[2:])
    assert "orders" in printed


def test_the_commands_work_in_their_order(stack: Stack, tmp_path: Path) -> None:
    (declared,) = blocks("docs/command.md", "yaml", "topics:")
    (tmp_path / "topics.yaml").write_text(declared)
    (commands,) = blocks("docs/command.md", "", "ternmq topic describe")
    lines = [line.removeprefix("./run ") for line in commands.splitlines()]
    typed = [shlex.split(line, comments=True) for line in lines if line.startswith("ternmq ")]
    assert len(typed) == len(lines) > 5
    for words in typed:
        endless = ["--max", "1"] if words[1] == "tail" else []
        type_in(stack, tmp_path, *words[1:], *endless)


@pytest.mark.parametrize("page", [README, "docs/clients.md"])
def test_the_python_example_works(stack: Stack, tmp_path: Path, page: str) -> None:
    example, *_ = blocks(page, "python", "SimpleConsumer(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.endpoint)], stack, tmp_path)
    assert "b'hello' ('order-7',)" in printed


def test_the_example_of_administration_works(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/clients.md", "python", "Admin(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.endpoint)], stack, tmp_path)
    assert "TOPIC_NOT_FOUND" in printed
    topics = type_in(stack, tmp_path, "topic", "list")
    assert re.search(r"invoices +fifo +4", topics)


def test_the_example_of_lite_topics_works(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/clients.md", "python", "LitePushConsumer(")
    for words in ("topic create chats --type lite", "group create agents --lite-bind chats"):
        type_in(stack, tmp_path, *words.split())
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.endpoint)], stack, tmp_path)
    assert printed == "chat-17 b'hello'\n"


def test_the_example_of_json_and_connections_works(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/clients.md", "python", "Message.json(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.endpoint)], stack, tmp_path)
    assert printed.splitlines() == [f"{stack.endpoint} connected ", "Invoice(number=17, lines=['tea'])"]


def test_the_outbox_example_bills_an_order(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/integrations.md", "python", "OutboxRelay(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.endpoint)], stack, tmp_path)
    assert printed == "billed order-7\n"


def test_the_taskiq_example_is_run_by_a_worker(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/integrations.md", "python", "integrations.taskiq")
    (tmp_path / "app.py").write_text(example.replace("127.0.0.1:8081", stack.endpoint))
    run([sys.executable, "app.py"], stack, tmp_path)
    command = [sys.executable, "-m", "taskiq", "worker", "app:broker", "--workers", "1"]
    assert sorted(lines_of(command, tmp_path, "reminded", count=2)) == ["reminded alice", "reminded bob"]


def test_the_faststream_example_prints_a_bill(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/integrations.md", "python", "integrations.faststream")
    (tmp_path / "app.py").write_text(example.replace("127.0.0.1:8081", stack.endpoint))
    type_in(stack, tmp_path, "topic", "create", "stream-orders")
    type_in(stack, tmp_path, "group", "create", "billing")
    type_in(stack, tmp_path, "send", "stream-orders", '{"number": 7}')
    assert lines_of([sys.executable, "app.py"], tmp_path, "bill", count=1) == ["bill for 7"]


def lines_of(command: list[str], folder: Path, start: str, *, count: int) -> list[str]:
    """The first lines of a program that begin so; it is ended then, and pytest's timeout is how long that may take."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout is not None
        found = (line.rstrip() for line in program.stdout if line.startswith(start))
        lines = list(itertools.islice(found, count))
        program.terminate()
    return lines


def test_timed_messages_and_transactions_work(stack: Stack, tmp_path: Path) -> None:
    (commands,) = blocks("docs/messages.md", "", "ternmq recall")
    handle = ""
    for line in filter(None, commands.splitlines()):
        words = shlex.split(line.replace("HANDLE", handle or "HANDLE"), comments=True)
        printed = type_in(stack, tmp_path, *words[1:])
        if found := re.search(r"ternmq recall reminders (\S+)", printed):
            handle = found[1]
    assert handle
    (example,) = blocks("docs/messages.md", "python", "begin_transaction")
    run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.endpoint)], stack, tmp_path)
    tail = ["tail", "payments-made", "--from-beginning", "--max", "1"]
    assert "..." in type_in(stack, tmp_path, *tail)


def test_the_times_that_are_shown_can_be_sent_for_on_any_day(stack: Stack, tmp_path: Path) -> None:
    stack.create_topic("reminders", "delay")
    for text in ((ROOT / "docs/messages.md").read_text(), type_in(stack, tmp_path, "send", "--help")):
        times = re.findall(r"--at (\S*\d\S*|\"\$\(.*?\)\")", text)
        assert times
        for time in times:
            typed = run(["bash", "-c", f"echo {time}"], stack, tmp_path).strip()
            assert "to be delivered at" in type_in(stack, tmp_path, "send", "reminders", "x", "--at", typed)


def test_the_examples_of_the_command_itself_work(server: ServerStack, tmp_path: Path) -> None:
    overview = type_in(server, tmp_path, "--help")
    typed = [re.split(r"\s{3,}", line.strip())[0] for line in overview.splitlines() if line.startswith("    ternmq ")]
    assert len(typed) > 3
    (tmp_path / "ternmq-data").symlink_to(server.data_dir)
    for line in typed:
        words = shlex.split(line)
        if words[1] in ("up", "broker", "proxy"):
            continue  # the one is running; the others need a registry, and are tried in tests/cluster
        endless = ["--from-beginning", "--max", "1"] if words[1] == "tail" else []
        type_in(server, tmp_path, *words[1:], *endless)


def test_the_commands_that_look_at_a_running_server_work(stack: Stack, tmp_path: Path) -> None:
    type_in(stack, tmp_path, "send", "orders", "hello")
    (commands,) = blocks("docs/operations.md", "", "ternmq status")
    printed = {}
    for line in commands.splitlines():
        words = shlex.split(re.split(r"\s{3,}", line)[0])
        printed[words[1]] = type_in(stack, tmp_path, *words[1:])
    assert printed.keys() == {"status", "top", "history", "client", "proxy", "log-level", "diag"}
    assert "orders" in printed["top"]
    assert (tmp_path / "ternmq-diag.tar.gz").exists()


def test_the_commands_that_look_into_a_store_work_beside_its_broker(server: ServerStack, tmp_path: Path) -> None:
    type_in(server, tmp_path, "send", "orders", "hello")
    (tmp_path / "ternmq-data").symlink_to(server.data_dir)
    (commands,) = blocks("docs/operations.md", "", "ternmq store inspect")
    typed = [re.split(r"\s{3,}", line)[0] for line in commands.splitlines()]
    assert len(typed) == 5
    for line in typed:
        words = shlex.split(line.replace("/backups/", "backup-of-"))
        type_in(server, tmp_path, *words[1:])
    assert '"body": "hello"' in (tmp_path / "orders.jsonl").read_text()
    assert (tmp_path / "ternmq-data-2" / "registry.db").exists()
