"""The order of a message group's sends, and of a lite topic's, when one of them has to be repeated.

Sends that were begun one after the other are on their way together, and mostly arrive so. As soon as one has to be
repeated, those behind it wait for it: each goes, or goes again, when it is the first of its message groups that isn't
done. One that was stored before an earlier one failed can't be held up any more; who wants to be sure of the order
waits for each send.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self


class _Group:
    """The sends of one message group that are not done, first begun first; how many are being repeated, and wait."""

    __slots__ = ("repeated", "turns", "waiting")

    def __init__(self) -> None:
        self.turns: deque[Turn] = deque()
        self.repeated = self.waiting = 0

    def lets(self, turn: "Turn") -> bool:
        """Whether nobody is before it: nobody at all while one is being repeated, else nobody who waits."""
        if self.repeated:
            return self.turns[0] is turn
        return not self.waiting or next(one for one in self.turns if one.waits or one is turn) is turn

    def wake_first(self) -> None:
        """Each that goes wakes the next: those who begin meanwhile are behind all who wait."""
        if self.waiting:
            next(one for one in self.turns if one.waits).wake.set()


class GroupOrder:
    """All message groups of one producer that have a send under way."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def turn(self, topic: str, message_groups: Iterable[str]) -> "Turn":
        """The place of a send that begins now, kept by `with` until it is done; without groups it waits for nobody."""
        return Turn(self._groups, [(topic, group) for group in message_groups])


class Turn:
    """One send's place in its message groups."""

    __slots__ = ("_groups", "_keys", "_repeated", "waits", "wake")

    def __init__(self, groups: dict[tuple[str, str], _Group], keys: list[tuple[str, str]]) -> None:
        self.waits = False
        self.wake = asyncio.Event()
        self._groups = groups
        self._keys = keys
        self._repeated = False

    def __enter__(self) -> Self:
        for key in self._keys:
            self._groups.setdefault(key, _Group()).turns.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for key in self._keys:
            group = self._groups[key]
            group.turns.remove(self)
            group.repeated -= self._repeated
            if group.turns:
                group.wake_first()
            else:
                del self._groups[key]

    def repeats(self) -> None:
        """What it sent has to be sent again: from now on, its pause before that included, nobody behind it goes."""
        if not self._repeated:
            self._repeated = True
            for key in self._keys:
                self._groups[key].repeated += 1

    async def comes(self, *, timeout_s: float) -> bool:
        """Wait until an attempt may be made; False when that takes too long."""
        groups = [self._groups[key] for key in self._keys]
        if all(group.lets(self) for group in groups):
            return True
        self._set_waits(groups, True)
        try:
            async with asyncio.timeout(timeout_s):
                while not all(group.lets(self) for group in groups):
                    self.wake.clear()
                    await self.wake.wait()
        except TimeoutError:
            return False
        finally:
            self._set_waits(groups, False)
        for group in groups:
            group.wake_first()
        return True

    def _set_waits(self, groups: list[_Group], waits: bool) -> None:
        self.waits = waits
        for group in groups:
            group.waiting += 1 if waits else -1
