"""Starts and stops a consumer's process, and reads its reports."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from typing import TYPE_CHECKING, Self

from ternmq_command.demo.batch_reports import BatchReport

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_command.demo.ledger import Ledger

LINE_BYTES_MAX = 1024 * 1024
STOP_TIMEOUT_S = 10.0


class ConsumerProcess:
    """The running process of consumer `number`."""

    def __init__(self, number: int, process: Process) -> None:
        self.number = number
        self._process = process

    @classmethod
    async def start(cls, number: int, endpoint: str, log: "Path") -> Self:
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ternmq_command.demo.consumer", endpoint),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                limit=LINE_BYTES_MAX,
                start_new_session=True,
            )
        return cls(number, process)

    async def read_reports(self, ledger: "Ledger") -> None:
        """Add its reports to the ledger until it has ended."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            ledger.add_report(self.number, BatchReport.decode_line(line))

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def stop(self) -> None:
        """Stop it after its current batch; kill it after STOP_TIMEOUT_S."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
