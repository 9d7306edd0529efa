"""Pages of the audit log: the entries of all processes of a server, merged by their times, the newest first.

Page        where each trail is to be read on: `PROCESS:MARK:END`, with commas between. A trail that is not in it has
            been read, or did not exist when the first page was made.
Bounds      of a page READ_BYTES_MAX are read, and a little; so it may be empty although more follow. Each goes back by
            a line at least.
"""

import asyncio
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_common.limits import KIB, MIB
from ternmq_proxy.access.audit_reading.entries import Entry, Wanted, parsed
from ternmq_proxy.access.audit_reading.files import Place, Trail, TrailReader, trails

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READ_BYTES_MAX = MIB
_AT_A_TIME_MAX, _AT_A_TIME_MIN = 64 * KIB, 4 * KIB
# All trails together have not read the half before the first entry is taken.
_FIRST_READ_PART = 4
_FLUSH_S = 2.0
_PLACE = re.compile(r"((?:worker-\d{1,9})?):([0-9a-f]{16}):(\d{1,18})", re.ASCII)


class BadPage(ValueError):
    """No page was ever called so."""


class NoFiles(Exception):
    """What is written there can't be read again: a pipe, a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`entries` with the names of their processes; `following` is empty at the end; `reached_ms` is the time of the
    last entry that was looked at, None for none."""

    entries: list[tuple[str, Entry]]
    following: str
    reached_ms: int | None
    damaged: int


class AuditHistory:
    """What processes of a server wrote to the files beside `path`. `flush` has this process's lines written."""

    def __init__(self, path: "Path", flush: "Callable[[float], None]") -> None:
        self._path = path
        self._flush = flush
        self._turn = asyncio.Lock()

    async def page(self, wanted: Wanted, page: str, limit: int) -> Page:
        """The entries behind that page, "" for the newest, read in a thread, for one caller at a time. BadPage,
        NoFiles, OSError."""
        async with self._turn:
            return await asyncio.to_thread(self._read, wanted, page, limit)

    def _read(self, wanted: Wanted, page: str, limit: int) -> Page:
        self._flush(_FLUSH_S)
        return read_page(self._path, wanted, page, limit)


def read_page(path: "Path", wanted: Wanted, page: str, limit: int, read_bytes_max: int = READ_BYTES_MAX) -> Page:
    """The entries behind that page, `limit` at most; BadPage, NoFiles, OSError."""
    if _is_no_file(path):
        raise NoFiles(path)
    places = _places(page)
    found = [trail for trail in trails(path) if not page or trail.process in places]
    at_a_time = read_bytes_max // (_FIRST_READ_PART * max(1, len(found)))
    at_a_time = max(_AT_A_TIME_MIN, min(_AT_A_TIME_MAX, at_a_time))
    heads = [_Head(trail, places.get(trail.process), at_a_time, wanted) for trail in found]
    taking = _Taking(heads, read_bytes_max)
    entries: list[tuple[str, Entry]] = []
    reached_ms = None
    try:
        while len(entries) < limit and (taken := taking.next()) is not None:
            reached_ms = taken[1].time_ms
            if wanted.takes(taken[1]):
                entries.append(taken)
    finally:
        for head in heads:
            head.close()
    return Page(
        entries=entries,
        following=",".join(f"{head.process}:{head.place.mark}:{head.place.end}" for head in heads if head.place),
        reached_ms=reached_ms,
        damaged=sum(head.damaged for head in heads),
    )


def _is_no_file(path: "Path") -> bool:
    """One look, as the file may be put aside between two."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _places(page: str) -> dict[str, Place]:
    places = {}
    for part in page.split(",") if page else ():
        match = _PLACE.fullmatch(part)
        if match is None:
            raise BadPage(page)
        places[match[1]] = Place(match[2], int(match[3]))
    return places


class _Head:
    """How far a trail was read: `place` is behind what was told or passed over, None if there is nothing any more, and
    `entry` the next one, if that is known."""

    def __init__(self, trail: Trail, place: Place | None, at_a_time: int, wanted: Wanted) -> None:
        self.process = trail.process
        self._reader = TrailReader(trail, at_a_time, wanted.is_newer)
        self._steps = self._reader.steps(place)
        self._wanted = wanted
        self._next_place: Place | None = None
        self.place = place
        self.entry: Entry | None = None
        self.damaged = 0
        self.is_over = False
        self.advance()  # to its first place, so that it has one, however little is read of the others

    @property
    def bytes_read(self) -> int:
        return self._reader.bytes_read

    def advance(self) -> bool:
        """Make one step; whether that passes something over."""
        step = next(self._steps, None)
        if step is None:
            self.is_over, self.place = True, None
            return True
        entry = None if step.line is None else parsed(step.line)
        if entry is not None:
            self.entry, self._next_place = entry, step.place
            return False
        self.damaged += step.is_damaged or step.line is not None
        is_further = step.place != self.place
        self.place = step.place
        return is_further

    def close(self) -> None:
        """Have no file open any more."""
        self._steps.close()

    def take(self) -> Entry:
        """The entry, which is behind then."""
        entry, self.entry = self.entry, None
        assert entry is not None
        self.place = self._next_place
        if self._wanted.is_past(entry):
            self.is_over, self.place = True, None
        return entry


@dataclass(slots=True)
class _Taking:
    """Takes entries from several trails, until so many bytes are read."""

    heads: list[_Head]
    read_bytes_max: int
    _is_further: bool = field(default=False, init=False)

    def next(self) -> tuple[str, Entry] | None:
        """The newest; None at the end, or if enough was read."""
        for head in self.heads:
            while head.entry is None and not head.is_over:
                if self._is_enough():
                    return None
                self._is_further |= head.advance()
        newest = max((head for head in self.heads if head.entry), key=_time_of, default=None)
        if newest is None or self._is_enough():
            return None
        self._is_further = True
        return newest.process, newest.take()

    def _is_enough(self) -> bool:
        """Each page goes on a little, or nobody would come to the end."""
        return self._is_further and sum(head.bytes_read for head in self.heads) >= self.read_bytes_max


def _time_of(head: _Head) -> int:
    assert head.entry is not None
    return head.entry.time_ms
