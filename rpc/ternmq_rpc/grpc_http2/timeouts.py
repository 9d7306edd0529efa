"""How long the client of a call waits, as gRPC has it."""

import functools
from typing import Final

TIMEOUT: Final = "grpc-timeout"
# A call that would end later has no deadline: its timer would outlive it for too long.
LATEST_S: Final = 24 * 3600.0
_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_DIGITS_MAX: Final = 8
_CACHED_MAX: Final = 4096


@functools.lru_cache(_CACHED_MAX)  # clients send nearly the same timeouts again and again
def parse_timeout(text: str) -> float | None:
    """Return the seconds of a header `grpc-timeout`; None if it is malformed, or so long that it does not matter."""
    digits, unit = text[:-1], _UNITS_S.get(text[-1:])
    if unit is None or not (digits.isascii() and digits.isdecimal()) or len(digits) > _DIGITS_MAX:
        return None
    seconds = int(digits) * unit
    return seconds if seconds <= LATEST_S else None


def format_timeout(seconds: float) -> str:
    """Return the header for so many seconds, which are more than 0."""
    milliseconds = max(1, round(seconds * 1000))
    return f"{milliseconds}m" if milliseconds < 10**_DIGITS_MAX else f"{min(round(seconds), 10**_DIGITS_MAX - 1)}S"
