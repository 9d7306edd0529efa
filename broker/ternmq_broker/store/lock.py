"""One process per store: a lock on a file, which the kernel lets go when the process ends.

The file is `process`. Programs from before the store had a layout of its own lock `lock` instead, and would take
today's records for a torn tail: so `lock` is a folder, which they fail to open, in one line, before all else.
"""

import fcntl
import os
from typing import TYPE_CHECKING, Self

from ternmq_common.errors import StartupError
from ternmq_common.private_files import FILE_MODE, FOLDER_MODE

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_broker.store.live_files import LiveFiles

_NAME = "process"
_NAME_BEFORE = "lock"
_WHY = "this-store-was-written-by-a-newer-version-of-ternmq"


class StoreLock:
    """Held from its making until `release`; StartupError if another process has it."""

    def __init__(self, folder: "Path") -> None:
        self._path = folder / _NAME
        self._fd = _locked(folder, _NAME)
        before = folder / _NAME_BEFORE
        if not before.is_dir():
            if before.exists():
                try:
                    os.close(_locked(folder, _NAME_BEFORE))
                except BaseException:
                    self.release()
                    raise
                before.unlink()
            before.mkdir(mode=FOLDER_MODE)
        (before / _WHY).touch(mode=FILE_MODE)

    def watched_by(self, live: "LiveFiles") -> None:
        """Have a lock that is gone noticed: another process could take one of the same name."""
        live.opened(self._path, self._fd)

    def release(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _locked(folder: "Path", name: str) -> int:
    """The descriptor of that file, locked and with this process's number in it."""
    fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 64, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise StartupError(
            f"{folder} is in use by another stack (process {owner}); stop it, or choose another --data-dir"
        ) from None
    # In the place of what is there: a disk without room takes that.
    os.ftruncate(fd, os.pwrite(fd, str(os.getpid()).encode(), 0))
    return fd
