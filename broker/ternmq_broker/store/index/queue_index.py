"""The index of one queue, the places of its messages in the log: the newest in memory, the others as runs in index
files."""

import bisect
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ternmq_broker.store.index.index_block import ROW_BYTES, IndexRun, key_prefix_hash
from ternmq_common.binary.numbers import read_u32_le

if TYPE_CHECKING:
    from collections.abc import Callable

_ROW_BITS: Final = 32
# Shared and never changed: there may be a hundred thousand queues with nothing in memory, and an empty array takes 64
# bytes.
_NO_PLACES: Final = array("Q")
_NO_SIZES: Final = array("I")


@dataclass(slots=True, init=False)
class MessageLocation:
    """The location of one message in the commit log; `size` 0: its record was lost.

    It never changes. It is not frozen, and its `__init__` is written out, since one is created for each message that is
    read, and what a dataclass generates is not compiled.
    """

    log_offset: int
    size: int
    tag_hash: int

    def __init__(self, log_offset: int, size: int, tag_hash: int) -> None:
        self.log_offset = log_offset
        self.size = size
        self.tag_hash = tag_hash


def decode_rows(data: bytes, base: int) -> list[MessageLocation]:
    """Return the locations that whole rows of a block have, whose positions are relative to `base`."""
    return [
        MessageLocation(base + read_u32_le(data, at), read_u32_le(data, at + 4), read_u32_le(data, at + 8))
        for at in range(0, len(data) - ROW_BYTES + 1, ROW_BYTES)
    ]


