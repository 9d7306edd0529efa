"""`./run` as a newcomer calls it, in a checkout that is installed already."""

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """`run` with a `.venv` that has what this Python has, as after the first call."""
    folder = tmp_path / "checkout"
    bin_folder = folder / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    for name in ("run", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder / ".venv")
    (folder / ".venv" / "lib").symlink_to(Path(sys.prefix) / "lib")
    (bin_folder / "python").symlink_to(Path(sys.executable).resolve())
    script = bin_folder / "ternmq"
    script.write_text(f'#!/bin/sh\nexec "{bin_folder}/python" -m ternmq_command.main "$@"\n')
    script.chmod(0o755)
    (folder / ".venv" / ".installed-dev").write_text(sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest() + "\n")
    return folder


def called(checkout: Path, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TERNMQ_")}
    command = [str(checkout / "run"), *arguments]
    return subprocess.run(
        command, cwd=folder or checkout, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command_is_a_task_and_finds_files_where_it_was_called(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('broker_name = "mine"\n')
    done = called(checkout, "ternmq", "config", "--config", "mine.toml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^broker_name +mine +file mine.toml", done.stdout, re.MULTILINE)
    failed = called(checkout, "ternmq", "topic", "nonsense")
    assert (failed.returncode, failed.stderr) == (
        2, "ternmq topic: No such command 'nonsense'. (see `ternmq topic --help`)\n"
    )  # fmt: skip
    assert "ternmq" in called(checkout, "help").stdout


def test_what_up_says_to_type_can_be_typed(checkout: Path) -> None:
    started = called(checkout, "up", "--help")
    assert "give it to `./run ternmq` by --endpoint" in started.stderr, "the text has no hole"
    assert "Usage" not in started.stderr, "the text holds no output of a command"
    typed = re.findall(r"^  \./run (ternmq.*?)(?:  |$)", started.stderr, re.MULTILINE)
    assert len(typed) > 3
    for line in typed:
        words = [word for word in line.split() if not word.startswith("-")]
        CommandLine()(*words[1:2], "--help")
