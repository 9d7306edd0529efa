"""The consumption journal: the latest snapshot of each (group, topic, queue), so that progress survives a restart.

Format      lines of text: crc32 of the JSON as 8 hexadecimal digits, a space, the JSON
            `[group, topic, queue id, cursor, generation, [[first, count, attempt, generation, deadline ms] ...]]`,
            or `[group, topic]` / `[group]` for progress that was dropped. A later line replaces an earlier one.
Torn tail   the first line that is not whole ends the journal; what follows is cut off.
Compaction  when it has grown, the journal is replaced by one with the live lines only.
Threads     one caller at a time, in any thread.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING
from zlib import crc32

from ternmq_broker.delivery.queue_consumption import Claim, Hole, Snapshot

if TYPE_CHECKING:
    from ternmq_broker.store.files import Folder, StoreFile

_NAME = "journal"
_COMPACT_FROM_BYTES = 4 << 20
_CHECK_DIGITS = 8

QueueKey = tuple[str, str, int]
"""Group, topic, queue id."""


class ProgressJournal:
    """What was last known of every queue's consumption."""

    def __init__(self, folder: "Folder") -> None:
        self._folder = folder
        self._lines: dict[QueueKey, bytes] = {}
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
            if len(fields) > 2:
                self._lines[fields[0], fields[1], fields[2]] = line
            else:
                self._forget(*fields)
        if whole < self._file.size:
            self._file.truncate(whole)

    def snapshots(self) -> dict[QueueKey, Snapshot]:
        return {key: _snapshot(line) for key, line in self._lines.items()}

    def write(self, changed: Iterable[tuple[QueueKey, Snapshot]]) -> None:
        """Remember these snapshots; they survive a power cut when this returns."""
        fresh = {key: _line([*key, *_fields(snapshot)]) for key, snapshot in changed}
        self._lines.update(fresh)
        self._append(list(fresh.values()))

    def drop(self, group: str, topic: str | None = None) -> None:
        """Forget the progress of a group, in one topic or in all."""
        self._forget(group, topic)
        self._append([_line([group] if topic is None else [group, topic])])

    def _forget(self, group: str, topic: str | None = None) -> None:
        for key in [key for key in self._lines if key[0] == group and topic in (None, key[1])]:
            del self._lines[key]

    def _append(self, lines: list[bytes]) -> None:
        if self._file.size > _COMPACT_FROM_BYTES + 2 * sum(map(len, self._lines.values())):
            self._compact()
            return
        self._file.append(lines)
        self._file.sync()

    def _compact(self) -> None:
        old: StoreFile = self._file
        self._folder.replace(_NAME, b"".join(self._lines.values()))
        self._file = self._folder.open(_NAME)
        old.close()

    def close(self) -> None:
        self._file.close()


def _check(content: bytes) -> bytes:
    return f"{crc32(content):0{_CHECK_DIGITS}x}".encode()


def _line(fields: list[object]) -> bytes:
    content = json.dumps(fields, separators=(",", ":")).encode()
    return _check(content) + b" " + content + b"\n"


def _fields(snapshot: Snapshot) -> list[object]:
    holes = [[hole.first, hole.count, *hole.claim] for hole in snapshot.holes]
    return [snapshot.cursor, snapshot.generation, holes]


def _snapshot(line: bytes) -> Snapshot:
    _, _, _, cursor, generation, holes = json.loads(line[_CHECK_DIGITS + 1 :])
    return Snapshot(cursor, generation, [Hole(first, count, Claim(*claim)) for first, count, *claim in holes])
