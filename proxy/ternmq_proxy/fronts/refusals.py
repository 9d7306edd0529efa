"""Logs calls that are answered with an error, once a minute for each host, call and code."""

import logging
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, code_name
from ternmq_common.pacing.log_throttle import LogThrottle, left_out_text
from ternmq_common.printable import cut_text

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_TEXT_MAX = 300
# An empty answer, which is no error; and an error that is logged where it occurred.
_NONE = frozenset(
    {
        ErrorCode.OK,
        ErrorCode.MESSAGE_NOT_FOUND,
        ErrorCode.OFFSET_NOT_FOUND,
        ErrorCode.INTERNAL_SERVER_ERROR,
    }
)


class RefusalLog:
    """The log of refused calls of one front. `now` is a monotonic clock in seconds."""

    def __init__(self, now: "Callable[[], float]") -> None:
        self._throttle = LogThrottle(now)

    def log_refusal(self, name: str, code: int, text: str, *, client_id: str, peer: str) -> None:
        """Log that the call `name` of a client at `peer` (`host:port`) was answered with that code and text."""
        if code in _NONE:
            return
        left_out = self._throttle.admit_line(peer, f"{name} {code}")
        if left_out is not None:
            _log.info(
                "%s of client %s at %s was refused: %s: %s%s",
                name, cut_text(client_id) or "without a name", peer, code_name(code), cut_text(text, _TEXT_MAX),
                left_out_text(left_out),
            )  # fmt: skip
