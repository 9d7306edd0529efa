"""Producer programs as running processes: what they are told, and the events that they print."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.interop.processes import NOTHING, Processes

COMMIT, ROLLBACK, UNKNOWN = "commit", "rollback", "unknown"
ENDS = {COMMIT: "committed", ROLLBACK: "rolled-back"}


@dataclass(frozen=True, slots=True)
class ProducerEvent:
    """One line of a program. `detail` is a message id, a status code or the checker's answer."""

    pid: int
    kind: str
    body: str
    detail: str = NOTHING
    handle: str = NOTHING

    @classmethod
    def parse(cls, line: bytes) -> Self:
        pid, *words = line.decode().rstrip("\n").split(" ")
        return cls(int(pid), *words)


class Producer(Processes[ProducerEvent]):
    """One running producer. A command is given when the one before it is done."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        super().__init__([command], home, ProducerEvent.parse)

    async def ready(self) -> None:
        """Return when the client has started."""
        await self.until(lambda events: any(event.kind == "ready" for event in events), "the start")

    async def half(self, body: str) -> None:
        """Begin a transaction."""
        await self._done("sent", "half", body)

    async def end_transaction(self, body: str, end: str) -> None:
        """Commit or roll back what this producer has begun."""
        await self._done(ENDS[end], end, body)

    async def committed(self, body: str) -> None:
        """Send a message in a transaction."""
        await self.half(body)
        await self.end_transaction(body, COMMIT)

    async def timed(self, body: str, due_ms: int) -> ProducerEvent:
        """Send a delayed message; the event has its handle."""
        return await self._done("sent", "timed", body, str(due_ms))

    async def recall(self, timed: ProducerEvent) -> None:
        """Take back a delayed message, whoever has sent it."""
        recalled = await self._done("recalled", "recall", timed.body, timed.handle)
        assert recalled.detail == timed.detail

    async def tried(self, *words: str) -> ProducerEvent:
        """Have one command done; the event is its outcome."""
        before = len(outcomes(self.events))
        await self.tell(" ".join(words))
        await self.until(lambda events: len(outcomes(events)) > before, " ".join(words))
        return outcomes(self.events)[-1]

    async def _done(self, kind: str, *words: str) -> ProducerEvent:
        outcome = await self.tried(*words)
        assert (outcome.kind, outcome.body) == (kind, words[1]), f"{' '.join(words)}: {outcome}\n{self.report()}"
        return outcome


def outcomes(events: Sequence[ProducerEvent]) -> list[ProducerEvent]:
    """What became of the commands."""
    return [event for event in events if event.kind not in ("ready", "checked")]


def answers(events: Sequence[ProducerEvent]) -> dict[str, list[str]]:
    """What the checker answered about each orphan, in order."""
    found = defaultdict(list)
    for event in events:
        if event.kind == "checked":
            found[event.body].append(event.detail)
    return dict(found)


def answered(*bodies: str) -> Callable[[Sequence[ProducerEvent]], bool]:
    """Whether the checker has said of all these orphans what they are to become."""
    return lambda events: all(answers(events).get(body, [UNKNOWN])[-1] != UNKNOWN for body in bodies)
