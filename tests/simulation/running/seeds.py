"""Runs of many seeds, and what a failing one says."""

import gc
import logging
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.running.loop import BEGIN_S
from tests.simulation.running.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Tally:
    """What some runs came to; `notes` are of the last one."""

    seeds: int = 0
    virtual_s: float = 0.0
    sent: int = 0
    acknowledged: int = 0
    failures: list[str] = field(default_factory=list)
    notes: str = ""

    def add(self, other: "Tally") -> None:
        self.seeds += other.seeds
        self.virtual_s += other.virtual_s
        self.sent += other.sent
        self.acknowledged += other.acknowledged
        self.failures += other.failures

    def __str__(self) -> str:
        return (
            f"{self.virtual_s:.0f} s of the shards' time, {self.acknowledged} of {self.sent} messages acknowledged, "
            f"{len(self.failures)} failures"
        )


def run_seed(
    seed: int, tally: Tally, *, keep_all: bool = False, disturb: "Callable[[Run], None] | None" = None
) -> str | None:
    """What went wrong, with the last of what happened; None if nothing did. `disturb` does what a test wants done, in
    the place of what chance says."""
    gc.disable()
    gc.freeze()  # what is there before a run is not looked at after it
    with Run(seed) as run:
        if keep_all:
            run.world.keep_all()
        why = run.go(disturb)
        notes = "\n".join(run.world.notes)
        tally.seeds += 1
        tally.virtual_s += run.world.loop.time() - BEGIN_S
        tally.sent += len(run.ledger.sent)
        tally.acknowledged += run.ledger.acknowledged
        tally.notes = f"{notes}\n"
        failure = None
        if why is not None:
            failure = (
                f"{notes}\nseed {seed}: {why}\n"
                f"Again, with all that happened: python -m tests.simulation.running --seed {seed} --trace"
            )
            tally.failures.append(failure)
    del run
    _forget()
    return failure


def _forget() -> None:
    """Free what a run had. Coroutines of processes that are no more are closed now, and what they do then means
    nothing; most can't even be, as they would wait."""
    logging.disable(logging.CRITICAL)
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        gc.enable()
        sys.unraisablehook = before
        logging.disable(logging.NOTSET)


def run_seeds(first: int, count: int, until_found: bool = False) -> Tally:
    """So many, or until one fails."""
    tally = Tally()
    for seed in range(first, first + count):
        if run_seed(seed, tally) is not None and until_found:
            break
    return tally


def run_part(count: int, end: int, until_found: bool, start: int) -> Tally:
    """So many seeds from `start` on, but none from `end` on."""
    return run_seeds(start, min(count, end - start), until_found)
