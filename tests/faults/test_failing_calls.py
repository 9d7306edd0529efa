"""A few of the rounds of failing calls that the soak runs a thousand of."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def test_calls_that_fail_lose_nothing_acknowledged_and_deliver_nothing_refused() -> None:
    command = [sys.executable, "-m", "tests.faults.failing_calls", "--rounds", "8", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 acknowledged lost, 0 refused delivered" in done.stdout
