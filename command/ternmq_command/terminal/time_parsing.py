"""Parses points in time as people type them: ISO 8601, with or without a zone, or how long ago (`2h`, `-2h`)."""

from datetime import UTC, datetime, timedelta

from ternmq_common.resources.resource_settings import BEGINNINGS
from ternmq_common.units import parse_duration

_NEEDED = "a time like 2026-08-01T12:00, 2026-08-01T12:00:00Z or 2h (ago) is needed"


def parse_time(text: str, *, now: datetime) -> datetime:
    """Parse a time, also a relative one, and return it with its zone; without a zone it is local time.

    Raises ValueError, which says what is allowed.
    """
    try:
        moment = _parse_ago(text.strip(), now) or _parse_iso_8601(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError(_NEEDED) from None
    return _check_after_1970(moment)


def parse_exact_time(text: str) -> datetime:
    """Parse an absolute time, which may lie in the future, where people would take `2h` for two hours from now."""
    try:
        moment = _parse_iso_8601(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError("a time like 2026-08-01T12:00 or 2026-08-01T12:00:00Z is needed") from None
    return _check_after_1970(moment)


def _parse_iso_8601(text: str) -> datetime:
    return datetime.fromisoformat(text.strip()).astimezone()


def _check_after_1970(moment: datetime) -> datetime:
    if moment.timestamp() < 0:
        raise ValueError("a time after 1970 is needed")
    return moment


def _parse_ago(text: str, now: datetime) -> datetime | None:
    """Parse how long ago; None if the text has no unit, since a bare number could be a date or seconds."""
    if not text[-1:].isalpha():
        return None
    try:
        return now - timedelta(seconds=float(parse_duration(text.removeprefix("-"), unit="s")))
    except ValueError:
        return None


def is_relative_time(text: str) -> bool:
    """Return whether the text says how long ago, and so means another time whenever it is parsed."""
    try:
        return _parse_ago(text.strip(), datetime.now(UTC)) is not None
    except OverflowError:
        return True


def parse_consume_from(text: str, *, now: datetime) -> str:
    """Parse where a group begins: `auto`, `earliest`, `latest`, or a time, returned in the wire's milliseconds.

    Raises ValueError for anything else.
    """
    word = text.strip().lower()
    if word in BEGINNINGS:
        return word
    try:
        return str(round(parse_time(text, now=now).timestamp() * 1000))
    except ValueError as error:
        raise ValueError(f"{', '.join(BEGINNINGS)} or {error}") from None
