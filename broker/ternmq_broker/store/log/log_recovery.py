"""Recovers the commit log at a start: yields whole records, and tells a torn tail from damage.

Durable     Everything below a log offset for which one of these vouches: the caller that opens the log (checkpoint,
            indexes); every later record, whose header says how far the log was durable when it was written; the end of
            the records of layout 1.
Torn tail   From a bad record on for which nothing vouches: a crash left it, and nothing of it was acknowledged, unless
            its very last bytes were damaged afterwards. It is set aside and cut off; zeros are reserved room, and are
            only cut off.
Damage      A bad record for which something vouches was acknowledged once. The start is refused with its log offset.
            With `accept` the bytes up to the next whole record are set aside, stepped over, and remembered, so that the
            next start steps over them too.
Impossible  A whole record that contradicts those before it, such as a queue offset that was given before, or one that
            leaves out more messages than the damaged bytes had room for, counts as a bad one.
Copies      A replica that was not in sync has records whose durable marks are about other disks than its own. From a
            log offset on (`disbelieved_from`) they vouch for nothing. Accepted damage in which the log ends, since a
            copy got no further, is a torn tail.
Newer       Bytes that look like a record of a layout that this program does not know, with no known one behind them,
            are refused and never cut.
Layout 1    Its records vouch for nothing. While a store is converted, a bad record is damage if a whole one follows,
            since it is unknown how far the log was durable.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from ternmq_broker.store.disk.checked_file import NewerFormat
from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_broker.store.log.head_search import HeadSearch
from ternmq_broker.store.log.log_walk import READ_BYTES, LogWalk
from ternmq_broker.store.log.record import BadRecord, NewerRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ternmq_broker.store.disk.set_aside import SetAsideFolder
    from ternmq_broker.store.log.commit_log import CommitLog, PlacedRecord
    from ternmq_broker.store.log.log_walk import TakePlain

_log = logging.getLogger(__name__)
_SCAN_BYTES = 1 << 20
_RECORD_BYTES_MIN = 44

Range = tuple[int, int]
"""Log offsets where damaged bytes begin and end."""


@dataclass(frozen=True, slots=True)
class FoundDamage:
    """Bytes of the log that are no whole record, and why. `is_torn`: they are at its end, and nothing vouches for
    them.
    """

    begin: int
    end: int
    reason: str
    is_torn: bool = False


class CommitLogCorrupted(Exception):
    """A record that was durable once can't be read any more."""

    def __init__(self, *, log_offset: int, durable: int, reason: str) -> None:
        self.log_offset = log_offset
        super().__init__(f"log offset {log_offset} (all below {durable} was durable): the record {reason}")


