"""Points in time as people type them: ISO 8601, with or without a zone, or how long ago (`2h`, `-2h`)."""

from datetime import UTC, datetime, timedelta

from ternmq_command.terminal.output import iso_datetime
from ternmq_common.units import parsed_duration

CONSUME_FROM_WORDS = ("auto", "earliest", "latest")
_NEEDED = "a time like 2026-08-01T12:00, 2026-08-01T12:00:00Z or 2h (ago) is needed"


def moment_of(text: str, *, now: datetime) -> datetime:
    """An aware time; one without a zone is in the local one. ValueError says what is allowed."""
    try:
        moment = _ago(text.strip(), now) or _iso_8601(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError(_NEEDED) from None
    return _after_1970(moment)


def exact_moment_of(text: str) -> datetime:
    """As `moment_of`, but not how long ago: for times to come, where `2h` would be taken for two hours from now."""
    try:
        moment = _iso_8601(text)
    except (ValueError, OverflowError, OSError):
        raise ValueError("a time like 2026-08-01T12:00 or 2026-08-01T12:00:00Z is needed") from None
    return _after_1970(moment)


def _iso_8601(text: str) -> datetime:
    return datetime.fromisoformat(text.strip()).astimezone()


def _after_1970(moment: datetime) -> datetime:
    if moment.timestamp() < 0:
        raise ValueError("a time after 1970 is needed")
    return moment


def _ago(text: str, now: datetime) -> datetime | None:
    """None if the text does not end in a unit: a bare number would be a date to one reader and seconds to another."""
    if not text[-1:].isalpha():
        return None
    try:
        return now - timedelta(seconds=float(parsed_duration(text.removeprefix("-"), unit="s")))
    except ValueError:
        return None


def is_ago(text: str) -> bool:
    """Whether it says how long ago, so that it is another time whenever it is read."""
    try:
        return _ago(text.strip(), datetime.now(UTC)) is not None
    except OverflowError:
        return True


def consume_from_of(text: str, *, now: datetime) -> str:
    """`auto`, `earliest`, `latest`, or a time as the milliseconds that the wire has; ValueError for anything else."""
    word = text.strip().lower()
    if word in CONSUME_FROM_WORDS:
        return word
    try:
        return str(round(moment_of(text, now=now).timestamp() * 1000))
    except ValueError as error:
        raise ValueError(f"{', '.join(CONSUME_FROM_WORDS)} or {error}") from None


def shown_consume_from(value: str) -> str:
    """What `consume_from_of` reads, of what the wire has."""
    if not value.isdigit():
        return value or CONSUME_FROM_WORDS[0]
    try:
        return iso_datetime(datetime.fromtimestamp(int(value) / 1000, UTC), timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return value
