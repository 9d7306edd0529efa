"""A clock that the test moves."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds that pass when the test says so."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s
