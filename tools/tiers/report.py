"""Prints the results of a run of tiers, and keeps them in build/tiers.json for `--slowest` and for comparisons."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tools.tiers.execution import ROOT, Result
from tools.tiers.tiers import BY_NAME, LANDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FILE = ROOT / "build" / "tiers.json"
SLOWEST = 30
FAILURE_LINES = 150
# Where pytest begins to show failures, and errors of fixtures.
_FAILURES = re.compile(r"^=+ (FAILURES|ERRORS) =+$")


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The resources of a run: seconds, memory beside what was in use, and processor time of all that ran on the
    machine."""

    seconds: float
    memory_mib: int
    busy_s: float


def table(results: Sequence[Result], machine: MachineUse) -> str:
    """Return one line for each tier: outcome, seconds of wall and processor time, tests, and the skipped ones with
    reasons."""
    lines = [
        f"{'tier':<12} {'outcome':<8} {'seconds':>8} {'CPU s':>8} {'cores':>6} {'passed':>7} {'failed':>7}  not run"
    ]
    for each in results:
        cores = each.cpu_seconds / each.seconds if each.seconds else 0.0
        failed = each.outcomes["failed"] + each.outcomes["error"]
        times = f"{each.seconds:>8.0f} {each.cpu_seconds:>8.0f} {cores:>6.1f}"
        tests = f"{each.outcomes['passed']:>7,} {failed:>7,}"
        lines.append(
            f"{each.tier:<12} {'FAILED' if each.reason else 'passed':<8} {times} {tests}  {_not_run(each)}".rstrip()
        )
    cpu_seconds = sum(each.cpu_seconds for each in results)
    passed = sum(each.outcomes["passed"] for each in results)
    lines.append(
        f"{'all':<12} {'':<8} {machine.seconds:>8.0f} {cpu_seconds:>8.0f} "
        f"{cpu_seconds / max(machine.seconds, 1e-9):>6.1f} {passed:>7,}"
        f"{'':>9} memory used beside what was in use: {machine.memory_mib / 1024:.1f} GiB; "
        f"cores busy, containers included: {machine.busy_s / max(machine.seconds, 1e-9):.1f}"
    )
    return "\n".join(lines)


def _not_run(result: Result) -> str:
    reasons = [f"skipped {count}: {reason}" for reason, count in result.skipped.most_common()]
    if result.deselected:
        reasons.append(f"{result.deselected} deselected by markers")
    if result.reason:
        reasons.append(result.reason)
    return "; ".join(reasons)


def left_out(tiers: Iterable[str]) -> str:
    """Return what a run of these tiers did not prove, and the command that proves it."""
    ran = set(tiers)
    # Other tiers run the tests of these two, too, and then count for them.
    if {"compiled", "apart"} <= ran:
        ran |= {"unit", "system"}
    missing = [
        name
        for name in LANDING
        if name not in ran and not ({"unit", "system"} <= ran and name in ("compiled", "apart"))
    ]
    lines = []
    if missing:
        lines.append(
            f"not run: {' '.join(missing)}; by name: ./run test NAME; all that must pass to land: ./run test --all"
        )
    lines += [f"not run: {name} ({what}): ./run test {name}" for name, what in BY_NAME.items() if name not in ran]
    lines.append("not run: what takes hours (kills, flipped bytes, attacks, random input): ./run soak")
    return "\n".join(lines)


def failures(log: Path, *, lines: int = FAILURE_LINES) -> str:
    """Return what a tier's output says of its failures: from where pytest shows them, else the end, at most so many
    lines, the last ones."""
    shown = log.read_text(errors="replace").rstrip().splitlines() if log.exists() else []
    begin = next((number for number, line in enumerate(shown) if _FAILURES.match(line)), 0)
    return "\n".join(shown[begin:][-lines:])


def write(results: Sequence[Result], machine: MachineUse, file: Path = FILE) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    run = {
        "seconds": round(machine.seconds, 1),
        "memory_mib": machine.memory_mib,
        "busy_seconds": round(machine.busy_s, 1),
        "tiers": [_plain(each) for each in results],
    }
    file.write_text(json.dumps(run, indent=1) + "\n")


def slowest(file: Path = FILE, count: int = SLOWEST) -> str:
    """Return the slowest tests and fixtures of the last run that wrote `file`."""
    if not file.exists():
        return "there is no run to look at; ./run test makes one"
    tests, fixtures = dict[str, float](), dict[str, float]()
    for tier in json.loads(file.read_text())["tiers"]:
        tests.update({f"{tier['tier']:<10} {name}": seconds for name, seconds in tier["tests"].items()})
        fixtures.update({f"{tier['tier']:<10} {name}": seconds for name, seconds in tier["fixtures"].items()})
    return "\n".join(
        [
            f"the {count} slowest tests: seconds, tier, test",
            *_largest(tests, count),
            f"the {count} slowest fixtures: seconds of all times it was set up in that place, tier, fixture",
            *_largest(fixtures, count),
        ]
    )


def _largest(seconds: Mapping[str, float], count: int) -> list[str]:
    return [f"{of:>8.2f}  {name}" for name, of in sorted(seconds.items(), key=lambda each: -each[1])[:count]]


def _plain(result: Result) -> dict[str, object]:
    return {field.name: getattr(result, field.name) for field in fields(result)}
