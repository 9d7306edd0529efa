"""When a process that died is started again: at once, and after waits that grow while it dies again and again. Pure;
times in seconds."""

from dataclasses import dataclass

FIRST_S = 0.5
LONGEST_S = 10.0
STEADY_S = 10.0
"""Who has lived so long is no case of dying again and again."""

_OFTEN = 3
_DOUBLINGS_MAX = 10


@dataclass(slots=True)
class Restarts:
    """The deaths in one place. `count` are all of them, `in_a_row` those since one process there was steady."""

    count: int = 0
    in_a_row: int = 0
    started_s: float = 0.0

    def started(self, now_s: float) -> None:
        """A process was started in this place."""
        self.started_s = now_s

    def died(self, now_s: float) -> float:
        """It has ended, or could not begin; how long to wait before the next is started."""
        if now_s - self.started_s >= STEADY_S:
            self.in_a_row = 0
        self.count += 1
        self.in_a_row += 1
        if self.in_a_row == 1:
            return 0.0
        return min(LONGEST_S, FIRST_S * 2.0 ** min(self.in_a_row - 2, _DOUBLINGS_MAX))

    @property
    def is_worth_saying(self) -> bool:
        """Whether the last death is to be told: the first ones are, and then that there are many, once."""
        return self.in_a_row <= _OFTEN

    @property
    def is_often(self) -> bool:
        """It dies again and again."""
        return self.in_a_row >= _OFTEN
