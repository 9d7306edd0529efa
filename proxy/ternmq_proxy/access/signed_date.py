"""The date that a client signs, and when it is valid.

Official clients write it in two forms. RFC 3339 says its offset (Rust). `yyyyMMdd'T'HHmmss'Z'` says UTC, but only
Node.js and C++ mean it: Java, Go, Python and C# write the time of their zone with that Z. A zone is a whole number of
quarter hours from UTC, from -12 to +14 h. So such a date is of now if it is within the window around the time of any
zone. With a window of eight minutes and more those windows touch: a date of the last 12 hours is taken as any other.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ternmq_common.limits import HOUR_MS, MINUTE_MS

_COMPACT = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ZONE_STEP_MS = 15 * MINUTE_MS
_WEST_MS, _EAST_MS = -12 * HOUR_MS, 14 * HOUR_MS


class SignedDate(NamedTuple):
    """A signed date, `moment_ms` since the epoch if it is UTC; `may_be_local` if it has the form in which clients also
    write local times."""

    moment_ms: int
    may_be_local: bool

    def accepted_span(self, now_ms: int, window_ms: int, *, local_time: bool) -> tuple[int, int] | None:
        """Return from when to when the date is valid, None if it is not valid now. It may differ from now by the
        window; with `local_time` from now in any time zone, if it may be local."""
        moment_ms = self.moment_ms
        if local_time and self.may_be_local:
            zone_ms = (moment_ms - now_ms + _ZONE_STEP_MS // 2) // _ZONE_STEP_MS * _ZONE_STEP_MS
            moment_ms -= min(max(zone_ms, _WEST_MS), _EAST_MS)
        span = moment_ms - window_ms, moment_ms + window_ms
        return span if span[0] <= now_ms <= span[1] else None


def parse_date(text: str) -> SignedDate | None:
    """Return the date, None if the text has neither form."""
    is_compact = _COMPACT.fullmatch(text) is not None
    if not is_compact and not _RFC_3339.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return SignedDate((moment - _EPOCH) // _MILLISECOND, is_compact)
