"""The progress of long work: a function that is called with the bytes that are done and those in all."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
STEP_BYTES = 4 << 20
"""About how many bytes of work lie between two reports."""


def no_progress(_done: int, _in_all: int) -> None:
    """Ignore the progress."""


class ProgressSteps:
    """Reports progress every few megabytes; `done` only grows."""

    def __init__(self, progress: Progress, in_all: int) -> None:
        self._progress = progress
        self._in_all = in_all
        self._done = self._reported = 0

    def add_bytes(self, count: int) -> None:
        self.set_done(self._done + count)

    def set_done(self, done: int) -> None:
        self._done = max(self._done, done)
        if self._done - self._reported >= STEP_BYTES:
            self._reported = self._done
            self._progress(min(self._done, self._in_all), self._in_all)

    def finish_steps(self) -> None:
        self._progress(self._in_all, self._in_all)
