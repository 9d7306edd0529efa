"""Compares the index with the log, block by block while the log is walked; one block is in memory.

A row must say where its message's record is, its size and its tag; every message below the index's end must have a row;
the keys must be those of the messages, in the log's order. Rows of damaged bytes tell which messages were there.
"""

from array import array
from collections import deque
from typing import TYPE_CHECKING

from ternmq_broker.store.index.index_block import ROW_BYTES, BadBlock, decode_keys, key_hash, own_key_hash
from ternmq_broker.store.index.key_table import SortedKeys
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store_tools.checking.findings import MessagePlace, StoreFinding, StoreFindings, StorePart
from ternmq_broker.store_tools.checking.log_walk import read_index_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_broker.store.index.index_block import BlockHead, IndexRun
    from ternmq_broker.store.log.commit_log import PlacedRecord
    from ternmq_broker.store_tools.checking.damaged_places import DamagedPlaces
    from ternmq_broker.store_tools.store_view import StoreView


class IndexCheck:
    """Gets the log's records in order, then `finish`. `covered` is up to where the index was compared with the log."""

    def __init__(self, view: "StoreView", places: "DamagedPlaces", findings: StoreFindings) -> None:
        self._view = view
        self._places = places
        self._findings = findings
        self._bases = [base for base, _ in view.log_segments()]
        self.covered = self._bases[0] if self._bases else 0
        self.rows = self.keys = 0
        self._blocks = self._sound_blocks()
        self._block = next(self._blocks, None)

    def check_record(self, placed: "PlacedRecord", keys: tuple[str, ...]) -> None:
        """Check a whole record, with the keys by which a message can be found."""
        while self._block is not None and placed.log_offset >= self._block.head.log_to:
            self._next_block()
        if self._block is not None and placed.record.kind is RecordKind.MESSAGE:
            self._block.check_record(placed, keys)

    def finish_check(self) -> None:
        """Finish at the end of the log."""
        while self._block is not None:
            self._next_block()

    def _next_block(self) -> None:
        assert self._block is not None
        self._block.finish_block()
        self._block = next(self._blocks, None)

    def _sound_blocks(self) -> "Iterator[_BlockCheck]":
        """Yield the blocks that a start would use: without a gap, up to the first that is damaged."""
        folder, log_end = self._view.folders.index, self._view.open_log().log_end
        names = set(folder.names())
        for base in self._bases:
            name = f"{base:020d}"
            if name not in names:
                continue
            try:
                for position, head, runs, data in read_index_blocks(folder, name):
                    if head.log_from != self.covered or head.log_to > log_end:
                        self._report_misfit(name, position, head, log_end)
                        return
                    self.covered = head.log_to
                    self.rows += sum(run.rows for run in runs)
                    self.keys += head.keys
                    place = f"index/{name} byte {position}"
                    rows = array("I", data[head.rows_at - position : head.keys_at - position])
                    keys = decode_keys(data, head, file_position=position)
                    yield _BlockCheck(place, head, runs, rows, keys, self._places, self._findings)
            except BadBlock as error:
                position, reason = error.args
                is_being_written = self._view.is_running and base == self._bases[-1] and reason == "cut off"
                if not is_being_written:
                    self._add_finding(f"index/{name} byte {position}", f"the block is damaged: {reason}")
                return

    def _report_misfit(self, name: str, position: int, head: "BlockHead", log_end: int) -> None:
        if head.log_to > log_end:
            reason = f"the block covers the log up to {head.log_to}, which ends at {log_end}"
        else:
            reason = f"the block begins at log offset {head.log_from}, and the one before ends at {self.covered}"
        self._add_finding(f"index/{name} byte {position}", reason)

    def _add_finding(self, place: str, reason: str) -> None:
        self._findings.add_finding(StoreFinding(StorePart.INDEX, place, reason))


