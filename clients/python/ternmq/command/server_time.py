"""What time it is at a server, and how far that is ahead of this machine.

A server may be ahead for hours: `ternmq up --test-clock` has a clock that tests move. The module imports grpc, so
subcommands import it when they run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from ternmq.command.admin import AdminClient
from ternmq.command.failures import CommandFailure, Unreachable


class _Answer(Protocol):
    @property
    def now(self) -> Timestamp: ...


A = TypeVar("A", bound=_Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTime:
    """`now` is the server's; `ahead` is exact to half of the time that the call took, negative when it is behind."""

    now: datetime
    ahead: timedelta


def timed(ask: Callable[[], A]) -> tuple[A, ServerTime | None]:
    """An answer that tells the server's time, and that time; None if the server is too old to tell."""
    before = datetime.now(UTC)
    answer = ask()
    after = datetime.now(UTC)
    if not answer.now.seconds:
        return answer, None
    now = answer.now.ToDatetime(tzinfo=UTC)
    return answer, ServerTime(now=now, ahead=now - (before + (after - before) / 2))


def moved_ahead(endpoint: str) -> timedelta:
    """How far tests have moved the server's clock ahead; nothing for a server that has no such clock.

    The clocks of other servers are not looked at: there, as for every client, the times of this machine count.
    """
    try:
        with AdminClient(endpoint) as admin:
            info, time = timed(admin.server_info)
    except Unreachable:
        raise
    except CommandFailure:  # no TernMQ
        return timedelta(0)
    return time.ahead if info.test_clock and time else timedelta(0)
