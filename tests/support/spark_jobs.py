"""Pipelines as processes that can be killed: `python -m ternmq_command.main pipeline ...`, and what they have done.

Group       a job leads a process group of its own, so that kill -9 ends its driver in Python and its Java at once.
            Workers in Python end by themselves when Java's end of their pipe is gone.
Waiting     for what a job leaves in the file system, by looking; a job that ends meanwhile is an error with its words.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from tests.support.spark import QUICK_JAVA
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

# A busy machine takes its time to start Java.
JOB_TIMEOUT_S = 300.0
# A task whose Python worker dies is tried again; without the second number local mode never does that.
# Java's options are those of `QUICK_SETTINGS`, for the same reason.
SETTINGS = (
    *("--master", "local[2,4]", "--conf", "spark.driver.memory=700m", "--conf", "spark.sql.shuffle.partitions=2"),
    *("--conf", f"spark.driver.extraJavaOptions={QUICK_JAVA}"),
)
OUTPUT_TAIL_CHARACTERS = 4000


class SparkJob:
    """A pipeline: `with SparkJob(folder, "lake", "--topics", ...) as job`, or a job of the tests' own, of which
    `command` has Python's arguments. After `__exit__` no process is left."""

    def __init__(self, folder: Path, *arguments: str, command: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pipeline = ("-m", "ternmq_command.main", "pipeline", *arguments, *SETTINGS)
        self._command = (sys.executable, *(command or pipeline))
        self.output = folder / "job.out"
        self.errors = folder / "job.err"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the job was not started"
        return self._process

    def __enter__(self) -> Self:
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=errors, start_new_session=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill9()

    def kill9(self) -> None:
        """End the driver and its Java as a machine's end does; nothing happens if they have ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> str:
        """Wait for its end, which must be a good one; what it printed."""
        code = self.process.wait(JOB_TIMEOUT_S)
        assert code == 0, f"ended with {code}\n{self.tail()}"
        return self.output.read_text()

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Wait for something that this job does."""

        def is_there() -> bool:
            has_ended = self.process.poll() is not None
            if is_true():
                return True
            assert not has_ended, f"ended with {self.process.returncode} too early\n{self.tail()}"
            return False

        asyncio.run(asyncio.wait_for(until(is_there), JOB_TIMEOUT_S))

    def tail(self) -> str:
        """The end of what it said."""
        texts = (path.read_text(errors="replace") for path in (self.output, self.errors))
        return "\n".join(texts)[-OUTPUT_TAIL_CHARACTERS:]


def last_batch(folder: Path, pattern: str = r"(\d+)") -> int:
    """The highest number that names in a folder have, -1 for none: by default of Spark's `offsets` and `commits`."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(match[1]) for name in names if (match := re.fullmatch(pattern, name))), default=-1)


def batches_done(checkpoint: Path) -> int:
    """How many micro-batches Spark knows to have ended."""
    return last_batch(checkpoint / "commits") + 1
