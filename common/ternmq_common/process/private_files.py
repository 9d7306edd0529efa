"""Folders and files that only the server's user may read: they hold everybody's messages.

Servers and tools set the mode of each file, regardless of the umask. An existing folder is narrowed if it belongs to
this user; where it belongs to another one, as the volume of a container may, this user has access by that user's
group.
"""

import contextlib
import logging
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600
UMASK = 0o077
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger(__name__)


def create_folder(path: "Path") -> None:
    """Create the folder, and the missing ones above it, if it does not exist. OSError."""
    if not path.is_dir():
        if not path.parent.exists():
            create_folder(path.parent)
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)


def create_file(path: "Path", *, dir_fd: int | None = None) -> BinaryIO:
    """Create a file that does not exist, for writing; with `dir_fd` the path is below that open folder. OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, FILE_MODE, dir_fd=dir_fd), "wb")


def narrow_modes(*paths: "Path") -> None:
    """Remove other users' rights to these paths, as far as they exist; logged, and never an error."""
    for path in paths:
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(found.st_mode)
        if not mode & _OTHERS:
            continue
        if found.st_uid != os.geteuid():
            _log.warning(
                "%s belongs to user %d and is open to others (mode %o); files created in it from now on are private",
                path, found.st_uid, mode,
            )  # fmt: skip
            continue
        try:
            path.chmod(mode & ~_OTHERS)
        except OSError as error:
            _log.warning("%s is open to others (mode %o), and that can't be changed: %s", path, mode, error.strerror)
        else:
            _log.info("%s was open to others (mode %o), and is not any more (mode %o)", path, mode, mode & ~_OTHERS)


@contextlib.contextmanager
def private_umask() -> "Iterator[None]":
    """Files that this process creates meanwhile are private to its user.

    The umask is that of the whole process: not for servers with threads.
    """
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)
