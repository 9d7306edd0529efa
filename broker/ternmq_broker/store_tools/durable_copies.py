"""Durable copies of files: what a copy function returns is on the disk."""

import errno
import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ternmq_common.process.private_files import FILE_MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PIECE_BYTES = 1 << 20
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EACCES)


class ReadableFile(Protocol):
    """A file that can be copied."""

    def read(self, position: int, size: int) -> bytes: ...


class ShortFile(OSError):
    """A file ends before the expected bytes."""


def copy_file(source: ReadableFile, size: int, target: "Path", on_progress: "Callable[[int], None]") -> str:
    """Copy the first `size` bytes into a new file, and return their SHA-256. ShortFile if there are fewer. OSError."""
    digest = hashlib.sha256()
    with _create_file(target) as target_fd:
        for piece in _read_pieces(source, size, target):
            digest.update(piece)
            _write_all(target_fd, piece)
            on_progress(len(piece))
        os.fsync(target_fd)
    return digest.hexdigest()


def link_file(source: "Path", target: "Path") -> bool:
    """Create a second name (a hard link) of the file; False if that is impossible. FileNotFoundError if it is gone."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True


def compute_digest(source: ReadableFile, size: int, path: "Path", on_progress: "Callable[[int], None]") -> str:
    """Return the SHA-256 of the first `size` bytes. ShortFile."""
    digest = hashlib.sha256()
    for piece in _read_pieces(source, size, path):
        digest.update(piece)
        on_progress(len(piece))
    return digest.hexdigest()


def sync_file(path: "Path") -> None:
    """Make the bytes of the file survive a power cut."""
    with _open_file(path) as fd:
        os.fsync(fd)


def write_new_file(target: "Path", content: bytes) -> str:
    """Write a new file with that content, and return its SHA-256."""
    with _create_file(target) as fd:
        _write_all(fd, content)
        os.fsync(fd)
    return hashlib.sha256(content).hexdigest()


def sync_folder(path: "Path") -> None:
    """Make the names in the folder survive a power cut."""
    with _open_file(path) as fd:
        os.fsync(fd)


@contextmanager
def _open_file(path: "Path") -> "Iterator[int]":
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _create_file(path: "Path") -> "Iterator[int]":
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        yield fd
    finally:
        os.close(fd)


def _read_pieces(source: ReadableFile, size: int, path: "Path") -> "Iterator[bytes]":
    position = 0
    while position < size:
        piece = source.read(position, min(_PIECE_BYTES, size - position))
        if not piece:
            raise ShortFile(f"{path} ends at byte {position}, before {size}")
        yield piece
        position += len(piece)


def _write_all(fd: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(fd, left) :]
