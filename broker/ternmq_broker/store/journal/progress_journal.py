"""The consumption journal: the progress of each (group, topic, queue), written to a file so that it survives a restart.

Format      Version 3: lines with checksums (`journal_lines`), each a list: `["ternmq consumption journal", 3]`, the
            first one; `[group, topic, queue id, cursor, generation, written ms, [first, count, attempt, generation,
            deadline ms, first, ...]]`, a snapshot, which replaces what came before it; the same with `[first, count,
            ...], snapshot's crc32, number` at its end, a delta, the number-th line since that snapshot: the cursor
            moved, what it passed is finished except the holes, and so are these runs; `[group, topic]` or `[group]` for
            progress that was dropped; `[log offset]`, a loss: lines were lost when the log ended there; counts of
            messages that groups lost, and purges (`journal_marks`). Version 2 had no such counts; it is read, and
            rewritten with the next write. Version 1 had no header, `[[first, count, attempt, ...] ...]` and `[[first,
            count] ...]`, and neither times nor the last two fields; it is read, and rewritten with the next write.
Torn tail   A write that a power cut interrupted is cut off.
Damage      One damaged byte is corrected. Other damage is skipped, and a skipped line may have been of any queue. So a
            message that is not known to be finished is delivered again, and never counts as finished.
            A line that changes what was skipped is skipped too, up to that queue's next snapshot: its group continues
            from what the lines before say, or from the queue's beginning if those are gone.
            In a queue of which no line is left the group may have been: see `lost_below`.
            Only a line knows the messages of a retry queue, so none of them counts as finished: see `is_in_doubt`.
            Lost for good: that a group was dropped, or that an operator moved it back.
            The damaged file is kept beside the journal, as `journal.damaged-1` up to 8, before anything is written.
Cut off     The file `journal-size` says how long the journal was, at most 64 KiB or ten seconds ago, and exactly after
            a clean end: a shorter journal has lost lines, as if they were damaged.
Compaction  When it has grown or was damaged, the journal is replaced by one with the live lines only, in the order in
            which they were written.
Copies      A replica has its leader's lines, byte for byte, since deltas name the crc32 of their snapshot: all live
            ones (`replace_all`), then each as it was written (`append_copied`). A line of another format, or a delta of
            another snapshot, is refused.
Threads     One caller at a time, in any thread.
"""

import contextlib
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ternmq_broker.delivery.claims import Claim, ClaimHole, ClaimsDelta, ClaimsSnapshot, to_holes
from ternmq_broker.store.disk import checked_file, side_files
from ternmq_broker.store.disk.checked_file import DamagedFile, NewerFormat
from ternmq_broker.store.journal import journal_lines
from ternmq_broker.store.journal.journal_marks import JournalMarks, line_of, mark_of
from ternmq_common.names import is_lite_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ternmq_broker.store.disk.files import Folder, StoreFile
    from ternmq_broker.store.journal.journal_lines import Fields, FoundLine
    from ternmq_broker.store.journal.journal_marks import Mark

_log = logging.getLogger(__name__)
_NAME: Final = "journal"
_TITLE: Final = "ternmq consumption journal"
_VERSION: Final = 3
_DAMAGED_NAME: Final = "journal.damaged-{}"
_DAMAGED_MAX: Final = 8
_COMPACT_FROM_BYTES: Final = 4 << 20
_SNAPSHOT_FIELDS: Final = 7
_DELTA_FIELDS: Final = 10
_SNAPSHOT_FIELDS_V1: Final = 6
_DELTA_FIELDS_V1: Final = 7
# A queue's deltas are replaced by a snapshot when they are longer than that and than the snapshot before them.
_DELTAS_BYTES: Final = 4096
_NO_OFFSET_LIMIT: Final = 1 << 62
_LOGGED_MAX: Final = 10
SIZE_NAME: Final = "journal-size"
_NOTE_BYTES: Final = 64 << 10
_NOTE_S: Final = 10.0

QueueKey = tuple[str, str, int]
"""Group, topic, queue id."""


class BadLines(Exception):
    """The lines from a leader are no lines of a journal, or do not follow the copy; none of them was applied."""


