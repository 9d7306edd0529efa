"""Finds and repairs damage of one store's log while it is in use; `damage` has what is known.

Checks      cover reported log offsets, and the whole log, a piece at a time (`check_piece`). Parts that recovery
            skipped before is no damage.
Repair      Bytes that another replica gave replace damaged ones (`overwriting`).
Kept        The file `damage` has the ranges, so that a replica that restarts knows of them before it leads.
Threads     Everything reads or writes files, and is for a thread; `write` and `save_damage` for one thread at a time.
"""

import logging
from typing import TYPE_CHECKING

from ternmq_broker.store.disk import side_files
from ternmq_broker.store.log.commit_log import name_of_segment
from ternmq_broker.store.log.head_search import HeadSearch
from ternmq_broker.store.log.log_check import CheckedPiece, DamagedRange, check_piece
from ternmq_broker.store.log.record import BadContent, BadRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.copying.log_copy import AcceptedRanges
    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.log.commit_log import CommitLog
    from ternmq_broker.store.repairing.damage import LogDamage
    from ternmq_broker.store.repairing.record_overwriting import RecordOverwriting

_log = logging.getLogger(__name__)
DAMAGE = "damage"
SCRUB = "scrub"
REPLICA_READ_BYTES_MAX = 256 << 10
"""How many bytes of the log one replica gives another at once."""
_PIECE_BYTES = 256 << 10
_NEAR_BYTES = 1 << 20
_LOGGED_MAX = 1000


class LogRepair:
    """The checks and repairs of one open store. `checked_end` returns the log offset below which its log never changes
    any more.
    """

    def __init__(
        self,
        root: "Folder",
        log: "CommitLog",
        overwriting: "RecordOverwriting",
        damage: "LogDamage",
        accepted: "AcceptedRanges",
        checked_end: "Callable[[], int]",
        seconds: "Callable[[], float]",
    ) -> None:
        self._root = root
        self._log = log
        self._overwriting = overwriting
        self._damage = damage
        self._accepted = accepted
        self._checked_end = checked_end
        self._seconds = seconds
        self._saved_version = 0
        self._logged = 0

    # --- finding

    def check_report(self, log_offset: int, size: int) -> None:
        """Check a reported log offset, where the index says that a record of that size is; size 0: another replica
        could not use what follows there.
        """
        log, damage = self._log, self._damage
        is_misled = False
        try:
            if log_offset < log.log_start or log_offset >= self._checked_end():
                return
            try:
                if size:
                    is_misled = log.placed_at(log_offset).size != size
                else:
                    self._check_around(log_offset, log.following_segment(log_offset))
            except BadContent as bad:
                self._add_damage(DamagedRange(log_offset, log_offset + bad.size, str(bad)))
            except BadRecord:
                self._check_around(log_offset, log_offset + 1)
                is_misled = True
        except OSError as error:
            if size:
                end = min(log_offset + size, log.following_segment(log_offset))
                self._add_damage(DamagedRange(log_offset, end, f"can't be read: {error.strerror}"))
        finally:
            damage.close_report(log_offset, ends_there=is_misled)

    def _check_around(self, log_offset: int, end: int) -> None:
        """Check the record that contains that log offset, and what follows up to `end`.

        Only earlier records tell where a record begins, so the check begins with one whose header is whole.
        """
        position = self._whole_head_before(log_offset)
        end = min(end, self._checked_end())
        while position < end:
            following = self.check_piece(position, _PIECE_BYTES, from_disk=False).following
            if following == position:
                break
            position = following

    def _whole_head_before(self, log_offset: int) -> int:
        """Return where a record with a whole header begins, at that log offset or not far before it; else where the
        segment begins.
        """
        log = self._log
        base = log.base_of(log_offset)
        near = log_offset - _NEAR_BYTES
        if near <= base or log_offset < log.layouts.layout_1_below:
            return base
        try:
            found = HeadSearch(log).next_in_segment(near)
        except OSError:
            return base
        return found if found <= log_offset else base

    def check_piece(self, position: int, bytes_max: int, *, from_disk: bool = True) -> CheckedPiece:
        """Check a piece of the log from a log offset on where a record begins. BadRecord if retention has removed it;
        OSError.
        """
        piece = check_piece(self._log, position, bytes_max, self._accepted, self._checked_end(), from_disk=from_disk)
        for damaged in piece.damaged:
            self._add_damage(damaged)
        return piece

    @property
    def checked_end(self) -> int:
        """Up to where the log can be checked."""
        return self._checked_end()

    @property
    def log_start(self) -> int:
        """Where the log begins."""
        return self._log.log_start

    def record_before(self, log_offset: int) -> int:
        """Return a log offset at or before that one where a record begins, even if the log was truncated since."""
        return self.log_start if log_offset <= self.log_start else self._log.base_of(log_offset)

    def _add_damage(self, damaged: DamagedRange) -> None:
        if not self._damage.add_range(damaged.begin, damaged.end, self._seconds()):
            return
        self._logged += 1
        if self._logged > _LOGGED_MAX:
            return
        base = self._log.base_of(damaged.begin)
        _log.error(
            "the commit log is damaged from log offset %d up to %d, at byte %d of its file %s: the record there %s",
            *(damaged.begin, damaged.end, damaged.begin - base, name_of_segment(base), damaged.reason),
        )
        if self._logged == _LOGGED_MAX:
            _log.error("the commit log is damaged in %d places; further ones are counted only", _LOGGED_MAX)

    # --- repair

    def read_for_replica(self, log_offset: int, size: int) -> bytes:
        """Return bytes of this log for another replica; none if it does not have them, or can't read them."""
        size = min(size, REPLICA_READ_BYTES_MAX, self._log.synced - log_offset)
        if log_offset < self._log.log_start or size <= 0:
            return b""
        try:
            return self._log.bytes_at(log_offset, size)[1]
        except (BadRecord, OSError):
            return b""

    def count_fitting(self, log_offset: int, data: bytes) -> int:
        """Return how many of the bytes are whole records that may stand there."""
        return self._overwriting.count_fitting(log_offset, data)

    def write_repair(self, log_offset: int, data: bytes) -> None:
        """Replace damaged bytes that begin there by these whole records. OSError; BadRecord if the log has no such
        place any more.
        """
        self._overwriting.write_records(log_offset, data)
        self._damage.remove_repaired(log_offset, log_offset + len(data))

    # --- the files `damage` and `scrub`

    @property
    def is_unsaved(self) -> bool:
        """Tell whether `save_damage` has something to do."""
        return self._damage.version != self._saved_version

    def save_damage(self) -> None:
        """Write the damaged ranges to the file `damage`, if they have changed. OSError."""
        damage = self._damage
        damage.drop_outside(self._log.log_start, self._log.log_end)
        version = damage.version
        if version != self._saved_version:
            side_files.write_side_file(self._root, DAMAGE, damage.damaged_ranges)
            self._saved_version = version

    def save_scrub(self, position: int, began_s: float) -> None:
        """Write where the next start is to continue the pass over the log that began at that time. OSError."""
        side_files.write_side_file(self._root, SCRUB, [position, began_s])
