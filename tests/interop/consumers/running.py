"""Consumer programs as running processes, and the events that they print."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.interop.processes import NOTHING, Processes


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a program; what comes after the body is there in deliveries only.

    `due_ms` is the delivery timestamp of a delayed message, otherwise 0; `clock_ms` is when its consumer had it.
    """

    pid: int
    kind: str
    body: str
    attempt: int = 0
    tag: str = NOTHING
    message_group: str = NOTHING
    properties: str = NOTHING
    due_ms: int = 0
    clock_ms: int = 0

    @classmethod
    def parse(cls, line: bytes) -> Self:
        pid, kind, body, *rest = line.decode().rstrip("\n").split(" ")
        if not rest:
            return cls(int(pid), kind, body)
        attempt, tag, message_group, properties, due, clock = rest
        due_ms = 0 if due == NOTHING else int(due)
        return cls(int(pid), kind, body, int(attempt), tag, message_group, properties, due_ms, int(clock))


class Consumers(Processes[Event]):
    """Running consumers, one for each command."""

    def __init__(self, commands: Sequence[Sequence[str]], home: Path) -> None:
        super().__init__(commands, home, Event.parse)

    async def release(self) -> None:
        """Let the held handlers go on."""
        await self.tell("go on")


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


def handled(*bodies: str) -> Callable[[Sequence[Event]], bool]:
    """Whether all these bodies were handled to the end."""
    return lambda events: set(bodies) <= outcomes(events).keys()
