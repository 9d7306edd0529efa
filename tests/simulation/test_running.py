"""Replicas as they run hold in fixed worlds, and the simulation finds each mistake that was planted in them.

Everything is run by processes of its own: what happens in a seed depends on the order of sets of texts, which pytest
does not fix.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.planted.finding import Mistake, found, mistakes
from tests.simulation.running.run import Run
from tests.simulation.running.seeds import Tally, run_seed

ROOT = Path(__file__).parents[2]
SEEDS = 12
_AT_ONCE = 6


@pytest.mark.parametrize("first", range(0, SEEDS, _AT_ONCE))
def test_a_disturbed_shard_that_runs_loses_nothing_and_becomes_whole_again(first: int) -> None:
    command = [sys.executable, "-m", "tests.simulation.running", "--from", str(first), "--seeds", str(_AT_ONCE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.name)
def test_the_simulation_of_what_runs_finds(mistake: Mistake) -> None:
    assert mistake.seed is not None, "run `python -m tests.simulation.planted --renew`"
    by = found(mistake, mistake.seed, 1)
    assert by is not None, f"seed {mistake.seed} does not find it any more: python -m tests.simulation.planted --renew"


def test_a_follower_whose_sync_failed_comes_back() -> None:
    """It stayed out of sync until somebody restarted it, while a leader ends then, and is started again."""

    def fail_syncs_of_a_follower(run: Run) -> None:
        follower = next(each for each in run.machines if each.replica is not None and each.leader is None)
        follower.disk.fails["sync"] = OSError(5, "Input/output error")
        run.world.loop.call_later(1.0, follower.disk.fails.clear)

    failure = run_seed(0, Tally(), disturb=fail_syncs_of_a_follower)
    assert failure is None, failure


def test_followers_that_are_elected_while_their_disks_refuse_writes_live_on() -> None:
    """The process of each one that was elected ended, as it could not write where its part of the log begins."""

    def kill_the_leader(run: Run) -> None:
        leader = next(each for each in run.machines if each.leader is not None)
        followers = [each for each in run.machines if each is not leader]
        processes = {each.name: each.process for each in followers}
        for each in followers:
            each.disk.fails["append"] = OSError(27, "File too large")
        leader.kill(4 * run.plan.lease_s, power_lost=False)

        def look() -> None:
            for each in followers:
                if each.process is not processes[each.name]:
                    run.world.violated(f"the process of {each.name} ended")
                elif each.replica is not None and "File too large" not in str(each.replica.problem_reason):
                    run.world.violated(f"{each.name} says of its disk: {each.replica.problem_reason}")
                each.disk.fails.clear()

        run.world.loop.call_later(3.5 * run.plan.lease_s, look)

    for seed in range(6):
        failure = run_seed(seed, Tally(), disturb=kill_the_leader)
        assert failure is None, failure


def test_a_seed_repeats_to_the_last_note() -> None:
    command = [sys.executable, "-m", "tests.simulation.running", "--seed", "3", "--trace"]
    first, second = (subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(2))
    assert "message-" in first.stdout
    assert first.stdout == second.stdout
