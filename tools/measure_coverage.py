"""Runs tests and prints how much of each package they execute: `python tools/measure_coverage.py PYTEST_ARGUMENTS...`.

Only for plain Python: compiled code can't be measured. Processes that tests start are measured, unless they are killed.
The data and a page for each file are left in build/coverage. The exit code is that of the tests.
"""

import json
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "coverage"
DATA = FOLDER / "data"


class Counts(NamedTuple):
    """Statements and branches of some files, and how many of them were executed."""

    statements: int = 0
    executed: int = 0
    branches: int = 0
    taken: int = 0

    def __str__(self) -> str:
        return f"{percent(self.executed, self.statements)} {percent(self.taken, self.branches)} {self.statements:>12,}"


def percent(part: int, whole: int) -> str:
    """Format in a column of eleven; without any statements it is 100 %."""
    return f"{100 * part / whole if whole else 100:>9.1f} %"


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("data*"):
        old.unlink()
    source = ",".join(str(ROOT / package) for package in packages())
    tests = _coverage("run", f"--data-file={DATA}", f"--source={source}", "-m", "pytest", "-q", *sys.argv[1:])
    report = FOLDER / "report.json"
    data = f"--data-file={DATA}"
    steps = (("combine", "-q", data), ("json", "-q", data, "-o", str(report)), ("html", "-q", data, "-d", str(FOLDER)))
    for step in steps:
        if code := _coverage(*step):
            return tests or code
    print(table(json.loads(report.read_text())))
    print(f"line by line: {FOLDER / 'index.html'}")
    return tests


def packages() -> list[str]:
    """Return the folders of a wheel, without generated code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return [folder for folder in folders if not folder.startswith("protos/")]


def _coverage(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, check=False).returncode


def table(report: Mapping[str, Any]) -> str:
    """Return a line for each package, from coverage's JSON report, and one for all."""
    found: dict[str, Counts] = defaultdict(Counts)
    for name, file in report["files"].items():
        before, summary = found[package_of(name)], file["summary"]
        found[package_of(name)] = Counts(
            before.statements + summary["num_statements"],
            before.executed + summary["covered_lines"],
            before.branches + summary["num_branches"],
            before.taken + summary["covered_branches"],
        )
    width = max(map(len, [*found, "package"]))
    lines = [f"{'package':<{width}} {'statements':>11} {'branches':>11} {'of statements':>12}"]
    lines += [f"{name:<{width}} {counts}" for name, counts in sorted(found.items())]
    every = Counts(*map(sum, zip(*found.values(), strict=True)))
    return "\n".join([*lines, f"{'all':<{width}} {every}"])


def package_of(name: str) -> str:
    """Return its package and the level below: for `broker/ternmq_broker/store/log/x.py` it is `ternmq_broker.store`."""
    parts = Path(name).parent.parts
    top = next(index for index, part in enumerate(parts) if part.startswith(("ternmq", "pyspark_ternmq")))
    return ".".join(parts[top : top + 2])


if __name__ == "__main__":
    sys.exit(main())
