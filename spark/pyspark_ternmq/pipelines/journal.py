"""What a pipeline that works in steps keeps in its folder: what is to do, and how much of it is done.

plan.json   made once, before the first step, together with the options that it was made for
done.json   how many of its steps are done; replaced after each
others      what a step settles before it begins, under names of the pipeline's own
lock        held by the one process that works with the folder; the system lets go of it when that process dies

All are written beside their place, synced and renamed: a kill leaves the old one or the new one. A step that
was killed is done again, so whoever works in steps makes a step harmless to repeat.
"""

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PLAN, DONE, LOCK = "plan.json", "done.json", "lock"


class JournalError(Exception):
    """The folder can't be used; the message says why."""


class Journal:
    """The plan of one job and its progress: `with Journal(folder) as journal`.

    Invariant: `done` never exceeds what was finished before a kill, and falls short of it by one step at most.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = local_folder(str(folder))
        self._lock: int | None = None
        self._done = 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._done = int((self._read(DONE) or {"steps": 0})["steps"])
        except BlockingIOError:
            self._release()
            raise JournalError(f"another process works with {self.folder}; wait until it has ended") from None
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    @property
    def done(self) -> int:
        """How many steps are done, from the first on."""
        return self._done

    def plan(self, options: Mapping[str, object], make: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
        """The plan that the folder has, or a new one; JournalError if it was made for other options."""
        assert self._lock is not None, "the journal was not entered"
        wanted = json.loads(json.dumps(options))
        kept = self.keep(PLAN, lambda: {"options": wanted, "plan": make()})
        if kept["options"] != wanted:
            raise JournalError(f"{self.folder} belongs to another job: {_difference(kept['options'], wanted)}")
        return kept["plan"]

    def keep(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What the folder has under a name, or what is made now, as JSON gives it back."""
        kept = self._read(name)
        if kept is None:
            kept = json.loads(json.dumps(make()))
            self._write(name, kept)
        return kept

    def kept(self, name: str) -> dict[str, Any] | None:
        """What the folder has under a name."""
        return self._read(name)

    def forget(self, name: str) -> None:
        """Remove what is not needed any more."""
        (self.folder / name).unlink(missing_ok=True)

    def step_is_done(self) -> None:
        """Count one more."""
        self._write(DONE, {"steps": self._done + 1})
        self._done += 1

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            text = (self.folder / name).read_text()
        except FileNotFoundError:
            return None
        try:
            value = json.loads(text)
        except ValueError as error:
            raise JournalError(f"{self.folder / name} is damaged: {error}") from None
        assert isinstance(value, dict)
        return value

    def _write(self, name: str, value: object) -> None:
        assert self._lock is not None, "the journal was not entered"
        beside = self.folder / f"{name}.new"
        with beside.open("w") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self.folder / name)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # else a power cut could take the new name away again
        finally:
            os.close(folder)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def local_folder(path: str) -> Path:
    """The folder; JournalError for one that is not in a file system of this machine."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return Path(path.removeprefix("file:"))
    if scheme != "file":
        raise JournalError(
            f"{path}: the checkpoint of this pipeline is a folder of the driver's file system (on a cluster a volume "
            f"that driver and executors share), not one of {scheme}"
        )
    return Path(rest)


def _difference(kept: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    names = [name for name in {**kept, **wanted} if kept.get(name) != wanted.get(name)]
    return "; ".join(f"its {name} is {kept.get(name)!r}, not {wanted.get(name)!r}" for name in names)
