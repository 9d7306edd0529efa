"""The findings of a verification, with the decisions that an operator must make."""

import enum
from collections import Counter
from dataclasses import dataclass, field

_KEPT_MAX = 1000
"""How many findings of each part are kept; others are only counted."""
NAMED_MAX = 10
"""How many messages one finding names."""


class StorePart(enum.StrEnum):
    """The parts of a store, as findings name them."""

    LOG = "log"
    FORMAT = "format"
    INDEX = "index"
    TIMERS = "timers"
    HALVES = "half messages"
    JOURNAL = "journal"
    SIDE_FILE = "side file"


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """The queue and offset of a message."""

    topic: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.topic} queue {self.queue_id} offset {self.queue_offset}"


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One place that is not as it was written.

    `accepted`: damage that a start has stepped over, with permission. `harmless`: a crash left it, and the next start
    clears it away; nothing that was acknowledged is missing.
    """

    part: StorePart
    place: str
    reason: str
    log_offset: int | None = None
    size: int | None = None
    messages: tuple[MessagePlace, ...] = ()
    messages_more: int = 0
    accepted: bool = False
    harmless: bool = False

    @property
    def is_problem(self) -> bool:
        return not (self.accepted or self.harmless)


@dataclass(slots=True)
class StoreFindings:
    """All findings, of which the first ones are kept; `problems` counts the problems of each part."""

    kept_findings: list[StoreFinding] = field(default_factory=list)
    counts: Counter[StorePart] = field(default_factory=Counter)
    problems: Counter[StorePart] = field(default_factory=Counter)

    def add_finding(self, finding: StoreFinding) -> None:
        self.counts[finding.part] += 1
        self.problems[finding.part] += finding.is_problem
        if self.counts[finding.part] <= _KEPT_MAX:
            self.kept_findings.append(finding)

    @property
    def not_kept(self) -> int:
        return self.counts.total() - len(self.kept_findings)

    @property
    def is_sound(self) -> bool:
        return not self.problems.total()
