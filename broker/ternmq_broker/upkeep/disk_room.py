"""Watches the free space of the disk: refuses new messages when it is short, or when files of the store are gone.

Watermarks  below the first, `free_min_bytes`, new messages are refused, while consumption, settlements and retention
            go on. Messages are accepted again a little above it, so that it does not flap. Below twice that, retention
            checks all the time, so that expired messages go at once.
Reserve     freeing space has to write first: indexes, low watermarks, relocated timers. When the disk is full all the
            same, since others write to it too, such a step gets a slice of the reserve, and is repeated; a clean end
            gets one too. Other housekeeping gets half of the reserve at most.
Replicas    a follower copies all that its leader accepts. It checks all the same, and reports to its leader whether it
            would accept messages (`replication/shortage.py`).
Failures    appends that fail count, not only the figures: a quota, a device with errors, a file system
            that turned read-only. After a failed write new messages are refused until a write beside the log works,
            which is tried each second, and less often while appends fail again soon after. Until then a follower
            does not lead.
Lost files  what is written to a folder or file that was removed, moved or unmounted is not there after a restart. So
            new messages are refused as on a full disk while `live_files` misses a file, and housekeeping does not
            touch the rest. Consumption goes on, and open files can be saved (`store_tools/rescue.py`).
Threads     everything belongs to the loop's thread; the reserve's file is created and removed in other threads, and so
            are the checks of each second. The figures may be read in any thread.
"""

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ternmq_broker.store.disk.files import WriteNotUndone, is_full
from ternmq_broker.upkeep.failed_writes import FailedWrites
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.limits import GIB, KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

    from ternmq_broker.store.disk.reserve import DiskReserve

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
_MARK_BYTES = GIB
_MARK_SHARE, _SMALL_DISK_SHARE = 20, 10
"""The watermark is at least 1/20 of the disk, and never more than 1/10 of it."""
_ABOVE_SHARE = 16
"""Sends are accepted again when 1/16 of the watermark is free above it."""

T = TypeVar("T")


class DiskBytes(NamedTuple):
    """The free and total bytes of a disk, without what its system keeps for itself."""

    free: int
    total: int

    @property
    def used_share(self) -> float:
        """The used share of the disk, as `df` counts it."""
        return (self.total - self.free) / self.total if self.total else 0.0


