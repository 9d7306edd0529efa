"""What a client may leave undone, and for how long: looked at now and then, so that a connection needs no timer."""

from typing import TYPE_CHECKING

from ternmq_rpc.grpc_http2.budgets import BODY_BYTES_PER_S
from ternmq_rpc.grpc_http2.frames import ErrorCode

if TYPE_CHECKING:
    from ternmq_rpc.grpc_http2.machine import S
    from ternmq_rpc.grpc_http2.server_machine import ServerMachine

# With as many connections as there may be, one without calls makes room for another.
IDLE_WHEN_CROWDED_S = 10.0


class TimeLimits:
    """Of one connection, which was made at `now`."""

    __slots__ = ("_asked", "_half", "_half_since", "_leaving", "_moved", "_sent")

    def __init__(self, now: float) -> None:
        self._half: tuple[int, int] | None = (0, 0)
        self._half_since = now
        self._sent = 0
        self._moved = now
        self._asked: float | None = None
        self._leaving = False

    def look(self, machine: "ServerMachine[S]", now: float, *, crowded: bool) -> "list[S]":
        """End the connection if its client was given time enough; the calls whose request should be there by now."""
        budgets = machine.budgets
        if self._is_half(machine, now):
            code = ErrorCode.PROTOCOL_ERROR if machine.greeted else ErrorCode.SETTINGS_TIMEOUT
            machine.fail(code, f"nothing whole came within {budgets.header_timeout_s:g} s", "header_timeout")
        elif self._reads_nothing(machine, now):
            text = f"it has read nothing for {budgets.output_timeout_s:g} s"
            machine.fail(ErrorCode.ENHANCE_YOUR_CALM, text, "output_timeout")
        elif machine.streams:
            machine.used = now
            self._leaving = False
            self._ask(machine, now)
        else:
            self._rest(machine, now, crowded=crowded)
        return [stream for stream in machine.unfinished.values() if _is_late(stream, now, budgets.body_timeout_s)]

    def _is_half(self, machine: "ServerMachine[S]", now: float) -> bool:
        """Whether a greeting, a frame or a header block has not come whole in its time."""
        half = machine.half or ((0, 0) if not machine.greeted else None)
        if half is None or half != self._half:
            self._half = half
            self._half_since = now
            return False
        return now - self._half_since > machine.budgets.header_timeout_s

    def _reads_nothing(self, machine: "ServerMachine[S]", now: float) -> bool:
        waits = machine.unread > 0 or machine.blocked
        if not waits or machine.sent != self._sent:
            self._sent = machine.sent
            self._moved = now
            return False
        return now - self._moved > machine.budgets.output_timeout_s

    def _ask(self, machine: "ServerMachine[S]", now: float) -> None:
        """Ask a client that is silent for a sign of life."""
        if now - machine.heard < machine.budgets.keepalive_s:
            self._asked = None
        elif self._asked is None:
            self._asked = now
            machine.ping()
        elif now - self._asked > machine.budgets.keepalive_timeout_s:
            machine.fail(ErrorCode.NO_ERROR, "it gave no sign of life", "keepalive")

    def _rest(self, machine: "ServerMachine[S]", now: float, *, crowded: bool) -> None:
        """Close a connection without calls, after it was told so: what is on its way comes by another one then."""
        idle_s = machine.budgets.idle_s
        if now - machine.used <= (min(idle_s, IDLE_WHEN_CROWDED_S) if crowded else idle_s):
            return
        if self._leaving:
            machine.fail(ErrorCode.NO_ERROR, "it has no calls", "idle")
        else:
            self._leaving = True
            machine.leave("the connection has no calls")


def _is_late(stream: "S", now: float, body_timeout_s: float) -> bool:
    """A large request may take longer, as long as it comes."""
    return now - stream.began > body_timeout_s + stream.held / BODY_BYTES_PER_S
