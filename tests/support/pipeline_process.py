"""A pipeline of which the driver alone is killed, again and again, and that is then let go to its end.

Driver     the Python process of the command. Its Java sees the end of the pipe between them and ends too, but not at
           once: what it had begun may still reach the broker while the next run starts.
"""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.support.spark_jobs import JOB_TIMEOUT_S, SparkJob


class Pipeline(SparkJob):
    """A `SparkJob` whose current folder is `folder`; a group of processes, of which none is left at its end."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, *arguments)
        self._folder = folder

    def __enter__(self) -> Self:
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=errors, start_new_session=True, cwd=self._folder
            )
        return self

    def kill_driver(self) -> None:
        """Java is left to itself."""
        self.process.kill()
        self.process.wait()

    def ended(self) -> int:
        """Its exit code, when it comes to its end by itself."""
        return self.process.wait(JOB_TIMEOUT_S)


def killed_and_ended(
    folder: Path, arguments: Sequence[str], marks: Sequence[Callable[[], bool]], *, codes: Sequence[int] = (0,)
) -> None:
    """Start the pipeline once for each mark and kill it there, then once more to its end, with one of these codes.

    What is left of a job is ended after the last one: they overlap, as after a real kill.
    """
    with ExitStack() as remains:
        for mark in marks:
            job = remains.enter_context(Pipeline(folder, *arguments))
            job.wait_until(mark)
            job.kill_driver()
        last = remains.enter_context(Pipeline(folder, *arguments))
        code = last.ended()
        assert code in codes, f"ended with {code}\n{last.tail()}"
