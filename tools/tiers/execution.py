"""Runs one preparation or tier as a child process group, with its output in a file, and measures it.

The processor time is that of all processes of the tier that a parent waited for, without that of a container
engine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.tiers.tiers import COMPILED, PREPARATIONS, SEED, TIMINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.tiers.tiers import Tier

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "tiers"
# Images of containers set it. Each of the thousands of processes that tests start would compile all modules again.
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
COMPILED_PYTHON = ".venv-compiled/bin/python"


@dataclass(slots=True)
class Result:
    """The result of a tier. `reason` is empty if it passed."""

    tier: str
    reason: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    deselected: int = 0
    tests: dict[str, float] = field(default_factory=dict)
    """Seconds of each test's own call."""
    fixtures: dict[str, float] = field(default_factory=dict)
    """Seconds of each fixture, for all its setups together."""

    def add_measurements(self, measured: Mapping[str, object]) -> None:
        """Add the measurements that one pytest run of the tier wrote by the plugin `timings`."""
        for name in ("outcomes", "skipped", "tests", "fixtures"):
            counts = measured[name]
            assert isinstance(counts, dict)
            getattr(self, name).update(counts)
        self.deselected += int(str(measured["deselected"]))


class Children:
    """The running process groups, so that an interrupted run leaves none behind."""

    def __init__(self) -> None:
        self._pids = set[int]()

    def run(self, command: Sequence[str], output: Path | None) -> tuple[int, float]:
        """Run a command to its end: exit code and seconds of processor time. Without `output` it writes to ours."""
        with contextlib.ExitStack() as stack:
            stdout = stack.enter_context(output.open("ab")) if output else None
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if name != _NO_BYTECODE},
                stdout=stdout,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._pids.add(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        self._pids.discard(child.pid)
        child.returncode = os.waitstatus_to_exitcode(status)
        return child.returncode, usage.ru_utime + usage.ru_stime

    def interrupt(self) -> None:
        for pid in tuple(self._pids):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGINT)


def prepare(name: str, children: Children) -> tuple[bool, Path]:
    """Install or build what tiers need; return whether that succeeded, and the file with the output."""
    log = FOLDER / f"prepare-{name}.log"
    log.unlink(missing_ok=True)
    code, _ = children.run(PREPARATIONS[name], log)
    return code == 0, log


def run_tier(tier: Tier, children: Children, *, seed: int, is_shown: bool) -> Result:
    """Run a tier's commands until one fails, its tests in the random order of `seed`.

    The output goes to a file, or to ours if `is_shown`.
    """
    result, began = Result(tier.name), time.monotonic()
    output = None if is_shown else log_of(tier.name)
    log_of(tier.name).unlink(missing_ok=True)
    for number, command in enumerate(tier.commands):
        timings = FOLDER / f"{tier.name}.{number}.json"
        timings.unlink(missing_ok=True)
        filled = _fill_in(command, timings, seed)
        code, cpu_seconds = children.run(filled, output)
        result.cpu_seconds += cpu_seconds
        if timings.exists():
            result.add_measurements(json.loads(timings.read_text()))
            timings.unlink()
        if code != 0:
            result.reason = f"exit code {code}: {' '.join(filled[:4])} ..."
            break
    result.seconds = time.monotonic() - began
    return result


def log_of(tier: str) -> Path:
    return FOLDER / f"{tier}.log"


def _fill_in(command: Sequence[str], timings: Path, seed: int) -> list[str]:
    values = {COMPILED: COMPILED_PYTHON, "python": sys.executable}
    return [values.get(each, each).replace(TIMINGS, str(timings)).replace(SEED, str(seed)) for each in command]
