"""Consumer programs as running processes, and the events that they print.

Order   all processes of one object write into one pipe, each line in one piece: the events stand in the order in
        which they happened, whichever process they come from.
End     the processes are killed; what they had printed until then is still read.
"""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

DEADLINE_S = 60.0
EVENTS_SHOWN = 40
ERROR_TAIL_CHARACTERS = 3000
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a program; what comes after the body is there in deliveries only."""

    pid: int
    kind: str
    body: str
    attempt: int = 0
    tag: str = NOTHING
    message_group: str = NOTHING
    properties: str = NOTHING

    @classmethod
    def parse(cls, line: bytes) -> Self:
        pid, kind, body, *rest = line.decode().rstrip("\n").split(" ")
        if not rest:
            return cls(int(pid), kind, body)
        attempt, tag, message_group, properties = rest
        return cls(int(pid), kind, body, int(attempt), tag, message_group, properties)


class Consumers:
    """Running programs, one for each command: `async with Consumers(commands, home) as consumers`.

    Invariants: `events` grows only while a method waits for it; after the `with` block no process is left.
    """

    def __init__(self, commands: Sequence[Sequence[str]], home: Path) -> None:
        self._commands, self._home = commands, home
        self.events: list[Event] = []
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
                env={**os.environ, "HOME": str(self._home)},  # the clients write their logs there
                cwd=self._home,
            )
        self._processes.append(process)

    async def until(self, done: Callable[[Sequence[Event]], bool], what: str) -> None:
        """Read on until `done` says so of all events so far; `what` is for the error."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not done(self.events):
                    await self._read()
        except (TimeoutError, EOFError) as error:
            raise AssertionError(f"{what}: {type(error).__name__}\n{self._report()}") from error

    async def release(self) -> None:
        """Let the held handlers go on."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"go on\n")
            await process.stdin.drain()

    async def end(self) -> None:
        """End the processes, and read what they had printed."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        try:
            while True:
                await self._read()
        except EOFError:
            pass

    async def _read(self) -> None:
        line = await self._reader.readline()
        if not line:
            raise EOFError
        self.events.append(Event.parse(line))

    def _report(self) -> str:
        lines = [str(event) for event in self.events[-EVENTS_SHOWN:]]
        errors = [path.read_text(errors="replace")[-ERROR_TAIL_CHARACTERS:] for path in self._home.glob("*.err")]
        return "\n".join((f"{len(self.events)} events, the last ones:", *lines, "errors:", *errors))


def deliveries(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.kind == "got"]


def attempts(events: Sequence[Event]) -> dict[str, list[int]]:
    """The attempts with which each body was delivered, in order."""
    found = defaultdict(list)
    for event in deliveries(events):
        found[event.body].append(event.attempt)
    return dict(found)


def at_least(number: int) -> Callable[[Sequence[Event]], bool]:
    """Whether so many deliveries were handled to the end."""
    return lambda events: outcomes(events).total() >= number


def outcomes(events: Sequence[Event]) -> Counter[str]:
    """How often each body was handled to the end."""
    return Counter(event.body for event in events if event.kind != "got")
