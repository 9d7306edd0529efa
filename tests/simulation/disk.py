"""A replica's disk: the log, as whole records, and what stands beside it."""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from ternmq_broker.replication.epochs import EpochMarks


class Record(NamedTuple):
    """One record of the log. The same record is the same object on all replicas."""

    epoch: int
    number: int
    """Of the message; 0 is an epoch mark."""
    durable_to: int
    """Up to where the log was known to be durable, at all that are in sync, when it was written."""


@dataclass(slots=True)
class Disk:
    """`log[0]` is at log offset `base`. Below `durable` it outlives a power loss."""

    store: str
    base: int = 0
    log: list[Record] = field(default_factory=list)
    durable: int = 0
    marks: EpochMarks = field(default_factory=EpochMarks)
    spilled: int = 0
    """Files that were derived from the log cover it up to here."""
    progress: int = 0
    generation: int = 0
    """Raised with each truncation: a sync from before says nothing."""
    _undone: "Disk | None" = None
    """How it was before a truncation that is not yet synced."""

    @property
    def end(self) -> int:
        return self.base + len(self.log)

    def append(self, records: list[Record]) -> None:
        end = self.end
        for at, record in enumerate(records, end):
            if record.number == 0:
                self.marks = EpochMarks.from_pairs((*self.marks.marks, (record.epoch, at)), self.marks.marks_max)
        self.log += records

    def truncate(self, end: int) -> None:
        self._keep_undone()
        del self.log[end - self.base :]
        self._cut(end)

    def begin_anew(self, base: int, marks: EpochMarks) -> None:
        """As a copy of another log that begins there, and had these marks before."""
        self._keep_undone()
        self.base, self.log, self.marks = base, [], marks
        self.durable, self.spilled = base, base
        self.generation += 1

    def synced(self, end: int, generation: int) -> None:
        if generation == self.generation:
            self.durable, self._undone = max(self.durable, end), None

    def retain_from(self, base: int) -> None:
        del self.log[: base - self.base]
        self.base = base

    def recover(self, dice: random.Random, *, power_lost: bool) -> None:
        """As a process finds it: what it then counts as durable, it has synced."""
        if power_lost and self._undone is not None and dice.random() < 0.5:
            before = self._undone
            self.base, self.log, self.marks = before.base, before.log, before.marks
            self.durable, self.spilled = before.durable, before.spilled
        if power_lost:
            end = self.durable + dice.randint(0, self.end - self.durable)
            del self.log[end - self.base :]
            self._cut(end)
        self.durable, self._undone = self.end, None

    def _cut(self, end: int) -> None:
        self.marks = self.marks.cut_at(end)
        self.durable = min(self.durable, end)
        self.generation += 1

    def _keep_undone(self) -> None:
        if self._undone is None:
            self._undone = Disk(
                self.store, self.base, self.log[:], self.durable, self.marks, self.spilled, generation=self.generation
            )
