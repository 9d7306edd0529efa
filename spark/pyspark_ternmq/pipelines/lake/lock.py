"""A lock in a file system: for the compaction of a lake, and for a checkpoint.

Turns       a file `<turn>.json` in the lock's folder names an owner; the highest turn has the lock. A process takes a
            lock over by creating the next turn and removing earlier ones, so a lost turn never comes back.
Life        the owner replaces `<turn>.seen-<token>-<n>` at intervals. Another process may take over when the owner's
            process is gone from this machine, or has not replaced the file for long: it was killed elsewhere, or
            sleeps.
Check       an owner that slept has to find out. So it checks that its turn exists right before each step that can't be
            undone, and a new owner begins by removing files that others had not published yet: see `publish`.

Where two processes can create the same file at once, as in an object store, the later one has the turn, and the first
finds out at its next check.
"""

import json
import os
import re
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyspark_ternmq.pipelines.files import read_if_there

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import FileSystem

IN_CHECKPOINT = "_lock"
# A lock that says nothing is being written, or its owner was killed as it wrote.
HALF_WRITTEN_AFTER_MS = 60_000
# How often a lock is renewed in the time after which it is stale.
RENEWALS = 15
_TURN = re.compile(r"(\d{1,18})\.(json|seen-[\w-]+)")


class Locked(Exception):
    """Another process has the lock."""


