"""What the README and the pages under docs/ tell people to type works as it stands there, in that order, on an empty
broker."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stack import Stack

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
README = "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str, language: str, containing: str) -> list[str]:
    text = (ROOT / page).read_text()
    return [block for kind, block in BLOCK.findall(text) if kind == language and containing in block]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path) as stack:
        yield stack


def run(command: list[str], stack: Stack, folder: Path) -> str:
    environ = {**os.environ, "TERNMQ_ENDPOINT": stack.grpc}
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=110, check=False)
    assert ended.returncode == 0, f"{shlex.join(command)}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def test_the_first_commands_work(stack: Stack, tmp_path: Path) -> None:
    (commands,) = blocks(README, "", "./run ternmq send")
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        assert words[:2] == ["./run", "ternmq"]
        printed = run([sys.executable, "-m", "ternmq_command.main", *words[2:]], stack, tmp_path)
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
        run([sys.executable, "-m", "ternmq_command.main", *words[1:], *endless], stack, tmp_path)


@pytest.mark.parametrize("page", [README, "docs/clients.md"])
def test_the_python_example_works(stack: Stack, tmp_path: Path, page: str) -> None:
    example, *_ = blocks(page, "python", "SimpleConsumer(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.grpc)], stack, tmp_path)
    assert "b'hello' ('order-7',)" in printed


def test_the_example_of_administration_works(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/clients.md", "python", "Admin(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.grpc)], stack, tmp_path)
    assert "TOPIC_NOT_FOUND" in printed
    topics = run([sys.executable, "-m", "ternmq_command.main", "topic", "list"], stack, tmp_path)
    assert re.search(r"invoices +fifo +4", topics)


def test_the_example_of_lite_topics_works(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/clients.md", "python", "LitePushConsumer(")
    for words in ("topic create chats --type lite", "group create agents --lite-bind chats"):
        run([sys.executable, "-m", "ternmq_command.main", *words.split()], stack, tmp_path)
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.grpc)], stack, tmp_path)
    assert printed == "chat-17 b'hello'\n"


def test_the_example_of_json_and_connections_works(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/clients.md", "python", "Message.json(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.grpc)], stack, tmp_path)
    assert printed.splitlines() == [f"{stack.grpc} connected ", "Invoice(number=17, lines=['tea'])"]


def test_the_outbox_example_bills_an_order(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/integrations.md", "python", "OutboxRelay(")
    printed = run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.grpc)], stack, tmp_path)
    assert printed == "billed order-7\n"


def test_the_taskiq_example_is_run_by_a_worker(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/integrations.md", "python", "integrations.taskiq")
    (tmp_path / "app.py").write_text(example.replace("127.0.0.1:8081", stack.grpc))
    run([sys.executable, "app.py"], stack, tmp_path)
    command = [sys.executable, "-m", "taskiq", "worker", "app:broker", "--workers", "1"]
    assert sorted(lines_of(command, tmp_path, "reminded", count=2)) == ["reminded alice", "reminded bob"]


def test_the_faststream_example_prints_a_bill(stack: Stack, tmp_path: Path) -> None:
    (example,) = blocks("docs/integrations.md", "python", "integrations.faststream")
    (tmp_path / "app.py").write_text(example.replace("127.0.0.1:8081", stack.grpc))
    run([sys.executable, "-m", "ternmq_command.main", "topic", "create", "stream-orders"], stack, tmp_path)
    run([sys.executable, "-m", "ternmq_command.main", "group", "create", "billing"], stack, tmp_path)
    run([sys.executable, "-m", "ternmq_command.main", "send", "stream-orders", '{"number": 7}'], stack, tmp_path)
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
        printed = run([sys.executable, "-m", "ternmq_command.main", *words[1:]], stack, tmp_path)
        if found := re.search(r"ternmq recall reminders (\S+)", printed):
            handle = found[1]
    assert handle
    (example,) = blocks("docs/messages.md", "python", "begin_transaction")
    run([sys.executable, "-c", example.replace("127.0.0.1:8081", stack.grpc)], stack, tmp_path)
    tail = ["tail", "payments-made", "--from-beginning", "--max", "1"]
    assert "..." in run([sys.executable, "-m", "ternmq_command.main", *tail], stack, tmp_path)


def test_the_times_that_are_shown_can_be_sent_for_on_any_day(stack: Stack, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ternmq_command.main"]
    run([*command, "topic", "create", "reminders", "--type", "delay"], stack, tmp_path)
    for text in ((ROOT / "docs/messages.md").read_text(), run([*command, "send", "--help"], stack, tmp_path)):
        times = re.findall(r"--at (\S*\d\S*|\"\$\(.*?\)\")", text)
        assert times
        for time in times:
            line = f"{shlex.join(command)} send reminders x --at {time}"
            assert "to be delivered at" in run(["bash", "-c", line], stack, tmp_path)


@pytest.mark.timeout(300)  # one of them starts Spark, while other tests run
def test_the_examples_of_the_command_itself_work(stack: Stack, tmp_path: Path) -> None:
    overview = run([sys.executable, "-m", "ternmq_command.main", "--help"], stack, tmp_path)
    typed = [re.split(r"\s{3,}", line.strip())[0] for line in overview.splitlines() if line.startswith("    ternmq ")]
    assert len(typed) > 3
    (tmp_path / "ternmq-data").symlink_to(stack.data_dir)
    for line in typed:
        words = shlex.split(line)
        if words[1] in ("up", "broker", "proxy"):
            continue  # the one is running; the others need a registry, and are tried in tests/cluster
        endless = ["--from-beginning", "--max", "1"] if words[1] == "tail" else []
        run([sys.executable, "-m", "ternmq_command.main", *words[1:], *endless], stack, tmp_path)


def test_the_commands_that_look_at_a_running_server_work(stack: Stack, tmp_path: Path) -> None:
    run([sys.executable, "-m", "ternmq_command.main", "send", "orders", "hello"], stack, tmp_path)
    (commands,) = blocks("docs/operations.md", "", "ternmq status")
    printed = {}
    for line in commands.splitlines():
        words = shlex.split(re.split(r"\s{3,}", line)[0])
        printed[words[1]] = run([sys.executable, "-m", "ternmq_command.main", *words[1:]], stack, tmp_path)
    assert printed.keys() == {"status", "top", "history", "client", "proxy", "log-level", "diag"}
    assert "orders" in printed["top"]
    assert (tmp_path / "ternmq-diag.tar.gz").exists()


def test_the_commands_that_look_into_a_store_work_beside_its_broker(stack: Stack, tmp_path: Path) -> None:
    run([sys.executable, "-m", "ternmq_command.main", "send", "orders", "hello"], stack, tmp_path)
    (tmp_path / "ternmq-data").symlink_to(stack.data_dir)
    (commands,) = blocks("docs/operations.md", "", "ternmq store inspect")
    typed = [re.split(r"\s{3,}", line)[0] for line in commands.splitlines()]
    assert len(typed) == 5
    for line in typed:
        words = shlex.split(line.replace("/backups/", "backup-of-"))
        run([sys.executable, "-m", "ternmq_command.main", *words[1:]], stack, tmp_path)
    assert '"body": "hello"' in (tmp_path / "orders.jsonl").read_text()
    assert (tmp_path / "ternmq-data-2" / "registry.db").exists()
