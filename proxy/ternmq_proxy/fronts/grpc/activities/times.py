"""Times of the protocol as the numbers that operations take."""

from typing import TYPE_CHECKING

from ternmq_proxy.operations.message_checks import whole_ms

if TYPE_CHECKING:
    from ternmq_protos.pool import Timestamp


def time_ms(stamp: "Timestamp") -> int:
    """Return a time in whole milliseconds since the epoch, for any two numbers; ToMilliseconds refuses times that no
    calendar has."""
    return whole_ms(stamp.seconds * 1_000_000_000 + stamp.nanos)