class DiskShort(MessagingError):
    """The disk has no space for the request, and nothing of it was stored: another broker may be tried."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INTERNAL_SERVER_ERROR, message)


def disk_bytes(folder: "Path") -> DiskBytes:
    """The free and total bytes of the disk with the folder."""
    disk = os.statvfs(folder)
    return DiskBytes(disk.f_bavail * disk.f_frsize, (disk.f_blocks - disk.f_bfree + disk.f_bavail) * disk.f_frsize)


def automatic_mark(total_bytes: int) -> int:
    """The default of what new messages must leave free of a disk of that size."""
    return min(max(total_bytes // _MARK_SHARE, _MARK_BYTES), total_bytes // _SMALL_DISK_SHARE)


def _nothing_lost() -> None:
    return None


class DiskSpaceWatch(BackgroundLoop):
    """Checks the disk every second, and at once after an error of a full disk.

    Invariant: `refuses` is the result of the last check, and each change of it is logged once with its reason.
    """

    def __init__(
        self,
        check_disk: "Callable[[], DiskBytes]",
        reserve: "DiskReserve",
        *,
        free_min_bytes: int | None,
        follows: bool = False,
        check_files: "Callable[[], str | None]" = _nothing_lost,
        seconds: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """Check the disk for the first time; blocks.

        `free_min_bytes` None: by the size of the disk; 0: messages are not refused before the disk is full. `follows`:
        until `start` this is a replica that accepts no messages of its own. `check_files` returns which file is not
        at its path any more; it blocks, as `check_disk` does.
        """
        # The checks raise no error: it comes from the reserve.
        super().__init__(
            self.check_and_renew, name="disk room", what="the reserve for a full disk can't be allocated again"
        )
        self._read_disk = check_disk
        self._find_lost_files = check_files
        self._seconds = seconds
        self._reserve = reserve
        self._configured = free_min_bytes
        self._use_is_logged = False
        self._follows = follows
        self._is_full = False
        self.set_pace(LOOK_EVERY_S)
        self._disk = DiskBytes(0, 0)
        self.refuses = False
        """New messages are refused; of a follower: they would be if it led."""
        self.lost: str | None = None
        """Which file is not where it was opened; None if none is missing."""
        self.free_min_bytes = 0
        self.check_disk()

    def set_pace(self, look_every_s: float) -> None:
        """Check every so many seconds, and try a write after a failed one no more often."""
        self.every_s = look_every_s
        self._writes = FailedWrites(look_every_s)

    def start(self, *, follows: bool = False) -> None:
        """Check from now on, for a leader, or for a replica that follows."""
        is_to_be_logged = self._is_full and self._follows and not follows
        self._follows = follows
        if is_to_be_logged:
            _log.warning("%s", self.problem)
        super().start()

    def check_disk(self) -> None:
        """Read how much is free now."""
        try:
            disk = self._read_disk()
        except OSError as error:
            self._note_files(_unreadable_text(error))
        else:
            self._note_disk(disk)

    async def check_and_renew(self) -> None:
        """Check the disk and the files, and allocate the reserve again if there is space.

        New messages must not take that space first.
        """
        lost, disk = await asyncio.to_thread(self._check_files_and_disk)
        self._note_files(lost)
        if disk is not None:
            self._note_disk(disk)
        if self._writes.is_probe_due(self._seconds()):
            await self._probe_writes()
        if lost is None and self._writes.problem is None:
            await asyncio.to_thread(self.renew_reserve)

    @property
    def write_problem(self) -> str | None:
        """Why the commit log can't be written, as the last append or probe showed; None if it can."""
        return self.problem if self._writes.problem is not None else None

    def append_failed(self, error: OSError) -> None:
        """Note that an append failed; on a disk that is known to be full that is no news."""
        if is_full(error):
            self.check_disk()
            if self.refuses:
                return
        self.write_failed(error)

    def write_failed(self, error: OSError) -> None:
        """Note that the commit log could not be written, for any reason."""
        if self._writes.note_failure(error, self._seconds()):
            self._update_refuses()
            _log.error("%s", self.problem)

    async def _probe_writes(self) -> None:
        try:
            await asyncio.to_thread(self._reserve.probe_disk)
        except OSError as error:
            if self._writes.note_failed_probe(error, self._seconds()):
                _log.error("%s", self.problem)
            return
        self._writes.note_success(self._seconds())
        self._update_refuses()
        _log.warning("the disk can be written again: %s", self._resumed_text)

    def _check_files_and_disk(self) -> tuple[str | None, DiskBytes | None]:
        """Return which files are lost, and the space of the disk if none is; for a thread."""
        lost = self._find_lost_files()
        if lost is not None:
            return lost, None
        try:
            return None, self._read_disk()
        except OSError as error:
            return _unreadable_text(error), None

    def _note_files(self, lost: str | None) -> None:
        before, self.lost = self.lost, lost
        self._update_refuses()
        if lost is not None and before is None:
            _log.error("%s", self.problem)
        elif lost is None and before is not None:
            _log.warning("the files of the store are where they were opened again: %s", self._resumed_text)

    def _note_disk(self, disk: DiskBytes) -> None:
        self._disk = disk
        mark = self.free_min_bytes = automatic_mark(disk.total) if self._configured is None else self._configured
        if not self._is_full and disk.free < mark:
            self._is_full = True
            _log.warning("%s", self._follower_problem() if self._follows else self._full_problem())
        elif self._is_full and disk.free >= mark + mark // _ABOVE_SHARE:
            self._is_full = False
            _log.info("the disk has %s free: %s", rendered_bytes(disk.free), self._resumed_text)
        self._update_refuses()

    def _update_refuses(self) -> None:
        self.refuses = self._is_full or self.lost is not None or self._writes.problem is not None

    @property
    def _resumed_text(self) -> str:
        return "this replica could lead again" if self._follows else "messages are accepted again"

    @property
    def free_bytes(self) -> int:
        """The free space of the disk."""
        return self._disk.free

    @property
    def used_share(self) -> float:
        """The share of the disk that is used."""
        return self._disk.used_share

    def renew_reserve(self) -> None:
        """Allocate the whole reserve again if there is space for it; for a thread."""
        if self.free_bytes >= 2 * self._reserve.size and self._reserve.left_bytes < self._reserve.size:
            self._reserve.fill_reserve()
            self._use_is_logged = False

    @property
    def is_short(self) -> bool:
        """Whether expired messages should be removed at once."""
        return self.free_bytes < 2 * self.free_min_bytes

    @property
    def problem(self) -> str | None:
        """Why new messages are refused; None if they are not."""
        if self.lost is not None:
            return (
                f"{self.lost}; new messages are refused, since a restart would not find them; process {os.getpid()} "
                f"still has the files open, so save them first: `ternmq store rescue {os.getpid()} FOLDER`"
            )
        if self._writes.problem is not None and self._follows:
            return (
                f"the commit log can't be written ({self._writes.problem}): this replica copies nothing and does not "
                "lead until the disk can be written, which is tried again and again"
            )
        if self._writes.problem is not None:
            return (
                f"the commit log can't be written ({self._writes.problem}): new messages are refused until the disk "
                "can be written, which is tried again and again; what is stored can be consumed"
            )
        return self._full_problem() if self._is_full else None

    def _full_problem(self) -> str:
        free, mark = rendered_bytes(self.free_bytes), rendered_bytes(self.free_min_bytes)
        return (
            f"the disk has {free} free, and new messages must leave {mark} (disk_free_min_bytes): they are refused "
            "until there is room, by retention or otherwise; what is stored can be consumed"
        )

    def _follower_problem(self) -> str:
        free, mark = rendered_bytes(self.free_bytes), rendered_bytes(self.free_min_bytes)
        return (
            f"the disk has {free} free, and new messages must leave {mark} (disk_free_min_bytes): this replica goes on "
            "copying its leader until the disk is full, and would accept no messages if it led"
        )

    def create_refusal(self) -> DiskShort:
        """The error for a send while `refuses`. It names no path, which only operators need to know."""
        if self.lost is not None:
            return DiskShort(
                "files of the broker's store are gone from its disk, so that a restart would not find what is stored "
                "now: new messages are refused; what is stored can be consumed"
            )
        return DiskShort(self.problem or "the disk is full")

    async def with_reserve(self, step: "Callable[[], Awaitable[T]]", *, may_use_all: bool) -> T:
        """Do a step; while it fails because the disk is full, give it a slice of the reserve and repeat it.

        `may_use_all`: it frees space, or belongs to a clean end. OSError: that was not enough. The step must be
        repeatable.
        """
        while True:
            try:
                return await step()
            except OSError as error:
                if not is_full(error):
                    raise
                self.check_disk()
                if not await asyncio.to_thread(self._reserve.give_slice, may_use_all=may_use_all):
                    raise
            if not self._use_is_logged:
                self._use_is_logged = True
                _log.warning(
                    "the disk is full, so the reserve of %s is used",
                    rendered_bytes(self._reserve.size),
                )


def _unreadable_text(error: OSError) -> str:
    return f"cannot check the disk of {error.filename}: {error.strerror}"


def rendered_bytes(count: int) -> str:
    """`3.2 MiB`, for people."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


class DiskErrors:
    """Turns an error of the disk, after which nothing was written, into one for producers."""

    def __init__(self, room: DiskSpaceWatch) -> None:
        self._room = room

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if isinstance(error, OSError):
            raise self.note_error(error) from error

    def make_refusal(self, error: Exception) -> Exception:
        """Return the error for producers: an error of the disk is noted and gets their words, any other stays as it
        is."""
        if not isinstance(error, OSError):
            return error
        refusal = self.note_error(error)
        refusal.__cause__ = error
        return refusal

    def note_error(self, error: OSError) -> MessagingError:
        """Note an error of the disk, and return the one for producers."""
        text = f"the broker can't write to its disk: {error.strerror}"
        if isinstance(error, WriteNotUndone):
            text += "; whether the messages are stored is not known until it could remove them, or starts again"
            self._room.write_failed(error)
        else:
            self._room.append_failed(error)
            if is_full(error):
                return DiskShort(text)
        return MessagingError(ErrorCode.INTERNAL_SERVER_ERROR, text)
