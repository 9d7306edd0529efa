"""Processes that take turns at the files of a lake: a test says who does its next step, who sleeps and who dies.

Each is a thread that runs only while the test waits for it, so what happens is what the test says and nothing else.
"""

import threading
from collections.abc import Callable, Sequence

from pyspark_ternmq.pipelines.files import FileEntry
from tests.unit.spark.lake_folder import Killed, MemoryFiles


class Process:
    """`work` is done in steps: a look at the files or a change of them. Invariant: it runs only within `run`."""

    def __init__(self, shared: MemoryFiles, work: Callable[["Process"], None]) -> None:
        self.files = _TurnFiles(shared, self._pause)
        self.error: BaseException | None = None
        self.is_alive = True
        self._is_killed = False
        self._work = work
        # Each is released by one side and acquired by the other.
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def run(self, steps: int) -> None:
        """Let it do so many steps, if it has so many."""
        for _ in range(steps):
            if not self.is_alive:
                return
            self._go.release()
            self._done.acquire()

    def kill(self) -> None:
        """It does nothing any more, not even on the way out."""
        self._is_killed = True
        while self.is_alive:
            self.run(1)
        self._thread.join()

    def _main(self) -> None:
        self._go.acquire()
        try:
            if not self._is_killed:
                self._work(self)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.error = error
        self.is_alive = False
        self._done.release()

    def _pause(self) -> None:
        self._done.release()
        self._go.acquire()
        if self._is_killed:
            raise Killed


class _TurnFiles(MemoryFiles):
    """The same files as others have; each step waits for its turn."""

    def __init__(self, shared: MemoryFiles, pause: Callable[[], None]) -> None:
        super().__init__()
        self.content, self.folders, self.changed_ms = shared.content, shared.folders, shared.changed_ms
        self._shared, self._pause = shared, pause

    def begin(self) -> None:
        self.now_ms = self._shared.now_ms
        self._pause()

    def step(self) -> None:
        self.now_ms = self._shared.now_ms
        self._pause()

    def files_below(self, folder: str, *, with_marks: bool = False) -> Sequence[FileEntry]:
        found = super().files_below(folder, with_marks=with_marks)
        # It may sleep with what it saw.
        self._pause()
        return found
