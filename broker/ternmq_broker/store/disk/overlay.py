"""A store's files as they are on the disk, under changes that stay in memory: for readers that must not write.

Reading     All files are opened at once, when the folder is opened, and stay as long as they were then. So a broker may
            run meanwhile: what it appends is not seen, what it replaces or removes is still read as it was.
Changing    Appends, truncations, creations, replacements and removals change this object only. Only that takes memory.
Vanished    A broker may remove a file between the listing and the opening; then the folder is listed again.
"""

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_TRIES = 20
_UNFINISHED = ".new"


class OverlayFile:
    """A file of the disk, which is only read, followed by what was appended in memory."""

    def __init__(self, fd: int | None = None, size: int = 0) -> None:
        self._fd = fd
        self._kept = size
        self._added = bytearray()
        self._overwritten: list[tuple[int, bytes]] = []

    @classmethod
    def open_on_disk(cls, path: "Path") -> Self:
        """Open the file as it is now; OSError. Close it with `close_on_disk`."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return cls(fd, os.fstat(fd).st_size)

    @property
    def size(self) -> int:
        return self._kept + len(self._added)

    def append(self, pieces: "Sequence[bytes]") -> None:
        self._added += b"".join(pieces)

    def read(self, position: int, size: int, *, may_block: bool = True) -> bytes:
        del may_block  # such a reader may wait
        data = self._read_plain(position, size)
        for begin, over in self._overwritten:
            first, end = max(begin, position), min(begin + len(over), position + len(data))
            if first < end:
                data = data[: first - position] + over[first - begin : end - begin] + data[end - position :]
        return data

    def read_from_disk(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def overwrite(self, position: int, data: bytes) -> None:
        if position + len(data) > self.size:
            self._added += bytes(position + len(data) - self.size)
        self._overwritten.append((position, data))

    def _read_plain(self, position: int, size: int) -> bytes:
        on_disk = min(size, self._kept - position)
        if on_disk <= 0:
            at = position - self._kept
            return bytes(self._added[at : at + size])
        assert self._fd is not None
        data = os.pread(self._fd, on_disk, position)
        return data if len(data) < on_disk else data + self._added[: size - on_disk]

    def truncate(self, size: int) -> None:
        if size <= self._kept:
            self._kept = size
            self._added.clear()
        else:
            del self._added[size - self._kept :]
            self._added += bytes(size - self.size)

    def seal(self) -> None:
        """Do nothing: no room was reserved."""

    def sync(self) -> None:
        """Do nothing: nothing is to last."""

    def close(self) -> None:
        """Do nothing: it may be opened again; its folder closes it."""

    def close_on_disk(self) -> None:
        """Close the file on the disk, for good."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class OverlayFolder:
    """A `Folder` that changes nothing on the disk; a missing folder is empty. OSError."""

    def __init__(self, path: "Path") -> None:
        self.path = path
        self._on_disk = _open_files(path)
        self._files = dict(self._on_disk)

    def names(self) -> list[str]:
        return sorted(self._files)

    def open(self, name: str, *, reserve_bytes: int = 0) -> OverlayFile:
        del reserve_bytes
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def create(self, name: str, *, reserve_bytes: int = 0) -> OverlayFile:
        del reserve_bytes
        if name in self._files:
            raise FileExistsError(name)
        file = self._files[name] = OverlayFile()
        return file

    def sync_names(self) -> None:
        """Do nothing: nothing is to last."""

    def remove(self, name: str) -> None:
        del self._files[name]

    def replace(self, name: str, content: bytes) -> None:
        file = self._files[name] = OverlayFile()
        file.append([content])

    def content(self, name: str) -> bytes | None:
        file = self._files.get(name)
        return None if file is None else file.read(0, file.size)

    def close_on_disk(self) -> None:
        """Close all files on the disk."""
        for file in self._on_disk.values():
            file.close_on_disk()


class OverlayFolders:
    """The folders of the store at `path`, open while the context lasts.

    Files that describe the log are opened before the log, so that they describe no more than there is.
    """

    def __init__(self, path: "Path") -> None:
        self.path = path
        self.root = OverlayFolder(path)
        self.consumption = OverlayFolder(path / "consumption")
        self.timers = OverlayFolder(path / "timers")
        self.index = OverlayFolder(path / "index")
        self.set_aside = OverlayFolder(path / "set-aside")
        self.commit_log = OverlayFolder(path / "commitlog")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for folder in (self.root, self.consumption, self.timers, self.index, self.set_aside, self.commit_log):
            folder.close_on_disk()


def _open_files(path: "Path") -> dict[str, OverlayFile]:
    """Open every file of the folder as it is at one moment."""
    for _ in range(_TRIES):
        files: dict[str, OverlayFile] = {}
        try:
            for name in _file_names(path):
                files[name] = OverlayFile.open_on_disk(path / name)
        except BaseException as error:
            for file in files.values():
                file.close_on_disk()
            if not isinstance(error, FileNotFoundError):
                raise
        else:
            return files
    raise FileNotFoundError(f"the files of {path} are created and removed too fast to be read")


def _file_names(path: "Path") -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_file(follow_symlinks=False) and not entry.name.endswith(_UNFINISHED)
            )
    except FileNotFoundError:
        return []


@contextmanager
def open_overlay(path: "Path") -> "Iterator[OverlayFile]":
    """Open one file while the context lasts. OSError."""
    file = OverlayFile.open_on_disk(path)
    try:
        yield file
    finally:
        file.close_on_disk()
