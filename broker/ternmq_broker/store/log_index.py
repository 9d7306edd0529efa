"""The index: finds messages by queue and offset, and by key. Derived from the commit log and rebuilt from it.

Files       one for each segment of the commit log, of the same name; a sequence of blocks (`index_block`), appended
            when enough is in memory. After a crash only what no block covers is read again from the log.
Floors      offsets below which a queue holds nothing, for queues that retention or a deletion emptied: without them a
            queue would begin again at 0 after a restart. Kept in the side file `floors`, with the offset at which the
            queue began when its topic was made: `[[topic, queue id, floor, origin] ...]`.
Threads     `SpillJob.write` and the callables that are returned for it may run in another thread; everything else
            belongs to the store's own.
"""

import logging
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store import index_block, side_files
from ternmq_broker.store.index_block import ROW_BYTES, BadBlock, BlockContent, BlockHead, Run, key_hash
from ternmq_broker.store.queue_index import Location, QueueIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ternmq_broker.store.files import Folder, StoreFile
    from ternmq_broker.store.side_files import SideFiles

_log = logging.getLogger(__name__)
_FLOORS = "floors"


@dataclass(frozen=True, slots=True)
class _Block:
    head: BlockHead
    file: "StoreFile"


@dataclass(frozen=True, slots=True)
class SpillJob:
    """A block that is ready to be written behind `file_position`; then `LogIndex.finish_spill` takes it over. With it
    the index covers the log up to `log_to`."""

    log_to: int
    file: "StoreFile"
    file_position: int
    data: bytes
    keys: int
    counts: list[tuple[QueueIndex, int]]

    def write(self) -> None:
        self.file.append([self.data])
        self.file.sync()


