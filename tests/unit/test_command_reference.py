"""The generated reference of the command: nobody keeps a list for it, and one that is behind is noticed."""

import re
import subprocess
import sys
from pathlib import Path

import click

from ternmq_command.server.server_options import PROCESSES
from ternmq_common.resources.setting import settings_of
from tools.generate_reference import reference, settings_reference

ROOT = Path(__file__).parents[2]


@click.group(epilog="One epilogue.")
def tool() -> None:
    """Does things."""


@tool.group(name="topic")
def group_below() -> None:
    """Things of topics."""


@group_below.command()
@click.option("--queues", type=int, help="How many.")
def create(queues: int | None) -> None:
    """Make one."""
    del queues


@tool.command(hidden=True)
def old_spelling() -> None:
    """What it was called."""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "tools/generate_reference.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def test_every_command_has_a_section_after_its_groups_but_not_what_help_hides() -> None:
    page = reference(tool, "tool")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## tool", "## tool topic", "## tool topic create"]
    assert "--queues INTEGER  How many." in page
    assert "old" not in page


def test_a_page_that_is_behind_is_noticed_until_it_is_made_again(tmp_path: Path) -> None:
    behind = run("--check", "--folder", str(tmp_path))
    assert behind.returncode == 1
    assert "run python tools/generate_reference.py" in behind.stderr
    assert run("--folder", str(tmp_path)).returncode == 0
    current = run("--check", "--folder", str(tmp_path))
    assert (current.returncode, current.stderr) == (0, "")
    assert "## ternmq topic create\n" in (tmp_path / "command.md").read_text()


def test_every_setting_has_one_row_and_experts_have_theirs_in_one_place() -> None:
    page = settings_reference()
    for each in {each.key: each for cls in PROCESSES.values() for each in settings_of(cls).values()}.values():
        (begin,) = (found.start() for found in re.finditer(rf"^\| `{re.escape(each.key)}`", page, re.MULTILINE))
        assert (begin > page.index("## Expert settings")) is each.expert, each.key
    assert "| `retention_ms`, `--retention` | `3d` | How long a message is kept" in page
