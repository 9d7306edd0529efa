"""A small disk of a test's own, and somebody else's file that fills it. Needs root, since a disk is mounted."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STEPS_BYTES = (1 << 20, 1 << 12)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A disk of that size, mounted at `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    mounted = subprocess.run(mounting, capture_output=True, text=True, check=False)
    assert mounted.returncode == 0, f"no disk can be mounted, which needs root: {mounted.stderr.strip()}"
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


class Ballast:
    """A file that takes what is free."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._path = disk / "ballast"

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Grow until so much is free."""
        with self._path.open("ab") as file:
            for step in _STEPS_BYTES:
                while free_bytes(self._disk) >= leave_bytes + step:
                    try:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
