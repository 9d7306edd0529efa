"""Checks durations as arguments: seconds or a timedelta for a timeout or an interval, else only a timedelta.

Anything else is a TypeError at once that says what to write; the failure would come much later otherwise.
"""

from datetime import timedelta
from typing import TypeAlias

Seconds: TypeAlias = float | timedelta
"""A plain number is seconds."""


def seconds_above_0(argument: str, value: Seconds) -> float:
    """Return the seconds; ValueError unless they are above 0."""
    seconds = _to_seconds(argument, value)
    if not seconds > 0:
        raise ValueError(f"{argument}={value} must be more than 0 seconds")
    return seconds


def seconds_from_0(argument: str, value: Seconds) -> float:
    """Return the seconds; ValueError if they are below 0."""
    seconds = _to_seconds(argument, value)
    if not seconds >= 0:
        raise ValueError(f"{argument}={value} must not be negative")
    return seconds


def check_span(argument: str, value: timedelta) -> timedelta:
    """Return the value, which must be a timedelta."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, float | int):
        raise TypeError(f"{argument} is a timedelta: write timedelta(seconds={value!r})")
    raise TypeError(f"{argument} is a timedelta, which {value!r} is not")


def _to_seconds(argument: str, value: Seconds) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, float | int) or isinstance(value, bool):
        raise TypeError(f"{argument} is seconds or a timedelta, which {value!r} is not")
    return float(value)
