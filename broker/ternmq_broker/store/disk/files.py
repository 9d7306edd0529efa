"""The files and folders of a store: few operations, so that tests can put a disk under the store that loses power.

A name is a plain file name inside the folder. `create` creates a file that survives a power cut only after
`sync_names`; `replace` is atomic, and durable when it returns.

A file that reserves room ahead of its end can be synced in half the time, since the file system has only the bytes to
write. Until it is sealed it is longer on the disk, by zeros, than `size` says; a start after a crash sees
them.

Where room is reserved, an append to a full disk fails before a byte is written. A file system that allocates room only
at the sync would fail there, and its contents after that are unknown.

A folder is held by a descriptor, and its files are opened, created, renamed and removed relative to that: when another
folder or disk takes its path (`live_files`), nothing is written there.
"""

import contextlib
import errno
import os
import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ternmq_common.process.private_files import FILE_MODE, create_file, create_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.store.disk.live_files import LiveFiles

# The kernel takes at most this many pieces in one writev.
_IOV_MAX = 1024
# To copy so many bytes costs less than to hand over their pieces one by one.
_JOINED_BYTES_MAX = 256 << 10
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: BaseException) -> bool:
    """Tell whether the error says that the disk, or this user's quota on it, is full: that passes."""
    return isinstance(error, OSError) and error.errno in _FULL


class WriteNotUndone(OSError):
    """A write failed, and so did the removal of what it may have written: a restart may or may not find it."""

    def __init__(self, error: BaseException, undoing: OSError) -> None:
        super().__init__(undoing.errno, f"{error}; and what was written could not be removed: {undoing.strerror}")


class WouldBlock(Exception):
    """The bytes are not in memory: reading them would wait for the disk. Call `wait` in a thread, then try again."""

    def __init__(self, file: "StoreFile", position: int, size: int) -> None:
        self._file = file
        self._position = position
        self._size = size
        super().__init__(f"{size} bytes at {position}")

    def wait(self) -> None:
        """Have the kernel read the bytes. If the file was closed meanwhile, the second try finds out."""
        with contextlib.suppress(OSError):
            self._file.read(self._position, self._size)


class StoreFile(Protocol):
    """A file that grows at its end."""

    @property
    def size(self) -> int: ...
    def append(self, pieces: "Sequence[bytes]") -> None:
        """Write all pieces after the last byte, or nothing: OSError leaves the file as it was.

        WriteNotUndone: bytes that are no part of the file may lie behind its end; nothing is appended until they are
        removed.
        """

    def read(self, position: int, size: int, *, may_block: bool = True) -> bytes:
        """Return up to `size` bytes; fewer only at the end. With `may_block` false it raises WouldBlock instead of
        reading from the disk.
        """

    def read_from_disk(self, position: int, size: int) -> bytes:
        """Read what the disk has, avoiding the kernel's cache as far as possible."""

    def overwrite(self, position: int, data: bytes) -> None:
        """Write the bytes over those at the position; the file may become longer. Any thread may call it. OSError: some
        may be written.
        """

    def truncate(self, size: int) -> None: ...
    def seal(self) -> None:
        """Release the reserved room, since nothing will be appended soon. Any thread may call it."""

    def sync(self) -> None:
        """Return when every byte written before the call survives a power cut. Any thread may call it."""

    def close(self) -> None: ...


class Folder(Protocol):
    """A flat set of files."""

    def names(self) -> list[str]: ...
    def open(self, name: str, *, reserve_bytes: int = 0) -> StoreFile: ...
    def create(self, name: str, *, reserve_bytes: int = 0) -> StoreFile:
        """Create a file; with `reserve_bytes` it takes room on the disk in steps of that size."""

    def sync_names(self) -> None: ...
    def remove(self, name: str) -> None: ...
    def replace(self, name: str, content: bytes) -> None: ...
    def content(self, name: str) -> bytes | None:
        """Return all bytes of the file, or None if there is no file of that name."""


