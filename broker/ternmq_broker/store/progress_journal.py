"""The consumption journal: what is known of each (group, topic, queue), so that progress survives a restart.

Format      lines of text: crc32 of the JSON as 8 hexadecimal digits, a space, the JSON
            `[group, topic, queue id, cursor, generation, [[first, count, attempt, generation, deadline ms] ...]]`, a
            snapshot, which replaces what came before it; the same with `[[first, count] ...]` at its end, a delta: the
            cursor moved, what it passed is finished but the holes, and so are these runs; or `[group, topic]` or
            `[group]` for progress that was dropped.
Torn tail   the first line that is not whole ends the journal; what follows is cut off.
Compaction  when it has grown, the journal is replaced by one with the live lines only.
Threads     one caller at a time, in any thread.
"""

import json
from typing import TYPE_CHECKING
from zlib import crc32

from ternmq_broker.delivery.claims import Claim, Delta, Snapshot, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.files import Folder, StoreFile

_NAME = "journal"
_COMPACT_FROM_BYTES = 4 << 20
_CHECK_DIGITS = 8
_DROPPED_FIELDS = 2
_DELTA_FIELDS = 7
# A queue's deltas are replaced by a snapshot when they are longer than that and than the snapshot before them.
_DELTAS_BYTES = 4096

QueueKey = tuple[str, str, int]
"""Group, topic, queue id."""


class ProgressJournal:
    """What was last known of every queue's consumption: the lines of a snapshot and its deltas, for each queue."""

    def __init__(self, folder: "Folder") -> None:
        self._folder = folder
        self._lines: dict[QueueKey, list[bytes]] = {}
        self._live_bytes = 0
        if _NAME not in folder.names():
            folder.replace(_NAME, b"")
        self._file = folder.open(_NAME)
        self._load()

    def _load(self) -> None:
        data = self._file.read(0, self._file.size)
        whole = 0
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n") or line[:_CHECK_DIGITS] != _check(line[_CHECK_DIGITS + 1 : -1]):
                break
            whole += len(line)
            fields = json.loads(line[_CHECK_DIGITS + 1 :])
            if len(fields) <= _DROPPED_FIELDS:
                self._forget(*fields)
            else:
                self._keep((fields[0], fields[1], fields[2]), line, is_delta=len(fields) == _DELTA_FIELDS)
        if whole < self._file.size:
            self._file.truncate(whole)

    def _keep(self, key: QueueKey, line: bytes, *, is_delta: bool) -> None:
        self._live_bytes += len(line)
        if is_delta and key in self._lines:
            self._lines[key].append(line)
        else:
            self._live_bytes -= sum(map(len, self._lines.get(key, ())))
            self._lines[key] = [line]

    def snapshots(self) -> dict[QueueKey, Snapshot]:
        return {key: _replayed(lines) for key, lines in self._lines.items()}

    def wants_snapshot(self, key: QueueKey) -> bool:
        """Whether the next line of that queue must be a snapshot, because there is none or its deltas are too long."""
        snapshot, *deltas = self._lines.get(key, (b"",))
        return not snapshot or sum(map(len, deltas)) > max(_DELTAS_BYTES, len(snapshot))

    def write(self, changed: "Iterable[tuple[QueueKey, Snapshot | Delta]]") -> None:
        """Remember these, in order; they survive a power cut when this returns."""
        fresh: list[bytes] = []
        for key, record in changed:
            line = _line([*key, *_fields(record)])
            self._keep(key, line, is_delta=isinstance(record, Delta))
            fresh.append(line)
        self._append(fresh)

    def drop(self, group: str, topic: str | None = None) -> None:
        """Forget the progress of a group, in one topic or in all."""
        self._forget(group, topic)
        self._append([_line([group] if topic is None else [group, topic])])

    def _forget(self, group: str, topic: str | None = None) -> None:
        for key in [key for key in self._lines if key[0] == group and topic in (None, key[1])]:
            self._live_bytes -= sum(map(len, self._lines.pop(key)))

    def _append(self, lines: list[bytes]) -> None:
        if self._file.size > _COMPACT_FROM_BYTES + 2 * self._live_bytes:
            self._compact()
            return
        self._file.append(lines)
        self._file.sync()

    def _compact(self) -> None:
        old: StoreFile = self._file
        self._folder.replace(_NAME, b"".join(line for kept in self._lines.values() for line in kept))
        self._file = self._folder.open(_NAME)
        old.close()

    def close(self) -> None:
        self._file.close()


def _check(content: bytes) -> bytes:
    return f"{crc32(content):0{_CHECK_DIGITS}x}".encode()


def _line(fields: list[object]) -> bytes:
    content = json.dumps(fields, separators=(",", ":")).encode()
    return _check(content) + b" " + content + b"\n"


def _fields(record: Snapshot | Delta) -> list[object]:
    holes = [[hole.first, hole.count, *hole.claim] for hole in record.holes]
    fields: list[object] = [record.cursor, record.generation, holes]
    return [*fields, record.finished] if isinstance(record, Delta) else fields


def _replayed(lines: list[bytes]) -> Snapshot:
    """The state after a snapshot and its deltas."""
    unfinished: dict[int, Claim] = {}
    cursor = generation = 0
    for line in lines:
        _, _, _, cursor, generation, holes, *more = json.loads(line[_CHECK_DIGITS + 1 :])
        for first, count in more[0] if more else ():
            for offset in range(first, first + count):
                unfinished.pop(offset, None)
        for first, count, *claim in holes:
            unfinished.update(dict.fromkeys(range(first, first + count), Claim(*claim)))
    return Snapshot(cursor, generation, runs_of(unfinished.items()))
