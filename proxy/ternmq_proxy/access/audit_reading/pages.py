"""Pages of the audit log: the entries of all processes of a server, merged by their times, the newest first.

Page        where each trail is to be read on: `PROCESS:MARK:END`, with commas between. A trail that is not in it has
            been read, or did not exist when the first page was created.
Bounds      of a page READ_BYTES_MAX are read, and a little; so it may be empty although more follow. Each goes back by
            a line at least.
"""

import asyncio
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_common.limits import KIB, MIB
from ternmq_proxy.access.audit_reading.entries import AuditEntry, EntryFilter, parse_entry
from ternmq_proxy.access.audit_reading.files import AuditTrail, ReadPosition, TrailReader, find_trails

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READ_BYTES_MAX = MIB
_AT_A_TIME_MAX, _AT_A_TIME_MIN = 64 * KIB, 4 * KIB
# All trails together may read half of the limit before the first entry is taken.
_FIRST_READ_PART = 4
_FLUSH_S = 2.0
_PLACE = re.compile(r"((?:worker-\d{1,9})?):([0-9a-f]{16}):(\d{1,18})", re.ASCII)


class BadPage(ValueError):
    """The page token is invalid."""


class NoFiles(Exception):
    """The log is written to a pipe or a terminal, which can't be read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """A page of the audit log: `entries` with the names of their processes. `following` is the token of the next page,
    empty at the end; `reached_ms` is the time of the last entry that was examined, None if there was none."""

    entries: list[tuple[str, AuditEntry]]
    following: str
    reached_ms: int | None
    damaged: int


class AuditHistory:
    """Reads what the processes of a server wrote to the files beside `path`. `flush` makes this process write its
    lines."""

    def __init__(self, path: "Path", flush: "Callable[[float], None]") -> None:
        self._path = path
        self._flush = flush
        self._turn = asyncio.Lock()

    async def load_page(self, wanted: EntryFilter, page: str, limit: int) -> AuditPage:
        """Return the entries behind a page token ("" for the newest), read in a thread, one caller at a time. Raises
        BadPage, NoFiles and OSError."""
        async with self._turn:
            return await asyncio.to_thread(self._read_entries, wanted, page, limit)

    def _read_entries(self, wanted: EntryFilter, page: str, limit: int) -> AuditPage:
        self._flush(_FLUSH_S)
        return read_page(self._path, wanted, page, limit)


def read_page(
    path: "Path", wanted: EntryFilter, page: str, limit: int, read_bytes_max: int = READ_BYTES_MAX
) -> AuditPage:
    """Return the entries behind a page token, at most `limit`. Raises BadPage, NoFiles and OSError."""
    if _is_no_file(path):
        raise NoFiles(path)
    places = _parse_positions(page)
    found = [trail for trail in find_trails(path) if not page or trail.process in places]
    at_a_time = read_bytes_max // (_FIRST_READ_PART * max(1, len(found)))
    at_a_time = max(_AT_A_TIME_MIN, min(_AT_A_TIME_MAX, at_a_time))
    heads = [_TrailHead(trail, places.get(trail.process), at_a_time, wanted) for trail in found]
    taking = _EntryMerge(heads, read_bytes_max)
    entries: list[tuple[str, AuditEntry]] = []
    reached_ms = None
    try:
        while len(entries) < limit and (taken := taking.next_entry()) is not None:
            reached_ms = taken[1].time_ms
            if wanted.matches_entry(taken[1]):
                entries.append(taken)
    finally:
        for head in heads:
            head.close()
    return AuditPage(
        entries=entries,
        following=",".join(f"{head.process}:{head.place.mark}:{head.place.end}" for head in heads if head.place),
        reached_ms=reached_ms,
        damaged=sum(head.damaged for head in heads),
    )


def _is_no_file(path: "Path") -> bool:
    """Return whether the path is no regular file. It looks once, since a rotation may come between two looks."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _parse_positions(page: str) -> dict[str, ReadPosition]:
    places = {}
    for part in page.split(",") if page else ():
        match = _PLACE.fullmatch(part)
        if match is None:
            raise BadPage(page)
        places[match[1]] = ReadPosition(match[2], int(match[3]))
    return places


class _TrailHead:
    """How far a trail was read: `place` is behind the last entry that was returned or skipped, None at the end; `entry`
    is the next one, if it is known."""

    def __init__(self, trail: AuditTrail, place: ReadPosition | None, at_a_time: int, wanted: EntryFilter) -> None:
        self.process = trail.process
        self._reader = TrailReader(trail, at_a_time, wanted.is_newer)
        self._steps = self._reader.read_steps(place)
        self._wanted = wanted
        self._next_place: ReadPosition | None = None
        self.place = place
        self.entry: AuditEntry | None = None
        self.damaged = 0
        self.is_over = False
        self.make_step()  # up to its first place, so that it has one, however little is read of the others

    @property
    def bytes_read(self) -> int:
        return self._reader.bytes_read

    def make_step(self) -> bool:
        """Make one step; return whether it skipped something."""
        step = next(self._steps, None)
        if step is None:
            self.is_over, self.place = True, None
            return True
        entry = None if step.line is None else parse_entry(step.line)
        if entry is not None:
            self.entry, self._next_place = entry, step.place
            return False
        self.damaged += step.is_damaged or step.line is not None
        is_further = step.place != self.place
        self.place = step.place
        return is_further

    def close(self) -> None:
        """Close the open file."""
        self._steps.close()

    def take_entry(self) -> AuditEntry:
        """Return the entry, and move behind it."""
        entry, self.entry = self.entry, None
        assert entry is not None
        self.place = self._next_place
        if self._wanted.is_past(entry):
            self.is_over, self.place = True, None
        return entry


@dataclass(slots=True)
class _EntryMerge:
    """Merges the entries of several trails, until a number of bytes is read."""

    heads: list[_TrailHead]
    read_bytes_max: int
    _is_further: bool = field(default=False, init=False)

    def next_entry(self) -> tuple[str, AuditEntry] | None:
        """Return the newest entry; None at the end, or when enough was read."""
        for head in self.heads:
            while head.entry is None and not head.is_over:
                if self._is_enough():
                    return None
                self._is_further |= head.make_step()
        newest = max((head for head in self.heads if head.entry), key=_time_of, default=None)
        if newest is None or self._is_enough():
            return None
        self._is_further = True
        return newest.process, newest.take_entry()

    def _is_enough(self) -> bool:
        """Return whether enough was read. Each page advances a little, so that paging always ends."""
        return self._is_further and sum(head.bytes_read for head in self.heads) >= self.read_bytes_max


def _time_of(head: _TrailHead) -> int:
    assert head.entry is not None
    return head.entry.time_ms
