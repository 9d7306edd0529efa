"""The command line of the package."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import benchmarks.bench
from benchmarks.bench import plot, tables
from benchmarks.bench.field import FULL, QUICK, say
from benchmarks.bench.load import missing_go
from benchmarks.bench.processes import allow_many_files
from benchmarks.bench.servers import APACHE, FLOOR, NATS, absent
from benchmarks.bench.standing import cases as idle_cases
from benchmarks.bench.turns import Findings, measure
from benchmarks.bench.works import LOADS
from ternmq_common.event_loop import turn_end

if TYPE_CHECKING:
    from benchmarks.bench.field import Scale
    from benchmarks.bench.works import Case

PEERS = {"apache": APACHE, "nats": NATS, "floor": FLOOR}


def main() -> None:
    arguments = parse()
    scale = chosen_scale(arguments)
    cases = [case for case in (*LOADS, *idle_cases(scale)) if is_wanted(case, arguments)]
    if arguments.list:
        for case in cases:
            print(f"{case.work:<14} {case.name}")
        return
    if not cases:
        sys.exit("bench: no case has such a name; --list names them")
    if reason := missing_go():
        sys.exit(f"bench: the load generator can't be built: {reason}")
    allow_many_files()
    # A background job of a shell ignores SIGINT, and SIGTERM would leave the servers running.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = {name for name in PEERS.values() if is_left_out(name, arguments)}
    if scale.warm_up < FULL.warm_up:
        cases = [without_apache_bars(case) for case in cases]
    began = time.monotonic()
    found = measure(cases, scale, out, arguments.flush)
    show(found, scale, arguments, time.monotonic() - began)
    if not found.complete:
        sys.exit("bench: not all was measured; the notes say why")


def show(found: Findings, scale: Scale, arguments: argparse.Namespace, took_s: float) -> None:
    """Print the table, and write the requested files."""
    rows = tables.rows(found.results)
    print(f"{heading()}, {scale.rounds} rounds, {took_s:.0f} s")
    print(tables.text(rows))
    for note in found.notes:
        print(f"note: {note}")
    if arguments.json:
        header = {"machine": heading(), "command": sys.argv[1:], "notes": found.notes}
        arguments.json.write_text(json.dumps({**header, **tables.as_json(found.results)}, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(f"{heading()}\n\n{tables.markdown(rows)}")
    if arguments.plot and any(row.ratios for row in rows):
        plot.draw(rows, arguments.plot)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description=benchmarks.bench.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="works, or parts of the names of cases; see --list")
    parser.add_argument("--list", action="store_true", help="name the works and their cases")
    parser.add_argument("--quick", action="store_true", help="short runs: less than five minutes in all, and rough")
    parser.add_argument("--rounds", type=int, help=f"runs on each server; default {FULL.rounds}, quick {QUICK.rounds}")
    parser.add_argument(
        "--warm-up",
        type=int,
        metavar="SENDS",
        help=f"sends before Apache RocketMQ's first figure; default {FULL.warm_up:,}",
    )
    parser.add_argument("--seconds", type=float, help=f"of each run of sends; default {FULL.load_s:g}")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="default: all that can run here")
    parser.add_argument("--flush", choices=["sync", "async"], help="measure only this one of TernMQ; default both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs and ratios")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the ratios")
    return parser.parse_args()


def chosen_scale(arguments: argparse.Namespace) -> Scale:
    scale = QUICK if arguments.quick else FULL
    given = {"rounds": arguments.rounds, "warm_up": arguments.warm_up, "load_s": arguments.seconds}
    return replace(scale, **{name: value for name, value in given.items() if value is not None})


def is_wanted(case: Case, arguments: argparse.Namespace) -> bool:
    return not arguments.only or any(
        name == case.work or name in f"{case.work}: {case.name}" for name in arguments.only
    )


def without_apache_bars(case: Case) -> Case:
    """Remove the bars of ratios to Apache: beside a peer that is not warm, any target would hold."""
    return replace(case, bars=[bar for bar in case.bars if bar.peer != APACHE])


def is_left_out(engine: str, arguments: argparse.Namespace) -> bool:
    """Return whether a peer is left out: it can't run here, which is printed, or is not wanted."""
    if engine not in (PEERS[name] for name in arguments.peers):
        return True
    reason = absent(engine)
    if reason:
        say(f"{engine} is left out: {reason}")
    return reason is not None


def heading() -> str:
    """Return the date and the machine."""
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    now = datetime.now(UTC)
    kind = "plain" if turn_end.__file__.endswith(".py") else "compiled"
    python = f"Python {platform.python_version()}, {kind}"
    return f"{now:%Y-%m-%d %H:%M} UTC, {processor}, {os.cpu_count()} cores, {python}"


if __name__ == "__main__":
    main()
