"""Durations as arguments: seconds or a timedelta where the name is a timeout or an interval, else a timedelta alone.

What is neither is a TypeError at once that says what to write; it would fail far from there.
"""

from datetime import timedelta
from typing import TypeAlias

Seconds: TypeAlias = float | timedelta
"""A plain number is seconds."""


def seconds_above_0(argument: str, value: Seconds) -> float:
    """The seconds; ValueError unless they are more than 0."""
    seconds = _seconds(argument, value)
    if not seconds > 0:
        raise ValueError(f"{argument}={value} must be more than 0 seconds")
    return seconds


def seconds_from_0(argument: str, value: Seconds) -> float:
    """The seconds; ValueError for less than 0."""
    seconds = _seconds(argument, value)
    if not seconds >= 0:
        raise ValueError(f"{argument}={value} must not be negative")
    return seconds


def span(argument: str, value: timedelta) -> timedelta:
    """The value, which is a timedelta."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, float | int):
        raise TypeError(f"{argument} is a timedelta: write timedelta(seconds={value!r})")
    raise TypeError(f"{argument} is a timedelta, which {value!r} is not")


def _seconds(argument: str, value: Seconds) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, float | int) or isinstance(value, bool):
        raise TypeError(f"{argument} is seconds or a timedelta, which {value!r} is not")
    return float(value)
