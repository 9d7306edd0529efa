"""The command behind `./run test`: runs the named tiers, and exits with 1 if any of them failed."""

from __future__ import annotations

import argparse
import os
import queue
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.tiers import report
from tools.tiers.execution import FOLDER, Children, Result, log_of, prepare, run_tier
from tools.tiers.scheduler import Schedule
from tools.tiers.tiers import LANDING, PREPARATIONS, QUICK, TIERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.tiers.tiers import Tier

TAIL_LINES = 40
PASSED_LINES = 4
LOOK_EVERY_S = 2.0
SEEDS = 100_000


def main() -> int:
    options = _parse(sys.argv[1:])
    if options.slowest:
        print(report.slowest())
        return 0
    names = [*(LANDING if options.all else ()), *options.tiers] or list(QUICK)
    if unknown := [name for name in names if name not in TIERS]:
        print(f"tools/check: there is no tier {unknown[0]}; there are: {' '.join(TIERS)}", file=sys.stderr)
        return 2
    run = Run([TIERS[name] for name in dict.fromkeys(names)], options.seed)
    results = run.run()
    machine = run.machine_use()
    report.write(results, machine)
    print(report.table(results, machine))
    print(report.left_out(each.tier for each in results))
    failed = [each.tier for each in results if each.reason]
    # At the end, as whoever keeps the output of a long run may keep its end only.
    for name in failed:
        print(f"== failures of {name}", report.failures(log_of(name)), sep="\n")
    print(
        f"FAILED: {' '.join(failed)} (the same order of tests: --seed {options.seed})"
        if failed
        else f"all passed: {' '.join(each.tier for each in results)}"
    )
    return 1 if failed else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/check", description=f"Runs tiers of checks and tests: {' '.join(TIERS)}."
    )
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"what to run (default: {' '.join(QUICK)})")
    parser.add_argument("--all", action="store_true", help=f"what must pass to land: {' '.join(LANDING)}")
    parser.add_argument(
        "--seed",
        type=int,
        default=secrets.randbelow(SEEDS),
        help="the order of the tests of each tier (default: a random one, which is printed)",
    )
    parser.add_argument("--slowest", action="store_true", help="show the slowest tests and fixtures of the last run")
    return parser.parse_args(arguments)


class Run:
    """Starts preparations and tiers as the schedule allows, and gathers their results."""

    def __init__(self, tiers: Sequence[Tier], seed: int) -> None:
        needed = {need for tier in tiers for need in tier.needs}
        preparations = [name for name in PREPARATIONS if name in needed]
        self._schedule = Schedule(tiers, preparations, cores=len(os.sched_getaffinity(0)))
        self._children, self._results = Children(), list[Result]()
        self._messages: queue.Queue[tuple[str, bool, Path] | Result] = queue.Queue()
        self._began, self._machine = time.monotonic(), MachineWatch()
        self._seed, self._is_shown = seed, len(tiers) == 1

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def machine_use(self) -> report.MachineUse:
        return report.MachineUse(self.seconds, self._machine.used_mib, self._machine.busy_s())

    def run(self) -> list[Result]:
        FOLDER.mkdir(parents=True, exist_ok=True)
        # A signal that ends this process must end its children, which are in process groups of their own.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            while not self._schedule.is_finished:
                self._start_what_may_run()
                if not self._schedule.is_finished:
                    self._take(self._messages.get())
        except KeyboardInterrupt:
            self._children.interrupt()
            raise
        order = [tier.name for tier in self._schedule.tiers]
        return sorted(self._results, key=lambda each: order.index(each.tier))

    def _start_what_may_run(self) -> None:
        schedule = self._schedule
        for tier_name, need in schedule.blocked().items():
            schedule.ended.add(tier_name)
            self._results.append(Result(tier_name, reason=f"can't run: its preparation {need} failed"))
        name = schedule.next_preparation()
        if name is not None:
            schedule.preparing = name
            threading.Thread(target=self._prepare, args=(name,), daemon=True).start()
        while tier := schedule.next_tier():
            schedule.running[tier.name] = tier
            self._say(f"{tier.name} started")
            threading.Thread(target=self._run_tier, args=(tier,), daemon=True).start()

    def _prepare(self, name: str) -> None:
        self._messages.put((name, *prepare(name, self._children)))

    def _run_tier(self, tier: Tier) -> None:
        self._messages.put(run_tier(tier, self._children, seed=self._seed, is_shown=self._is_shown))

    def _take(self, message: tuple[str, bool, Path] | Result) -> None:
        if isinstance(message, Result):
            del self._schedule.running[message.tier]
            self._schedule.ended.add(message.tier)
            self._results.append(message)
            if not self._is_shown:
                lines = log_of(message.tier).read_text(errors="replace").rstrip().splitlines()
                print("\n".join(lines if message.reason else lines[-PASSED_LINES:]))
            self._say(f"{message.tier} {'FAILED' if message.reason else 'passed'}, took {message.seconds:.0f} s")
            return
        name, succeeded, log = message
        self._schedule.preparing = ""
        self._schedule.done[name] = succeeded
        if not succeeded:
            lines = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            print("\n".join(lines))
            self._say(f"the preparation {name} FAILED; the end of {log} is above")

    def _say(self, text: str) -> None:
        print(f"== {self.seconds:>5.0f} s  {text}", flush=True)


class MachineWatch:
    """Watches in a thread how much less memory the machine has available than at the beginning, and counts for how
    long its cores are busy."""

    def __init__(self) -> None:
        self.used_mib = 0
        self._available_mib = _available_mib()
        self._busy_s = _busy_s()
        if self._available_mib:
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.used_mib = max(self.used_mib, self._available_mib - _available_mib())
            time.sleep(LOOK_EVERY_S)

    def busy_s(self) -> float:
        """Return the seconds of processor time that the whole machine used since the beginning."""
        return _busy_s() - self._busy_s


def _busy_s() -> float:
    """Return the seconds for which all cores together were busy; 0 where there is no /proc."""
    file = Path("/proc/stat")
    if not file.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, file.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _available_mib() -> int:
    """Return the available memory; 0 where there is no /proc."""
    file = Path("/proc/meminfo")
    if not file.exists():
        return 0
    return next(
        int(line.split()[1]) // 1024 for line in file.read_text().splitlines() if line.startswith("MemAvailable")
    )


if __name__ == "__main__":
    sys.exit(main())
