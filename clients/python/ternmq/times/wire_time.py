"""Converts times between the wire's form and Python's."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp
else:
    from ternmq_protos.pool import Duration, Timestamp

NANOS_PER_SECOND: Final = 1_000_000_000
NANOS_PER_MS: Final = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_duration(seconds: float) -> Duration:
    whole, nanos = divmod(round(seconds * NANOS_PER_SECOND), NANOS_PER_SECOND)
    return Duration(seconds=whole, nanos=nanos)


def to_seconds(value: Duration) -> float:
    return value.seconds + value.nanos / NANOS_PER_SECOND


def to_timestamp(nanos_since_1970: int) -> Timestamp:
    seconds, nanos = divmod(nanos_since_1970, NANOS_PER_SECOND)
    return Timestamp(seconds=seconds, nanos=nanos)


def to_nanos(moment: datetime) -> int:
    """Return the nanoseconds since 1970 of an aware time."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def to_datetime(value: Timestamp) -> datetime:
    """Return an aware time in UTC, to the microsecond, the finest that it can hold."""
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
