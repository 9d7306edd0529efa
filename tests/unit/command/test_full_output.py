"""What is printed can't be written: one line on standard error, and an exit code that is not 0."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ternmq_command.main import cli
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import message
from tests.unit.command.test_usage import all_paths

FULL = Path("/dev/full")
COMPLAINT = "ternmq: can't write to standard output: No space left on device\n"

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full, as Linux has")


def ended(*arguments: str) -> object:
    """The exit code where standard output is a full device; closing that tries once more."""
    with (
        contextlib.suppress(OSError),
        FULL.open("w") as full,
        contextlib.redirect_stdout(full),
        pytest.raises(SystemExit) as end,
    ):
        cli.main(arguments)
    return end.value.code


@pytest.mark.parametrize("path", all_paths(), ids=" ".join)
def test_help_that_can_not_be_written_is_one_line(capsys: pytest.CaptureFixture[str], path: tuple[str, ...]) -> None:
    assert ended(*path, "--help") == 1
    assert capsys.readouterr().err == COMPLAINT


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "list"),
        ("topic", "list", "--json"),
        ("topic", "describe", "orders"),
        ("group", "list"),
        ("version",),
        ("config",),
        ("completion", "bash"),
        ("tail", "orders", "--from-beginning", "--max", "1"),
        ("dlq", "list", "billing"),
    ],
    ids=" ".join,
)
def test_a_result_that_can_not_be_written_is_one_line(
    call_server: Call,
    server: AdminServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    call_server("group", "create", "billing")
    for topic in ("orders", "%DLQ%billing"):
        call_server("topic", "create", topic, "--queues", "1")
        server.memory.put(topic, 0, message("one"))
    monkeypatch.setenv("TERNMQ_ENDPOINT", server.endpoint)
    assert ended(*arguments) == 1
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "can't write to standard output: No space left on device" in complaint
    assert ("--json" in arguments) is complaint.startswith('{"error": {"code": "OUTPUT", ')


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--help",), ("config",), ("up", "--data-dir", "data", "--grpc", "127.0.0.1:0",
                                       "--http", "127.0.0.1:0", "--log-level", "error")], ids=" ".join)  # fmt: skip
def test_a_process_ends_so_too(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Python itself has nothing to add when it ends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERNMQ_")}
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "ternmq_command.main", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=kept, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, COMPLAINT)


@pytest.mark.slow
def test_where_nothing_can_be_written_the_exit_code_tells(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "ternmq_command.main", "topic", "nonsense"]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=full, check=False)
    assert done.returncode == 2
