"""The limit of rows per second, shared by all tasks of one write on one machine.

Spark doesn't tell a task how many others there are, and how many of them run at a time changes. So they share a file:
it holds the time from which the next rows may be sent, on the clock that all processes of a machine share. A task takes
its rows by moving that time, and waits until it has come.

The file is removed at the end of a batch write, on the driver's machine. Others are left behind, one for each write or
streaming query; those of the day before are removed when a new one is created.
"""

import os
import struct
import tempfile
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

_TIME = struct.Struct("<d")
_PREFIX = "ternmq-pace-"
_KEPT_S = 24 * 60 * 60


class WritePace:
    """`rows_per_second` for all that share `name`. Not for use by several threads."""

    def __init__(
        self,
        name: str,
        rows_per_second: float,
        *,
        folder: Path | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._row_s = 1 / rows_per_second
        self._now_s = now_s
        folder = folder or Path(tempfile.gettempdir())
        path = pace_file(name, folder)
        if not path.exists():
            _remove_old(folder)
        # The folder is everybody's, so a link that somebody has put there is not followed.
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def take_rows(self, rows: int) -> float:
        """Take the right to send `rows`; how many seconds to wait before."""
        import fcntl  # not on Windows, where everything else of the sink works

        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            now = self._now_s()
            written = os.pread(self._file, _TIME.size, 0)
            free = _TIME.unpack(written)[0] if len(written) == _TIME.size else now
            duration = rows * self._row_s
            # Unused time is not made up for. The clock restarts with the machine: a time that is far
            # ahead is from before.
            start = now if free < now or free > now + _KEPT_S else free
            os.pwrite(self._file, _TIME.pack(start + duration), 0)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        return start - now

    def close(self) -> None:
        os.close(self._file)


def remove_pace(name: str, *, folder: Path | None = None) -> None:
    """Remove the file of a write that has ended."""
    pace_file(name, folder or Path(tempfile.gettempdir())).unlink(missing_ok=True)


def pace_file(name: str, folder: Path) -> Path:
    """Return the path of the file that the tasks of one write share."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return folder / f"{_PREFIX}{os.getuid()}-{digest}"


def _remove_old(folder: Path) -> None:
    limit = time.time() - _KEPT_S
    for path in folder.glob(f"{_PREFIX}{os.getuid()}-*"):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
        except FileNotFoundError:
            continue  # another task was faster
