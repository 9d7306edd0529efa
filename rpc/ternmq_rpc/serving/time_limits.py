"""Time limits of a client's connection, checked at intervals, so that a connection needs no timer."""

from typing import Final, Protocol, TypeVar

from ternmq_rpc.serving.budgets import BODY_BYTES_PER_S, ConnectionBudgets


class TimedRequest(Protocol):
    """A request that has not come whole: when it began, and the bytes of it that have come."""

    request_began: float
    held_bytes: int


Request = TypeVar("Request", bound=TimedRequest)


class TimedConnection(Protocol[Request]):
    """The state of a client's connection, in seconds of a clock that only grows.

    `greeted`: it has begun as its protocol wants it. `blocked`: the network takes nothing. `unfinished` are requests
    that have not come whole. `last_read` is when bytes came last, `last_used` when a call was opened last.
    """

    budgets: ConnectionBudgets
    greeted: bool
    blocked: bool
    last_read: float
    last_used: float
    unfinished: dict[int, Request]

    @property
    def unfinished_input(self) -> tuple[int, int] | None:
        """The progress of an incomplete request, as two numbers that change when more comes; None without one."""

    @property
    def unread_bytes(self) -> int:
        """The bytes that wait for the client."""

    @property
    def sent_bytes(self) -> int:
        """The bytes that were sent."""

    @property
    def has_calls(self) -> bool:
        """Whether calls are in progress."""

    def fail_time_limit(self, limit: str, text: str) -> None:
        """End the connection, since its client exceeded the limit of this name."""

    def send_ping(self) -> None:
        """Have the client give a sign of life."""

    def stop_calls(self, why: str) -> None:
        """Tell the client to open no more calls here."""


# When there are as many connections as allowed, one without calls is closed after this.
IDLE_WHEN_CROWDED_S: Final = 10.0


class TimeLimits:
    """The time limits of one connection, which was opened at `now`."""

    __slots__ = ("_had_calls", "_half", "_half_since", "_leaving", "_moved", "_pinged_at", "_sent")

    def __init__(self, now: float) -> None:
        self._half: tuple[int, int] | None = (0, 0)
        self._half_since = now
        self._sent = 0
        self._moved = now
        self._pinged_at: float | None = None
        self._leaving = self._had_calls = False

    def check_limits(self, connection: TimedConnection[Request], now: float, *, crowded: bool) -> list[Request]:
        """Fail the connection if its client took too long; return the calls whose request is overdue."""
        budgets = connection.budgets
        if self._is_incomplete(connection, now):
            connection.fail_time_limit("header_timeout", f"nothing whole came within {budgets.header_timeout_s:g} s")
        elif self._reads_nothing(connection, now):
            text = f"it has read nothing for {budgets.output_timeout_s:g} s"
            connection.fail_time_limit("output_timeout", text)
        else:
            self._check_calls(connection, now, crowded=crowded)
        return [request for request in connection.unfinished.values() if _is_late(request, now, budgets.body_timeout_s)]

    def quiet_until(self, connection: TimedConnection[Request]) -> float:
        """Return when a connection that was just checked exceeds a limit at the earliest, if nothing comes and nothing
        is sent; 0 if that can be at any time."""
        waits = self._half is not None or connection.unread_bytes > 0 or connection.blocked or connection.unfinished
        if waits or self._pinged_at is not None or self._leaving:
            return 0.0
        if connection.has_calls:
            return connection.last_read + connection.budgets.keepalive_s
        return connection.last_used + connection.budgets.idle_s

    def _check_calls(self, connection: TimedConnection[Request], now: float, *, crowded: bool) -> None:
        has_calls = connection.has_calls
        if has_calls or self._had_calls:  # the last of them ended since the last check
            connection.last_used = now
        self._had_calls = has_calls
        if has_calls:
            self._leaving = False
            self._check_alive(connection, now)
        else:
            self._close_idle(connection, now, crowded=crowded)

    def _is_incomplete(self, connection: TimedConnection[Request], now: float) -> bool:
        """Return whether a greeting, a frame or a header block was not completed in time."""
        half = connection.unfinished_input or ((0, 0) if not connection.greeted else None)
        if half is None or half != self._half:
            self._half = half
            self._half_since = now
            return False
        return now - self._half_since > connection.budgets.header_timeout_s

    def _reads_nothing(self, connection: TimedConnection[Request], now: float) -> bool:
        waits = connection.unread_bytes > 0 or connection.blocked
        if not waits or connection.sent_bytes != self._sent:
            self._sent = connection.sent_bytes
            self._moved = now
            return False
        return now - self._moved > connection.budgets.output_timeout_s

    def _check_alive(self, connection: TimedConnection[Request], now: float) -> None:
        """Send a PING to a silent client; fail the connection if it does not answer."""
        if now - connection.last_read < connection.budgets.keepalive_s:
            self._pinged_at = None
        elif self._pinged_at is None:
            self._pinged_at = now
            connection.send_ping()
        elif now - self._pinged_at > connection.budgets.keepalive_timeout_s:
            connection.fail_time_limit("keepalive", "it gave no sign of life")

    def _close_idle(self, connection: TimedConnection[Request], now: float, *, crowded: bool) -> None:
        """Close a connection without calls. Its client gets a GOAWAY first, so that a new call uses another
        connection."""
        idle_s = connection.budgets.idle_s
        if now - connection.last_used <= (min(idle_s, IDLE_WHEN_CROWDED_S) if crowded else idle_s):
            return
        if self._leaving:
            connection.fail_time_limit("idle", "it has no calls")
        else:
            self._leaving = True
            connection.stop_calls("the connection has no calls")


def _is_late(request: TimedRequest, now: float, body_timeout_s: float) -> bool:
    """Return whether a request is overdue. A large one may take longer, as long as its bytes arrive."""
    return now - request.request_began > body_timeout_s + request.held_bytes / BODY_BYTES_PER_S
