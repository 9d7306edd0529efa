"""The delay levels of RocketMQ 4.x: numbers that stand for waits, by a table that the operator may change."""

from decimal import Decimal

from ternmq_common.units import parse_duration

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_LEVELS_MAX = 64


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """The waits of the levels from 1 on, in milliseconds; ValueError with the mistake in the text."""
    words = text.split()
    if not 1 <= len(words) <= _LEVELS_MAX:
        raise ValueError(f"1 to {_LEVELS_MAX} durations with spaces between them are needed")
    waits = [parse_duration(word, unit="ms") for word in words]
    if not all(wait == int(wait) and wait > Decimal(0) for wait in waits):
        raise ValueError("each level needs a whole number of milliseconds above 0")
    return tuple(map(int, waits))


def delay_of_level(levels: tuple[int, ...], level: int) -> int:
    """The wait of a level in milliseconds: the highest one's above the highest level, none for 0 and less."""
    return levels[min(level, len(levels)) - 1] if level > 0 else 0
