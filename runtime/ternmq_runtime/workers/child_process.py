"""A process that a supervisor starts, seen from the supervisor."""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process

from ternmq_common.errors import StartupError

READY, FAILED = "ready", "failed"


class ProcessKilled(StartupError):
    """A signal ended a process before it served; another attempt may succeed."""


class ChildProcess:
    """One process, from `start_serving` to its end. `name` is for people; it is in the process's arguments too."""

    def __init__(self, name: str, module: str, *arguments: str) -> None:
        self._name = name
        # -P: -m alone would look for modules in the folder in which the server was started.
        self._command = (sys.executable, "-P", "-m", module, *arguments, name)
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def prepare_process(self) -> None:
        """Start the process; it loads its program, which takes most of the start, and waits."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, start_new_session=True
        )

    async def start_serving(self, line: bytes) -> None:
        """Send the line to the process, and return when it serves; StartupError if it ends before that."""
        if self._process is None:
            await self.prepare_process()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it has ended, which is reported below
            self._process.stdin.write(line)
            await self._process.stdin.drain()
        word, _, rest = (await self._process.stdout.readline()).decode().strip().partition(" ")
        if word == FAILED:
            raise StartupError(rest)
        if word != READY:
            code = await self._process.wait()
            raise (ProcessKilled if code < 0 else StartupError)(f"{self._name} {describe_exit(code)} before it served")

    async def wait_ended(self) -> int:
        """Wait until it has ended; return its exit code, below 0 the signal that ended it."""
        assert self._process is not None
        return await self._process.wait()

    async def end_process(self, grace_s: float) -> None:
        """End the process in order; kill it after so many seconds."""
        if self._process is None:
            return
        self._send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            self._send_signal(signal.SIGKILL)
            await self._process.wait()

    def _send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):  # it has ended
            self._process.send_signal(number)


def describe_exit(code: int) -> str:
    """Describe an exit code for people."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