class LockLost(Exception):
    """This process was away for so long that another one took its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """A process that has a lock; `token` tells two of its locks apart, `started` two processes of one number."""

    host: str
    pid: int
    started: str
    token: str

    def text(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> str:
        return json.dumps({"host": self.host, "pid": self.pid, "started": self.started, "token": self.token})

    @classmethod
    def from_json(cls, text: str) -> "LockOwner | None":
        """Parse an owner; None for a file that a crash left half written."""
        try:
            found = json.loads(text)
            pid, (host, started, token) = found["pid"], (found[name] for name in ("host", "started", "token"))
        except (ValueError, KeyError, TypeError):
            return None
        if type(pid) is not int or pid < 1 or not all(isinstance(value, str) for value in (host, started, token)):
            return None
        return cls(host=host, pid=pid, started=started, token=token)

    @classmethod
    def this_process(cls) -> "LockOwner":
        pid = os.getpid()
        return cls(host=socket.gethostname(), pid=pid, started=process_start(pid), token=uuid.uuid4().hex)


def is_running(owner: LockOwner) -> bool:
    """Return whether the owner's process lives on this machine; a later process of the same number does not count."""
    try:
        os.kill(owner.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    # Where a start time is unknown, as for other users' processes, the number has to do.
    found = process_start(owner.pid)
    return not found or not owner.started or found == owner.started


def process_start(pid: int) -> str:
    """Return the start time of a process, in ticks of the kernel; empty where it is unknown."""
    try:
        # After the name, which may have any characters; it is the 22nd field of all.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockPurpose:
    """The purpose of a lock: `doing` is what its owner does, as in "process 17 on a-host compacts this lake"."""

    doing: str
    stale_after_ms: int

    @property
    def stale_after(self) -> str:
        return f"{self.stale_after_ms // 60_000} minutes"


# It is renewed between merges.
COMPACTION_LOCK = LockPurpose(doing="compacts this lake", stale_after_ms=3_600_000)
# It is renewed all the time; a pod that was killed is not to keep the next ones out for long.
CHECKPOINT_LOCK = LockPurpose(doing="works with this checkpoint", stale_after_ms=300_000)


class FolderLock:
    """`with FolderLock(...) as lock`: Locked if somebody else has it."""

    def __init__(
        self,
        files: "FileSystem",
        folder: str,
        owner: LockOwner,
        purpose: LockPurpose,
        *,
        is_running: Callable[[LockOwner], bool] = is_running,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._files, self._folder, self._owner, self._purpose = files, folder, owner, purpose
        self._is_running, self._now_ms = is_running, now_ms
        self._turn = self._seen = 0
        self._renewed_ms = 0

    def __enter__(self) -> Self:
        turns = self._list_turns()
        before = max(turns, default=-1)
        text = self._turn_text(before) if turns else ""
        if turns and not self._is_stale(before, text):
            raise Locked(self._refusal_text(text))
        self._turn = before + 1
        try:
            self._files.create(self._turn_path(self._turn), self._owner.to_json())
        except FileExistsError:
            raise Locked(self._refusal_text(self._turn_text(self._turn))) from None
        # One of several processes created this turn; others may have come, worked and gone since this one looked.
        if not self._is_mine() or self._turn_text(before) != text:
            other = max(self._list_turns() - {self._turn}, default=self._turn)
            if self._turn_text(self._turn) == self._owner.to_json():
                self._files.delete(self._turn_path(self._turn))
            raise Locked(self._refusal_text(self._turn_text(other)))
        for name in self._list_names():
            if _turn_of(name) <= self._turn and name != f"{self._turn}.json":
                self._files.delete(f"{self._folder}/{name}")
        self._renewed_ms = self._now_ms()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_mine():
            self._files.delete(self._seen_path())
            self._files.delete(self._turn_path(self._turn))

    @property
    def stale_after_s(self) -> float:
        """After how long without a sign of its owner another one may take it."""
        return self._purpose.stale_after_ms / 1000

    def check_owner(self) -> None:
        """LockLost if it is another's by now."""
        if not self._is_mine():
            raise LockLost(
                f"another process took the place of this one, of which nothing was seen for "
                f"{self._purpose.stale_after} ({self._folder})"
            )

    def renew_lock(self) -> None:
        """Look, and show that the owner lives."""
        self.check_owner()
        self._files.create(self._seen_path(self._seen + 1), "")
        self._files.delete(self._seen_path())
        self._seen += 1
        self._renewed_ms = self._now_ms()

    def renew_if_due(self) -> None:
        """Renew the lock if it is time; cheap enough to be called all the time."""
        if abs(self._now_ms() - self._renewed_ms) * RENEWALS >= self._purpose.stale_after_ms:
            self.renew_lock()

    def _is_mine(self) -> bool:
        return (
            max(self._list_turns(), default=-1) == self._turn and self._turn_text(self._turn) == self._owner.to_json()
        )

    def _is_stale(self, turn: int, text: str) -> bool:
        names = [name for name in self._list_names() if _turn_of(name) == turn]
        age_ms = self._now_ms() - max((self._modified_ms(name) for name in names), default=0)
        owner = LockOwner.from_json(text)
        if owner is None:
            return age_ms > HALF_WRITTEN_AFTER_MS
        is_gone = owner.host == self._owner.host and not self._is_running(owner)
        return is_gone or age_ms > self._purpose.stale_after_ms

    def _refusal_text(self, text: str) -> str:
        owner = LockOwner.from_json(text)
        return (
            f"{owner.text() if owner else 'another process'} {self._purpose.doing} ({self._folder} is its lock, which "
            f"can be taken over when that process is gone, or was not seen for {self._purpose.stale_after})"
        )

    def _list_names(self) -> list[str]:
        return [entry.path for entry in self._files.files_below(self._folder) if _TURN.fullmatch(entry.path)]

    def _list_turns(self) -> set[int]:
        return {_turn_of(name) for name in self._list_names() if name.endswith(".json")}

    def _turn_text(self, turn: int) -> str:
        """The text of a turn's file; empty if the file was removed."""
        return read_if_there(self._files, self._turn_path(turn)) or ""

    def _modified_ms(self, name: str) -> int:
        """When a file changed; now, if it was removed after it was listed, since its owner is alive."""
        path = f"{self._folder}/{name}"
        try:
            return self._files.modified_ms(path)
        except OSError:
            if self._files.exists(path):
                raise
            return self._now_ms()

    def _turn_path(self, turn: int) -> str:
        return f"{self._folder}/{turn}.json"

    def _seen_path(self, seen: int | None = None) -> str:
        # With the token: an owner that slept may have had this turn before, and wake.
        return f"{self._folder}/{self._turn}.seen-{self._owner.token}-{self._seen if seen is None else seen}"


def checkpoint_lock(files: "FileSystem", checkpoint: str) -> FolderLock:
    """Create the lock of a checkpoint for a query in this process."""
    return FolderLock(files, f"{checkpoint}/{IN_CHECKPOINT}", LockOwner.this_process(), CHECKPOINT_LOCK)


def _turn_of(name: str) -> int:
    return int(name.partition(".")[0])


def publish_file(files: "FileSystem", lock: FolderLock, path: str, text: str) -> None:
    """Make a file appear under its name, unless the lock was lost by then.

    A new owner first removes files that were not published (`withdraw`), and only then reads the published ones. So
    if this process falls asleep after its look, either its file is seen there, or its rename finds nothing to rename.
    """
    unpublished = f"{path}.{uuid.uuid4().hex}"
    files.create(unpublished, text)
    lock.check_owner()
    files.rename(unpublished, path)


def withdraw_files(files: "FileSystem", lock: FolderLock, paths: list[str]) -> None:
    """Remove what was listed, unless the lock was lost by then: it may be the new owner's."""
    lock.check_owner()
    for path in paths:
        files.delete(path)
