"""A file that holds nothing but room, which is given back when the disk is full and what frees room has to write first.

It is not there while it is in use, and made again when there is enough: at least twice its size.
"""

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from ternmq_broker.store.files import is_full

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
_NAME = "reserve"
_BYTES_MIN, _BYTES_MAX = 2 * MIB, 32 * MIB
_ZEROS = bytes(MIB)


def reserve_bytes(disk_bytes: int) -> int:
    """How much is kept on a disk of that size: what the indexes, floors and journals of one removal take, and more."""
    return max(_BYTES_MIN, min(_BYTES_MAX, disk_bytes // 100))


class Reserve:
    """The file `reserve` in one folder. Any thread may call; one at a time gets its turn."""

    def __init__(self, folder: "Path", size: int) -> None:
        self._path = folder / _NAME
        self._turn = threading.Lock()
        self.size = size

    @property
    def is_there(self) -> bool:
        """Whether all of it is there."""
        try:
            return self._path.stat().st_size >= self.size
        except FileNotFoundError:
            return False

    def make(self) -> None:
        """Take the room. If the disk has not so much after all, nothing is taken."""
        with self._turn:
            if self.is_there:
                return
            unfinished = self._path.with_suffix(".new")
            try:
                with unfinished.open("wb") as file:
                    _allocate(file.fileno(), self.size)
            except OSError as error:
                unfinished.unlink(missing_ok=True)
                if not is_full(error):
                    raise
            else:
                unfinished.replace(self._path)

    def release(self) -> bool:
        """Give the room back; whether there was any."""
        with self._turn:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
                return True
            return False


def _allocate(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    for _ in range(0, size, len(_ZEROS)):
        os.write(fd, _ZEROS)
