"""Runs seeds: `python -m tests.simulation --seeds 20000 --from 0 --jobs 2`, or one of them with all that happens in it:
`python -m tests.simulation --seed 17 --trace`."""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.run import Run
from tests.simulation.seeds import Tally, run_seed, run_seeds

AT_ONCE = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="print all that happens in it")
    options = parser.parse_args()
    if options.seed is not None:
        run = Run(options.seed)
        if options.trace:
            run.world.keep_all()
        failure = run_seed(options.seed, run)
        print(failure or (f"{run.world.trace()}\n" if options.trace else "") + f"seed {options.seed} holds")
        return int(failure is not None)
    began = time.perf_counter()
    starts = range(options.first, options.first + options.seeds, AT_ONCE)
    counts = [min(AT_ONCE, options.first + options.seeds - start) for start in starts]
    total = Tally()
    with ProcessPoolExecutor(options.jobs) as pool:
        for tally in pool.map(run_seeds, starts, counts):
            total.add(tally)
            for failure in tally.failures:
                print(failure, "\n", flush=True)
    took_s = time.perf_counter() - began
    print(f"{total.seeds} seeds in {took_s:.0f} s, {total.virtual_s / 3600:.1f} hours of the shards' time: {total}")
    return int(bool(total.failures))


if __name__ == "__main__":
    sys.exit(main())
