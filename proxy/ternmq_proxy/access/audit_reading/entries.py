"""The entries of the audit log, checked: a line that `AuditLog` did not write is no entry."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ternmq_common.limits import HOUR_MS

CLOCK_MS = HOUR_MS
"""How far the times of two consecutive lines may go back, since clocks are set."""
LEFT_OUT_MAX = (1 << 63) - 1
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One entry, as `AuditLog` writes it; its texts come from peers."""

    time_ms: int
    user: str
    source: str
    client_id: str
    call: str
    resource: str
    is_allowed: bool
    why: str
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Selects entries. Empty texts and None select all; `call` and `resource` ignore case, and `resource` is a part of
    the name. `since_ms` is the first time that is selected, `until_ms` the first that no longer is."""

    user: str = ""
    call: str = ""
    resource: str = ""
    is_allowed: bool | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def matches_entry(self, entry: AuditEntry) -> bool:
        """Return whether the filter selects the entry."""
        return (
            (not self.user or entry.user == self.user)
            and (not self.call or entry.call.lower() == self.call.lower())
            and (not self.resource or self.resource.lower() in entry.resource.lower())
            and (self.is_allowed is None or entry.is_allowed == self.is_allowed)
            and (self.since_ms is None or entry.time_ms >= self.since_ms)
            and (self.until_ms is None or entry.time_ms < self.until_ms)
        )

    def is_past(self, entry: AuditEntry) -> bool:
        """Return whether all entries before this one are too old."""
        return self.since_ms is not None and entry.time_ms < self.since_ms - CLOCK_MS

    def is_newer(self, line: bytes) -> bool:
        """Return whether all entries from this line on are too new."""
        if self.until_ms is None:
            return False
        entry = parse_entry(line)
        return entry is not None and entry.time_ms >= self.until_ms + CLOCK_MS


def parse_entry(line: bytes) -> AuditEntry | None:
    """Return the entry in a line, None if there is none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    try:
        return AuditEntry(
            time_ms=_time_ms(entry["time"]),
            user=_checked_text(entry["user"]),
            source=_checked_text(entry["source"]),
            client_id=_checked_text(entry["client"]),
            call=_checked_text(entry["call"]),
            resource=_checked_text(entry["resource"]),
            is_allowed=_checked_flag(entry["allowed"]),
            why=_checked_text(entry["why"]),
            left_out=_checked_count(entry.get("left_out", 0)),
        )
    except (KeyError, ValueError):
        return None


def _time_ms(value: Any) -> int:  # noqa: ANN401 - of JSON
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError(value)
    return round(datetime.fromisoformat(value).timestamp() * 1000)


def _checked_text(value: Any) -> str:  # noqa: ANN401
    """Check a text. Surrogates, which stand for bytes that were no text, can't be sent on."""
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - of a file, not of a caller
    return value.encode(errors="backslashreplace").decode()


def _checked_flag(value: Any) -> bool:  # noqa: ANN401
    if not isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004
    return value


def _checked_count(value: Any) -> int:  # noqa: ANN401
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LEFT_OUT_MAX:
        raise ValueError(value)
    return value
