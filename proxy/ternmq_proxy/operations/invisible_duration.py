"""Limits of the invisible duration that a client requests (`consuming.md, Invisible durations`)."""

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import INVISIBLE_MAX_MS


def checked_invisible_ms(asked: int, *, at_least_ms: int) -> int:
    """Return `asked`. Raises ILLEGAL_INVISIBLE_TIME, with the words that programs search for in Apache's text."""
    if at_least_ms <= asked <= INVISIBLE_MAX_MS:
        return asked
    problem = "too small" if asked < at_least_ms else "too large"
    raise MessagingError(
        ErrorCode.ILLEGAL_INVISIBLE_TIME,
        f"the invisibleTime is {problem}: {asked} ms; {at_least_ms} to {INVISIBLE_MAX_MS} ms are allowed",
    )
