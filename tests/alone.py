"""Runs every test file in a process of its own, then every test: `python -m tests.alone [PATHS ...] [--jobs 2]`.

A test that passes only after another, or after an import of another file, fails here. A process costs little: it is a
fork of this one, which has imported pytest and other third-party libraries, but no module of TernMQ. A test's process
is a fork of one that has collected the test's file. It prints each failure when it is known; the exit code is 1 then.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import pytest

PATHS = ("tests/unit", "tests/system")
KINDS = ("files", "tests")
# What most tests import and what is slow to import; none of it has threads before it is used.
THIRD_PARTY = (
    *("alembic.command", "click", "cryptography.hazmat.primitives.ciphers.aead", "google.protobuf.message", "grpc.aio"),
    *("h11", "hypothesis", "jinja2", "lark", "msgspec", "opentelemetry.sdk.metrics", "prometheus_client", "psycopg"),
    *("pytest_asyncio", "sqlalchemy.ext.asyncio", "starlette.applications", "tenacity", "trustme", "yaml"),
)
OUTPUT_BYTES_MAX = 16_000


@dataclass(frozen=True)
class Run:
    """One pytest session: of a file, or of one test; `seconds` of its process."""

    name: str
    code: int
    seconds: float
    output: str

    @property
    def passed(self) -> bool:
        return self.code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


class ForkedTests:
    """A pytest plugin that runs each collected test in a fork, where the session goes on with that test only."""

    def __init__(self, output: int) -> None:
        self.runs: list[Run] = []
        self._output = output

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None  # a file that can't be collected
        for item in list(session.items):
            start, start_s = os.lseek(self._output, 0, os.SEEK_END), time.monotonic()
            sys.stdout.flush()
            if (child := os.fork()) == 0:
                session.items[:] = [item]
                return None
            code = exit_code(os.waitpid(child, 0)[1])
            self.runs.append(Run(item.nodeid, code, time.monotonic() - start_s, output_since(self._output, start)))
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "paths", nargs="*", default=PATHS, help="files and folders of tests; tests/unit and tests/system"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", choices=KINDS, help="only files, or only single tests")
    parser.add_argument("-m", dest="marks", default="not slow and not postgres", help="which tests, as pytest has it")
    asked = parser.parse_args()
    for module in THIRD_PARTY:
        import_module(module)
    assert not any(module.startswith(("ternmq", "pyspark_ternmq")) for module in sys.modules)
    failed, count, start_s = [], 0, time.monotonic()
    for kind in [asked.only] if asked.only else KINDS:
        for run in run_all(kind, list(test_files(asked.paths)), asked.marks, asked.jobs):
            count += 1
            if count % 100 == 0:
                print(f"{count} processes with tests so far, the last for {run.name}", file=sys.stderr)
            if not run.passed:
                failed.append(run)
                print(f"== {run.name} failed ({run.code}) after {run.seconds:.1f} s\n{run.output}", flush=True)
    for run in failed:
        print(f"failed alone: {run.name}")
    print(f"{count} processes with tests, {len(failed)} failed, in {time.monotonic() - start_s:.0f} s")
    return 1 if failed else 0


def test_files(paths: Sequence[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("test_*.py")) if path.is_dir() else [path]


def run_all(kind: str, files: list[Path], marks: str, jobs: int) -> Iterator[Run]:
    """Run the files' tests, `jobs` processes at a time, and yield what became of them."""
    waiting, running = files[::-1], dict[int, tuple[Path, Path]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            file, folder = waiting.pop(), Path(tempfile.mkdtemp(prefix="ternmq-alone-"))
            if (child := os.fork()) == 0:
                run_in_fork(kind, file, folder, marks)
            running[child] = file, folder
        child, status = os.wait()
        file, folder = running.pop(child)
        yield from runs_of(file, folder, exit_code(status))
        shutil.rmtree(folder, ignore_errors=True)


def run_in_fork(kind: str, file: Path, folder: Path, marks: str) -> None:
    """Run one file's tests in this process, or in forks of it, write what became of them, and exit."""
    output = os.open(folder / "output", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    start_s, parent = time.monotonic(), os.getpid()
    plugin = ForkedTests(output)
    options = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-m", marks, f"--basetemp={folder / 'tests'}"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # pytest_asyncio and hypothesis are imported already
    code = 1
    try:
        code = int(pytest.main([str(file), *options], [plugin] if kind == "tests" else []))
    except BaseException:  # noqa: BLE001 - the process ends whatever happens
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.getpid() == parent:
        whole = Run(str(file), code, time.monotonic() - start_s, output_since(output, 0))
        runs = plugin.runs if kind == "tests" and whole.passed else [whole]
        (folder / "runs").write_text(json.dumps([asdict(run) for run in runs]))
    os._exit(code)


def runs_of(file: Path, folder: Path, code: int) -> list[Run]:
    try:
        return [Run(**run) for run in json.loads((folder / "runs").read_bytes())]
    except FileNotFoundError:  # the process died
        return [Run(str(file), code or 1, 0.0, (folder / "output").read_text(errors="replace")[-OUTPUT_BYTES_MAX:])]


def exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


def output_since(output: int, start: int) -> str:
    end = os.lseek(output, 0, os.SEEK_END)
    first = max(start, end - OUTPUT_BYTES_MAX)
    return os.pread(output, end - first, first).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
