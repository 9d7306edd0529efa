"""Time passes, for tests of applications."""

import logging
from typing import TYPE_CHECKING

from ternmq_common.clock import MovableClock
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import DAY_MS
from ternmq_proxy.access.needs import CLUSTER_UPDATE

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

_log = logging.getLogger(__name__)
_ADVANCE_MAX_MS = 3650 * DAY_MS
_LAST_YEAR_MS = 221_845_392_000_000  # the year 9000: later times, with what is added to them, have no timestamp


async def advance_clock(by_ms: int, call: "Call", services: "Services") -> int:
    """Move the server's clock ahead, and return its time; FORBIDDEN unless it was started with a test clock.

    Each call is one jump: all that becomes due is late at once, and nothing happens in between. A message that is
    to be tried three times, a minute apart, is tried once more after a jump of an hour. What push consumers that live
    hold stays theirs for as long as it would have without the jump.
    """
    services.access.require_change("AdvanceClock", call, (CLUSTER_UPDATE, "clock"))
    clock = services.clock
    if not isinstance(clock, MovableClock):
        raise MessagingError(
            ErrorCode.FORBIDDEN, "the clock of this server can't be moved; start one for tests with --test-clock"
        )
    if not 0 < by_ms <= _ADVANCE_MAX_MS:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"the clock is to move by {by_ms} ms; 1 to {_ADVANCE_MAX_MS} are allowed"
        )
    if clock.now_ms() + by_ms > _LAST_YEAR_MS:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the clock can't move beyond the year 9000")
    await services.renewal.prolong_before_shift(by_ms)
    clock.advance_by(by_ms)
    _log.info("the clock was moved ahead by %d ms", by_ms)
    return clock.now_ms()
