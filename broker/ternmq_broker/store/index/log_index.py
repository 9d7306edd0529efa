"""The index: finds messages by queue and offset, and by key. Derived from the commit log and rebuilt from it.

Files       One for each segment of the commit log, of the same name; a sequence of blocks (`index_block`), appended
            when enough entries are in memory. After a crash only what no block covers is read again from the log.
Watermarks  Low watermarks: offsets below which a queue is empty, for queues that retention, a deletion or a purge
            emptied; without them a queue would begin again at 0 after a restart. Kept in the side file `floors`, with
            the offset at which the queue began when its topic was created: `[[topic, queue id, floor, origin] ...]`.
            The file leaves out what an unacknowledged operation did (`unacknowledged_changes`).
Lite        Lite topics come and go, and are forgotten then. A lite topic that is created again begins with an offset
            beyond all that it ever had, a log offset: a record, or a run, ahead of its queue says that all before is
            gone.
Threads     `SpillJob.write_block` and the callables that methods return may run in another thread; everything else
            belongs to
            the store's own thread.
"""

import bisect
import logging
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.disk.detached_files import DetachedFiles
from ternmq_broker.store.disk.files import Folder, StoreFile
from ternmq_broker.store.disk.latest_file import LatestFile
from ternmq_broker.store.index import index_block
from ternmq_broker.store.index.index_block import ROW_BYTES, BadBlock, BlockContent, BlockHead, IndexRun, key_hash
from ternmq_broker.store.index.key_table import DamagedKeys
from ternmq_broker.store.index.queue_index import MessageLocation, QueueIndex, decode_rows
from ternmq_broker.store.interpreter_yield import yield_interpreter
from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_broker.store.operations.unacknowledged_changes import UnacknowledgedChanges
from ternmq_common.binary.checksum import crc32
from ternmq_common.names import is_lite_queue, lite_parent
from ternmq_common.shard.model import HeldTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ternmq_broker.store.disk.side_files import SideFileReader
    from ternmq_broker.store.index.key_search import KeySearch
    from ternmq_broker.store.replaying.stretch_reader import LogStretch
    from ternmq_common.shard.model import NewMessage

    RecordsBetween = Callable[[int, int, Callable[[], None]], Iterable[int]]

_log = logging.getLogger(__name__)
_LOW_WATERMARKS: Final = "floors"
# Shared and never changed: the queue ids of nearly all lite topics.
_FIRST_ONLY: Final = [0]
# So many queues of a spill are processed before other tasks may run: about a millisecond.
_QUEUES_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True)
class _IndexBlock:
    """The head of a block, and the file that has its tables."""

    head: BlockHead
    file: StoreFile


@dataclass(slots=True)
class BlockSpill:
    """A block of what lies below log offset `log_to`: `write_block` writes it, `LogIndex.finish_spill` adds it to the
    index.

    It reads only what the queues have already, so other threads may add to them meanwhile.
    """

    log_from: int
    log_to: int
    base: int
    folder: Folder
    files: dict[int, StoreFile]
    """By segment; the file of this block is created if it is not there."""
    queues: list[QueueIndex]
    keys: "tuple[array[int], array[int]]"
    written: BlockHead | None = None
    counts: list[tuple[QueueIndex, int, int]] = field(default_factory=list)
    """For each queue in the block how many rows are there, and at which row they begin."""

    def write_block(self) -> None:
        """Encode the block and append it to its file, durably. OSError: the file is as it was."""
        file = self.files.get(self.base)
        if file is None:
            file = self.files[self.base] = self.folder.create(f"{self.base:020d}")
            self.folder.sync_names()
        content = BlockContent(self.log_from, self.log_to, self.base, [])
        for number, queue in enumerate(self.queues):
            self._add_rows(queue, content)
            if number % _QUEUES_AT_ONCE == 0:
                yield_interpreter()
        hashes, positions = self.keys
        count = bisect.bisect_left(positions, self.log_to)
        content.key_hashes = hashes[:count]
        content.key_positions = array("I", [position - self.base for position in positions[:count]])
        data = index_block.encode_block(content, yield_interpreter)
        file_position = file.size
        head = index_block.make_head(content, data, file_position=file_position)
        try:
            file.append([data])
            file.sync()
        except OSError:
            file.truncate(file_position)  # the next try begins where this one did
            raise
        self.written = head

    def _add_rows(self, queue: QueueIndex, content: BlockContent) -> None:
        count = queue.tail_below(self.log_to)
        if count:
            first_row = len(content.rows) * 4 // ROW_BYTES
            content.runs.append(IndexRun(queue.topic, queue.queue_id, queue.tail_first, first_row, count))
            content.rows.extend(queue.block_rows(count, self.base))
            self.counts.append((queue, count, first_row))