class ProgressJournal:
    """The last known consumption progress of every queue: for each, the lines of a snapshot and its deltas.

    `lost_below`: in a queue whose messages are older than that log offset a group may have been, although no line says
    so; 0 if no line was ever lost. The owner, which knows where the log ends, sets it before the first write.
    """

    def __init__(
        self,
        folder: "Folder",
        *,
        compact_from_bytes: int = _COMPACT_FROM_BYTES,
        seconds: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """Open or create the journal, and read it. NewerFormat: a newer version has written it.

        A file of fewer than `compact_from_bytes` is not compacted.
        """
        self._folder = folder
        self._seconds = seconds
        self._compact_from_bytes = compact_from_bytes
        self._lines: dict[QueueKey, list[bytes]] = {}  # in the order of their last lines
        self._live_bytes = 0
        self._marks = JournalMarks()
        self._fields: dict[QueueKey, list[Fields]] = {}  # parsed fields of loaded lines, until `queue_snapshots`
        self._last_written_ms = 0
        self._complete_queues: set[QueueKey] = set()  # queues that are complete although lines were skipped
        self._cut_queues: set[QueueKey] = set()  # queues with lines skipped since the last snapshot
        self._to_be_replaced = False
        self.skipped_lines = self.corrected_lines = 0
        self.lost_below = 0
        self.on_written: Callable[[list[bytes]], None] | None = None
        """Called with the lines that `write` and `drop_group` have written, when they are durable, in the caller's
        thread."""
        self.is_new = _NAME not in folder.names()
        if self.is_new:
            folder.replace(_NAME, _header_line())
        self._file = folder.open(_NAME)
        self._noted_bytes = 0
        self._noted_s = float("-inf")
        self._load_lines()

    # --- reading

    def _load_lines(self) -> None:
        data = self._file.read(0, self._file.size)
        end = len(data)
        is_old = True
        for found in journal_lines.read_lines(data):
            if found.is_torn:
                end = found.start
                _log.info("a write of the consumption journal was interrupted; its %d bytes are cut off", found.size)
                continue
            line = found.line or b""
            fields = journal_lines.fields_of(line) if line else None
            if fields is None or not self._apply_line(line, fields):
                self._skip_damage(found)
            elif found.is_corrected:
                self.corrected_lines += 1
                _log.warning("a damaged byte of the consumption journal, in the line at %d, was put right", found.start)
            is_old &= fields is None or not _is_header(fields) or fields[1] != _VERSION
        if self.skipped_lines or self.corrected_lines:
            self._keep_damaged_file(data)
        self._to_be_replaced = is_old or self.skipped_lines + self.corrected_lines > 0
        self._check_size(len(data))
        if end < len(data):
            self._file.truncate(end)
        self._log_cut_queues()

    def _apply_line(self, line: bytes, fields: list[Any]) -> bool:
        """Apply the line; return False if it is none of the format."""
        if _is_header(fields):
            version = fields[1]
            if version > _VERSION:
                raise NewerFormat(f"the consumption journal has version {version}; this one knows up to {_VERSION}")
        elif _is_drop(fields):
            self._forget_group(*fields)
        elif _is_loss(fields):
            self.lost_below = max(self.lost_below, *fields)
        elif (mark := mark_of(fields)) is not None:
            self._marks.put_mark(mark, line)
        elif _is_progress(fields):
            self._apply_progress(line, fields)
        else:
            upgraded = _upgrade_v1_fields(fields)
            if upgraded is None:
                return False
            key: QueueKey = (fields[0], fields[1], fields[2])
            if len(upgraded) == _DELTA_FIELDS and self._is_sure(key):
                upgraded[-2:] = self._next_delta_link(key)
            self._apply_progress(journal_lines.encode_line(upgraded), upgraded)
        return True

    def _apply_progress(self, line: bytes, fields: list[Any]) -> None:
        key: QueueKey = (fields[0], fields[1], fields[2])
        is_delta = len(fields) == _DELTA_FIELDS
        chain = self._next_delta_link(key)
        self._last_written_ms = fields[5]
        if not is_delta or fields[-2:] == chain:
            self._keep_line(key, line, fields, is_delta=is_delta)
            self._vouch_for(key)
            return
        if fields[-2] != chain[0]:
            # Its snapshot is gone, which may have moved the group back: nothing is sure.
            nothing: Fields = [*fields[:3], 0, *fields[4:6], []]
            self._keep_line(key, journal_lines.encode_line(nothing), nothing, is_delta=False)
        self._cut_queues.add(key)
        self._complete_queues.discard(key)

    def _next_delta_link(self, key: QueueKey) -> list[int]:
        """Return the last two fields of the delta that would follow all lines of that queue."""
        lines = self._lines.get(key)
        return [journal_lines.line_identity(lines[0]), len(lines)] if lines else [0, 0]

    def _vouch_for(self, key: QueueKey) -> None:
        if self.skipped_lines:
            self._complete_queues.add(key)

    def _is_sure(self, key: QueueKey) -> bool:
        return not self.skipped_lines or key in self._complete_queues

    def _skip_damage(self, found: "FoundLine") -> None:
        self.skipped_lines += 1
        self.lost_below = _NO_OFFSET_LIMIT
        self._complete_queues.clear()
        _log.error(
            "the consumption journal is damaged: its bytes from %d to %d can't be read and are skipped; where groups "
            "may have been further than the rest of it says, messages are delivered again",
            found.start,
            found.start + found.size,
        )

    def _check_size(self, size: int) -> None:
        """Detect a journal that is shorter than noted, and count it as damaged."""
        self._noted_bytes = _noted_size(self._folder)
        if self.is_new:
            return  # the owner knows whether there are messages, and then calls `note_loss`
        if size < self._noted_bytes:
            self.skipped_lines += 1
            self.lost_below = _NO_OFFSET_LIMIT
            self._complete_queues.clear()
            self._to_be_replaced = True
            _log.error(
                "the consumption journal has %d bytes, and had %d: what groups did last is gone, in %d queues of which "
                "something is known and in others; where they were further, messages are delivered again",
                *(size, self._noted_bytes, len(self._lines)),
            )

    def note_size(self) -> None:
        """Write down how long the journal is; called at a clean end too. OSError."""
        if self._file.size == self._noted_bytes:
            return
        self._noted_s = self._seconds()
        side_files.write_side_file(self._folder, SIZE_NAME, self._file.size)
        self._noted_bytes = self._file.size

    def _keep_damaged_file(self, data: bytes) -> None:
        """Keep a copy of the damaged file; only one if the same content is found again."""
        for number in range(1, _DAMAGED_MAX + 1):
            name = _DAMAGED_NAME.format(number)
            known = self._folder.content(name)
            if known is None:
                self._folder.replace(name, data)
            if known in (None, data):
                _log.warning("the consumption journal as it was found is kept beside it, as %s", name)
                return
        _log.warning("%d damaged consumption journals are kept already; deleting this one", _DAMAGED_MAX)

    def _log_cut_queues(self) -> None:
        for group, topic, queue_id in sorted(self._cut_queues)[:_LOGGED_MAX]:
            cursor = self._fields[group, topic, queue_id][-1][3]
            _log.warning(
                "what group %s did last in queue %d of topic %s is not known: it goes on from what was known before, "
                "at offset %d",
                *(group, queue_id, topic, cursor),
            )
        if len(self._cut_queues) > _LOGGED_MAX:
            _log.warning("the same holds for %d queues in all", len(self._cut_queues))

    def note_loss(self, log_end: int) -> None:
        """Note that the journal of a log that ends there is gone: groups may have been anywhere below."""
        self.lost_below = max(self.lost_below, log_end)
        self._to_be_replaced = True

    # --- what is known

    def queue_snapshots(self) -> dict[QueueKey, ClaimsSnapshot]:
        found: dict[QueueKey, ClaimsSnapshot] = {}
        for key, lines in self._lines.items():
            fields = self._fields.pop(key, []) or [_fields_of(line) for line in lines]
            found[key] = _replay_lines(fields)
        return found

    def count_marks(self) -> "list[Mark]":
        """Return the counts of lost messages and the purges."""
        return self._marks.all_marks()

    def written_ms(self, key: QueueKey) -> int:
        """Return the latest time at which a line of that queue, or the last line of any queue, was written; 0: not
        known.
        """
        lines = self._lines.get(key)
        if not lines:
            return self._last_written_ms
        fields: list[Any] = list(_fields_of(lines[-1]))
        return max(int(fields[5]), self._last_written_ms)

    def is_in_doubt(self, key: QueueKey) -> bool:
        """Tell whether lines of that queue may be missing."""
        return not self._is_sure(key)

    def wants_snapshot(self, key: QueueKey) -> bool:
        """Tell whether the next line of that queue must be a snapshot, because there is none or its deltas are too
        long.
        """
        snapshot, *deltas = self._lines.get(key, (b"",))
        return not snapshot or key in self._cut_queues or sum(map(len, deltas)) > max(_DELTAS_BYTES, len(snapshot))

    # --- writing

    def write_progress(
        self,
        changed: "Iterable[tuple[QueueKey, ClaimsSnapshot | ClaimsDelta]]",
        now_ms: int,
        marks: "Iterable[Mark]" = (),
    ) -> None:
        """Append these snapshots, deltas and marks, in order; they survive a power cut when this returns."""
        fresh: list[bytes] = []
        for key, record in changed:
            is_delta = isinstance(record, ClaimsDelta)
            assert not (is_delta and key in self._cut_queues), "a delta says nothing where lines were skipped before"
            fields: Fields = [*key, record.cursor, record.generation, now_ms, _flatten_holes(record.holes)]
            if isinstance(record, ClaimsDelta):
                fields += [[number for run in record.finished for number in run], *self._next_delta_link(key)]
            line = journal_lines.encode_line(fields)
            self._keep_line(key, line, None, is_delta=is_delta)
            fresh.append(line)
        for mark in marks:
            line = line_of(mark)
            self._marks.put_mark(mark, line)
            fresh.append(line)
        self._append_lines(fresh)
        if self.on_written is not None:
            self.on_written(fresh)

    def drop_group(self, group: str, topic: str | None = None) -> None:
        """Drop the progress of a group, in one topic or in all."""
        self._forget_group(group, topic)
        fresh = [journal_lines.encode_line([group] if topic is None else [group, topic])]
        self._append_lines(fresh)
        if self.on_written is not None:
            self.on_written(fresh)

    def drop_groups(self, pairs: "Sequence[tuple[str, str]]") -> None:
        """Drop the progress of many pairs of group and topic in one write."""
        fresh = [journal_lines.encode_line([group, topic]) for group, topic in pairs]
        for group, topic in pairs:
            self._forget_key((group, topic, 0))
        self._append_lines(fresh)
        if self.on_written is not None:
            self.on_written(fresh)

    # --- copies

    def live_lines(self) -> list[bytes]:
        """Return the lines that hold all that is known, for `replace_all` of a copy."""
        return [
            *self._loss_line(),
            *self._marks.mark_lines(),
            *(line for kept in self._lines.values() for line in kept),
        ]

    def replace_all(self, lines: "Sequence[bytes]") -> None:
        """Replace the whole journal by these lines, which are the leader's `live_lines`; durable when it returns.
        BadLines, OSError: the journal is unchanged.
        """
        fields = _verify_lines(lines, {})
        self._replace_file([_header_line(), *lines])
        self._lines.clear()
        self._marks.clear()
        self._fields.clear()
        self._complete_queues.clear()
        self._cut_queues.clear()
        self._live_bytes = self._last_written_ms = self.skipped_lines = self.lost_below = 0
        for line, each in zip(lines, fields, strict=True):
            self._apply_copied(line, each)

    def append_copied(self, lines: "Sequence[bytes]") -> None:
        """Append lines that the leader has written since the last ones; durable when it returns.

        BadLines, OSError: nothing was appended, and `replace_all` must follow.
        """
        fields = _verify_lines(lines, {key: self._next_delta_link(key) for key in self._lines})
        for line, each in zip(lines, fields, strict=True):
            self._apply_copied(line, each)
        if lines:
            self._append_lines(list(lines))

    def _apply_copied(self, line: bytes, fields: list[Any]) -> None:
        if not _is_progress(fields):
            self._apply_line(line, fields)
            return
        key: QueueKey = (fields[0], fields[1], fields[2])
        self._last_written_ms = fields[5]
        self._vouch_for(key)
        # The fields are parsed when they are needed, which may be never.
        self._keep_line(key, line, None, is_delta=len(fields) == _DELTA_FIELDS)

    def _keep_line(self, key: QueueKey, line: bytes, fields: "Fields | None", *, is_delta: bool) -> None:
        before = self._lines.pop(key, [])
        if not is_delta:
            self._live_bytes -= sum(map(len, before))
            before = []
            self._cut_queues.discard(key)
        before.append(line)
        self._lines[key] = before
        self._live_bytes += len(line)
        if fields is None or not is_delta:
            self._fields.pop(key, None)
        if fields is not None:
            self._fields.setdefault(key, []).append(fields)

    def _forget_group(self, group: str, topic: str | None = None) -> None:
        self._marks.forget_group(group, topic)
        if topic is not None and is_lite_queue(topic):
            self._forget_key((group, topic, 0))
            return
        for key in [key for key in self._lines if key[0] == group and topic in (None, key[1])]:
            self._forget_key(key)

    def _forget_key(self, key: QueueKey) -> None:
        self._live_bytes -= sum(map(len, self._lines.pop(key, [])))
        self._fields.pop(key, None)
        self._cut_queues.discard(key)

    def _append_lines(self, lines: list[bytes]) -> None:
        if self._to_be_replaced or self._file.size > self._compact_from_bytes + 2 * (
            self._live_bytes + self._marks.bytes
        ):
            self._compact_file()
            return
        self._file.append(lines)
        self._file.sync()
        if self._file.size - self._noted_bytes >= _NOTE_BYTES or self._seconds() - self._noted_s >= _NOTE_S:
            with contextlib.suppress(OSError):  # the lines are written; the noted size is too small until the next note
                self.note_size()

    def _loss_line(self) -> list[bytes]:
        return [journal_lines.encode_line([self.lost_below])] if self.lost_below else []

    def _compact_file(self) -> None:
        self._replace_file([_header_line(), *self.live_lines()])

    def _replace_file(self, lines: list[bytes]) -> None:
        old: StoreFile = self._file
        if self._noted_bytes:
            side_files.write_side_file(self._folder, SIZE_NAME, 0)  # the next journal may be shorter
            self._noted_bytes = 0
        self._folder.replace(_NAME, b"".join(lines))
        self._file = self._folder.open(_NAME)
        self._to_be_replaced = False
        old.close()

    def close(self) -> None:
        self._file.close()


def _noted_size(folder: "Folder") -> int:
    """Return how long the journal was, by the note; 0 where nothing is known."""
    try:
        noted = checked_file.read_checked(folder, SIZE_NAME, SIZE_NAME, side_files.VERSION)
    except DamagedFile as error:
        _log.warning("%s; how long the consumption journal was is not known", error)
        return 0
    return noted if isinstance(noted, int) else 0


# --- lines


def _header_line() -> bytes:
    return journal_lines.encode_line([_TITLE, _VERSION])


def _is_header(fields: "Fields") -> bool:
    return len(fields) == 2 and fields[0] == _TITLE and isinstance(fields[1], int)


def _is_drop(fields: "Fields") -> bool:
    return 1 <= len(fields) <= 2 and _are_all(str, fields)


def _is_loss(fields: "Fields") -> bool:
    return len(fields) == 1 and _are_all(int, fields)


def _is_progress(fields: "Fields") -> bool:
    return (
        len(fields) in (_SNAPSHOT_FIELDS, _DELTA_FIELDS)
        and _are_all(str, fields[:2])
        and _are_all(int, fields[2:6])
        and _is_table(fields[6], 5)
        and (len(fields) == _SNAPSHOT_FIELDS or (_is_table(fields[7], 2) and _are_all(int, fields[8:])))
    )


def _upgrade_v1_fields(fields: "Fields") -> list[Any] | None:
    """Return a line of version 1 as one of version 2, with a delta that follows nothing yet; None if it is no such
    line.
    """
    is_delta = len(fields) == _DELTA_FIELDS_V1
    if not is_delta and len(fields) != _SNAPSHOT_FIELDS_V1:
        return None
    flat: list[object] = []
    for rows in fields[5:]:
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            return None
        flat.append([number for row in rows for number in row])
    upgraded = [*fields[:5], 0, *flat, *([-1, -1] if is_delta else [])]
    return upgraded if _is_progress(upgraded) else None


def _verify_lines(lines: "Sequence[bytes]", chains: dict[QueueKey, list[int]]) -> list[list[Any]]:
    """Return the fields of the lines; BadLines if one is invalid, or does not follow those of its queue
    (`ProgressJournal._next_delta_link`).
    """
    verified: list[list[Any]] = []
    for line in lines:
        fields: list[Any] | None = journal_lines.fields_of(line) if journal_lines.is_line(line) else None
        if fields is None or not (_is_drop(fields) or _is_loss(fields) or _is_progress(fields) or mark_of(fields)):
            raise BadLines(f"{line[:80]!r} is no line of a consumption journal")
        if _is_drop(fields):
            group, *topics = fields
            for dropped in [each for each in chains if each[0] == group and (not topics or each[1] == topics[0])]:
                del chains[dropped]
        elif _is_progress(fields):
            key: QueueKey = (fields[0], fields[1], fields[2])
            if len(fields) == _SNAPSHOT_FIELDS:
                chains[key] = [journal_lines.line_identity(line), 1]
            elif fields[-2:] == chains.get(key):
                chains[key] = [fields[-2], fields[-1] + 1]
            else:
                raise BadLines(f"{line[:80]!r} does not follow what is known of its queue")
        verified.append(fields)
    return verified


def _is_table(value: object, columns: int) -> bool:
    return isinstance(value, list) and len(value) % columns == 0 and _are_all(int, value)


def _are_all(kind: type, values: "Fields") -> bool:
    return set(map(type, values)) <= {kind}


def _fields_of(line: bytes) -> "Fields":
    fields = journal_lines.fields_of(line)
    assert fields is not None
    return fields


def _flatten_holes(holes: "Iterable[ClaimHole]") -> list[int]:
    return [number for first, count, claim in holes for number in (first, count, *claim)]


def _replay_lines(lines: "list[list[Any]]") -> ClaimsSnapshot:
    """Return the state after a snapshot and its deltas."""
    cursor, generation = lines[-1][3:5]
    holes: list[ClaimHole] = []
    for number, fields in enumerate(lines):
        more = list(_parse_holes(fields[6]))
        if not _lie_behind(holes, more) or (len(fields) == _DELTA_FIELDS and fields[7]):
            return ClaimsSnapshot(cursor, generation, _merge_holes(holes, lines[number:]))
        holes += more
    return ClaimsSnapshot(cursor, generation, holes)


def _lie_behind(holes: list[ClaimHole], more: list[ClaimHole]) -> bool:
    """Tell whether `more` lies wholly behind `holes`, as where a group takes messages and finishes none."""
    if not holes or not more:
        return True
    last, first = holes[-1], more[0]
    end = last.first + last.count
    return first.first > end or (first.first == end and first.claim != last.claim)


def _merge_holes(holes: list[ClaimHole], lines: "list[list[Any]]") -> list[ClaimHole]:
    """Return the holes after these lines, offset by offset."""
    unfinished = _unfinished_claims(holes)
    for fields in lines:
        finished = fields[7] if len(fields) == _DELTA_FIELDS else []
        for first, count in zip(finished[0::2], finished[1::2], strict=True):
            for offset in range(first, first + count):
                unfinished.pop(offset, None)
        unfinished |= _unfinished_claims(_parse_holes(fields[6]))
    return to_holes(unfinished.items())


def _unfinished_claims(holes: "Iterable[ClaimHole]") -> dict[int, Claim]:
    claims: dict[int, Claim] = {}
    for first, count, claim in holes:
        if count == 1:
            claims[first] = claim
        else:
            claims.update(dict.fromkeys(range(first, first + count), claim))
    return claims


def _parse_holes(flat: list[int]) -> "Iterable[ClaimHole]":
    claims = map(_new_claim, zip(flat[2::5], flat[3::5], flat[4::5], strict=True))
    return map(_new_hole, zip(flat[0::5], flat[1::5], claims, strict=True))


# There may be a million, and calling the types takes three times as long.
_new_claim: "Callable[[tuple[int, int, int]], Claim]" = partial(tuple.__new__, Claim)
_new_hole: "Callable[[tuple[int, int, Claim]], ClaimHole]" = partial(tuple.__new__, ClaimHole)