class _BlockCheck:
    """One block, whose rows are ticked off as their records come."""

    def __init__(
        self,
        place: str,
        head: "BlockHead",
        runs: "list[IndexRun]",
        rows: "array[int]",
        keys: "tuple[array[int], array[int]]",
        places: "DamagedPlaces",
        findings: StoreFindings,
    ) -> None:
        self.head = head
        self._all_runs = runs
        self._place = place
        self._places = places
        self._findings = findings
        self._rows = rows
        # Positions and hashes, in the log's order.
        hashes, positions = keys
        self._keys = deque((positions[at], hashes[at]) for at in sorted(range(head.keys), key=positions.__getitem__))
        self._key_hash = key_hash if isinstance(head.key_table, SortedKeys) else own_key_hash
        self._ticked = bytearray(len(self._rows) * 4 // ROW_BYTES)
        self._runs: dict[tuple[str, int], list[IndexRun]] = {}
        for run in runs:  # a lite topic that was created again has two
            self._runs.setdefault((run.topic, run.queue_id), []).append(run)

    def check_record(self, placed: "PlacedRecord", keys: tuple[str, ...]) -> None:
        record = placed.record
        position = placed.log_offset - self.head.base
        known = self._runs.get((record.topic, record.queue_id), ())
        rows = [
            run.first_row + record.queue_offset - run.first_offset
            for run in known
            if _has_offset(run, record.queue_offset)
        ]
        if not rows:
            self._add_finding(placed, "the index does not know this message")
        else:
            [row] = rows
            self._ticked[row] = 1
            if tuple(self._rows[3 * row : 3 * row + 3]) != (position, placed.size, record.tag_hash):
                self._add_finding(placed, "the index has another place, size or tag for this message")
        self._check_keys(placed, position, keys)

    def _check_keys(self, placed: "PlacedRecord", position: int, keys: tuple[str, ...]) -> None:
        self._pass_keys_below(position)
        held: set[int] = set()
        while self._keys and self._keys[0][0] == position:
            held.add(self._keys.popleft()[1])
        for key in filter(None, keys):
            if self._key_hash(placed.record.topic, key) not in held:
                self._add_finding(placed, f"the index does not know its key {key!r}")

    def _pass_keys_below(self, position: int) -> None:
        """Pass the remaining keys of records before that one: they are of damaged records, or wrong."""
        reported = -1
        while self._keys and self._keys[0][0] < position:
            at, each = self._keys.popleft()
            log_offset = self.head.base + at
            # One finding for each message is enough; a message without an id has an empty key.
            if at != reported and self._places.place_holding(log_offset) is None and each not in self._empty_keys():
                reported = at
                self._findings.add_finding(
                    StoreFinding(
                        StorePart.INDEX, self._place, "the index has a key of a message that is not there", log_offset
                    )
                )

    def _empty_keys(self) -> set[int]:
        return {self._key_hash(run.topic, "") for run in self._all_runs}

    def finish_block(self) -> None:
        self._pass_keys_below(1 << 32)
        for run in self._all_runs:
            for row in range(run.first_row, run.first_row + run.rows):
                if not self._ticked[row] and self._rows[3 * row + 1]:
                    self._report_unticked(run, row)

    def _report_unticked(self, run: "IndexRun", row: int) -> None:
        log_offset = self.head.base + self._rows[3 * row]
        message = MessagePlace(run.topic, run.queue_id, run.first_offset + row - run.first_row)
        damaged = self._places.place_holding(log_offset)
        if damaged is not None:
            self._places.name_message(damaged, message)
            return
        reason = "the index has a message where the log has none"
        self._findings.add_finding(
            StoreFinding(StorePart.INDEX, self._place, reason, log_offset, self._rows[3 * row + 1], messages=(message,))
        )

    def _add_finding(self, placed: "PlacedRecord", reason: str) -> None:
        record = placed.record
        message = MessagePlace(record.topic, record.queue_id, record.queue_offset)
        self._findings.add_finding(
            StoreFinding(StorePart.INDEX, self._place, reason, placed.log_offset, placed.size, messages=(message,))
        )


def _has_offset(run: "IndexRun", queue_offset: int) -> bool:
    return 0 <= queue_offset - run.first_offset < run.rows