class LogIndex:
    """The index of one commit log: every queue's locations, and the keys.

    Invariant: the blocks cover the log from its start to `covered_offset` without a gap, and what lies behind is in
    memory.
    """

    def __init__(self, folder: "Folder") -> None:
        self._folder = folder
        self._files: dict[int, StoreFile] = {}
        self._blocks: dict[int, _IndexBlock] = {}
        self._next_block = 0
        self._queues: dict[tuple[str, int], QueueIndex] = {}
        self._ids: dict[str, list[int]] = {}  # of the queues of each topic
        self._dirty: dict[QueueIndex, None] = {}
        # Other threads read it, so the arrays only grow; `finish_spill` replaces the pair.
        self._keys = (array("I"), array("Q"))
        self._detached = DetachedFiles(folder)
        self._watermarks = LatestFile(folder, _LOW_WATERMARKS)
        self._unacknowledged: UnacknowledgedChanges[QueueIndex, tuple[int, int]] = (
            UnacknowledgedChanges()
        )  # low watermark and origin
        self.entries_in_memory = 0
        self.covered_offset = 0
        self.durable_offset = 0
        """Up to where the log was durable once, by blocks that cover more than it has."""
        self._lost = 0
        self._room_for_lost = 0  # how many more may have been lost before the record that is checked
        self._is_cut = False
        """Whether the log has lost its beginning to retention."""
        self.lite_queues = 0
        """How many queues of lite topics there are."""
        self._has_dropped = False
        self.get_log_end: Callable[[], int] = _no_log_end
        """Returns where the log ends; a lite topic that may have existed before begins at that number."""
        self._unreadable: set[int] = set()
        """Blocks whose keys were found damaged."""
        self.list_records_between: RecordsBetween = _no_records
        """Returns the log offsets of all records between two log offsets, the last first."""

    # --- opening

    def load_files(self, segments: "Sequence[int]", log_end: int) -> None:
        """Open the files of `segments`, remove others, and cut off blocks that cover bytes that the log does not
        have.
        """
        self.covered_offset = segments[0]
        self._is_cut = segments[0] > 0
        wanted = {f"{base:020d}" for base in segments}
        for name in self._folder.names():
            if name.isdigit() and name not in wanted:
                self._folder.remove(name)
        for base in segments:
            # Blocks are written in log order, so blocks after the first missing one are not used.
            if f"{base:020d}" in self._folder.names():
                self._load_file(base, log_end)

    def _load_file(self, base: int, log_end: int) -> None:
        file = self._files[base] = self._folder.open(f"{base:020d}")
        position = 0
        while position < file.size:
            try:
                size = index_block.announced_size(file.read(position, index_block.HEAD_BYTES))
                head, runs = index_block.decode_block(file.read(position, size), file_position=position)
            except BadBlock as error:
                _log.warning(
                    "the index file %020d is damaged from byte %d on (%s); rebuilding that part from the commit log",
                    base,
                    position,
                    error,
                )
                break
            if head.log_from != self.covered_offset or head.log_to > log_end:
                self.durable_offset = max(self.durable_offset, head.log_to)
                break
            self._add_block(head, runs, file)
            position += size
        file.truncate(position)

    def _add_block(self, head: BlockHead, runs: "Iterable[IndexRun]", file: "StoreFile") -> None:
        number = self._keep_block(head, file)
        for run in runs:
            queue = self._queues.get((run.topic, run.queue_id))
            if queue is None or (run.first_offset > queue.end and is_lite_queue(run.topic)):
                queue = self._create_queue(run.topic, run.queue_id, run.first_offset)
            queue.add_run(number, run)

    def _keep_block(self, head: BlockHead, file: "StoreFile") -> int:
        number = self._next_block
        self._next_block += 1
        self._blocks[number] = _IndexBlock(head, file)
        self.covered_offset = head.log_to
        return number

    def find_contradiction(self, topic: str, queue_id: int, queue_offset: int, lost_max: int) -> str | None:
        """Return why the next record of the log can't have that offset, if at most `lost_max` messages were lost; None
        if it can.
        """
        queue = self._queues.get((topic, queue_id))
        self._room_for_lost = lost_max - self._lost
        if queue is None and self._is_cut:
            return None  # it may begin anywhere
        end = 0 if queue is None else queue.end
        place = f"has offset {queue_offset} in queue {queue_id} of topic {topic!r}, whose next offset is {end}"
        if queue_offset < end:
            return place
        if queue_offset - end > self._room_for_lost and not is_lite_queue(topic):
            return f"{place}, and no damage before it had room for those in between"
        return None

    def prepare_recovered(self, topic: str, queue_id: int, queue_offset: int, log_offset: int) -> None:
        """Prepare the queue for a record found in the log that is added next, and for losses before it.

        The caller has checked it with `find_contradiction`.
        """
        queue = self._queues.get((topic, queue_id))
        is_lite = is_lite_queue(topic)
        if queue is None or (is_lite and queue_offset - queue.end > self._room_for_lost):
            queue = self._create_queue(topic, queue_id, queue_offset if self._is_cut or is_lite else 0)
        if queue_offset > queue.end:
            self._dirty[queue] = None
            self._lost += queue_offset - queue.end
            self.entries_in_memory += queue_offset - queue.end
            queue.add_lost(queue_offset, log_offset)
        assert queue.end == queue_offset

    def continue_queue_at(self, topic: str, queue_id: int, end: int, log_offset: int) -> None:
        """Continue the queue at `end`: what it lacks up to there was lost, before that log offset."""
        queue = self.get_queue(topic, queue_id)
        if queue.end < end:
            self.entries_in_memory += end - queue.end
            queue.add_lost(end, log_offset)
            self._dirty[queue] = None

    def set_low_watermark(self, topic: str, queue_id: int, low_watermark: int, origin: int) -> None:
        """Set the low watermark of a queue, below which nothing is left; see `save_low_watermarks`."""
        queue = self.get_queue(topic, queue_id)
        queue.raise_first(low_watermark)
        queue.origin = max(queue.origin, origin)  # an operation of the log may have raised it already
        self._unacknowledged.raise_to(queue, (low_watermark, origin))

    def load_low_watermarks(self, files: "SideFileReader") -> None:
        """Load the low watermarks, when all records are known. DamagedFile.

        A low watermark can lie behind the end of its queue: a power cut took messages of a deleted topic before they
        were durable. Then the queue continues where its messages end, as the log must have no gaps.
        """
        low_watermarks = files.read_needed(self._folder, _LOW_WATERMARKS)
        too_high = False
        for topic, queue_id, low_watermark, origin in low_watermarks if isinstance(low_watermarks, list) else ():
            known = self._queues.get((topic, queue_id))
            end = known.end if known is not None else low_watermark if self._is_cut else 0
            too_high |= low_watermark > end
            if end:
                self.set_low_watermark(topic, queue_id, min(low_watermark, end), min(origin, end))
        if too_high:
            self.save_low_watermarks(0)()  # before there are messages that the old ones would hide

    def raise_low_watermarks(self, low_watermarks: "Iterable[tuple[str, int, int, int]]") -> None:
        """Raise low watermarks to those of another replica, whose log was the same."""
        for topic, queue_id, low_watermark, origin in low_watermarks:
            known = self._queues.get((topic, queue_id))
            end = known.end if known is not None else low_watermark if self._is_cut else 0
            if end:
                self.set_low_watermark(topic, queue_id, min(low_watermark, end), min(origin, end))

    # --- adding and finding

    def get_queue(self, topic: str, queue_id: int) -> QueueIndex:
        """Return the queue's index; create it if there is none."""
        key = (topic, queue_id)
        queue = self._queues.get(key)
        if queue is not None:
            return queue
        begins_at_end = is_lite_queue(topic) and (self._is_cut or self._has_dropped)
        return self._create_queue(topic, queue_id, self.get_log_end() if begins_at_end else 0)

    def _create_queue(self, topic: str, queue_id: int, first: int) -> QueueIndex:
        """Create a queue's index that begins there, in place of that of an earlier lite topic of the same name."""
        key = (topic, queue_id)
        if key not in self._queues:
            ids = self._ids.get(topic)
            if ids is None:
                self._ids[topic] = _FIRST_ONLY if is_lite_queue(topic) and not queue_id else [queue_id]
            else:
                self._ids[topic] = [*ids, queue_id]
            self.lite_queues += is_lite_queue(topic)
        queue = self._queues[key] = QueueIndex(topic, queue_id, first)
        if is_lite_queue(topic):
            queue.origin = first
        return queue

    # --- lite topics

    def lite_topics(self) -> list[str]:
        """Return the queues of lite topics, by their topics' names. For any thread."""
        return [topic for topic in list(self._ids) if is_lite_queue(topic)]

    def lite_queue(self, topic: str) -> QueueIndex | None:
        """Return the lite topic's queue, None if there is none."""
        return self._queues.get((topic, 0))

    def drop_lite_topic(self, topic: str) -> None:
        """Drop a lite topic: nothing of it can be found, and nothing is known of it any more."""
        for queue_id in self._ids.pop(topic, ()):
            del self._queues[topic, queue_id]  # its entries in memory still go to disk with the next spill
            self.lite_queues -= 1
            self._has_dropped = True

    def drop_lite_topics_of(self, deleted: "Mapping[str, int]") -> None:
        """Drop the lite topics of topics that were deleted when the log ended at those offsets. May read files."""
        for topic in self.lite_topics():
            log_offset = deleted.get(lite_parent(topic), 0)
            queues = [self._queues[topic, queue_id] for queue_id in self._ids[topic]]
            if log_offset and all(self._end_at(queue, log_offset) == queue.end for queue in queues):
                self.drop_lite_topic(topic)

    # --- for a reader of the whole log, which adds many messages itself

    def known_queue(self, topic: str, queue_id: int, queue_offset: int) -> QueueIndex | None:
        """Return the queue's index, to add a message with that offset; None if there is none yet."""
        del queue_offset  # it must be the queue's end, which the caller sees
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            self._dirty[queue] = None
        return queue

    def keys_to_extend(self) -> "tuple[array[int], array[int]]":
        """Return the hashes of keys and the log offsets of their records, both to be appended to; see `index_block`."""
        return self._keys

    def count_added(self, count: int) -> None:
        """Count messages that the caller has added."""
        self.entries_in_memory += count

    def add_stretch(self, stretch: "LogStretch") -> bool:
        """Add what another process has read; return False, and add nothing, if it does not fit what is known."""
        for run in stretch.runs:
            if self.find_contradiction(run.topic, run.queue_id, run.first_offset, 0) is not None:
                return False
        for run in stretch.runs:
            self.prepare_recovered(run.topic, run.queue_id, run.first_offset, stretch.begin)
            queue = self._queues[run.topic, run.queue_id]
            queue.extend(run.positions, run.sizes, run.tags)
            self._dirty[queue] = None
        hashes, positions = self._keys
        hashes.extend(stretch.hashes)
        positions.extend(stretch.key_positions)
        self.entries_in_memory += stretch.records
        return True

    def used_queues(self) -> list[tuple[str, int]]:
        """Return topic and id of every queue that was ever used, as far as is known."""
        return sorted(self._queues)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of the topic's queues that were ever used, as far as is known. Do not change the list."""
        return self._ids.get(topic, [])

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the first offset of the queue and the one after its last; both 0 for a queue never used."""
        queue = self._queues.get((topic, queue_id))
        return (queue.first, queue.end) if queue else (0, 0)

    def is_complete(self, topic: str, queue_id: int) -> bool:
        """Tell whether the queue still has every message since its topic was created."""
        queue = self._queues.get((topic, queue_id))
        return queue is None or queue.first == queue.origin

    def queue_origin(self, topic: str, queue_id: int) -> int:
        """Return the offset at which the queue began when its topic was created."""
        queue = self._queues.get((topic, queue_id))
        return queue.origin if queue else 0

    def topic_names(self) -> list[str]:
        """Return all topics that were ever used, as far as is known, without lite topics."""
        return [topic for topic in self._ids if not is_lite_queue(topic)]

    def held_topics(self) -> dict[str, HeldTopic]:
        """Return all topics that have messages left, each with its lite topics.

        Deleted messages do not count, nor do queues that were not used since a deletion.
        """
        queues: dict[str, int] = {}
        messages: dict[str, int] = {}
        for queue in self._queues.values():
            if queue.end > queue.origin:
                topic = lite_parent(queue.topic)
                queues[topic] = max(queues.get(topic, 0), queue.queue_id + 1)
                messages[topic] = messages.get(topic, 0) + queue.end - queue.first
        return {topic: HeldTopic(queues[topic], count) for topic, count in messages.items() if count}

    def add_message(self, queue: QueueIndex, log_offset: int, size: int, tag_hash: int, keys: "Iterable[str]") -> None:
        """Add the next message of `queue`."""
        queue.add_message(log_offset, size, tag_hash)
        self._dirty[queue] = None
        hashes, positions = self._keys
        for key in keys:
            hashes.append(key_hash(queue.topic, key))
            positions.append(log_offset)
        self.entries_in_memory += 1

    def add_messages(self, queue: QueueIndex, messages: "Iterable[NewMessage]", places: "Sequence[int]") -> None:
        """Add the next messages of `queue`; `places` has each one's log offset, and where the last one ends."""
        self._dirty[queue] = None
        prefix = queue.key_prefix
        log_offsets: list[int] = []
        sizes: list[int] = []
        tag_hashes: list[int] = []
        key_hashes: list[int] = []
        key_offsets: list[int] = []
        number = 0
        for message in messages:
            log_offset = places[number]
            number += 1
            log_offsets.append(log_offset)
            sizes.append(places[number] - log_offset)
            tag_hashes.append(message.tag_hash)
            for key in message.keys:
                key_hashes.append(crc32(key.encode(), prefix))
                key_offsets.append(log_offset)
        queue.add_messages(log_offsets, sizes, tag_hashes)
        hashes, positions = self._keys
        hashes.extend(key_hashes)
        positions.extend(key_offsets)
        self.entries_in_memory += number

    def locate_messages(
        self, topic: str, queue_id: int, offset: int, count: int, *, may_block: bool = True
    ) -> list[MessageLocation]:
        """Return where the messages from `offset` on are; at least one if there is one, at most `count`."""
        queue = self._queues.get((topic, queue_id))
        if queue is None or not queue.first <= offset < queue.end:
            return []
        if offset >= queue.tail_first:
            return queue.locate_in_memory(offset, count)
        number, row, following = queue.find_row(offset)
        block = self._blocks[number]
        data = block.file.read(
            block.head.rows_at + row * ROW_BYTES, min(count, following) * ROW_BYTES, may_block=may_block
        )
        return decode_rows(data, block.head.base)

    def find_candidates(self, search: "KeySearch") -> "Iterator[int]":
        """Yield the log offsets of records that may have the key, newest first, each once; reads files, so for a
        thread.
        """
        below = NO_LIMIT
        for log_offset in self._all_candidates(search):
            if log_offset < below:
                yield log_offset
                below = log_offset

    def _all_candidates(self, search: "KeySearch") -> "Iterator[int]":
        """Yield the same, some twice: while a block is added, its entries are in memory too."""
        yield from search.search_memory(self._keys)
        for number, block in reversed(list(self._blocks.items())):
            search.pause()
            try:
                yield from search.search_block(block.head, block.file)
            except (DamagedKeys, OSError) as error:
                if number not in self._blocks:
                    continue  # retention has removed it meanwhile
                if number not in self._unreadable:
                    self._unreadable.add(number)
                    _log.warning(
                        "keys in the index file %020d can't be read (%s): searches read the commit log from %d to %d "
                        "instead, until a start rebuilds that part of the index",
                        *(block.head.base, error, block.head.log_from, block.head.log_to),
                    )
                yield from self.list_records_between(block.head.log_from, block.head.log_to, search.pause)

    # --- moving to disk

    @property
    def queues_in_memory(self) -> int:
        """How many queues have entries in memory."""
        return len(self._dirty)

    def prepare_spill(self, segments: "Sequence[int]", upto: int) -> BlockSpill | None:
        """Return the next block to write, of one segment and of log bytes below `upto`, which must be durable; None if
        there is none.
        """
        if self.covered_offset >= upto:
            return None
        base = max(segment for segment in segments if segment <= self.covered_offset)
        log_to = min((segment for segment in segments if segment > base), default=upto)
        return BlockSpill(
            self.covered_offset, min(log_to, upto), base, self._folder, self._files, list(self._dirty), self._keys
        )

    def finish_spill(self, job: BlockSpill) -> "Iterator[None]":
        """Release the entries of a written block, a little at a time. Run all steps before the next spill."""
        assert job.written is not None
        number = self._keep_block(job.written, self._files[job.base])
        hashes, positions = self._keys
        self._keys = (hashes[job.written.keys :], positions[job.written.keys :])
        for done, (queue, count, first_row) in enumerate(job.counts, start=1):
            queue.drop_tail(count, number, first_row)
            self.entries_in_memory -= count
            if queue.tail_first == queue.end:
                del self._dirty[queue]
            if done % _QUEUES_AT_ONCE == 0:
                yield

    # --- deletions

    def forget_topic(self, topic: str) -> "Callable[[], None]":
        """Hide the topic's messages; its queues continue at their offsets if it is created again.

        Returns a function that makes that durable, for a thread.
        """
        for queue in self._queues.values():
            if queue.topic == topic:
                queue.raise_first(queue.end)
                queue.origin = queue.end
        for lite_topic in self.lite_topics():
            if lite_parent(lite_topic) == topic:
                self.drop_lite_topic(lite_topic)
        return self.save_low_watermarks()

    def purge_queue(self, topic: str, queue_id: int, below: int) -> "Callable[[], None]":
        """Hide the queue's messages below that offset; it continues at its end, and if it is empty its origin is there.

        Returns a function that makes that durable, for a thread.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is not None and queue.first < below:
            queue.raise_first(min(below, queue.end))
            if queue.first == queue.end:
                queue.origin = queue.end
        return self.save_low_watermarks()

    def forget_topic_at(self, topic: str, log_offset: int, decided_at: int) -> None:
        """Apply a deletion that is an operation of the log, from `log_offset` to `decided_at`: messages behind it stay.

        `save_low_watermarks` makes it durable. May read files.
        """
        for queue in list(self._queues.values()):
            if queue.topic == topic:
                end = self._end_at(queue, log_offset)
                self._begin_again(queue, end, end, decided_at)
        self.drop_lite_topics_of({topic: log_offset})

    def purge_at(self, topic: str, queue_id: int, below: int, log_offset: int, decided_at: int) -> None:
        """Apply a purge that is an operation of the log, like `forget_topic_at`."""
        queue = self._queues.get((topic, queue_id))
        if queue is not None and queue.first < below:
            end = self._end_at(queue, log_offset)
            first = min(below, end)
            self._begin_again(queue, first, end if first == end else queue.origin, decided_at)

    def _begin_again(self, queue: QueueIndex, first: int, origin: int, decided_at: int) -> None:
        if first > queue.first or origin > queue.origin:
            self._unacknowledged.add_change(queue, decided_at, (queue.first, queue.origin))
            queue.raise_first(first)
            queue.origin = max(queue.origin, origin)

    def _end_at(self, queue: QueueIndex, log_offset: int) -> int:
        """Return where the queue ended when the log ended there."""
        below = queue.tail_below(log_offset)
        if below or log_offset >= self.covered_offset:
            return queue.tail_first + below
        low, high = queue.first, queue.tail_first
        while low < high:
            middle = (low + high) // 2
            [location] = self.locate_messages(queue.topic, queue.queue_id, middle, 1)
            if location.log_offset < log_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def prepare_drop(self, log_start: int, acknowledged: int = NO_LIMIT) -> "Callable[[], None]":
        """Hide what lies below `log_start`, where the log is about to begin. Returns a function that makes that
        durable, for a thread, before anything is deleted.
        """
        is_dropped = self._blocks_before(log_start).__contains__
        for queue in self._queues.values():
            queue.raise_first(queue.first_without(is_dropped))
        for queue in self._unacknowledged:
            self._unacknowledged.raise_to(queue, (queue.first_held_without(is_dropped), 0))
        return self.save_low_watermarks(acknowledged)

    def drop_before(self, log_start: int) -> list[tuple[str, int]]:
        """Drop the blocks below the log's new start, and return the lite topics that are gone with their last messages,
        and where their queues ended.

        The blocks' files wait for `delete_detached`.
        """
        dropped = self._blocks_before(log_start)
        for queue in self._queues.values():
            queue.drop_runs(dropped.__contains__)
        gone: list[tuple[str, int]] = []
        for topic in self.lite_topics():
            if not any(self._queues[topic, queue_id].has_records for queue_id in self._ids[topic]):
                gone.append((topic, self.queue_bounds(topic, 0)[1]))
                self.drop_lite_topic(topic)
        for number in dropped:
            del self._blocks[number]
            self._unreadable.discard(number)
        self.covered_offset = max(self.covered_offset, log_start)  # no block covered epoch marks and the like
        # A copy: a spill may add a file in its thread.
        for base in [base for base in list(self._files) if base < log_start]:
            self._detached.add_file(f"{base:020d}", self._files.pop(base))
        return gone

    def _blocks_before(self, log_start: int) -> set[int]:
        return {number for number, block in self._blocks.items() if block.head.log_to <= log_start}

    def delete_detached(self) -> None:
        """Delete the files of what was dropped. For a thread. OSError: those that are left are deleted the next
        time.
        """
        while self._detached:
            self._detached.delete_first()

    def low_watermarks(self, acknowledged: int = NO_LIMIT) -> "list[tuple[str, int, int, int]]":
        """Return topic, queue id, low watermark and origin of the queues that have any, without operations that end
        above that log offset.

        Lite topics have none: they begin where the log has their first record.
        """
        self._unacknowledged.acknowledge_below(acknowledged)
        if not self._unacknowledged:
            return [
                (queue.topic, queue.queue_id, queue.first, queue.origin)
                for queue in self._queues.values()
                if queue.first and not is_lite_queue(queue.topic)
            ]
        found: list[tuple[str, int, int, int]] = []
        for queue in self._queues.values():
            first, origin = self._unacknowledged.acknowledged_value(queue, (queue.first, queue.origin))
            if first and not is_lite_queue(queue.topic):
                found.append((queue.topic, queue.queue_id, first, origin))
        return found

    def save_low_watermarks(self, acknowledged: int = NO_LIMIT) -> "Callable[[], None]":
        """Return a function that makes the low watermarks up to that log offset durable, for a thread."""
        return self._watermarks.prepare_write(self.low_watermarks(acknowledged))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._detached.close()


def _no_log_end() -> int:
    return 0


def _no_records(begin: int, end: int, pause: "Callable[[], None]") -> "Iterable[int]":
    del begin, end, pause
    return ()
