"""Feeds the server's side of connections with mutated conversations: `python -m tests.fuzz --inputs 1000000`.

With --guided, atheris chooses what to mutate by what it covers (extra `fuzz`); what covers more goes to --folder.
An input that breaks a rule ends the run; it is printed, and belongs into tests/fuzz/corpus once it is understood.
"""

import argparse
import random
import sys
import time
import traceback

_SAY_EVERY = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    parser.add_argument("--folder", help="where a guided run keeps the inputs that cover more")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    if arguments.guided:
        from tests.fuzz.guided import run_guided

        run_guided(arguments.seed, arguments.inputs, arguments.folder)  # ends the process
    return _run(arguments.seed, arguments.inputs)


def _run(seed: int, inputs: int) -> int:
    # Not before: what atheris watches must not be imported without it.
    from tests.fuzz.running import Totals, run

    totals, began = Totals(), time.monotonic()
    try:
        for number in run(seed, inputs, totals):
            if (number + 1) % _SAY_EVERY == 0:
                print(f"{number + 1:,} inputs, {totals.inputs / (time.monotonic() - began):,.0f} a second", flush=True)
    except Exception:  # noqa: BLE001 - whatever it is, it is what was looked for
        traceback.print_exc()
        return 1
    print(f"{totals.inputs:,} inputs, {totals.answered:,} answers, {totals.closed:,} connections closed; nothing broke")
    return 0


if __name__ == "__main__":
    sys.exit(main())
