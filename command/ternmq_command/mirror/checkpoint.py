"""The positions of a mirror in a file, so that it need not read all of the target when it starts again.

File    `positions` in the folder: the first line is the CRC-32 of the second one in hexadecimal digits; that is JSON.
Trust   what the file says is compared with the target (`scanning.py`): a lost, old, damaged or foreign file costs
        time and nothing else.
Status  `status.json` is for operators: `time` when offsets were read, `copied`, `lag` by topic, and for each of
        `groups` without members at the target how many messages would come twice if its consumers started there now.
Lock    `lock` in the folder is locked by the mirror that uses it.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Self

from ternmq_command.mirror.positions import Position, Queue, Run, TargetQueue, TopicPositions
from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.binary.checksum import crc32

VERSION = 1
FILE_BYTES_MAX = 1 << 30


class CheckpointFolder:
    """`with CheckpointFolder(path) as folder: folder.read(), folder.write(topics)`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            lock = (self._path / "lock").open("wb")
        except OSError as error:
            raise WrongUsage(f"can't use {self._path}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            is_locked = isinstance(error, BlockingIOError)
            reason = f"another mirror uses {self._path}" if is_locked else f"can't lock {self._path}: {error.strerror}"
            raise WrongUsage(reason) from None
        self._lock = lock
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def read(self, source: str, target: str) -> dict[str, TopicPositions]:
        """Read the positions of each topic from the file; none if it is damaged, or of other clusters."""
        try:
            data = (self._path / "positions").read_bytes()
        except OSError:
            return {}
        checksum, _, content = data.partition(b"\n")
        if checksum != b"%08x" % crc32(content) or len(data) > FILE_BYTES_MAX:
            return {}
        try:
            stored = json.loads(content)
            if (stored["version"], stored["source"], stored["target"]) != (VERSION, source, target):
                return {}
            return {name: _read_topic(topic) for name, topic in stored["topics"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}

    def write(self, source: str, target: str, topics: dict[str, TopicPositions]) -> None:
        """Replace the file, so that one or the other is whole after a power cut."""
        shown = {name: _show_topic(topic) for name, topic in topics.items()}
        positions = {"version": VERSION, "source": source, "target": target, "topics": shown}
        content = json.dumps(positions, separators=(",", ":")).encode()
        new = self._path / "positions.new"
        with new.open("wb") as file:
            file.write(b"%08x\n%b" % (crc32(content), content))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path / "positions")
        self._sync_folder()

    def write_status(self, status: dict[str, object]) -> None:
        """Replace the status, which is for others and not read here."""
        new = self._path / "status.new"
        new.write_text(json.dumps(status, indent=2) + "\n")
        new.replace(self._path / "status.json")

    def _sync_folder(self) -> None:
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _show_topic(topic: TopicPositions) -> dict[str, object]:
    return {
        "queues": [
            [*queue, [[run.begin, run.count, *run.source, run.source_begin] for run in known.runs]]
            for queue, known in topic.queues.items()
        ],
        "sources": [[*queue, at.next_offset, at.stored_ms, *at.target] for queue, at in topic.sources.items()],
        "doubles": topic.doubles,
    }


def _read_topic(content: dict[str, object]) -> TopicPositions:
    queues, sources, doubles = content["queues"], content["sources"], content["doubles"]
    assert isinstance(queues, list)
    assert isinstance(sources, list)
    assert isinstance(doubles, int)
    topic = TopicPositions(doubles=doubles)
    for broker, name, queue_id, runs in queues:
        found = [Run(begin, count, Queue(b, t, q), first) for begin, count, b, t, q, first in runs]
        topic.queues[Queue(broker, name, queue_id)] = TargetQueue(found)
    for broker, name, queue_id, next_offset, stored_ms, b, t, q in sources:
        topic.sources[Queue(broker, name, queue_id)] = Position(next_offset, stored_ms, Queue(b, t, q))
    return topic