class LogIndex:
    """Every queue's positions.

    Invariant: the blocks cover the log from its start to `covered` without a gap, and what lies behind is in memory.
    """

    def __init__(self, folder: "Folder") -> None:
        self._folder = folder
        self._files: dict[int, StoreFile] = {}
        self._blocks: dict[int, _Block] = {}
        self._next_block = 0
        self._queues: dict[tuple[str, int], QueueIndex] = {}
        self._dirty: dict[QueueIndex, None] = {}
        # Looked at by other threads, so what is in it only grows; `finish_spill` puts another pair in its place.
        self._keys = (array("I"), array("Q"))
        self.entries_in_memory = 0
        self.covered = 0
        self.promised = 0
        """Up to where the log was durable once, by blocks that speak of more than it has."""
        self._lost = 0
        self._is_cut = False
        """Whether the log has lost its beginning to retention."""

    # --- opening

    def load(self, segments: "Sequence[int]", log_end: int) -> None:
        """Open the files of `segments`, drop others, and drop what speaks of bytes that the log does not have."""
        self.covered = segments[0]
        self._is_cut = segments[0] > 0
        wanted = {f"{base:020d}" for base in segments}
        for name in self._folder.names():
            if name.isdigit() and name not in wanted:
                self._folder.remove(name)
        for base in segments:
            # Blocks are written in log order, so the first one that is missing ends what can be used.
            if f"{base:020d}" in self._folder.names():
                self._load_file(base, log_end)

    def _load_file(self, base: int, log_end: int) -> None:
        file = self._files[base] = self._folder.open(f"{base:020d}")
        position = 0
        while position < file.size:
            try:
                size = index_block.announced_size(file.read(position, index_block.HEAD_BYTES))
                head = index_block.decode(file.read(position, size), file_position=position)
            except BadBlock as error:
                _log.warning(
                    "the index file %020d is damaged from byte %d on (%s); that part is made anew from the commit log",
                    base,
                    position,
                    error,
                )
                break
            if head.log_from != self.covered or head.log_to > log_end:
                self.promised = max(self.promised, head.log_to)
                break
            self._take_block(head, file)
            position += size
        file.truncate(position)

    def _take_block(self, head: BlockHead, file: "StoreFile") -> None:
        number = self._keep_block(head, file)
        for run in head.runs:
            queue = self._queues.get((run.topic, run.queue_id))
            if queue is None:
                queue = self._queues[run.topic, run.queue_id] = QueueIndex(run.topic, run.queue_id, run.first_offset)
            queue.add_run(number, run)

    def _keep_block(self, head: BlockHead, file: "StoreFile") -> int:
        number = self._next_block
        self._next_block += 1
        self._blocks[number] = _Block(head, file)
        self.covered = head.log_to
        return number

    def contradiction(self, topic: str, queue_id: int, queue_offset: int, lost_max: int) -> str | None:
        """Why no record that comes next in the log can have that place, if at most so many messages were lost."""
        queue = self._queues.get((topic, queue_id))
        if queue is None and self._is_cut:
            return None  # it may begin anywhere
        end = 0 if queue is None else queue.end
        place = f"is said to be message {queue_offset} of queue {queue_id} of topic {topic!r}, which goes on at {end}"
        if queue_offset < end:
            return place
        if queue_offset - end > lost_max - self._lost:
            return f"{place}, and nothing is missing that could hold those in between"
        return None

    def recovered(self, topic: str, queue_id: int, queue_offset: int, log_offset: int) -> None:
        """Make room for a record found in the log that is to be added next, with whatever was lost before it.

        It must be no `contradiction`."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            first = queue_offset if self._is_cut else 0
            queue = self._queues[topic, queue_id] = QueueIndex(topic, queue_id, first)
        if queue_offset > queue.end:
            self._dirty[queue] = None
            self._lost += queue_offset - queue.end
            self.entries_in_memory += queue_offset - queue.end
            queue.add_lost(queue_offset, log_offset)
        assert queue.end == queue_offset

    def lost_up_to(self, topic: str, queue_id: int, end: int, log_offset: int) -> None:
        """The queue was known to go on at `end`: what it lacks up to there was lost, before that log offset."""
        queue = self.queue(topic, queue_id)
        if queue.end < end:
            self.entries_in_memory += end - queue.end
            queue.add_lost(end, log_offset)
            self._dirty[queue] = None

    def begins_at(self, topic: str, queue_id: int, floor: int, origin: int) -> None:
        """Nothing is left of that queue below `floor`; see `write_floors`."""
        queue = self.queue(topic, queue_id)
        queue.raise_first(floor)
        queue.origin = origin

    def load_floors(self, files: "SideFiles") -> None:
        """To be called when all records are known. DamagedFile."""
        floors = files.needed(self._folder, _FLOORS)
        for topic, queue_id, floor, origin in floors if isinstance(floors, list) else ():
            queue = self.queue(topic, queue_id)
            queue.raise_first(floor)
            queue.origin = origin

    # --- adding and finding

    def queue(self, topic: str, queue_id: int) -> QueueIndex:
        """The queue's index, made when there is none."""
        key = (topic, queue_id)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = QueueIndex(topic, queue_id)
        return queue

    def queues(self) -> list[tuple[str, int]]:
        """Topic and id of every queue that was ever used, as far as is known."""
        return sorted(self._queues)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first offset that the queue holds and the one after its last; both 0 for a queue never used."""
        queue = self._queues.get((topic, queue_id))
        return (queue.first, queue.end) if queue else (0, 0)

    def is_complete(self, topic: str, queue_id: int) -> bool:
        """Whether the queue still has every message since its topic was made."""
        queue = self._queues.get((topic, queue_id))
        return queue is None or queue.first == queue.origin

    def add(self, queue: QueueIndex, log_offset: int, size: int, tag_hash: int, keys: "Iterable[str]") -> None:
        """The next message of `queue`."""
        queue.add(log_offset, size, tag_hash)
        self._dirty[queue] = None
        hashes, positions = self._keys
        for key in keys:
            hashes.append(key_hash(queue.topic, key))
            positions.append(log_offset)
        self.entries_in_memory += 1

    def locate(self, topic: str, queue_id: int, offset: int, count: int, *, may_block: bool = True) -> list[Location]:
        """Where the messages from `offset` on are; at least one if there is one, at most `count`."""
        queue = self._queues.get((topic, queue_id))
        if queue is None or not queue.first <= offset < queue.end:
            return []
        if offset >= queue.tail_first:
            return queue.in_memory(offset, count)
        number, row, following = queue.run_of(offset)
        block = self._blocks[number]
        data = block.file.read(
            block.head.rows_at + row * ROW_BYTES, min(count, following) * ROW_BYTES, may_block=may_block
        )
        rows = array("I", data)
        base = block.head.base
        return [
            Location(base + position, size, tag)
            for position, size, tag in zip(rows[0::3], rows[1::3], rows[2::3], strict=True)
        ]

    def candidates(self, topic: str, key: str) -> "Iterator[int]":
        """Log offsets of records that may have that key, newest first; reads files, so for a thread."""
        wanted = key_hash(topic, key)
        new_hashes, new_positions = self._keys
        for at in range(len(new_positions) - 1, -1, -1):
            if new_hashes[at] == wanted:
                yield new_positions[at]
        for block in reversed(list(self._blocks.values())):
            head = block.head
            hashes = array("I", block.file.read(head.keys_at, head.keys * 4))
            positions = array("I", block.file.read(head.keys_at + head.keys * 4, head.keys * 4))
            for at in range(head.keys - 1, -1, -1):
                if hashes[at] == wanted:
                    yield head.base + positions[at]

    # --- moving to disk

    def prepare_spill(self, segments: "Sequence[int]", upto: int) -> SpillJob | None:
        """The next block to write, of one segment and of log bytes below `upto`, which must be durable."""
        if self.covered >= upto:
            return None
        base = max(segment for segment in segments if segment <= self.covered)
        log_to = min((segment for segment in segments if segment > base), default=upto)
        log_to = min(log_to, upto)
        content = BlockContent(self.covered, log_to, base, [])
        counts = []
        for queue in self._dirty:
            count = queue.tail_below(log_to)
            if count:
                content.runs.append(
                    Run(queue.topic, queue.queue_id, queue.tail_first, len(content.rows) * 4 // ROW_BYTES, count)
                )
                content.rows.extend(queue.rows(count, base))
                counts.append((queue, count))
        hashes, positions = self._keys
        keys = sum(position < log_to for position in positions)
        content.key_hashes.extend(hashes[:keys])
        content.key_positions.extend(position - base for position in positions[:keys])
        file = self._files.get(base)
        if file is None:
            file = self._files[base] = self._folder.create(f"{base:020d}")
            self._folder.sync_names()
        return SpillJob(log_to, file, file.size, index_block.encode(content), keys, counts)

    def finish_spill(self, job: SpillJob) -> None:
        """`job.write` is done: let go of what the block holds."""
        head = index_block.decode(job.data, file_position=job.file_position)
        number = self._keep_block(head, job.file)
        for run, (queue, count) in zip(head.runs, job.counts, strict=True):
            queue.drop_tail(count, number, run.first_row)
            self.entries_in_memory -= count
            if queue.tail_first == queue.end:
                del self._dirty[queue]
        hashes, positions = self._keys
        self._keys = (hashes[job.keys :], positions[job.keys :])

    # --- forgetting

    def forget_topic(self, topic: str) -> "Callable[[], None]":
        """The topic's messages can't be found any more; its queues go on at their offsets if it is made again.

        What is returned makes that last; for a thread.
        """
        for queue in self._queues.values():
            if queue.topic == topic:
                queue.raise_first(queue.end)
                queue.origin = queue.end
        return self._save_floors()

    def drop_before(self, log_start: int) -> "Callable[[], None]":
        """The log begins at `log_start` now. What is returned makes that last and deletes files; for a thread."""
        dropped = {number for number, block in self._blocks.items() if block.head.log_to <= log_start}
        for queue in self._queues.values():
            queue.drop_runs(dropped.__contains__)
        for number in dropped:
            del self._blocks[number]
        files = {base: self._files.pop(base) for base in list(self._files) if base < log_start}
        save_floors = self._save_floors()

        def finish() -> None:
            save_floors()
            for base, file in files.items():
                file.close()
                self._folder.remove(f"{base:020d}")

        return finish

    def _save_floors(self) -> "Callable[[], None]":
        floors = [
            (queue.topic, queue.queue_id, queue.first, queue.origin) for queue in self._queues.values() if queue.first
        ]
        return lambda: side_files.write(self._folder, _FLOORS, floors)

    def write_floors(self) -> None:
        """Make lasting what is known of floors."""
        self._save_floors()()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
