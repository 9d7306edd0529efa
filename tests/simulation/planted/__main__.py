"""Finds each planted mistake: `python -m tests.simulation.planted [--jobs N] [--seeds 200] [--renew] [NAME ...]`."""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.simulation.planted.finding import SEEDS_MAX, Mistake, found, mistakes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="words of the mistakes to plant (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help=f"of how many seeds (default: {SEEDS_MAX})")
    parser.add_argument("--renew", action="store_true", help="write the seed that finds it into the patch")
    options = parser.parse_args()
    chosen = [each for each in mistakes() if not options.names or any(word in each.name for word in options.names)]

    def find(mistake: Mistake) -> bool:
        began = time.monotonic()
        by = found(mistake, 0, options.seeds)
        if by is not None and options.renew:
            mistake.is_found_by(by.seed)
        text = "NOT FOUND" if by is None else f"seed {by.seed}: {by.why}"
        print(f"{mistake.name:<42} {time.monotonic() - began:>4.0f} s  {text}", flush=True)
        return by is not None

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(find, chosen))
    print(f"{sum(results)} of {len(chosen)} planted mistakes were found within {options.seeds} seeds")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
