"""A registry that is gone or damaged: the start says what there is to do, and what it says works."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_command import COMMAND, environment
from tests.support.command_line import CommandLine
from tests.support.stack import Stack

pytestmark = pytest.mark.slow


def received(stack: Stack, topic: str) -> list[str]:
    receive = ("receive", topic, "--group", "billing", "--max", "20", "--wait", "2s")
    return sorted(each["body"] for each in CommandLine(stack.grpc).records(*receive))


def topics(stack: Stack) -> dict[str, tuple[str, int]]:
    listed = CommandLine(stack.grpc).records("topic", "list")
    return {topic["name"]: (topic["type"], topic["queues"]) for topic in listed}


def warnings(stack: Stack) -> list[str]:
    return [line for line in stack.log.read_text().splitlines() if "WARNING" in line]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A data directory with messages in two topics, of which a group has had three."""
    with Stack(tmp_path) as stack:
        command = CommandLine(stack.grpc)
        command("topic", "create", "orders", "--queues", "3")
        command("topic", "create", "reminders", "--type", "delay", "--queues", "2")
        for number in range(10):
            command("send", "orders", f"order {number}")
        command("send", "reminders", "call back", "--delay", "1s")
        assert len(command("receive", "orders", "--group", "billing", "--max", "3").stdout.splitlines()) >= 3
        stack.terminate()
    return stack.data_dir


def test_a_registry_that_is_gone_is_told_and_made_again(stopped: Path, tmp_path: Path) -> None:
    (stopped / "registry.db").unlink()
    with Stack(tmp_path) as stack:
        (warning,) = warnings(stack)
        assert "the registry does not know" in warning
        assert "orders: 3 queues, 10 messages" in warning
        command = f"ternmq registry rebuild --data-dir {stopped}"
        assert f"`{command}`" in warning
        assert topics(stack) == {}
        stack.terminate()
    CommandLine()(*command.split()[1:], "--yes")
    with Stack(tmp_path) as stack:
        assert warnings(stack) == [warning]  # that of the start before, in the same file
        assert topics(stack).keys() == {"orders", "reminders"}
        assert (topics(stack)["orders"], topics(stack)["reminders"][0]) == (("normal", 3), "delay")
        assert len(received(stack, "orders")) == 7
        assert received(stack, "reminders") == ["call back"]
        stack.terminate()


def test_a_damaged_registry_refuses_the_start_and_is_made_anew(stopped: Path, tmp_path: Path) -> None:
    file = stopped / "registry.db"
    content = bytearray(file.read_bytes())
    content[content.index(b"ordersNORMAL") + 8] ^= 1
    file.write_bytes(content)
    refused = subprocess.run(
        [
            *COMMAND,
            "up",
            "--data-dir",
            str(stopped),
            "--grpc",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--remoting",
            "off",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    lines = refused.stderr.splitlines()
    assert len(lines) == 1, lines
    assert f"the registry {file} is damaged (row 'orders' of table topics" in lines[0]
    assert f"`ternmq registry rebuild --data-dir {stopped}`" in lines[0]
    made = CommandLine().record("registry", "rebuild", "--data-dir", str(stopped), "--yes")
    assert Path(made["set_aside"]).read_bytes() == content
    with Stack(tmp_path) as stack:
        assert topics(stack) == {"orders": ("normal", 3), "reminders": ("delay", 2)}
        assert len(received(stack, "orders")) == 7
        stack.terminate()
