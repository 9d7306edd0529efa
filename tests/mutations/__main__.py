"""Runs each mutation: `python -m tests.mutations [--jobs N] [NAME ...]` ends with 1 unless the tests find all of them.

A mutation is made in a copy of the packages that comes first on the path of imports; the checkout is not changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = (
    "protos",
    "common",
    "rpc",
    "runtime",
    "registry",
    "console",
    "broker",
    "proxy",
    "clients/python",
    "command",
    "spark",
)
FIND = ("-q", "-x", "-n", "0", "-m", "not postgres", "--no-header", "--tb=no")
NO_TESTS_FAILED, TESTS_FAILED = 0, 1


class Mutation(NamedTuple):
    """One mistake: in `file` the text `code` becomes `mutated`, and one of `tests` fails."""

    name: str
    file: str
    code: str
    mutated: str
    tests: list[str]


def read_mutations() -> list[Mutation]:
    """Return what stands in mutations.toml."""
    return [Mutation(**each) for each in tomllib.loads((HERE / "mutations.toml").read_text())["mutation"]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="words of the mutations to run (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    options = parser.parse_args()
    chosen = [
        each for each in read_mutations() if not options.names or any(word in each.name for word in options.names)
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(find, chosen))
    print(f"{sum(found)} of {len(chosen)} mutations were found by tests")
    return 0 if all(found) else 1


def find(mutation: Mutation) -> bool:
    """Whether a test fails on the code with this mistake. RuntimeError if the tests could not run."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ternmq-mutation-") as work:
        mutate(mutation, Path(work))
        path = os.pathsep.join(str(Path(work, folder)) for folder in FOLDERS)
        command = [sys.executable, "-m", "pytest", *FIND, *mutation.tests]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
    if done.returncode not in (NO_TESTS_FAILED, TESTS_FAILED):
        raise RuntimeError(f"{mutation.name}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
    by = next(
        (line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "NOT FOUND"
    )
    print(f"{mutation.name:<48} {time.monotonic() - began:>4.0f} s  {by}", flush=True)
    return done.returncode == TESTS_FAILED


def mutate(mutation: Mutation, work: Path) -> None:
    """Copy all packages below `work`, with the mistake in one of them."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, work / folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = work / mutation.file
    code = file.read_text()
    if code.count(mutation.code) != 1:
        raise RuntimeError(f"{mutation.name}: its code stands {code.count(mutation.code)} times in {mutation.file}")
    file.write_text(code.replace(mutation.code, mutation.mutated))


if __name__ == "__main__":
    sys.exit(main())
