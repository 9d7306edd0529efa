"""Reads the clock of a server, and how far it is ahead of this machine's.

A server may be ahead by hours: `ternmq up --test-clock` has a clock that tests move. The module imports grpc, so
subcommands import it when they run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from ternmq_command.calls.admin import AdminClient
from ternmq_command.terminal.failures import CommandFailure, ServerUnreachable

if TYPE_CHECKING:
    from ternmq.admin.brokers import ServerInfo

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTime:
    """The server's time, and how far it is `ahead`, exact to half of the call's duration; negative if it is behind."""

    now: datetime
    ahead: timedelta


def call_with_time(ask: Callable[[], A], time_of: Callable[[A], datetime | None]) -> tuple[A, ServerTime | None]:
    """Call `ask`; return its answer, and the server's time that `time_of` reads from it, None from an older server."""
    before = datetime.now(UTC)
    answer = ask()
    after = datetime.now(UTC)
    now = time_of(answer)
    if now is None:
        return answer, None
    return answer, ServerTime(now=now, ahead=now - (before + (after - before) / 2))


def server_now(info: "ServerInfo") -> datetime | None:
    return info.now


def clock_advance(endpoint: str) -> timedelta:
    """Return how far tests have moved the server's clock ahead; zero for a server without a test clock.

    Clocks of other servers are ignored: with them, as for every client, the time of this machine counts.
    """
    from ternmq.admin import brokers as broker_calls

    try:
        with AdminClient(endpoint) as admin:
            info, time = call_with_time(lambda: admin.send_call(broker_calls.server_info()), server_now)
    except ServerUnreachable:
        raise
    except CommandFailure:  # no TernMQ
        return timedelta(0)
    return time.ahead if info.test_clock and time else timedelta(0)
