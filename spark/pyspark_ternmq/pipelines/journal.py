"""The journal of a pipeline that works in steps, in its checkpoint: the plan, and how much of it is done.

plan.json   written once, before the first step, together with its options
done.json   how many of its steps are done; replaced after each
others      what a step settles before it begins, under names of the pipeline's own

A kill leaves the old one of each or the new one, wherever the checkpoint is (`journal_stores.py`). A step that was
killed is done again, so a pipeline that works in steps has steps that are harmless to repeat.
"""

import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

PLAN, DONE = "plan.json", "done.json"


class JournalError(Exception):
    """The checkpoint can't be used; the message says why."""


class JournalStore(Protocol):
    """The store of a checkpoint, for one process at a time; its methods raise OSError."""

    @property
    def name(self) -> str:
        """Its folder, for messages."""

    def acquire(self) -> None:
        """Take it, and put in order what a process that was killed left; JournalError or Locked if another has it."""

    def release(self) -> None: ...

    def read(self, name: str) -> str | None:
        """Return the value of a name."""

    def write(self, name: str, text: str) -> None:
        """Put a text in the place of what was there, whole or not at all; LockLost if another process has it by now."""

    def remove_value(self, name: str) -> None:
        """Remove what is there under a name, if there is something."""

    def folder_of(self, name: str) -> str:
        """A folder in the checkpoint, as Spark is to be given it."""

    def has_folder(self, name: str) -> bool:
        """Whether Spark has written such a folder to its end."""

    def remove_folder(self, name: str) -> None: ...


class StepJournal:
    """The plan of one job and its progress: `with Journal(store) as journal`.

    Invariant: `done` never exceeds what was finished before a kill, and falls short of it by one step at most.
    """

    def __init__(self, store: JournalStore) -> None:
        self.store = store
        self._is_open = False
        self._done = 0

    def __enter__(self) -> Self:
        self.store.acquire()
        try:
            self._done = int((self._read_entry(DONE) or {"steps": 0})["steps"])
        except BaseException:
            self.store.release()
            raise
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self.store.release()

    @property
    def name(self) -> str:
        """The checkpoint, for messages."""
        return self.store.name

    @property
    def done(self) -> int:
        """How many steps are done, from the first on."""
        return self._done

    def load_plan(self, options: Mapping[str, object], make: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
        """The plan that the checkpoint has, or a new one; JournalError if it is for other options."""
        assert self._is_open, "the journal was not entered"
        wanted = json.loads(json.dumps(options))
        kept = self.keep_value(PLAN, lambda: {"options": wanted, "plan": make()})
        if kept["options"] != wanted:
            raise JournalError(f"{self.name} belongs to another job: {_describe_difference(kept['options'], wanted)}")
        return kept["plan"]

    def keep_value(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the checkpoint's value of a name, or store what `make` returns, in the form that JSON gives back."""
        kept = self._read_entry(name)
        if kept is None:
            kept = json.loads(json.dumps(make()))
            self._write_entry(name, kept)
        return kept

    def kept_value(self, name: str) -> dict[str, Any] | None:
        """Return the checkpoint's value of a name."""
        return self._read_entry(name)

    def remove_value(self, name: str) -> None:
        """Remove what is not needed any more."""
        self.store.remove_value(name)

    def step_is_done(self) -> None:
        """Count one more."""
        self._write_entry(DONE, {"steps": self._done + 1})
        self._done += 1

    def _read_entry(self, name: str) -> dict[str, Any] | None:
        text = self.store.read(name)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except ValueError as error:
            raise JournalError(f"{name} of {self.name} is damaged: {error}") from None
        assert isinstance(value, dict)
        return value

    def _write_entry(self, name: str, value: object) -> None:
        assert self._is_open, "the journal was not entered"
        self.store.write(name, json.dumps(value))


def _describe_difference(kept: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    names = [name for name in {**kept, **wanted} if kept.get(name) != wanted.get(name)]
    return "; ".join(f"its {name} is {kept.get(name)!r}, not {wanted.get(name)!r}" for name in names)