class StoreFolders(Protocol):
    """The folders in which a store keeps its files."""

    @property
    def root(self) -> "Folder": ...
    @property
    def commit_log(self) -> "Folder": ...
    @property
    def index(self) -> "Folder": ...
    @property
    def timers(self) -> "Folder": ...
    @property
    def set_aside(self) -> "Folder": ...


class DiskFile:
    """A `StoreFile` on a real file system."""

    def __init__(
        self,
        path: Path,
        flags: int = 0,
        reserve_bytes: int = 0,
        *,
        folder_fd: int | None = None,
        live: "LiveFiles | None" = None,
    ) -> None:
        """With `folder_fd`, open the file of the path's name in that folder, not the file at the path."""
        where = path if folder_fd is None else path.name
        self._fd = os.open(where, os.O_RDWR | os.O_CLOEXEC | flags, FILE_MODE, dir_fd=folder_fd)
        self._path, self._live = path, live
        if live is not None:
            live.note_opened(path, self._fd)
        self.size = self._reserved = os.fstat(self._fd).st_size
        self._is_torn = False  # bytes that are no part of the file lie behind its end
        self._reserve_bytes = reserve_bytes if hasattr(os, "posix_fallocate") else 0
        # Whether this system and this file system can tell if a read would wait for the disk; else reads just wait.
        self._can_tell_blocking = _NO_WAIT is not None

    def append(self, pieces: "Sequence[bytes]") -> None:
        end = self.size
        if self._is_torn:
            self.truncate(end)
        size = sum(map(len, pieces))
        if self._reserve_bytes and end + size > self._reserved:
            self._reserve_room(end + size)
        try:
            if size <= _JOINED_BYTES_MAX:
                self._write_pieces((b"".join(pieces),), size, end)
            else:
                self._write_large(pieces, end)
        except OSError as error:
            self._is_torn = True
            try:
                self.truncate(self.size)
            except OSError as undoing:
                raise WriteNotUndone(error, undoing) from error
            raise
        self.size = end = end + size
        if end > self._reserved:
            self._reserved = end

    def _reserve_room(self, end: int) -> None:
        """Reserve room up to `end`, and up to the next whole step if there is that much."""
        step = self._reserve_bytes
        full: OSError | None = None
        for wanted in ((end + step - 1) // step * step, end):
            try:
                os.posix_fallocate(self._fd, self._reserved, wanted - self._reserved)
            except OSError as error:
                if not is_full(error):
                    return  # this file system can't reserve
                full = error
                os.ftruncate(self._fd, self._reserved)  # a part of it may have been found
            else:
                self._reserved = wanted
                return
        assert full is not None
        raise full

    def _write_large(self, pieces: "Sequence[bytes]", position: int) -> None:
        for start in range(0, len(pieces), _IOV_MAX):
            some = pieces[start : start + _IOV_MAX]
            size = sum(map(len, some))
            self._write_pieces(some, size, position)
            position += size

    def _write_pieces(self, pieces: "Sequence[bytes]", size: int, position: int) -> None:
        """Write all pieces, which are `size` bytes."""
        written = os.pwritev(self._fd, pieces, position)
        if written < size:
            self._write_bytes(b"".join(pieces)[written:], position + written)

    def _write_bytes(self, data: bytes, position: int) -> None:
        written = 0
        while written < len(data):
            written += os.pwrite(self._fd, data[written:], position + written)

    def read(self, position: int, size: int, *, may_block: bool = True) -> bytes:
        size = max(0, min(size, self.size - position))  # behind that is reserved room
        if may_block or not self._can_tell_blocking:
            return os.pread(self._fd, size, position)
        buffer = bytearray(size)
        try:
            count = os.preadv(self._fd, [buffer], position, _NO_WAIT or 0)
        except BlockingIOError as error:
            raise WouldBlock(self, position, size) from error
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._can_tell_blocking = False
            return os.pread(self._fd, size, position)
        if count < size:
            raise WouldBlock(self, position, size)
        return bytes(buffer)

    def read_from_disk(self, position: int, size: int) -> bytes:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, position, size, os.POSIX_FADV_DONTNEED)
        return self.read(position, size)

    def overwrite(self, position: int, data: bytes) -> None:
        self._write_bytes(data, position)
        if position + len(data) > self.size:  # never of a file that grows at the same time
            self.size = position + len(data)
            self._reserved = max(self._reserved, self.size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = self._reserved = size
        self._is_torn = False

    def seal(self) -> None:
        if self._reserved > self.size or self._is_torn:
            os.ftruncate(self._fd, self.size)
            self._reserved = self.size
            self._is_torn = False

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._live is not None:
            self._live.note_closed(self._path, self._fd)
        fd, self._fd = self._fd, -1  # a thread that still writes must not come to another file of that number
        os.close(fd)


class DiskFolder:
    """A `Folder` on a real file system; created, with its parents, when it is not there."""

    def __init__(self, path: Path, live: "LiveFiles | None" = None) -> None:
        """`live` is notified of what is opened, replaced and removed here."""
        self.path = path
        create_folder(path)
        self._fd = _open_folder(path)
        weakref.finalize(self, os.close, self._fd)
        self._live = live
        if live is not None:
            live.note_folder(path, self._fd)

    def names(self) -> list[str]:
        fd = _open_folder(".", dir_fd=self._fd)  # a descriptor of its own, since the list position is part of it
        try:
            return sorted(os.listdir(fd))  # noqa: PTH208 - a folder by its descriptor
        finally:
            os.close(fd)

    def open(self, name: str, *, reserve_bytes: int = 0) -> StoreFile:
        return DiskFile(self.path / name, 0, reserve_bytes, folder_fd=self._fd, live=self._live)

    def create(self, name: str, *, reserve_bytes: int = 0) -> StoreFile:
        return DiskFile(self.path / name, os.O_CREAT | os.O_EXCL, reserve_bytes, folder_fd=self._fd, live=self._live)

    def sync_names(self) -> None:
        os.fsync(self._fd)

    def remove(self, name: str) -> None:
        remove = partial(os.unlink, name, dir_fd=self._fd)
        if self._live is None:
            remove()
        else:
            self._live.remove_file(self.path / name, remove)

    def replace(self, name: str, content: bytes) -> None:
        temporary = f"{name}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self._fd)
        try:
            with create_file(Path(temporary), dir_fd=self._fd) as file:
                file.write(content)
                file.flush()
                os.fdatasync(file.fileno())
                self._rename_file(temporary, name, file.fileno())
        except OSError:
            with contextlib.suppress(FileNotFoundError):  # a part of it would take room on a full disk
                os.unlink(temporary, dir_fd=self._fd)
            raise
        self.sync_names()

    def _rename_file(self, temporary: str, name: str, fd: int) -> None:
        rename = partial(os.rename, temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        if self._live is None:
            rename()
        else:
            self._live.replace_file(self.path / name, fd, rename)

    def content(self, name: str) -> bytes | None:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            if self._live is not None:
                self._live.note_read(self.path / name, fd)
            return file.read()


def _open_folder(path: Path | str, dir_fd: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)


class DiskFolders:
    """The folders of one store below `path`."""

    def __init__(self, path: Path, live: "LiveFiles | None" = None) -> None:
        self.root: Folder = DiskFolder(path, live)
        self.commit_log: Folder = DiskFolder(path / "commitlog", live)
        self.index: Folder = DiskFolder(path / "index", live)
        self.timers: Folder = DiskFolder(path / "timers", live)
        self.consumption: Folder = DiskFolder(path / "consumption", live)
        self.set_aside: Folder = DiskFolder(path / "set-aside", live)
