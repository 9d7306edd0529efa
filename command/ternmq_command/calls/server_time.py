"""What time it is at a server, and how far that is ahead of this machine.

A server may be ahead for hours: `ternmq up --test-clock` has a clock that tests move. The module imports grpc, so
subcommands import it when they run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from ternmq_command.calls.admin import AdminClient
from ternmq_command.terminal.failures import CommandFailure, Unreachable

if TYPE_CHECKING:
    from ternmq.admin.brokers import ServerInfo

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTime:
    """`now` is the server's; `ahead` is exact to half of the time that the call took, negative when it is behind."""

    now: datetime
    ahead: timedelta


def timed(ask: Callable[[], A], told: Callable[[A], datetime | None]) -> tuple[A, ServerTime | None]:
    """An answer and the server's time, which `told` finds in it; None if the server is too old to tell."""
    before = datetime.now(UTC)
    answer = ask()
    after = datetime.now(UTC)
    now = told(answer)
    if now is None:
        return answer, None
    return answer, ServerTime(now=now, ahead=now - (before + (after - before) / 2))


def now_of(info: "ServerInfo") -> datetime | None:
    return info.now


def moved_ahead(endpoint: str) -> timedelta:
    """How far tests have moved the server's clock ahead; nothing for a server that has no such clock.

    The clocks of other servers are not looked at: there, as for every client, the times of this machine count.
    """
    try:
        with AdminClient(endpoint) as admin:
            info, time = timed(admin.server_info, now_of)
    except Unreachable:
        raise
    except CommandFailure:  # no TernMQ
        return timedelta(0)
    return time.ahead if info.test_clock and time else timedelta(0)
