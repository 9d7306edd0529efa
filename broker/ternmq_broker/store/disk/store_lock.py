"""The lock that admits one process to a store: a lock on a file, which the kernel releases when the process ends.

The file is `process`. Programs from before the store had a layout of its own lock `lock` instead, and would mistake
today's records for a torn tail: so `lock` is a folder, which they fail to open, with one line of error, before anything
else.
"""

import fcntl
import os
from typing import TYPE_CHECKING, Self

from ternmq_common.errors import StartupError
from ternmq_common.process.private_files import FILE_MODE, FOLDER_MODE

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_broker.store.disk.live_files import LiveFiles

_NAME = "process"
_NAME_BEFORE = "lock"
_WHY = "this-store-was-written-by-a-newer-version-of-ternmq"


class StoreLock:
    """The lock of one store, held from its creation until `release`; StartupError if another process has it."""

    def __init__(self, folder: "Path") -> None:
        self._path = folder / _NAME
        self._fd = _lock_file(folder, _NAME)
        before = folder / _NAME_BEFORE
        if not before.is_dir():
            if before.exists():
                try:
                    os.close(_lock_file(folder, _NAME_BEFORE))
                except BaseException:
                    self.release()
                    raise
                before.unlink()
            before.mkdir(mode=FOLDER_MODE)
        (before / _WHY).touch(mode=FILE_MODE)

    def watch_with(self, live: "LiveFiles") -> None:
        """Have `live` watch the lock's file: without the file another process could take a lock of the same name."""
        live.note_opened(self._path, self._fd)

    def release(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _lock_file(folder: "Path", name: str) -> int:
    """Return the descriptor of that file, locked and with this process's id in it."""
    fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 64, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise StartupError(
            f"{folder} is in use by another stack (process {owner}); stop it, or choose another --data-dir"
        ) from None
    # The old content is overwritten in place: that works on a full disk.
    os.ftruncate(fd, os.pwrite(fd, str(os.getpid()).encode(), 0))
    return fd
