"""A disk that loses, when its power is cut, what was not synced: ext4 in a file, mounted by a loop device.

A kill of a process loses nothing, since the kernel has what was written. Here the file system's pages are left behind:
the disk goes on as a copy of what the device had, and ext4 recovers from its journal as after a power cut. Needs root
and loop devices.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class LosingDisk:
    """The disk mounted at `folder`, whose image is a file beside it."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._folder = folder
        self._size_bytes = size_bytes
        self._cuts = 0

    @property
    def _image(self) -> Path:
        return self._folder.with_name(f"{self._folder.name}.disk-{self._cuts}")

    def begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(self._size_bytes)
        _run("mkfs.ext4", "-q", "-F", "-E", "root_owner=0:0", str(self._image))
        self._mount()

    def cut_power(self) -> None:
        """Lose what was not synced. Nobody has a file open there any more."""
        old = self._image
        self._cuts += 1
        _run("cp", "--sparse=always", str(old), str(self._image))
        self._unmount()
        old.unlink()
        self._mount()

    def end(self) -> None:
        self._unmount()
        self._image.unlink()

    def _mount(self) -> None:
        # The journal is committed by syncs alone, and not by time.
        _run("mount", "-o", "loop,commit=3600", str(self._image), str(self._folder))

    def _unmount(self) -> None:
        _run("umount", str(self._folder))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} needs root and loop devices: {done.stderr.strip()}"


@contextmanager
def losing_disk(folder: Path, size_bytes: int) -> Iterator[LosingDisk]:
    """Such a disk, mounted at `folder`."""
    disk = LosingDisk(folder, size_bytes)
    disk.begin()
    try:
        yield disk
    finally:
        disk.end()
