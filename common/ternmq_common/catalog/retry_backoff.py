"""How long a message waits after a failed delivery (`consuming.md, Back-off`): steps of a table, or a curve.

Text       `customized:1s,5s,10s` or `exponential:5s,2h,2` (first wait, longest wait, factor); the empty text and
           `customized` alone stand for the 18 delay levels of RocketMQ, `exponential` alone for 5s,2h,2.
Who waits  push consumers compute the wait themselves, from their settings, and hide the message for that long. The
           server applies it where it makes a message ready again on its own.
"""

from dataclasses import dataclass
from functools import lru_cache

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import HOUR_MS, INVISIBLE_MAX_MS, MINUTE_MS, SECOND_MS
from ternmq_common.units import parse_duration, render_duration

DELAY_LEVELS_MS = (
    *(seconds * SECOND_MS for seconds in (1, 5, 10, 30)),
    *(minutes * MINUTE_MS for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    HOUR_MS,
    2 * HOUR_MS,
)
_STEPS_MAX = 64
_DEFAULT_CURVE = ("5s", "2h", "2")


@dataclass(frozen=True, slots=True)
class CustomizedSteps:
    """One wait for each attempt, in milliseconds; the last one repeats."""

    steps_ms: tuple[int, ...] = DELAY_LEVELS_MS

    def delay_ms(self, attempt: int) -> int:
        """The wait after the `attempt`-th delivery failed; attempts count from 1."""
        return self.steps_ms[min(max(attempt, 1), len(self.steps_ms)) - 1]

    def __str__(self) -> str:
        return _render_steps(self.steps_ms)


@lru_cache(maxsize=256)
def _render_steps(steps_ms: tuple[int, ...]) -> str:
    """Render the steps; cached, as most groups have the same, and lists of groups have them for each."""
    return "customized:" + ",".join(map(render_duration, steps_ms))


@dataclass(frozen=True, slots=True)
class ExponentialCurve:
    """`initial_ms`, each time `multiplier` times longer, at most `max_ms`."""

    initial_ms: int
    max_ms: int
    multiplier: float

    def delay_ms(self, attempt: int) -> int:
        """The wait after the `attempt`-th delivery failed; attempts count from 1."""
        delay = float(self.initial_ms)
        for _ in range(attempt - 1):
            if delay >= self.max_ms:
                break
            delay *= self.multiplier
        return min(int(delay), self.max_ms)

    def __str__(self) -> str:
        return f"exponential:{render_duration(self.initial_ms)},{render_duration(self.max_ms)},{self.multiplier:g}"


RetryBackoff = CustomizedSteps | ExponentialCurve
DEFAULT_BACKOFF: RetryBackoff = CustomizedSteps()


def parse_backoff(text: str) -> RetryBackoff:
    """Parse a policy; BAD_REQUEST if it is invalid."""
    kind, _, values = text.strip().partition(":")
    parts = tuple(part.strip() for part in values.split(",") if part.strip())
    if kind in ("", "customized"):
        return _parse_steps(parts) if parts else CustomizedSteps()
    if kind == "exponential":
        return _parse_curve(parts or _DEFAULT_CURVE)
    raise _backoff_error(text, "it begins with customized: or exponential:")


def _parse_steps(parts: tuple[str, ...]) -> CustomizedSteps:
    if len(parts) > _STEPS_MAX:
        raise _backoff_error(",".join(parts), f"{_STEPS_MAX} steps are allowed")
    return CustomizedSteps(tuple(map(_parse_wait_ms, parts)))


def _parse_curve(parts: tuple[str, ...]) -> ExponentialCurve:
    if len(parts) != len(_DEFAULT_CURVE):
        raise _backoff_error(
            ",".join(parts), "first wait, longest wait and factor are needed, as in exponential:5s,2h,2"
        )
    initial_ms, max_ms = _parse_wait_ms(parts[0]), _parse_wait_ms(parts[1])
    try:
        multiplier = float(parts[2])
    except ValueError:
        raise _backoff_error(parts[2], "the factor is a number") from None
    if not (1 <= multiplier <= 1000 and 0 < initial_ms <= max_ms):
        raise _backoff_error(
            ",".join(parts), "the first wait is above 0, the longest not shorter, the factor 1 to 1000"
        )
    return ExponentialCurve(initial_ms, max_ms, multiplier)


def _parse_wait_ms(text: str) -> int:
    try:
        wait_ms = int(parse_duration(text, unit="ms")) if not text.isdigit() else int(text) * SECOND_MS
    except ValueError as error:
        raise _backoff_error(text, str(error)) from None
    if wait_ms > INVISIBLE_MAX_MS:
        raise _backoff_error(text, f"a wait is at most {render_duration(INVISIBLE_MAX_MS)}")
    return wait_ms


def _backoff_error(text: str, reason: str) -> MessagingError:
    return MessagingError(ErrorCode.BAD_REQUEST, f"the retry backoff {text!r} can't be used: {reason}")
