"""One compaction of a lake at a time.

The lock is a file that says who has it. Its time of last change is renewed by the owner as it works. Somebody else may
take it over when the owner's process is gone from this machine, or when nothing was renewed for an hour. An owner that
was away for that long finds another's lock and stops: it looks right before it commits.
"""

import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyspark_ternmq.pipelines.lake.commits import COMMITS, COMPACTION

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import Files

LOCK = "_compaction.lock"
STALE_AFTER_MS = 3_600_000
# A lock that says nothing is being written, or its owner was killed as it wrote.
HALF_WRITTEN_AFTER_MS = 60_000
_JUST_BEGUN = "another compaction of this lake has just begun"


class CompactionLocked(Exception):
    """Another compaction of this lake is at work."""


class LockLost(Exception):
    """This compaction was away for so long that another one took its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that compacts; `token` tells two of its compactions apart."""

    host: str
    pid: int
    token: str

    def text(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> str:
        return json.dumps({"host": self.host, "pid": self.pid, "token": self.token})

    @classmethod
    def from_json(cls, text: str) -> "Owner | None":
        """None for a file that a crash left half written."""
        try:
            found = json.loads(text)
            return cls(host=found["host"], pid=int(found["pid"]), token=found["token"])
        except (ValueError, KeyError, TypeError):
            return None

    @classmethod
    def this_process(cls) -> "Owner":
        return cls(host=socket.gethostname(), pid=os.getpid(), token=uuid.uuid4().hex)


def is_running(pid: int) -> bool:
    """Whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class CompactionLock:
    """`with CompactionLock(...) as lock`: CompactionLocked if somebody else has it."""

    def __init__(
        self,
        files: "Files",
        root: str,
        owner: Owner,
        *,
        is_running: Callable[[int], bool] = is_running,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._files, self._root, self._owner = files, root, owner
        self._path, self._is_running, self._now_ms = f"{root}/{LOCK}", is_running, now_ms

    def __enter__(self) -> Self:
        try:
            self._files.create(self._path, self._owner.to_json())
        except FileExistsError:
            self._take_over()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_mine():
            self._files.delete(self._path)

    def renew(self) -> None:
        """LockLost if it is another's by now."""
        if not self._is_mine():
            raise LockLost("another compaction took the lock of this one, which had not moved for an hour")
        self._files.touch(self._path)

    def _take_over(self) -> None:
        text = self._files.read(self._path)
        owner = Owner.from_json(text)
        if not self._is_stale(owner):
            raise CompactionLocked(
                f"{owner.text() if owner else 'another process'} compacts this lake ({self._path} is its lock, which "
                "can be taken over when that process is gone, or has not moved for an hour)"
            )
        # Of several that see the same stale lock, one can rename it; who finds another's lock under the name puts it
        # back where it was. It goes where the next compaction removes what one that was killed has left.
        aside = f"{self._root}/{COMMITS}/{COMPACTION}lock-{self._owner.token}"
        try:
            self._files.rename(self._path, aside)
            if self._files.read(aside) != text:
                self._files.rename(aside, self._path)
                raise CompactionLocked(_JUST_BEGUN)
            self._files.delete(aside)
            self._files.create(self._path, self._owner.to_json())
        except OSError:
            if not self._files.exists(self._path):
                raise
            raise CompactionLocked(_JUST_BEGUN) from None

    def _is_stale(self, owner: Owner | None) -> bool:
        age_ms = self._now_ms() - self._files.modified_ms(self._path)
        if owner is None:
            return age_ms > HALF_WRITTEN_AFTER_MS
        is_gone = owner.host == self._owner.host and not self._is_running(owner.pid)
        return is_gone or age_ms > STALE_AFTER_MS

    def _is_mine(self) -> bool:
        return self._files.exists(self._path) and self._files.read(self._path) == self._owner.to_json()
