"""Keeps the order of a message group's sends, and of a lite topic's, when one of them has to be repeated.

Sends that were begun one after the other are in flight together, and mostly arrive in order. As soon as one has to be
repeated, those behind it wait: each is sent, or sent again, when it is the first unfinished one of its message groups.
One that was stored before an earlier one failed can't be held up any more; a caller that needs strict order waits for
each send.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self


class _GroupSends:
    """The unfinished sends of one message group, the first begun first, and how many are being repeated, and wait."""

    __slots__ = ("repeated", "turns", "waiting")

    def __init__(self) -> None:
        self.turns: deque[SendTurn] = deque()
        self.repeated = self.waiting = 0

    def may_go(self, turn: "SendTurn") -> bool:
        """Return whether the turn may go: while a send is being repeated only the first, else if no waiting one
        precedes it."""
        if self.repeated:
            return self.turns[0] is turn
        return not self.waiting or next(one for one in self.turns if one.waits or one is turn) is turn

    def wake_first(self) -> None:
        """Wake the first that waits; each wakes the next. Sends that begin in the meantime are behind all that wait."""
        if self.waiting:
            next(one for one in self.turns if one.waits).wake.set()


class GroupOrder:
    """All message groups of one producer that have a send in progress."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _GroupSends] = {}

    def create_turn(self, topic: str, message_groups: Iterable[str]) -> "SendTurn":
        """Return the turn of a send that begins now, held by `with` until it is done; without groups it never waits."""
        return SendTurn(self._groups, [(topic, group) for group in message_groups])


class SendTurn:
    """The turn of one send in its message groups."""

    __slots__ = ("_groups", "_keys", "_repeated", "waits", "wake")

    def __init__(self, groups: dict[tuple[str, str], _GroupSends], keys: list[tuple[str, str]]) -> None:
        self.waits = False
        self.wake = asyncio.Event()
        self._groups = groups
        self._keys = keys
        self._repeated = False

    def __enter__(self) -> Self:
        for key in self._keys:
            self._groups.setdefault(key, _GroupSends()).turns.append(self)
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

    def mark_repeating(self) -> None:
        """Note that the send has to be repeated: from now on, including its pause, no send behind it goes."""
        if not self._repeated:
            self._repeated = True
            for key in self._keys:
                self._groups[key].repeated += 1

    async def wait_turn(self, *, timeout_s: float) -> bool:
        """Wait until an attempt may begin; return False if that takes too long."""
        groups = [self._groups[key] for key in self._keys]
        if all(group.may_go(self) for group in groups):
            return True
        self._set_waits(groups, True)
        try:
            async with asyncio.timeout(timeout_s):
                while not all(group.may_go(self) for group in groups):
                    self.wake.clear()
                    await self.wake.wait()
        except TimeoutError:
            return False
        finally:
            self._set_waits(groups, False)
        for group in groups:
            group.wake_first()
        return True

    def _set_waits(self, groups: list[_GroupSends], waits: bool) -> None:
        self.waits = waits
        for group in groups:
            group.waiting += 1 if waits else -1
