"""Rounds of failing calls of the system: `python -m tests.faults.failing_calls --rounds 1000 [--seed N]`.

In each round a broker with a real store sends batches to three queues, while at random times a share of its writes,
truncations, reservations, removals and new files fails, also those that undo a failed append, in some rounds syncs and
the start too; then it gets SIGKILL. The next start must find every acknowledged batch, whole, once and in order, and
no message of a refused one. Of a batch of which nobody knows that, the first messages may be there.
"""

import argparse
import contextlib
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ternmq_common.catalog.cluster import FlushMode
from tests.faults.failing_broker import QUEUES, FailingBroker, Task
from tests.support.soaks import print_line

STORE_ROUNDS = 50
SHOWN_EACH = 50
STARTS_WITHIN_S = 120.0
ROUND_S = (0.1, 1.2)
_READ_BYTES = 1 << 16


class Lost(Exception):
    """Something acknowledged is gone, something refused is there, or a start was refused; the text says what."""


class Account:
    """What one store was given, and what it must have, by queue."""

    def __init__(self) -> None:
        self.checked = [0] * len(QUEUES)
        self.counts: Counter[str] = Counter()
        self._begin_round()

    def _begin_round(self) -> None:
        self._batches: dict[int, tuple[int, list[str]]] = {}
        self._ends: dict[int, str] = {}

    def note(self, what: str, *more: object) -> None:
        """Note a line of the process."""
        if what == "sending":
            number, queue_id, names = more
            self._batches[number] = queue_id, names  # type: ignore[index,assignment]
            self._ends[number] = "unknown"  # type: ignore[index]
        elif what in ("acknowledged", "refused", "unknown"):
            self._ends[more[0]] = what  # type: ignore[index]

    def check(self, found: dict[int, list[str]]) -> None:
        """Check what the store has of the last round. Lost."""
        wanted: dict[int, list[str]] = {queue_id: [] for queue_id in found}
        optional: set[str] = set()
        for number, (queue_id, names) in self._batches.items():
            end = self._ends[number]
            self.counts[end] += len(names)
            if end == "acknowledged":
                wanted[queue_id] += names
            elif end == "unknown":
                optional.update(names)
        for queue_id, names in found.items():
            if twice := [name for name, times in Counter(names).items() if times > 1]:
                raise Lost(f"queue {queue_id} has twice: {twice[:5]}")
            there = [name for name in names if name not in optional]
            if there != wanted[queue_id]:
                lost = sorted(set(wanted[queue_id]) - set(there))
                forged = sorted(set(there) - set(wanted[queue_id]))
                raise Lost(
                    f"queue {queue_id}: {len(lost)} lost {lost[:5]}, {len(forged)} refused {forged[:5]}, or moved"
                )
            self.checked[queue_id] += len(names)
        self._begin_round()


class Rounds:
    """One process after the other, over one store; each checks what the one before it left."""

    def __init__(self, folder: Path, dice: random.Random, totals: Counter[str]) -> None:
        self._folder = folder
        self._dice = dice
        self._account = Account()
        self._account.counts = totals
        self._flush = dice.choice(list(FlushMode))

    def run(self, count: int) -> None:
        """Run so many rounds, and check the last one. Lost."""
        dice = self._dice
        for _ in range(count):
            starts_failing = dice.random() < 0.2
            is_open = self._one(starts_failing=starts_failing, syncs_fail=dice.random() < 0.15)
            if not is_open and not self._one(starts_failing=False, syncs_fail=False):
                raise Lost("it does not start on a disk that is well")
        self._one(starts_failing=False, syncs_fail=False, only_checks=True)

    def _one(self, *, starts_failing: bool, syncs_fail: bool, only_checks: bool = False) -> bool:
        """Whether it started."""
        seed = self._dice.randrange(1 << 32)
        task = Task(self._folder, seed, self._flush, list(self._account.checked), starts_failing, syncs_fail)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                os.close(reading)
                FailingBroker(task, writing).run()
            os._exit(0)
        os.close(writing)
        try:
            return self._watch(pid, reading, 0.0 if only_checks else self._dice.uniform(*ROUND_S), starts_failing)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reading)

    def _watch(self, pid: int, reading: int, for_s: float, starts_failing: bool) -> bool:
        """Note what the process says until its time is over, and all that it has said when it is killed."""
        end_s, is_open, rest = time.monotonic() + STARTS_WITHIN_S, False, b""
        found: dict[int, list[str]] = {}
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, end_s - time.monotonic()))
            if not ready:
                if not is_open:
                    raise Lost(f"it did not start within {STARTS_WITHIN_S:g} s")
                os.kill(pid, signal.SIGKILL)
                end_s = time.monotonic() + STARTS_WITHIN_S
                continue
            data = os.read(reading, _READ_BYTES)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                what, *more = json.loads(line)
                if what == "no start" and not starts_failing:
                    raise Lost(f"it does not start: {more[0]}")
                if what == "found":
                    found[more[0]] = more[1]
                elif what == "open":
                    self._account.check(found)
                    is_open, end_s = True, time.monotonic() + for_s
                else:
                    self._account.note(what, *more)
        if not is_open and not starts_failing:
            raise Lost("its process ended before it was open")
        return is_open


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.failing_calls", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--keep", type=Path, help="where a store is moved that something is wrong with")
    arguments = parser.parse_args()
    print_line(f"seed {arguments.seed}")
    dice, totals, done = random.Random(arguments.seed), Counter[str](), 0
    while done < arguments.rounds:
        with tempfile.TemporaryDirectory(prefix="ternmq-failing-calls-") as folder:
            count = min(STORE_ROUNDS, arguments.rounds - done)
            try:
                Rounds(Path(folder, "data"), dice, totals).run(count)
            except Lost as error:
                print_line(f"after some {done} rounds: {error}")
                if arguments.keep is not None:
                    shutil.copytree(Path(folder, "data"), arguments.keep)
                return 1
            done += count
        if done % SHOWN_EACH == 0 or done == arguments.rounds:
            print_line(f"{done} rounds: messages " + ", ".join(f"{totals[each]:,} {each}" for each in sorted(totals)))
    print_line("0 acknowledged lost, 0 refused delivered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
