"""Walks the log of a store that is opened read-only: yields every whole record, and notes what is none.

It follows the rules of a start (`log_recovery`) that accepts damage, so it steps over what a start would.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.copying import catch_up_state
from ternmq_broker.store.disk.checked_file import NewerFormat
from ternmq_broker.store.disk.set_aside import SetAsideFolder
from ternmq_broker.store.index import index_block
from ternmq_broker.store.index.index_block import BadBlock
from ternmq_broker.store.log import durable_watermarks
from ternmq_broker.store.log.log_recovery import LogRecovery
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store_tools.checking.damaged_places import DamagedPlaces
from ternmq_broker.store_tools.checking.side_content import read_side_content
from ternmq_common.names import is_lite_queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.index.index_block import BlockHead, IndexRun
    from ternmq_broker.store.log.commit_log import CommitLog, PlacedRecord
    from ternmq_broker.store.log.log_recovery import Range
    from ternmq_broker.store_tools.store_view import StoreView

ACCEPTED = "accepted-damage"


class CheckedLogWalk:
    """Walks the log once, from its start or from one of its segments."""

    def __init__(self, view: "StoreView") -> None:
        self.log: CommitLog = view.open_log()
        self.places = DamagedPlaces(each for each in accepted_ranges(view) if each[1] > self.log.log_start)
        self.newer_records: tuple[int, str] | None = None
        """Where records of an unknown layout begin, and the error of the first; None without any."""
        self.end = self.log.log_start
        self._since = 0
        self._order = _QueueOrder(is_cut=self.log.log_start > 0)
        self._recovery = LogRecovery(
            self.log,
            _NoCopies(view.folders.set_aside),
            durable=durable_by_files(view),
            disbelieved_from=_disbelieved_from(view),
            accepted=self.places.accepted_places,
            accept=True,
            contradicts=self._order.find_contradiction,
        )

    def walk_records(self, since: int = 0) -> "Iterator[PlacedRecord]":
        """Yield whole records in the log's order; damage before a record is in `places` when it comes."""
        if since > self.log.log_start:
            self._order.begin_late()
        self.end = max(since, self.log.log_start)
        known = 0
        try:
            for placed in self._recovery.recover_records(self.end):
                while known < len(self._recovery.found_damage):
                    self.places.add_damage(self._recovery.found_damage[known])
                    known += 1
                self._order.note_record(placed)
                self.end = placed.log_offset + placed.size
                yield placed
        except NewerFormat as error:
            self.newer_records = (self.end, str(error))
        for damage in self._recovery.found_damage[known:]:
            self.places.add_damage(damage)

    @property
    def torn_bytes(self) -> int:
        return self._recovery.torn_bytes


class _NoCopies(SetAsideFolder):
    """Keeps no copies, since the walk must not write."""

    def keep_copy(self, name: str, pieces: "Iterable[bytes]") -> str:
        del pieces
        return name


class _QueueOrder:
    """Checks that each message is the next one of its queue, if as many were lost as there was room for."""

    def __init__(self, *, is_cut: bool) -> None:
        self._is_cut = is_cut
        self._ends: dict[tuple[str, int], int] = {}
        self._lost = 0

    def begin_late(self) -> None:
        """Note that the log is not walked from its start."""
        self._is_cut = True

    def find_contradiction(self, placed: "PlacedRecord", lost_max: int) -> str | None:
        """Return why the record can't come next, if at most `lost_max` messages were lost before it; None if it can."""
        record = placed.record
        if record.kind is not RecordKind.MESSAGE:
            return None
        end = self._ends.get((record.topic, record.queue_id))
        if end is None:
            if self._is_cut:
                return None
            end = 0
        missing = record.queue_offset - end
        if 0 <= missing <= max(0, lost_max - self._lost) or (missing > 0 and is_lite_queue(record.topic)):
            return None
        return (
            f"has offset {record.queue_offset} in queue {record.queue_id} of topic {record.topic!r}, "
            f"whose next offset is {end}"
        )

    def note_record(self, placed: "PlacedRecord") -> None:
        record = placed.record
        if record.kind is RecordKind.MESSAGE:
            key = (record.topic, record.queue_id)
            if not is_lite_queue(record.topic):
                self._lost += record.queue_offset - self._ends.get(key, record.queue_offset if self._is_cut else 0)
            self._ends[key] = record.queue_offset + 1


def accepted_ranges(view: "StoreView") -> "list[Range]":
    """Return what earlier starts have stepped over, as far as the file `accepted-damage` can be read."""
    content = read_side_content(view.folders.root, ACCEPTED)
    return [(begin, end) for begin, end in content] if isinstance(content, list) else []


def durable_by_files(view: "StoreView") -> int:
    """Return up to where the log was durable once, by the files beside it."""
    checkpoint = read_side_content(view.folders.root, "checkpoint")
    durable = checkpoint.get("durable", 0) if isinstance(checkpoint, dict) else 0
    marks, _ = durable_watermarks.decode_marks(view.folders.root.content(durable_watermarks.NAME) or b"")
    layout_1_below = min(view.layouts.layout_1_below, _disbelieved_from(view))
    durable = max(durable, layout_1_below if not view.is_layout_1 else 0, *marks)
    for name in reversed(view.folders.index.names()):
        if name.isdigit():
            try:
                for _, head, _, _ in read_index_blocks(view.folders.index, name):
                    durable = max(durable, head.log_to)
            except BadBlock:
                continue  # the check of the index reports it
            break
    return durable


def _disbelieved_from(view: "StoreView") -> int:
    """Return from which log offset on records vouch for nothing, as far as the file `catching-up` can be read."""
    return catch_up_state.decode_since(read_side_content(view.folders.root, catch_up_state.NAME))


def read_index_blocks(folder: "Folder", name: str) -> "Iterator[tuple[int, BlockHead, list[IndexRun], bytes]]":
    """Yield the blocks of an index file: each one's position, head, runs and bytes.

    BadBlock at the first that is not whole; its first argument is its position.
    """
    file = folder.open(name)
    position = 0
    while position < file.size:
        try:
            size = index_block.announced_size(file.read(position, index_block.HEAD_BYTES))
            data = file.read(position, min(size, file.size - position))
            head, runs = index_block.decode_block(data, file_position=position)
        except BadBlock as error:
            raise BadBlock(position, str(error)) from None
        yield position, head, runs, data
        position += size
    file.close()
