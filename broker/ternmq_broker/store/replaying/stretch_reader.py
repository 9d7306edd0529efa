"""Reads the plain records of one stretch of the log, for an index that is rebuilt."""

from array import array
from pathlib import Path
from typing import NamedTuple

from ternmq_broker.store.disk.files import DiskFile
from ternmq_broker.store.index.queue_index import QueueIndex
from ternmq_broker.store.log.record import HEADER_BYTES, MAGIC_BYTES, BadRecord, decode_head
from ternmq_broker.store.replaying.plain_records import PlainRecords

_READ_BYTES = 1 << 20


class StretchRequest(NamedTuple):
    """A request for the plain records that begin between two log offsets, in the segment that begins at `base`."""

    path: str
    base: int
    begin: int
    end: int
    key: int


class RecordRun(NamedTuple):
    """Consecutive messages of one queue; the arrays are those of `QueueIndex`."""

    topic: str
    queue_id: int
    first_offset: int
    positions: "array[int]"
    sizes: "array[int]"
    tags: "array[int]"


class LogStretch(NamedTuple):
    """Plain records that follow each other from `begin` up to `end`, and their keys as `LogIndex` has them."""

    begin: int
    end: int
    records: int
    stored_ms: int
    runs: list[RecordRun]
    hashes: "array[int]"
    key_positions: "array[int]"


class _CollectedIndex:
    """The index entries of a stretch: each queue begins with the first message that comes."""

    def __init__(self) -> None:
        self.covered_offset = 0
        self.queues: dict[tuple[str, int], QueueIndex] = {}
        self.keys = (array("I"), array("Q"))

    def known_queue(self, topic: str, queue_id: int, queue_offset: int) -> QueueIndex:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            queue = self.queues[topic, queue_id] = QueueIndex(topic, queue_id, queue_offset)
        return queue

    def keys_to_extend(self) -> "tuple[array[int], array[int]]":
        return self.keys

    def count_added(self, count: int) -> None:
        """Do nothing: the reader counts."""


def read_stretch(wanted: StretchRequest) -> LogStretch:
    """Return the plain records there, up to the first record that is not plain or that continues behind the stretch."""
    file = DiskFile(Path(wanted.path))
    collected = _CollectedIndex()
    plain = PlainRecords(collected, wanted.key)
    begin = position = _first_record(file, wanted)
    count = 0
    while position < wanted.end:
        window = file.read(position - wanted.base, min(_READ_BYTES, wanted.end - position))
        taken, more = plain.add_plain(window, 0, position)
        if not taken:
            break
        position, count = position + taken, count + more
    file.close()
    runs = [
        RecordRun(queue.topic, queue.queue_id, queue.first, *queue.entries_in_memory())
        for queue in collected.queues.values()
    ]
    return LogStretch(begin, position, count, plain.stored_ms, runs, *collected.keys)


def _first_record(file: DiskFile, wanted: StretchRequest) -> int:
    """Return where the first record begins that begins in the stretch; its end if none does."""
    position = wanted.begin
    while position < wanted.end and position != wanted.base:
        window = file.read(position - wanted.base, min(_READ_BYTES, wanted.end - position) + HEADER_BYTES)
        at = window.find(MAGIC_BYTES)
        while at >= 0:
            try:
                decode_head(window, position + at, wanted.key, at)
            except BadRecord:
                at = window.find(MAGIC_BYTES, at + 1)
            else:
                return min(position + at, wanted.end)
        position += max(1, len(window) - HEADER_BYTES)
    return position
