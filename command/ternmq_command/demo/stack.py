"""The demo's broker: `ternmq up` as a child process, on free ports that it keeps after a restart."""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_command.terminal.failures import CommandFailure

if TYPE_CHECKING:
    from asyncio.subprocess import Process

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
READY = re.compile(r"ready grpc=(\S+) http=(\S+)")
# A demo may be continued after weeks.
RETENTION = "3650d"


class DemoStack:
    """One broker with its data in `folder`; `grpc` and `http` are its addresses after the start."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder, self._log = folder, log
        self._process: Process | None = None
        self.grpc = self.http = "127.0.0.1:0"

    async def start(self) -> float:
        """Start the broker and wait until it serves; return how many seconds this took."""
        begun = time.monotonic()
        command = [sys.executable, "-m", "ternmq_command.demo.broker", "--data-dir", str(self._folder)]
        command += ["--grpc", self.grpc, "--http", self.http, "--retention", RETENTION]
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal goes to the demo, which then stops its children in order.
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), START_TIMEOUT_S)
        except TimeoutError:
            line = b""
        ready = READY.search(line.decode())
        if ready is None:
            await self.stop()
            raise CommandFailure(f"the broker did not start: {self._last_words()} (log: {self._log})")
        self.grpc, self.http = ready.groups()
        return time.monotonic() - begun

    async def kill_process(self) -> None:
        """Kill the broker by SIGKILL, so that it can't flush anything."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """Stop the broker by SIGTERM, and by SIGKILL after STOP_TIMEOUT_S."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            await self.kill_process()

    def resident_bytes(self) -> int | None:
        """Return the broker's resident memory; None while there is no broker."""
        if self._process is None or self._process.returncode is not None:
            return None
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return _resident_bytes_of_ps(self._process.pid)
        kib = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(kib[1]) * 1024 if kib else None

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it logged nothing"


def _resident_bytes_of_ps(pid: int) -> int | None:
    """Return the resident memory by `ps`, where there is no /proc."""
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    return int(done.stdout) * 1024 if done.stdout.strip().isdigit() else None
