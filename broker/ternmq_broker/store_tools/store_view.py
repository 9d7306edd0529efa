"""A read-only view of a store as it is now; nothing on the disk changes, and a broker may run on it.

The directory may be the data directory or the folder `store` in it.
"""

import fcntl
import os
import resource
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store import store_format
from ternmq_broker.store.copying.copy_start import UnfinishedCopy, check_finished
from ternmq_broker.store.disk.checked_file import DamagedFile
from ternmq_broker.store.disk.overlay import OverlayFolders
from ternmq_broker.store.log.commit_log import CommitLog
from ternmq_broker.store.log.record_layouts import RecordLayouts
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store_tools.checking.format_search import find_format
from ternmq_broker.store_tools.checking.live_tail import count_written
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ternmq_broker.store.disk.overlay import OverlayFile
    from ternmq_broker.store.store_format import StoreFormat

_STORE, _LOG = "store", "commitlog"
_LOCKS = ("process", "lock")
_EVERYTHING = 1 << 63
_OPEN_FILES = 1 << 16
SEGMENT_BYTES = 1 << 30
"""A tool that opens a store writes little, so any size does."""


def store_folder(directory: "Path") -> "Path":
    """Return the store of a data directory, or the folder itself if it is one. StartupError."""
    for folder in (directory / _STORE, directory):
        if (folder / _LOG).is_dir():
            return folder
    raise StartupError(f"there is no store in {directory}; give the data directory of a broker")


@dataclass(frozen=True, slots=True)
class StoreView:
    """A store's files as they are at one moment.

    `format` is None for a store of layout 1, or for a store with neither that file nor a record of it; with a
    `format_problem` it was recovered from the log. `format_files` are the file and its copy as they are. The segment to
    which a running broker writes ends with its records.
    """

    path: "Path"
    folders: OverlayFolders
    is_running: bool
    format: "StoreFormat | None"
    format_problem: DamagedFile | None
    format_files: dict[str, bytes | None]

    @property
    def is_layout_1(self) -> bool:
        return self.format is None and self.format_problem is None and bool(self.log_segments())

    @property
    def layouts(self) -> RecordLayouts:
        if self.format is None:
            return RecordLayouts(0, _EVERYTHING if self.is_layout_1 else 0)
        return RecordLayouts(self.format.key, self.format.layout_1_below)

    def log_segments(self) -> "list[tuple[int, OverlayFile]]":
        """Return where each segment begins in the log, and its file."""
        folder = self.folders.commit_log
        return [(int(name), folder.open(name)) for name in folder.names() if name.isdigit()]

    @property
    def log_bytes(self) -> int:
        return sum(file.size for _, file in self.log_segments())

    def open_log(self) -> CommitLog:
        """Open the log as it was found, for reading, before anything is recovered."""
        return CommitLog(self.folders.commit_log, self.layouts, segment_bytes=SEGMENT_BYTES)

    def recover_store(self) -> MessageStore:
        """Recover the store as a start would, stepping over all damage; once, since it changes the view's files.
        NewerFormat.
        """
        if self.format is not None and self.format_problem is not None:
            self.format.write_format(self.folders.root)
        return MessageStore(self.folders, segment_bytes=SEGMENT_BYTES, accept_corruption=True)


@contextmanager
def open_view(directory: "Path", *, is_ours: bool = False) -> "Iterator[StoreView]":
    """Open a view of the store of that directory, as it is now; `is_ours`: the caller has its lock. StartupError,
    OSError.
    """
    path = store_folder(directory)
    _raise_file_limit()
    is_running = not is_ours and is_in_use(path)
    with OverlayFolders(path) as folders:
        try:
            check_finished(folders.root)
        except UnfinishedCopy as error:
            raise StartupError(f"in {path} {error}; there is nothing to read") from error
        format_files = {name: folders.root.content(name) for name in (store_format.NAME, store_format.COPY)}
        found, problem = _read_format(folders)
        view = StoreView(path, folders, is_running, found, problem, format_files)
        if is_running and view.log_segments():
            base, file = view.log_segments()[-1]
            file.truncate(count_written(file, base, view.layouts))
        yield view


def _read_format(folders: OverlayFolders) -> "tuple[StoreFormat | None, DamagedFile | None]":
    try:
        return store_format.read_format(folders.root, folders.commit_log), None
    except DamagedFile as error:
        return find_format(folders.commit_log), error


def is_in_use(path: "Path") -> bool:
    """Tell whether a broker has the store open, by trying a shared lock for a moment."""
    for name in _LOCKS:
        try:
            fd = os.open(path / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    return False


def _raise_file_limit() -> None:
    """Raise the limit of open files: a store has a file or two for each segment, and each is held open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