class LogRecovery:
    """Walks a log once, when it is opened.

    `durable` is up to where it was known to be durable; `accepted` has the ranges that earlier starts stepped over;
    `contradicts` returns why a record is impossible if at most so many messages of its queue were lost before it.
    """

    def __init__(
        self,
        log: "CommitLog",
        set_aside: "SetAsideFolder",
        *,
        durable: int,
        disbelieved_from: int = NO_LIMIT,
        accepted: "Iterable[Range]" = (),
        accept: bool = False,
        contradicts: "Callable[[PlacedRecord, int], str | None]" = lambda _placed, _lost_max: None,
    ) -> None:
        self._log = log
        self._heads = HeadSearch(log)
        self._set_aside = set_aside
        self._durable = durable
        self._disbelieved_from = disbelieved_from
        self._accept = accept
        self._contradicts = contradicts
        self.accepted = {begin: end for begin, end in accepted if end > log.log_start}
        self.newly_accepted = False
        """Whether damage was found that was not accepted before: files that promised those bytes must be rewritten."""
        self.found_damage: list[FoundDamage] = []
        """The damage that was not accepted before, in the log's order."""
        self.skipped_bytes = self.torn_bytes = 0
        """How many bytes this start or an earlier one stepped over, as far as it walked; and how many were cut off."""

    def recover_records(
        self, since: int, take_plain: "TakePlain | None" = None, read_bytes: int = READ_BYTES
    ) -> "Iterator[PlacedRecord]":
        """Yield every whole record from log offset `since` on, except those that `take_plain` processes (`LogWalk`);
        then cut off the torn tail, and sync all.

        CommitLogCorrupted, NewerFormat; OSError if there is no room to set something aside. Then nothing has changed.
        """
        log = self._log
        position = since = max(since, log.log_start)
        if log.log_end < self._durable and not self._accept:
            raise CommitLogCorrupted(
                log_offset=log.log_end, durable=self._durable, reason="is missing at the log's end"
            )
        self.newly_accepted = log.log_end < self._durable
        while position < log.log_end:
            following = log.following_segment(position)
            walk = LogWalk(log, position, take_plain, read_bytes)
            try:
                for placed in walk:
                    self._check_record(placed)
                    yield placed
                if walk.log_offset < following:
                    self._raise_missing(following)
                position = following
            except BadRecord as error:
                after = self._after_bad(walk.log_offset, error)
                if after is None:
                    position = walk.log_offset
                    break
                position = after
        log.finish_recovery(position, since)

    def _check_record(self, placed: "PlacedRecord") -> None:
        problem = self._contradicts(placed, self.skipped_bytes // _RECORD_BYTES_MIN)
        if problem is not None:
            raise BadRecord(problem)

    def _raise_missing(self, following: int) -> NoReturn:
        raise BadRecord(f"is missing, as are all bytes up to {following}, where the next segment begins")

    # --- bad records

    def _after_bad(self, bad: int, error: BadRecord) -> int | None:
        """Return where to continue behind a bad record; None if it begins the torn tail."""
        known = self.accepted.get(bad, self._log.log_end)
        if known < self._log.log_end:
            self.skipped_bytes += known - bad
            return known
        if bad in self.accepted:
            self._keep_tail(bad, str(error), is_torn=True)
            self.newly_accepted = True
            return None
        following = self._heads.next_head(bad)
        if following is None and isinstance(error, NewerRecord):
            raise NewerFormat(f"the record at log offset {bad} {error}") from error
        durable = self._vouched_to(bad, following)
        if bad < durable and not self._accept:
            raise CommitLogCorrupted(log_offset=bad, durable=durable, reason=str(error)) from error
        if bad < durable and following is not None:
            self._step_over(bad, following, str(error))
            return following
        self._keep_tail(bad, str(error), is_torn=bad >= durable)
        return None

    def _vouched_to(self, bad: int, following: int | None) -> int:
        """Return up to where the log was durable, as far as is known and as whole records behind `bad` say."""
        durable = self._durable
        while following is not None and durable <= bad and following < self._disbelieved_from:
            if following < self._log.layouts.layout_1_below:
                return following
            head = self._log.head_at(following)
            durable = max(durable, head.durable_to)
            following = self._heads.next_head(following, head)
        return durable

    def _step_over(self, bad: int, end: int, reason: str) -> None:
        name = self._copy_aside(bad, end)
        self.found_damage.append(FoundDamage(bad, end, reason))
        self.accepted[bad] = end
        self.newly_accepted = True
        self.skipped_bytes += end - bad
        _log.error(
            "stepped over %d damaged bytes of the commit log, from log offset %d up to %d: the record there %s; "
            "they were copied to set-aside/%s",
            end - bad,
            bad,
            end,
            reason,
            name,
        )

    def _keep_tail(self, bad: int, reason: str, *, is_torn: bool) -> None:
        end = self._end_of_bytes(bad)
        if is_torn and end == bad:
            return  # room that was reserved
        name = self._copy_aside(bad, end)
        self.found_damage.append(FoundDamage(bad, end, reason, is_torn=is_torn))
        if is_torn:
            self.torn_bytes = end - bad
            level, what = logging.WARNING, "is a torn tail of a crash: nothing says that it was durable"
        else:
            self.skipped_bytes += end - bad
            self.newly_accepted = True
            level, what = logging.ERROR, "is damaged"
        _log.log(
            level,
            "the end of the commit log, %d bytes from log offset %d on, %s; the record there %s; "
            "it was copied to set-aside/%s and cut off",
            end - bad,
            bad,
            what,
            reason,
            name,
        )

    def keep_from(self, begin: int) -> str | None:
        """Copy all bytes from there on, before the caller cuts them off; return the copy's name, None if there are only
        zeros.
        """
        end = self._end_of_bytes(begin)
        return self._copy_aside(begin, end) if end > begin else None

    def _copy_aside(self, begin: int, end: int) -> str:
        return self._set_aside.keep_copy(f"commitlog-{begin:020d}-{end:020d}", self._read_pieces(begin, end))

    def _read_pieces(self, begin: int, end: int) -> "Iterator[bytes]":
        while begin < end:
            there = self._log.end_of_segment(begin) - begin
            piece = self._log.read_bytes(begin, max(0, min(_SCAN_BYTES, end - begin, there)))
            if piece:
                yield piece
            # Bytes may be missing at the end of a segment.
            begin = begin + len(piece) if piece else self._log.following_segment(begin)

    def _end_of_bytes(self, begin: int) -> int:
        """Return the end of the last byte from there on that is not zero; `begin` if all are."""
        end, position = begin, begin
        for piece in self._read_pieces(begin, self._log.log_end):
            stripped = piece.rstrip(b"\0")
            position += len(piece)
            if stripped:
                end = position - len(piece) + len(stripped)
        return end
