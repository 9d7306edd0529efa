"""Decides when a process that died is restarted: at once, then after a growing backoff while it dies again and again.
Pure; times in seconds."""

from dataclasses import dataclass

from ternmq_common.pacing.backoff import ExponentialBackoff

FIRST_S = 0.5
LONGEST_S = 10.0
STEADY_S = 10.0
"""A process that has lived so long does not count as dying again and again."""

_OFTEN = 3
_BACKOFF = ExponentialBackoff(FIRST_S, LONGEST_S)


@dataclass(slots=True)
class RestartBackoff:
    """The deaths in one place. `count` is all of them, `in_a_row` those since a process there was steady."""

    count: int = 0
    in_a_row: int = 0
    started_s: float = 0.0

    def record_start(self, now_s: float) -> None:
        """Record that a process was started in this place."""
        self.started_s = now_s

    def record_death(self, now_s: float) -> float:
        """Record that it has ended, or could not start; return how long to wait before the next start."""
        if now_s - self.started_s >= STEADY_S:
            self.in_a_row = 0
        self.count += 1
        self.in_a_row += 1
        return 0.0 if self.in_a_row == 1 else _BACKOFF.delay_s(self.in_a_row - 1)

    @property
    def is_worth_logging(self) -> bool:
        """Whether the last death should be logged: the first ones are, and then once that there are many."""
        return self.in_a_row <= _OFTEN

    @property
    def is_often(self) -> bool:
        """Whether the process dies again and again."""
        return self.in_a_row >= _OFTEN
