"""Limits of the invisible duration that a client requests (`consuming.md, Invisible durations`)."""

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import INVISIBLE_MAX_MS


def checked_invisible_ms(invisible_ms: int, *, at_least_ms: int) -> int:
    """Return `invisible_ms`. Raises ILLEGAL_INVISIBLE_TIME, with the words that programs search for in Apache's
    text."""
    if at_least_ms <= invisible_ms <= INVISIBLE_MAX_MS:
        return invisible_ms
    problem = "too small" if invisible_ms < at_least_ms else "too large"
    raise MessagingError(
        ErrorCode.ILLEGAL_INVISIBLE_TIME,
        f"the invisibleTime is {problem}: {invisible_ms} ms; {at_least_ms} to {INVISIBLE_MAX_MS} ms are allowed",
    )
