"""The replicas' decisions hold in 500 worlds, and the simulator finds each way in which the protocol was broken."""

import pytest

from tests.simulation.breakages import BREAKAGES, Breakage, found_after
from tests.simulation.run import Run
from tests.simulation.seeds import run_seed, run_seeds

SEEDS = 500
_AT_ONCE = 25
_SEEDS_UNTIL_FOUND = 2000
ONCE_WRONG = (6176,)
"""A leader that wakes, and acknowledges what the retention of one since has removed: the check took it for a loss."""


@pytest.mark.parametrize("first", range(0, SEEDS, _AT_ONCE))
def test_a_disturbed_shard_loses_nothing_and_becomes_whole_again(first: int) -> None:
    tally = run_seeds(first, _AT_ONCE)
    assert not tally.failures, "\n\n".join(tally.failures)
    # Else nothing would have been shown.
    assert tally.acknowledged > 100 * _AT_ONCE
    assert tally.leaders > 2 * _AT_ONCE


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_a_seed_that_once_failed_holds(seed: int) -> None:
    failure = run_seed(seed)
    assert failure is None, failure


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.what.replace(" ", "-"))
def test_the_simulator_finds(breakage: Breakage) -> None:
    found = found_after(breakage, _SEEDS_UNTIL_FOUND)
    assert found is not None, f"not found in {_SEEDS_UNTIL_FOUND} seeds: {breakage.what}"
    print(f"found after {found[0]} seeds: {breakage.what}")


def test_replicas_that_have_forgotten_epoch_marks_keep_what_was_acknowledged() -> None:
    for seed in range(50):
        Run(seed, marks_max=2).go(settles=False)


def test_a_seed_repeats_to_the_last_step() -> None:
    traces = []
    for _ in range(2):
        run = Run(7)
        assert run_seed(7, run) is None
        traces.append((run.world.steps, run.world.now, run.world.trace()))
    assert traces[0] == traces[1]
