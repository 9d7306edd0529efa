"""The files of an audit log, read backwards: lines, the newest first, from the end or from where a reader stopped.

Trail       the files of one process: `audit.log`, and `audit.log.1` and so on, the older the higher. Workers have one
            each (`audit.worker-0.log`), and trails of ended processes are read too.
Place       where a reader stopped. A file is known by its inode and how it begins, as its name changes when it is put
            aside; a file that is gone was the oldest, so no older one is left.
Bounds      a line has at most LINE_BYTES_MAX; a longer one is held only in part, and a reader may stop within it.
Threads     any but the event loop's: all of it reads files.
"""

import os
import re
import stat
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.limits import KIB

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

LINE_BYTES_MAX = 64 * KIB
"""A limit that no entry reaches: texts are cut, and a character takes 12 bytes of JSON at most."""
_BEGINNING_BYTES = 4 * KIB
_MARK_BYTES = 8
_MISSING_MAX = 8
"""After this many missing names in a row only listed files follow. A rotation leaves one name free for a moment, and
meets a reader that goes up in the same direction."""
_PUT_ASIDE = 64
"""How many rotations may happen while a file is read, before the next name can no longer be distinguished from that of
a newer file."""
_MODE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # opening a FIFO must not block


class ReadPosition(NamedTuple):
    """A place in the log: the bytes before `end` in the file with this mark are still to be read, and all older
    files."""

    mark: str
    end: int


class ReadStep(NamedTuple):
    """One step backwards to `place`. `line` is the line there; None if it is no line (`is_damaged`) or was passed only
    in part."""

    place: ReadPosition
    line: bytes | None = None
    is_damaged: bool = False


