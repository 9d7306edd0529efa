"""Attacks a server in all the ways that there are, or in one, and says what it cost: `python -m tests.attacks`.

attack   healthy p50, p99, max in ms | failed calls | RSS max, after in MB | log lines, bytes, most lines in a second |
         /health/live max in ms | recovery in s | what was missed
"""

import argparse
import sys

from tests.attacks.bars import STRICT
from tests.attacks.catalog import ATTACKS
from tests.attacks.measuring import Outcome, measure

_COLUMNS = (
    ("attack", 24),
    ("p50", 8),
    ("p99", 8),
    ("max", 8),
    ("failed", 11),
    ("RSS", 6),
    ("after", 6),
    ("lines", 7),
    ("bytes", 9),
    ("in 1 s", 7),
    ("health", 7),
    ("recovery", 9),
)


def row(outcome: Outcome) -> str:
    cells = (
        outcome.name,
        f"{outcome.p50_ms:.1f}",
        f"{outcome.p99_ms:.1f}",
        f"{outcome.max_ms:.0f}",
        f"{outcome.failed}/{outcome.calls}",
        f"{outcome.rss_max_mb:.0f}",
        f"{outcome.rss_after_mb:.0f}",
        str(outcome.log_lines),
        str(outcome.log_bytes),
        str(outcome.log_lines_in_a_second),
        f"{outcome.health_max_ms:.0f}",
        f"{outcome.recovery_s:.2f}",
    )
    return _line(cells)


def _line(cells: tuple[str, ...]) -> str:
    name, *others = (f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
    return "".join((name.strip().ljust(_COLUMNS[0][1]), *others))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long each attack lasts")
    parser.add_argument("--only", action="append", choices=sorted(ATTACKS), help="this one; more than once for more")
    arguments = parser.parse_args()
    print(_line(tuple(name for name, _ in _COLUMNS)), flush=True)
    failed = 0
    for name in arguments.only or ATTACKS:
        outcome = measure(name, arguments.seconds)
        missed = STRICT.missed(outcome, arguments.seconds)
        failed += bool(missed)
        print(row(outcome), "pass" if not missed else f"FAIL: {'; '.join(missed)}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
