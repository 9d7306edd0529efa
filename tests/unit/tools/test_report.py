"""What a run of tiers prints and keeps: outcomes, times, what was not run and why."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools.tiers import report
from tools.tiers.execution import Result
from tools.tiers.tiers import LANDING, QUICK

TESTS = """
import pytest

@pytest.fixture(scope="module")
def slow_fixture():
    return 1

@pytest.mark.parametrize("number", range(5))
def test_that_passes(slow_fixture, number): pass

def test_that_fails(): assert False

@pytest.fixture
def broken(): raise ValueError

def test_with_an_error(broken): pass

@pytest.mark.skip(reason="no such machine")
def test_that_is_skipped(): pass

def test_of_another_tier(): pass
"""


def measure(folder: Path, *options: str) -> Result:
    (folder / "test_it.py").write_text(TESTS)
    file = folder / "timings.json"
    plugin = ("-p", "tools.tiers.timings", f"--timings={file}", "-p", "xdist", "-k", "not another_tier")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        f"--rootdir={folder}",
        *plugin,
        *options,
        str(folder),
    ]
    # Without the dozen plugins that are installed, it starts in a tenth of the time.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    root = Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    result = Result("unit", reason="exit code 1", seconds=10.0, cpu_seconds=15.0)
    result.add_measurements(json.loads(file.read_text()))
    return result


@pytest.mark.slow
def test_measurements_are_the_same_with_and_without_workers(tmp_path: Path) -> None:
    for options in ((), ("-n", "2")):
        result = measure(tmp_path, *options)
        assert result.outcomes == {"passed": 5, "failed": 1, "error": 1, "skipped": 1}
        assert result.skipped == {"no such machine": 1}
        assert result.deselected == 1
        assert len([name for name in result.tests if "that_passes" in name]) == 5
        assert any(name.startswith("slow_fixture (module, ") for name in result.fixtures)


def test_the_table_says_what_failed_and_what_was_not_run() -> None:
    results = [
        Result("lint", seconds=1.0, cpu_seconds=2.0),
        Result(
            "unit",
            reason="exit code 1: pytest",
            seconds=10.0,
            cpu_seconds=15.0,
            outcomes=Counter(passed=1234, failed=2, error=1),
            skipped=Counter({"no IPv6": 2}),
            deselected=7,
        ),
    ]
    lines = report.table(results, report.MachineUse(11.0, 2048, 19.8)).splitlines()
    assert lines[1].split() == ["lint", "passed", "1", "2", "2.0", "0", "0"]
    assert lines[2].split()[:7] == ["unit", "FAILED", "10", "15", "1.5", "1,234", "3"]
    assert lines[2].endswith("skipped 2: no IPv6; 7 deselected by markers; exit code 1: pytest")
    assert lines[3].split()[:5] == ["all", "11", "17", "1.5", "1,234"]
    assert lines[3].endswith("2.0 GiB; cores busy, containers included: 1.8")


def test_failures_are_shown_from_where_they_begin_and_their_end_only(tmp_path: Path) -> None:
    log = tmp_path / "unit.log"
    assert report.failures(log) == ""
    log.write_text("...F. [ 50%]\n===== FAILURES =====\n__ test_it __\nE assert 1 == 2\nFAILED test_it\n")
    assert report.failures(log).splitlines() == [
        "===== FAILURES =====",
        "__ test_it __",
        "E assert 1 == 2",
        "FAILED test_it",
    ]
    assert report.failures(log, lines=1) == "FAILED test_it"
    log.write_text("it does not compile\n")
    assert report.failures(log) == "it does not compile"


def test_a_run_says_which_command_runs_the_rest() -> None:
    quick, landing = report.left_out(QUICK), report.left_out(LANDING)
    assert "not run: containers cluster interop spark e2e attacks slow console faults k8s; by name" in quick
    assert "./run test --all" in quick
    for text in (quick, landing):
        assert "./run test long" in text
        assert "./run soak" in text
    assert "--all" not in landing


def test_the_slowest_tests_and_fixtures_of_the_last_run_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "tiers.json"
    assert "no run" in report.slowest(file)
    results = [
        Result("unit", outcomes=Counter(passed=3), tests={"a": 1.0, "b": 3.0, "c": 2.0}, fixtures={"server": 9.0})
    ]
    report.write(results, report.MachineUse(15.0, 1, 20.0), file)
    lines = report.slowest(file, count=2).splitlines()
    assert [line.split() for line in lines[1:3]] == [["3.00", "unit", "b"], ["2.00", "unit", "c"]]
    assert lines[4].split() == ["9.00", "unit", "server"]
