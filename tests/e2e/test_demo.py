"""The demo, whole: broker, sender and consumers as processes, on the real flights."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
MESSAGES = 5000


def command(folder: Path, *options: str) -> list[str]:
    demo = [sys.executable, "-m", "ternmq_command.demo", "--messages", str(MESSAGES), "--data-dir", str(folder)]
    return [*demo, *options]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *options), capture_output=True, text=True, check=False, timeout=100)


def test_a_kill_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--kill-server")
    assert done.returncode == 0, done.stderr
    assert f"{MESSAGES:,} of {MESSAGES:,} flights were consumed, none lost" in done.stdout
    assert "kill -9 " in done.stdout


def test_a_demo_that_was_stopped_is_continued(tmp_path: Path) -> None:
    with subprocess.Popen(command(tmp_path), stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if re.search(r"sent [\d,]+ ", line):
                demo.send_signal(signal.SIGINT)
                break
        rest = demo.stderr.read()
    assert demo.returncode == 130
    assert "stopped; run it again to continue" in rest
    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    assert "continuing: " in again.stderr
    assert f"{MESSAGES:,} of {MESSAGES:,} flights were consumed, none lost" in again.stdout


def test_a_demo_tells_its_figures_once_more_when_it_is_finished_and_a_fresh_one_starts_over(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    consumed = f"{MESSAGES:,} of {MESSAGES:,} flights were consumed"
    assert f"{consumed}, none lost; none came twice" in done.stdout
    for word in ("sent ", "consumed ", "latency ", "p99", "memory ", "busiest carriers ", "EWR"):
        assert word in done.stdout
    again = run(tmp_path)
    assert again.returncode == 0
    assert "--fresh starts over" in again.stderr
    assert consumed in again.stdout
    fresh = run(tmp_path, "--fresh", "--messages", "100")
    assert "broker ready" in fresh.stderr
    assert fresh.returncode == 0
