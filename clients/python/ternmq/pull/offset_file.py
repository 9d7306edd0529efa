"""The progress of a broadcasting consumer, in a file of its own.

Format      {"version": 1, "offsets": {group: {topic: {broker: {queue id: offset}}}}} as JSON
Writing     to a new file that is renamed over the old one, both synced: after a crash it is the old file or the new one
Reading     once, at the start; a file that is missing or corrupt counts as empty, and the log says so
Sharing     one running consumer per file; the progress of other groups in the file is kept
Threads     files are read and written in threads; many simultaneous calls of `store_offset` are one write
"""

import asyncio
import json
import logging
import os
from pathlib import Path

from ternmq.connections.route import RouteQueue
from ternmq.errors import OffsetFileError
from ternmq.pull.pull_queue import MessageQueue

logger = logging.getLogger(__name__)

VERSION = 1


class OffsetFile:
    """The progress of one group in each queue.

    Invariants: at most one write runs; `_written` is the number of changes that the file has.
    """

    def __init__(self, path: Path, group: str) -> None:
        self._path = path
        self._group = group
        self._others: dict[str, object] = {}
        self._offsets: dict[MessageQueue, int] = {}
        self._changes = self._written = 0
        self._writer: asyncio.Task[None] | None = None

    async def open_store(self) -> None:
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
        except FileNotFoundError:
            logger.info("%s doesn't exist yet: no queue of group %s has an offset", self._path, self._group)
            return
        except OSError as error:
            raise OffsetFileError(f"{self._path} can't be read: {error}") from error
        try:
            groups = _parse_groups(text)
            self._offsets = _parse_offsets(groups.pop(self._group, {}))
            self._others = groups
        except (ValueError, RecursionError) as error:
            logger.warning("%s is corrupt, and its offsets are lost: %s", self._path, error)

    async def load_offset(self, queue: RouteQueue) -> int | None:
        return self._offsets.get(MessageQueue.named(queue))

    async def store_offset(self, queue: RouteQueue, queue_offset: int) -> None:
        """Store an offset; return when it would survive a crash."""
        self._offsets[MessageQueue.named(queue)] = queue_offset
        self._changes += 1
        wanted = self._changes
        while self._written < wanted:
            if self._writer is None or self._writer.done():
                self._writer = asyncio.create_task(self._write_file())
                self._writer.add_done_callback(_retrieve_error)
            # Shielded, since a write can't be stopped: a cancelled caller leaves it to the others.
            await asyncio.shield(self._writer)

    async def _write_file(self) -> None:
        changes, text = self._changes, self._render_content()
        try:
            await asyncio.to_thread(_replace_file, self._path, text)
        except OSError as error:
            raise OffsetFileError(f"{self._path} can't be written: {error}") from error
        self._written = changes

    def _render_content(self) -> bytes:
        own: dict[str, dict[str, dict[str, int]]] = {}
        for name, queue_offset in sorted(self._offsets.items()):
            own.setdefault(name.topic, {}).setdefault(name.broker, {})[str(name.queue_id)] = queue_offset
        return json.dumps({"version": VERSION, "offsets": {**self._others, self._group: own}}, indent=1).encode()


def _parse_groups(text: bytes) -> dict[str, object]:
    content = _check_object(json.loads(text))
    if content.get("version") != VERSION:
        raise ValueError(f"its version is {content.get('version')!r}, not {VERSION}")
    return _check_object(content.get("offsets"))


def _parse_offsets(topics: object) -> dict[MessageQueue, int]:
    return {
        MessageQueue(topic, broker, int(queue_id)): _check_offset(queue_offset)
        for topic, brokers in _check_object(topics).items()
        for broker, queues in _check_object(brokers).items()
        for queue_id, queue_offset in _check_object(queues).items()
    }


def _check_object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")  # noqa: TRY004 - as JSON's own errors are
    return value


def _check_offset(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no offset")
    return value


def _retrieve_error(writer: asyncio.Task[None]) -> None:
    """Retrieve the error, so that asyncio does not log it although no caller waits for the write any more."""
    if not writer.cancelled():
        writer.exception()


def _replace_file(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
