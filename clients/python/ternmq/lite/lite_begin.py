"""The place where a group begins in a lite topic when one of its clients subscribes to it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ternmq.times.wire_time import NANOS_PER_MS, to_nanos
from ternmq_protos.v2 import definition_pb2 as pb

_POLICIES = {"earliest": pb.OffsetOption.MIN, "latest": pb.OffsetOption.MAX}
_NUMBER_MAX = 1 << 62


@dataclass(frozen=True, slots=True)
class Tail:
    """The last `count` messages that exist, and all later ones. ValueError for a count below 0."""

    count: int

    def __post_init__(self) -> None:
        _check_number("count", self.count)


LiteBegin: TypeAlias = Literal["earliest", "latest"] | datetime | int | Tail
"""The first message that exists; the next that arrives; the first that was stored at or after a time; an offset in the
lite topic, as a message's `offset` (the first need not be 0); or the last few. Servers take the nearest message to a
time or offset without one; Apache RocketMQ ignores times, and counts a `Tail` from the group's position."""


def offset_option(begin: LiteBegin) -> pb.OffsetOption:
    """Encode it for the wire; ValueError for an invalid one."""
    if isinstance(begin, Tail):
        return pb.OffsetOption(tail_n=begin.count)
    if isinstance(begin, datetime):
        if begin.tzinfo is None:
            raise ValueError(f"{begin!r} has no time zone; write datetime(..., tzinfo=UTC)")
        return pb.OffsetOption(timestamp=max(0, to_nanos(begin) // NANOS_PER_MS))
    if isinstance(begin, int) and not isinstance(begin, bool):
        _check_number("begin", begin)
        return pb.OffsetOption(offset=begin)
    if begin in _POLICIES:
        return pb.OffsetOption(policy=_POLICIES[begin])
    raise ValueError(f"begin={begin!r} is neither 'earliest' nor 'latest' nor a datetime, an offset or a Tail")


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= _NUMBER_MAX:
        raise ValueError(f"{name}={number} must not be negative, nor more than any queue has")
