"""`ternmq mirror` as a running process, and what it prints at its end."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

END_TIMEOUT_S = 120.0
Result = dict[str, int]


class MirrorProcess:
    """`async with MirrorProcess(options, log) as mirror: ... await mirror.end()`. `options` name both sides."""

    def __init__(self, options: Sequence[str], log: Path) -> None:
        self._command = [sys.executable, "-m", "ternmq_command.main", "mirror", *options, "--json"]
        self._log = log
        self._process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process.returncode is None:
            await self.kill()

    async def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()
        await self._process.wait()

    async def end(self, by: int = signal.SIGTERM, *, code: int = 0) -> Result:
        """End it by a signal, and return what it printed."""
        self._process.send_signal(by)
        return await self.wait(code=code)

    async def wait(self, timeout_s: float = END_TIMEOUT_S, *, code: int = 0) -> Result:
        """Wait until it ends by itself, with that exit code, and return what it printed."""
        async with asyncio.timeout(timeout_s):
            output, _ = await self._process.communicate()
        assert self._process.returncode == code, (self._process.returncode, self._log.read_text()[-3000:])
        result: Result = json.loads(output)
        return result
