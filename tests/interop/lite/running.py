"""Lite programs as running processes: what they are told, and the events that they print."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.interop.processes import Processes

ANSWERS = ("done", "refused")


@dataclass(frozen=True, slots=True)
class LiteEvent:
    """One line of a program. `name` is a lite topic, or the command of an answer; `detail` is a body, the names that
    were asked for, or the name of an error; `number` is an attempt or a code, 0 where there is none."""

    kind: str
    name: str = ""
    detail: str = ""
    number: int = 0

    @classmethod
    def parse(cls, line: bytes) -> Self:
        _, kind, *words = line.decode().rstrip("\n").split("\t")
        name, detail, number, *_ = *words, "", "", ""
        return cls(kind, name, detail, int(number.strip("-") or 0))


class LitePrograms(Processes[LiteEvent]):
    """Running programs, mostly one. A command is given to all of them, when they are done with the one before it."""

    def __init__(self, commands: Sequence[Sequence[str]], home: Path) -> None:
        super().__init__(commands, home, LiteEvent.parse)
        self._count = len(commands)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self.until(lambda events: len(starts(events)) == self._count, "the start")
        return self

    async def subscribe(self, *names: str) -> None:
        """Subscribe lite topics, one after the other."""
        for name in names:
            await self.done("subscribe", name)

    async def unsubscribe(self, *names: str) -> None:
        """Drop lite topics, one after the other."""
        for name in names:
            await self.done("unsubscribe", name)

    async def send(self, name: str, *bodies: str) -> None:
        """Send to a lite topic, one message after the other."""
        for body in bodies:
            await self.done("send", name, body)

    async def topics(self) -> set[str]:
        """What the client thinks is subscribed."""
        return set(filter(None, (await self.done("topics")).detail.split(",")))

    async def release(self) -> None:
        """Let the held handlers go on."""
        await self.tell("release")

    async def done(self, *words: str) -> LiteEvent:
        """Have one command done; the event is the last answer."""
        found = await self._answers(*words)
        assert {answer.kind for answer in found} == {"done"}, f"{words}: {found}\n{self.report()}"
        return found[-1]

    async def tried(self, *words: str) -> LiteEvent:
        """Have one command tried by the only program; the event is its answer."""
        [answer] = await self._answers(*words)
        return answer

    async def _answers(self, *words: str) -> list[LiteEvent]:
        before = len(answers(self.events))
        await self.tell("\t".join(words))
        await self.until(lambda events: len(answers(events)) == before + self._count, " ".join(words))
        return answers(self.events)[before:]

    async def handled(self, name: str, *bodies: str) -> None:
        """Return when these messages of a lite topic have succeeded, each as often as it is named."""
        wanted = Counter(bodies)
        await self.until(lambda events: wanted <= Counter(succeeded(events, name)), f"{bodies} of {name}")

    async def sees(self, seen: Callable[[LiteEvent], bool], what: str) -> None:
        """Return when there was such an event."""
        await self.until(lambda events: any(map(seen, events)), what)


def starts(events: Sequence[LiteEvent]) -> list[LiteEvent]:
    return [event for event in events if event.kind == "ready"]


def answers(events: Sequence[LiteEvent]) -> list[LiteEvent]:
    return [event for event in events if event.kind in ANSWERS]


def got(events: Sequence[LiteEvent], name: str) -> list[str]:
    """The bodies that came from a lite topic, in order."""
    return [event.detail for event in events if event.kind == "got" and event.name == name]


def succeeded(events: Sequence[LiteEvent], name: str) -> list[str]:
    """The bodies of a lite topic whose handlers succeeded, in order."""
    return [event.detail for event in events if event.kind == "ok" and event.name == name]


def kinds(events: Sequence[LiteEvent], body: str) -> list[str]:
    """What happened to a message, in order."""
    return [event.kind for event in events if event.detail == body and event.kind not in ANSWERS]
