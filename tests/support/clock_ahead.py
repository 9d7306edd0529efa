"""`python -m tests.support.clock_ahead SECONDS MODULE ...`: `python -m MODULE ...` on a machine whose clock is ahead.

Only the time of day is: what is measured by monotonic clocks, and what the TLS library makes of dates, stays.
"""

import runpy
import sys
import time
from functools import partial


def main() -> None:
    ahead_s, module = int(sys.argv[1]), sys.argv[2]
    # Before anything of ours is imported, which may take the functions out of their module.
    time.time = partial(_later, time.time, ahead_s)
    time.time_ns = partial(_later, time.time_ns, ahead_s * 1_000_000_000)
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _later(now, ahead):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - int of one, float of the other
    return now() + ahead


if __name__ == "__main__":
    main()
