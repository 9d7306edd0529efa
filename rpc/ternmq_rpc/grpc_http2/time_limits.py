"""Time limits of a client's connection, checked at intervals, so that a connection needs no timer."""

from typing import TYPE_CHECKING

from ternmq_rpc.grpc_http2.budgets import BODY_BYTES_PER_S
from ternmq_rpc.grpc_http2.frames import ErrorCode

if TYPE_CHECKING:
    from ternmq_rpc.grpc_http2.machine import S
    from ternmq_rpc.grpc_http2.server_machine import ServerMachine

# When there are as many connections as allowed, one without calls is closed after this.
IDLE_WHEN_CROWDED_S = 10.0


class TimeLimits:
    """The time limits of one connection, which was opened at `now`."""

    __slots__ = ("_half", "_half_since", "_leaving", "_moved", "_pinged_at", "_sent")

    def __init__(self, now: float) -> None:
        self._half: tuple[int, int] | None = (0, 0)
        self._half_since = now
        self._sent = 0
        self._moved = now
        self._pinged_at: float | None = None
        self._leaving = False

    def check_limits(self, machine: "ServerMachine[S]", now: float, *, crowded: bool) -> "list[S]":
        """Fail the connection if its client took too long; return the calls whose request is overdue."""
        budgets = machine.budgets
        if self._is_incomplete(machine, now):
            code = ErrorCode.PROTOCOL_ERROR if machine.greeted else ErrorCode.SETTINGS_TIMEOUT
            machine.fail_connection(code, f"nothing whole came within {budgets.header_timeout_s:g} s", "header_timeout")
        elif self._reads_nothing(machine, now):
            text = f"it has read nothing for {budgets.output_timeout_s:g} s"
            machine.fail_connection(ErrorCode.ENHANCE_YOUR_CALM, text, "output_timeout")
        elif machine.streams:
            machine.last_used = now
            self._leaving = False
            self._check_alive(machine, now)
        else:
            self._close_idle(machine, now, crowded=crowded)
        return [stream for stream in machine.unfinished.values() if _is_late(stream, now, budgets.body_timeout_s)]

    def _is_incomplete(self, machine: "ServerMachine[S]", now: float) -> bool:
        """Return whether a greeting, a frame or a header block was not completed in time."""
        half = machine.unfinished_input or ((0, 0) if not machine.greeted else None)
        if half is None or half != self._half:
            self._half = half
            self._half_since = now
            return False
        return now - self._half_since > machine.budgets.header_timeout_s

    def _reads_nothing(self, machine: "ServerMachine[S]", now: float) -> bool:
        waits = machine.unread_bytes > 0 or machine.blocked
        if not waits or machine.sent_bytes != self._sent:
            self._sent = machine.sent_bytes
            self._moved = now
            return False
        return now - self._moved > machine.budgets.output_timeout_s

    def _check_alive(self, machine: "ServerMachine[S]", now: float) -> None:
        """Send a PING to a silent client; fail the connection if it does not answer."""
        if now - machine.last_read < machine.budgets.keepalive_s:
            self._pinged_at = None
        elif self._pinged_at is None:
            self._pinged_at = now
            machine.send_ping()
        elif now - self._pinged_at > machine.budgets.keepalive_timeout_s:
            machine.fail_connection(ErrorCode.NO_ERROR, "it gave no sign of life", "keepalive")

    def _close_idle(self, machine: "ServerMachine[S]", now: float, *, crowded: bool) -> None:
        """Close a connection without calls. Its client is told first, so that a new call uses another connection."""
        idle_s = machine.budgets.idle_s
        if now - machine.last_used <= (min(idle_s, IDLE_WHEN_CROWDED_S) if crowded else idle_s):
            return
        if self._leaving:
            machine.fail_connection(ErrorCode.NO_ERROR, "it has no calls", "idle")
        else:
            self._leaving = True
            machine.stop_calls("the connection has no calls")


def _is_late(stream: "S", now: float, body_timeout_s: float) -> bool:
    """Return whether a request is overdue. A large one may take longer, as long as its bytes arrive."""
    return now - stream.request_began > body_timeout_s + stream.held_bytes / BODY_BYTES_PER_S
