"""Runs of many seeds, and what a failing one says."""

from dataclasses import dataclass, field

from tests.simulation.run import Run
from tests.simulation.world import Violation


@dataclass(slots=True)
class Tally:
    """What some runs came to."""

    seeds: int = 0
    virtual_s: float = 0.0
    acknowledged: int = 0
    leaders: int = 0
    truncations: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.seeds += other.seeds
        self.virtual_s += other.virtual_s
        self.acknowledged += other.acknowledged
        self.leaders += other.leaders
        self.truncations += other.truncations
        self.failures += other.failures

    def count(self, run: Run, failure: str | None) -> None:
        self.seeds += 1
        self.virtual_s += run.world.now
        self.acknowledged += len(run.checks.acknowledged)
        self.leaders += run.checks.leaders
        self.truncations += run.checks.truncations
        if failure is not None:
            self.failures.append(failure)

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.leaders} leaderships, {self.truncations} truncations, "
            f"{len(self.failures)} failures"
        )


def run_seed(seed: int, run: Run | None = None, tally: Tally | None = None) -> str | None:
    """What went wrong, with the last of what happened; None if nothing did."""
    run = run if run is not None else Run(seed)
    failure = None
    try:
        run.go()
    except (Violation, AssertionError, LookupError, TypeError, ValueError) as error:
        what = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
        failure = (
            f"{run.world.trace()}\nseed {seed}, at {run.world.now:.3f}: {what}\n"
            f"Again, with all that happened: python -m tests.simulation --seed {seed} --trace"
        )
    if tally is not None:
        tally.count(run, failure)
    return failure


def run_seeds(first: int, count: int) -> Tally:
    tally = Tally()
    for seed in range(first, first + count):
        run_seed(seed, tally=tally)
    return tally
