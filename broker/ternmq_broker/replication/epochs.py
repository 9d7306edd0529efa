"""Epoch marks: which leader's part of the log begins where, and up to where two logs are the same.

Each leader begins its part with a record of its epoch. There is one leader in an epoch, and its followers have its
bytes: so where two logs have the mark of an epoch at the same place, they are the same up to where the part of that
epoch ends in the shorter one.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MARKS_MAX = 1000
"""How many marks are kept. A replica that was away for more changes of the leader begins as a new copy. The number of
marks does not tell whether some were dropped: a log that was cut off has fewer."""

EpochMark = tuple[int, int]
"""An epoch, and the log offset at which its part begins."""


@dataclass(frozen=True, slots=True)
class EpochMarks:
    """The marks of one log, both numbers rising; the latest `marks_max`."""

    marks: tuple[EpochMark, ...] = ()
    marks_max: int = field(default=MARKS_MAX, compare=False)

    @classmethod
    def from_pairs(cls, marks: "Iterable[Iterable[int]]", marks_max: int = MARKS_MAX) -> "EpochMarks":
        """Create the marks from pairs. ValueError if they do not rise."""
        pairs = tuple((epoch, start) for epoch, start in marks)
        if any(left[0] >= right[0] or left[1] >= right[1] for left, right in pairwise(pairs)):
            raise ValueError("epoch marks must rise")
        return cls(pairs[-marks_max:], marks_max)

    def cut_at(self, end: int) -> "EpochMarks":
        """Return the marks of a log that was cut off at `end`."""
        return EpochMarks(tuple(mark for mark in self.marks if mark[1] < end), self.marks_max)

    def common_end(self, end: int, other: "EpochMarks", other_end: int) -> int | None:
        """Return up to where this log, which ends at `end`, and the other one are the same; None if that is unknown.

        It is unknown if both have marks, and none in common, since one of them has dropped those. Then the other log is
        useless, unless it counts as in sync: it may be the only one that has everything, and must stay as it is.
        """
        common = set(self.marks) & set(other.marks)
        if not common and self.marks and other.marks:
            return None
        last = max(common, default=None)
        return min(self.end_of_part(last, end), other.end_of_part(last, other_end))

    def end_of_part(self, mark: EpochMark | None, end: int) -> int:
        """Return where the part of that mark ends, in a log that ends at `end`; None: the part before the first
        mark.
        """
        following = 0 if mark is None else self.marks.index(mark) + 1
        return self.marks[following][1] if following < len(self.marks) else end
