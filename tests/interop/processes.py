"""Programs as running processes, and the events that they print, one to a line.

Order   all processes of one object write into one pipe, each line in one piece: the events stand in the order in
        which they happened, whichever process they come from.
End     the processes are killed; what they had printed until then is still read.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Generic, Self, TypeVar

DEADLINE_S = 60.0
EVENTS_SHOWN = 40
ERROR_TAIL_CHARACTERS = 3000
NOTHING = "-"

EventT = TypeVar("EventT")


class Processes(Generic[EventT]):
    """Running programs, one for each command: `async with Processes(commands, home, parse) as processes`.

    Invariants: `events` grows only while a method waits for it; after the `with` block no process is left.
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        home: Path,
        parse: Callable[[bytes], EventT],
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`environment` is what the programs have beside that of the test."""
        self._commands, self._home, self._parse, self._environment = commands, home, parse, environment
        self.events: list[EventT] = []
        self._processes: list[asyncio.subprocess.Process] = []
        self._reader = asyncio.StreamReader()
        self._cleanup = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        reading, writing = os.pipe()
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(reading, "rb")
            )
            self._cleanup.callback(transport.close)
            for number, command in enumerate(self._commands):
                await self._start(command, writing, self._home / f"{number}.err")
        finally:
            os.close(writing)  # so that the pipe ends with the last process
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()
        await self._cleanup.aclose()

    async def _start(self, command: Sequence[str], output: int, errors: Path) -> None:
        with errors.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=stderr,
                env={**os.environ, "HOME": str(self._home), **self._environment},  # the clients write their logs there
                cwd=self._home,
            )
        self._processes.append(process)

    async def until(self, done: Callable[[Sequence[EventT]], bool], what: str) -> None:
        """Read on until `done` says so of all events so far; `what` is for the error."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not done(self.events):
                    await self._read()
        except (TimeoutError, EOFError) as error:
            raise AssertionError(f"{what}: {type(error).__name__}\n{self.report()}") from error

    async def following(self) -> EventT:
        """The next event, which is not kept: for those who read more than should be in memory. EOFError at the end."""
        line = await self._reader.readline()
        if not line:
            raise EOFError
        return self._parse(line)

    async def tell(self, line: str) -> None:
        """Write a line to the standard input of each process."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n".encode())
            await process.stdin.drain()

    async def leave(self) -> None:
        """End the standard input, which has the processes end by themselves, and read what they had printed."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._read_all()
                for process in self._processes:
                    await process.wait()
        except TimeoutError as error:
            raise AssertionError(f"the processes did not end\n{self.report()}") from error

    async def end(self) -> None:
        """End the processes as a crash does, and read what they had printed."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await self._read_all()

    async def _read_all(self) -> None:
        try:
            while True:
                await self._read()
        except EOFError:
            pass

    async def _read(self) -> None:
        self.events.append(await self.following())

    def report(self) -> str:
        """The last events, and what the programs wrote to their standard error."""
        lines = [str(event) for event in self.events[-EVENTS_SHOWN:]]
        errors = [path.read_text(errors="replace")[-ERROR_TAIL_CHARACTERS:] for path in self._home.glob("*.err")]
        return "\n".join((f"{len(self.events)} events, the last ones:", *lines, "errors:", *errors))