class AuditTrail(NamedTuple):
    """The files that one process writes. `process` is the process's name, empty if it is the only one; `numbers` are
    those of the rotated files."""

    process: str
    path: Path
    numbers: tuple[int, ...]

    def open_files(self) -> "Generator[tuple[Path, _AuditFile]]":
        """Yield the files, the newest first, each open until the next one is requested. A rotation meanwhile may make a
        file appear twice and adds newer ones, but never leaves one out: files move up, the direction in which names are
        read."""
        number: int | None = 0
        missing = 0
        while number is not None:
            path = self._numbered_path(number)
            file = _open_file(path)
            missing = 0 if file else missing + 1
            if file is not None:
                with closing(file):
                    yield path, file
            number = self._next_number(number, missing)

    def _next_number(self, number: int, missing: int) -> int | None:
        if missing < _MISSING_MAX:
            return number + 1
        return min((each for each in self.numbers if each > number), default=None)

    def _numbered_path(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def find_trails(path: "Path") -> list[AuditTrail]:
    """Return all trails beside `path`, sorted by the names of their processes."""
    name = re.compile(rf"{re.escape(path.stem)}(?:\.(worker-\d+))?{re.escape(path.suffix)}(?:\.([1-9]\d*))?", re.ASCII)
    found: dict[str, list[int]] = {}
    for each in os.listdir(path.parent):  # noqa: PTH208 - names alone, of a folder that may have many
        if match := name.fullmatch(each):
            numbers = found.setdefault(match[1] or "", [])
            if match[2]:
                numbers.append(int(match[2]))
    return [
        AuditTrail(process, _path_of(path, process), tuple(sorted(numbers)))
        for process, numbers in sorted(found.items())
    ]


def _path_of(path: "Path", process: str) -> "Path":
    return path.with_name(f"{path.stem}.{process}{path.suffix}") if process else path


class TrailReader:
    """Reads a trail backwards, `read_bytes` at a time. `is_newer` decides from a file's first line whether the whole
    file is newer than the reader wants."""

    def __init__(self, trail: AuditTrail, read_bytes: int, is_newer: "Callable[[bytes], bool]") -> None:
        self._trail = trail
        self._read_bytes = read_bytes
        self._is_newer = is_newer
        self.bytes_read = 0

    def read_steps(self, after: ReadPosition | None) -> "Generator[ReadStep]":
        """Yield the steps back from `after`, or from the end if it is None. A file's first step leads to its end.
        Raises OSError."""
        seen: set[str] = set()
        with closing(self._trail.open_files()) as files:
            for path, file in files:
                beginning, mark = file.read_beginning()
                if mark in seen or not beginning:  # it was rotated since, or has no line yet
                    continue
                if seen and self._is_below(path, seen):  # it is new; if it is not, it is only read once more
                    continue
                seen.add(mark)
                if after is not None and mark != after.mark:
                    continue
                end = file.size if after is None else min(after.end, file.size)
                is_end = path == self._trail.path and after is None
                after = None
                yield ReadStep(ReadPosition(mark, end))
                if not self._is_newer(beginning):
                    yield from self._read_back(file, mark, end, is_end=is_end)

    def _is_below(self, path: Path, seen: set[str]) -> bool:
        """Return whether a file that was already read has a higher number than this one by now, so that this one is
        newer."""
        first = int(path.suffix[1:]) + 1
        for number in range(first, first + _PUT_ASIDE):
            file = _open_file(path.with_suffix(f".{number}"))
            if file is None:  # a name is missing for a moment during a rotation
                continue
            with closing(file):
                if file.read_beginning()[1] in seen:
                    return True
        return False

    def _read_back(self, file: "_AuditFile", mark: str, end: int, *, is_end: bool) -> "Iterator[ReadStep]":
        """Yield the lines before `end`. Bytes behind the last line end were cut off; with `is_end` they may still be
        being written."""
        rest, at, is_cut = b"", end, True
        while at > 0:
            piece = file.read(at - min(self._read_bytes, at), at)
            self.bytes_read += len(piece)
            above = at + len(rest)
            at -= len(piece)
            rest, *lines = (piece + rest).split(b"\n")
            for line in reversed(lines):
                above -= len(line)
                if not is_cut:
                    yield _make_step(ReadPosition(mark, above), line)
                elif line:
                    yield ReadStep(ReadPosition(mark, above), is_damaged=not is_end)
                is_cut = is_end = False
                above -= 1
            if len(rest) > LINE_BYTES_MAX:
                # One of its bytes stays, which tells the next reader that it begins within a line.
                rest, is_cut, is_end = rest[:1], True, False
                yield ReadStep(ReadPosition(mark, at + 1))
        if is_cut and rest:
            yield ReadStep(ReadPosition(mark, 0), is_damaged=not is_end)
        elif not is_cut:
            yield _make_step(ReadPosition(mark, 0), rest)


def _make_step(place: ReadPosition, line: bytes) -> ReadStep:
    return ReadStep(place, line) if 0 < len(line) <= LINE_BYTES_MAX else ReadStep(place, is_damaged=True)


def _open_file(path: "Path") -> "_AuditFile | None":
    """Open a file; return None if it is missing or is no regular file."""
    try:
        number = os.open(path, _MODE)
    except FileNotFoundError:
        return None
    state = os.fstat(number)
    if stat.S_ISREG(state.st_mode):
        return _AuditFile(number, state)
    os.close(number)
    return None


class _AuditFile:
    def __init__(self, number: int, state: os.stat_result) -> None:
        self._number = number
        self._inode = state.st_ino
        self.size = state.st_size

    def read(self, start: int, end: int) -> bytes:
        """Return these bytes; raise OSError if they are gone."""
        data = os.pread(self._number, end - start, start)
        if len(data) < end - start:
            raise OSError("a file of the audit log was cut while it was read")
        return data

    def read_beginning(self) -> tuple[bytes, str]:
        """Return the first line, or its beginning, and a mark that identifies the file. Both are empty while they may
        change."""
        data = os.pread(self._number, _BEGINNING_BYTES, 0)
        line, line_end, _ = data.partition(b"\n")
        if not line_end and len(data) < _BEGINNING_BYTES:
            return b"", ""
        mark = blake2b(self._inode.to_bytes(8) + line, digest_size=_MARK_BYTES).hexdigest()
        return line or b"\n", mark

    def close(self) -> None:
        os.close(self._number)
