"""Notices that a folder or an open file of a store is no longer at its path.

What a process writes to a removed file is lost after a restart. So this module knows what
is open by device and inode, and compares it with the path again and again.

Owners      `DiskFolder` reports what it opens, replaces and removes, so that what the store itself does to its files
            never counts as a loss.
Each check  compares all folders, the newest open file of each, the watched files, and some of the others in turn: a
            store may have a thousand segments, and each comparison costs a system call.
Kept        A descriptor is held of each small file that can't be derived, so that all that a start needs can be copied
            out of this process when the folder is gone (`store_tools/rescue.py`).
Threads     any.
"""

import itertools
import os
import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_OTHERS_EACH_CHECK = 16
KEPT = frozenset(
    {
        *("format", "format.copy", "forgotten", "floors", "accepted-damage", "epochs", "joined", "catching-up"),
        *("store-id", "deletions-done", "secrets.key"),
    }
)


class FileId(NamedTuple):
    """The identity of a file, which differs from that of another file at the same path."""

    device: int
    inode: int

    @classmethod
    def from_stat(cls, found: os.stat_result) -> "FileId":
        return cls(found.st_dev, found.st_ino)


class LiveFiles:
    """The folders and open files of one store, by their paths.

    Invariant: a path that is known here has that file, unless another process has removed or replaced it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[Path, FileId] = {}
        self._files: dict[Path, FileId] = {}
        self._newest: dict[Path, Path] = {}
        self._pinned: set[Path] = set()
        self._next = 0
        self._missing: set[Path] = set()
        self._kept: dict[Path, int] = {}
        weakref.finalize(self, _close_all, self._kept)

    # --- reports of the owners

    def note_folder(self, path: "Path", fd: int) -> None:
        """Note that the folder is open as `fd`, and should stay at its path."""
        with self._lock:
            self._folders[path] = FileId.from_stat(os.fstat(fd))

    def note_opened(self, path: "Path", fd: int) -> None:
        """Note that the file is open as `fd`, and should stay at its path."""
        with self._lock:
            self._files[path] = FileId.from_stat(os.fstat(fd))
            self._newest[path.parent] = path

    def watch_file(self, path: "Path") -> None:
        """Watch a file that other code of this process has open. It is not opened here, as closing it would release
        SQLite's locks. Blocks. OSError.
        """
        file_id = FileId.from_stat(path.stat())
        with self._lock:
            self._files[path] = file_id
            self._pinned.add(path)

    def keep_file(self, path: "Path") -> None:
        """Keep a descriptor of a small file, if it is there. Blocks. OSError."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            self.note_read(path, fd)
        finally:
            os.close(fd)

    def note_read(self, path: "Path", fd: int) -> None:
        """Note that a small file, open as `fd`, was read; a descriptor is kept if the file can't be derived."""
        with self._lock:
            self._keep_descriptor(path, fd)

    def replace_file(self, path: "Path", fd: int, rename: "Callable[[], None]") -> None:
        """Have `rename` put the file that is open as `fd` at the path."""
        with self._lock:
            rename()
            if path in self._files:
                self._files[path] = FileId.from_stat(os.fstat(fd))
            self._keep_descriptor(path, fd)

    def remove_file(self, path: "Path", remove: "Callable[[], None]") -> None:
        """Have `remove` take the file from the path."""
        with self._lock:
            try:
                remove()
            except FileNotFoundError:
                self._drop_file(path)
                raise
            self._drop_file(path)

    def note_closed(self, path: "Path", fd: int) -> None:
        """Note that the file, still open as `fd`, is not needed any more; another file may be open under its path."""
        with self._lock:
            if self._files.get(path) == FileId.from_stat(os.fstat(fd)) and path not in self._kept:
                self._forget_file(path)

    def _drop_file(self, path: "Path") -> None:
        self._forget_file(path)
        if (kept := self._kept.pop(path, None)) is not None:
            os.close(kept)

    def _forget_file(self, path: "Path") -> None:
        self._files.pop(path, None)
        if self._newest.get(path.parent) == path:
            del self._newest[path.parent]

    def _keep_descriptor(self, path: "Path", fd: int) -> None:
        if path.name not in KEPT:
            return
        if (before := self._kept.get(path)) is not None:
            os.close(before)
        self._kept[path] = os.dup(fd)
        self._files[path] = FileId.from_stat(os.fstat(fd))

    # --- checks

    def find_missing(self) -> str | None:
        """Return what is not at its path any more, as a text for the operator; None if nothing is missing. Blocks."""
        with self._lock:
            expected = self._files_to_check()
        for path, file_id in expected.items():
            if (problem := _describe_difference(path, file_id)) is None:
                self._missing.discard(path)
                continue
            with self._lock:
                # Its owner may have changed it since.
                if file_id not in (self._folders.get(path), self._files.get(path)):
                    continue
            self._missing.add(path)
            return problem
        return None

    def _files_to_check(self) -> "dict[Path, FileId]":
        """Return what to compare with its path now, folders first: if a folder is gone, so is all that is in it."""
        files = [path for path in (*self._missing, *self._pinned, *self._newest.values()) if path in self._files]
        begin = self._next % max(1, len(self._files))
        self._next = begin + _OTHERS_EACH_CHECK
        files += itertools.islice(self._files, begin, self._next)
        return {**self._folders, **{path: self._files[path] for path in files}}


def _describe_difference(path: "Path", expected: FileId) -> str | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return f"{path} is gone: it was removed, moved or unmounted"
    except OSError as error:
        return f"cannot check {path}: {error.strerror}"
    if FileId.from_stat(found) != expected:
        return f"{path} is not what this process has open: it was replaced, or something else is mounted there"
    return None


def _close_all(descriptors: "dict[Path, int]") -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])
