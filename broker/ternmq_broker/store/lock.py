"""One process per store: a lock on the file `lock`, which the kernel lets go when the process ends."""

import fcntl
import os
from typing import TYPE_CHECKING, Self

from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from pathlib import Path


class StoreLock:
    def __init__(self, folder: "Path") -> None:
        self._fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._fd, 64, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise StartupError(
                f"{folder} is in use by another stack (process {owner}); stop it, or choose another --data-dir"
            ) from None
        # In the place of what is there: a disk without room takes that.
        os.ftruncate(self._fd, os.pwrite(self._fd, str(os.getpid()).encode(), 0))

    def release(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