class QueueIndex:
    """The locations of the queue offsets `first` up to `end` of one queue; `origin` is where it began when its topic
    was created.

    Invariants: the offsets from `tail_first` on are in memory, one entry each, at ascending log offsets; those before
    are covered by runs without a gap. A run is kept as two numbers: its first offset, and block << 32 | first row.
    """

    __slots__ = (
        "_positions",
        "_runs",
        "_sizes",
        "_tags",
        "first",
        "key_prefix",
        "last_ms",
        "origin",
        "queue_id",
        "tail_first",
        "topic",
    )

    def __init__(self, topic: str, queue_id: int, first: int = 0) -> None:
        self.topic = topic
        self.key_prefix = key_prefix_hash(topic.encode())
        self.queue_id = queue_id
        self.first = first
        self.origin = 0
        self.last_ms = 0
        """When it last received a message; 0: not since the start."""
        self.tail_first = first
        self._positions = self._runs = _NO_PLACES
        self._sizes = self._tags = _NO_SIZES

    @property
    def topic_bytes(self) -> bytes:
        """The topic's name as records have it."""
        return self.topic.encode()

    @property
    def end(self) -> int:
        return self.tail_first + len(self._positions)

    @property
    def has_records(self) -> bool:
        """Whether the log has any record of it, deleted or not."""
        return bool(self._positions or self._runs)

    def _create_arrays(self) -> None:
        """Create arrays of its own, to append to."""
        if self._positions is _NO_PLACES:
            self._positions = array("Q")
            self._sizes = array("I")
            self._tags = array("I")

    def add_message(self, log_offset: int, size: int, tag_hash: int) -> None:
        self._create_arrays()
        self._positions.append(log_offset)
        self._sizes.append(size)
        self._tags.append(tag_hash)

    def add_messages(self, log_offsets: "list[int]", sizes: "list[int]", tag_hashes: "list[int]") -> None:
        """Add the next messages."""
        self._create_arrays()
        self._positions.extend(log_offsets)
        self._sizes.extend(sizes)
        self._tags.extend(tag_hashes)

    def append_functions(self) -> "tuple[Callable[[int], None], Callable[[int], None], Callable[[int], None]]":
        """Return what `add_message` calls with log offset, size and hash of the tag, for a caller that adds many; valid
        until the next `drop_tail`.
        """
        self._create_arrays()
        return self._positions.append, self._sizes.append, self._tags.append

    def entries_in_memory(self) -> "tuple[array[int], array[int], array[int]]":
        """Return log offsets, sizes and hashes of the tags of the messages in memory."""
        return self._positions, self._sizes, self._tags

    def extend(self, positions: "array[int]", sizes: "array[int]", tags: "array[int]") -> None:
        """Add many messages, as `entries_in_memory` returns them."""
        self._create_arrays()
        self._positions.extend(positions)
        self._sizes.extend(sizes)
        self._tags.extend(tags)

    def add_lost(self, end: int, log_offset: int) -> None:
        """Continue the queue at offset `end`; the messages in between were lost before `log_offset`."""
        for _ in range(end - self.end):
            self.add_message(log_offset, 0, 0)

    def add_run(self, block: int, run: IndexRun) -> None:
        """Add a run that follows what is known; used when index files are opened, before any `add_message`."""
        assert not self._positions
        if not self._runs and run.first_offset >= self.first:
            self.first = run.first_offset
        self._note_run(run.first_offset, block, run.first_row)
        self.tail_first = run.first_offset + run.rows

    def _note_run(self, first_offset: int, block: int, first_row: int) -> None:
        if self._runs is _NO_PLACES:
            self._runs = array("Q")
        self._runs.append(first_offset)
        self._runs.append(block << _ROW_BITS | first_row)

    def tail_below(self, log_offset: int) -> int:
        """Return how many of the entries in memory lie below that log offset."""
        return bisect.bisect_left(self._positions, log_offset)

    def block_rows(self, count: int, base: int) -> "array[int]":
        """Return the first `count` entries in memory as rows of a block, with positions relative to `base`."""
        rows = array("I", bytes(12 * count))
        rows[0::3] = array("I", [position - base for position in self._positions[:count]])
        rows[1::3] = self._sizes[:count]
        rows[2::3] = self._tags[:count]
        return rows

    def drop_tail(self, count: int, block: int, first_row: int) -> None:
        """Drop the first `count` entries from memory, which are in a block now."""
        self._note_run(self.tail_first, block, first_row)
        self.tail_first += count
        if count == len(self._positions):
            self._positions, self._sizes, self._tags = _NO_PLACES, _NO_SIZES, _NO_SIZES
        else:
            del self._positions[:count], self._sizes[:count], self._tags[:count]

    def first_without(self, is_dropped: "Callable[[int], bool]") -> int:
        """Return the first offset that is left when those blocks, the oldest, are dropped."""
        return max(self.first, self.first_held_without(is_dropped))

    def first_held_without(self, is_dropped: "Callable[[int], bool]") -> int:
        """Return the same of all whose records are in the log, whether or not they can still be found."""
        place = 2 * self._runs_in(is_dropped)
        return self._runs[place] if place < len(self._runs) else self.tail_first

    def drop_runs(self, is_dropped: "Callable[[int], bool]") -> None:
        """Drop the runs of dropped blocks, which are the oldest."""
        self.first = self.first_without(is_dropped)
        count = self._runs_in(is_dropped)
        if count:
            del self._runs[: 2 * count]

    def _runs_in(self, is_dropped: "Callable[[int], bool]") -> int:
        count = 0
        while 2 * count < len(self._runs) and is_dropped(self._runs[2 * count + 1] >> _ROW_BITS):
            count += 1
        return count

    def raise_first(self, first: int) -> None:
        """Hide the messages below `first`; a queue that ends before it continues there."""
        self.first = max(self.first, first)
        if self.end < first:
            assert not self._positions
            self.tail_first = first

    def locate_in_memory(self, offset: int, count: int) -> list[MessageLocation]:
        """Return up to `count` locations from `offset` on; `offset` must be in memory."""
        first = offset - self.tail_first
        assert first >= 0
        positions, sizes, tags = self._positions, self._sizes, self._tags
        last = min(first + count, len(positions))
        return [MessageLocation(positions[at], sizes[at], tags[at]) for at in range(first, last)]

    def find_row(self, offset: int) -> tuple[int, int, int]:
        """Return, for an `offset` below `tail_first`, its block, its row there, and how many rows of that run are left
        from it on.
        """
        number = self._run_number(offset)
        first, place = self._runs[2 * number], self._runs[2 * number + 1]
        following = self._runs[2 * number + 2] if 2 * number + 2 < len(self._runs) else self.tail_first
        return place >> _ROW_BITS, (place & ((1 << _ROW_BITS) - 1)) + offset - first, following - offset

    def _run_number(self, offset: int) -> int:
        """Return the last run that begins at or below that offset."""
        low, high = 0, len(self._runs) // 2
        while low < high:
            middle = (low + high) // 2
            if self._runs[2 * middle] <= offset:
                low = middle + 1
            else:
                high = middle
        assert low
        return low - 1
