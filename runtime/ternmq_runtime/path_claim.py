"""Ensures one server for each path, even if the folder there is not the one that the running server has open.

The lock in a store (`store/lock.py`) is lost with its folder: after `rm -rf`, or below another mounted disk, a second
server would create the folder again while the first one still runs. So a server also binds an abstract Unix socket
whose name is derived from the path. The kernel removes it with the process, and no other process can.

Limits      only processes of the same network and mount namespace see it; the latter is part of the name, since two
            containers that share the host's network may both have `/data`. Others have the lock in the store. Only
            Linux has such sockets.
Others      any user may bind any name. A socket of a user who is neither this one nor root claims nothing.
"""

import contextlib
import errno
import hashlib
import logging
import os
import socket
import struct
import sys
from pathlib import Path

from ternmq_common.errors import StartupError

_log = logging.getLogger(__name__)
# Each second server that connects takes an entry of the backlog, which is never accepted; when full, its number is not
# known.
_ASKING_MAX = 64
_CREDENTIALS = struct.Struct("3i")
_ROOT = 0


class PathClaim:
    """The claim of this process on a path, until `release_path`; StartupError if another server has it."""

    def __init__(self, path: Path, *, asking_max: int = _ASKING_MAX, trusted: int = _ROOT) -> None:
        """`asking_max`: how many others may connect; `trusted`: the user whose claims count beside this one's."""
        self._asking_max, self._trusted = asking_max, trusted
        self._sockets: list[socket.socket] = []
        for name in _socket_names(path):
            try:
                self._bind_name(path, name)
            except BaseException:
                self.release_path()
                raise

    def _bind_name(self, path: Path, name: bytes) -> None:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(name)
            claim.listen(self._asking_max)
        except OSError as error:
            claim.close()
            owner = self._owner_of(name) if error.errno == errno.EADDRINUSE else None
            if owner is not None:
                raise StartupError(_in_use_text(path, owner)) from None
            _log.warning("another server on %s is noticed only by the lock in its store: %s", path, error.strerror)
        else:
            self._sockets.append(claim)

    def _owner_of(self, name: bytes) -> str | None:
        """Return the id of the process that has the name; None if it is another user's, or was just released."""
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as asking:
            asking.setblocking(False)
            try:
                asking.connect(name)
            except BlockingIOError:
                return "unknown"
            except OSError:
                return None
            data = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, user, _ = _CREDENTIALS.unpack(data)
        if user not in (self._trusted, os.geteuid()):
            return None
        return str(pid) if pid else "unknown"

    def release_path(self) -> None:
        while self._sockets:
            self._sockets.pop().close()


def _socket_names(path: Path) -> list[bytes]:
    """Return the names for the path as it is written, and without links, since links may be changed."""
    if not sys.platform.startswith("linux"):
        return []
    namespace = Path("/proc/self/ns/mnt")
    where = b"%d " % (namespace.stat().st_ino if namespace.exists() else 0)
    paths = dict.fromkeys((os.path.abspath(path), os.path.realpath(path)))  # noqa: PTH100 - links are to be kept
    return [b"\0ternmq/" + hashlib.sha256(where + os.fsencode(each)).hexdigest().encode() for each in paths]


def _in_use_text(path: Path, owner: str) -> str:
    if path.is_dir():
        return f"{path} is in use by another stack (process {owner}); stop it, or choose another --data-dir"
    return (
        f"{path} is gone, and in use by another stack (process {owner}), which still has open what was there: save "
        f"that (`ternmq store rescue {owner} FOLDER`) and stop it, or choose another --data-dir"
    )
