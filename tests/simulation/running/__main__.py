"""Runs seeds: `python -m tests.simulation.running --seeds 1000 --jobs 2`; or one, with all that happens in it:
`python -m tests.simulation.running --seed 17 --trace`."""

import argparse
import logging
import multiprocessing
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.running.run import LOGGERS
from tests.simulation.running.seeds import Tally, run_part, run_seed, run_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = 10
SEEDS_EACH = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.running", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="print all that happens in it")
    parser.add_argument("--until-found", action="store_true", help="end with the first seed that fails")
    options = parser.parse_args()
    _repeatable()
    if options.seed is not None:
        tally = Tally()
        if options.trace:
            for name in LOGGERS:
                logging.getLogger(name).setLevel(logging.INFO)
        failure = run_seed(options.seed, tally, keep_all=options.trace)
        print(failure or (tally.notes if options.trace else "") + f"seed {options.seed} holds: {tally}")
        return int(failure is not None)
    began = time.perf_counter()
    total = Tally()
    for tally in _tallies(options.first, options.seeds, options.jobs, until_found=options.until_found):
        total.add(tally)
        for failure in tally.failures:
            print(failure, "\n", flush=True)
        if total.failures and options.until_found:
            break
    print(f"{total.seeds} seeds in {time.perf_counter() - began:.0f} s: {total}")
    return int(bool(total.failures))


def _tallies(first: int, seeds: int, jobs: int, *, until_found: bool) -> "Iterator[Tally]":
    """Of all seeds, some at a time."""
    if seeds <= AT_ONCE:
        yield run_seeds(first, seeds, until_found)
        return
    at_once = 1 if until_found else AT_ONCE  # those that are under way are run to their end
    starts = range(first, first + seeds, at_once)
    # What a run leaves behind can't all be freed: each process has a few of them. A ProcessPoolExecutor that ends its
    # processes after some tasks comes to a halt in Python 3.11 (gh-115634).
    spawned = multiprocessing.get_context("spawn")
    with spawned.Pool(jobs, maxtasksperchild=SEEDS_EACH // at_once) as pool:
        yield from pool.imap(partial(run_part, at_once, first + seeds, until_found), starts)


def _repeatable() -> None:
    """A set of texts has another order in each process, unless it is said which."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tests.simulation.running", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})


if __name__ == "__main__":
    sys.exit(main())
