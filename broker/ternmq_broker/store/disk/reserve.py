"""The disk reserve: a file that only takes room, and is shrunk on a full disk so that something can be removed.

It is given back in slices: other writers can take only what a step leaves of a slice. Work that does not free room gets
half of the reserve at most. It is refilled when there is enough room: at least twice its size.
"""

import os
import threading
from typing import TYPE_CHECKING

from ternmq_broker.store.disk.files import is_full
from ternmq_common.process.private_files import FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
SLICES = 8
_NAME = "reserve"
_PROBE = "probe"
_PROBE_BYTES = MIB
_BYTES_MIN, _BYTES_MAX = 2 * MIB, 32 * MIB


def reserve_bytes(disk_bytes: int) -> int:
    """Return how much to reserve on a disk of that size: what indexes, watermarks and journals of a removal take, and
    more.
    """
    return max(_BYTES_MIN, min(_BYTES_MAX, disk_bytes // 100))


class DiskReserve:
    """The file `reserve` in one folder. Any thread may call; a lock admits one at a time."""

    def __init__(self, folder: "Path", size: int) -> None:
        self._path = folder / _NAME
        self._lock = threading.Lock()
        self.size = size

    @property
    def left_bytes(self) -> int:
        """How much of it is there."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def fill_reserve(self) -> None:
        """Refill the reserve. If the disk does not have that much after all, nothing is taken."""
        with self._lock:
            left = self.left_bytes
            if left >= self.size:
                return
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
            try:
                _allocate_bytes(fd, left, self.size - left)
            except OSError as error:
                os.ftruncate(fd, left)
                if not is_full(error):
                    raise
            finally:
                os.close(fd)

    def probe_disk(self) -> None:
        """Write as much as a large batch, sync it, and remove it; OSError: the disk does not take it."""
        path = self._path.with_name(_PROBE)
        with self._lock:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            try:
                size = _PROBE_BYTES
                while size:
                    size -= os.write(fd, bytes(size))
                os.fdatasync(fd)
            finally:
                os.close(fd)
                path.unlink()

    def give_slice(self, *, may_use_all: bool) -> bool:
        """Give back a slice; return whether there was one. The last half is for callers with `may_use_all`."""
        with self._lock:
            left = self.left_bytes
            kept = max(left - self.size // SLICES, 0 if may_use_all else self.size // 2)
            if kept >= left:
                return False
            os.truncate(self._path, kept)
            return True


def _allocate_bytes(fd: int, position: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, position, size)
        return
    while size:
        size -= os.write(fd, bytes(min(size, MIB)))
