"""Keeps the order of a message group's sends, and of a lite topic's, from their routes to their repetitions.

Sends that were begun one after the other are in flight together: on a connection they arrive in order, and none begins
its first attempt before all earlier ones have. While one has to be repeated, or has no connection yet, those behind it
wait: each is sent, or sent again, when it is the first unfinished one of its message groups. One that was stored before
an earlier one failed can't be held up any more, nor can what gRPC has taken when a connection is lost; a caller that
needs strict order waits for each send.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self


class _GroupSends:
    """The unfinished sends of one message group, the first begun first, and how many are being repeated, have had no
    attempt yet, and wait."""

    __slots__ = ("new", "repeated", "turns", "waiting")

    def __init__(self) -> None:
        self.turns: deque[SendTurn] = deque()
        self.new = self.repeated = self.waiting = 0

    def may_go(self, turn: "SendTurn") -> bool:
        """Return whether the turn may go: while a send is being repeated only the first, else if none without an
        attempt precedes it."""
        if self.repeated:
            return self.turns[0] is turn
        return not turn.is_new or self.new == 1 or next(one for one in self.turns if one.is_new) is turn

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

    __slots__ = ("_groups", "_keys", "_repeated", "is_new", "waits", "wake")

    def __init__(self, groups: dict[tuple[str, str], _GroupSends], keys: list[tuple[str, str]]) -> None:
        self.is_new = True
        self.waits = False
        self.wake = asyncio.Event()
        self._groups = groups
        self._keys = keys
        self._repeated = False

    def __enter__(self) -> Self:
        for key in self._keys:
            group = self._groups.setdefault(key, _GroupSends())
            group.turns.append(self)
            group.new += 1
        return self

    @property
    def is_ordered(self) -> bool:
        """Whether the order of its messages counts."""
        return bool(self._keys)

    @property
    def is_repeated(self) -> bool:
        """Whether it was marked so."""
        return self._repeated

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for key in self._keys:
            group = self._groups[key]
            group.turns.remove(self)
            group.repeated -= self._repeated
            group.new -= self.is_new
            if group.turns:
                group.wake_first()
            else:
                del self._groups[key]

    def mark_repeating(self) -> None:
        """Note that the send has to be repeated, or may have to: from now on, including its pause, no send behind it
        goes."""
        if not self._repeated:
            self._repeated = True
            for key in self._keys:
                self._groups[key].repeated += 1

    async def wait_turn(self, *, timeout_s: float) -> bool:
        """Wait until an attempt may begin; return False if that takes too long."""
        groups = [self._groups[key] for key in self._keys]
        if all(group.may_go(self) for group in groups):
            self._let_next_go(groups)
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
            self._let_next_go(groups)
        return True

    def _let_next_go(self, groups: list[_GroupSends]) -> None:
        """Let the first that waits go in the next turn of the loop, as this one begins its attempt, or gives up."""
        for group in groups:
            group.new -= self.is_new
        self.is_new = False
        for group in groups:
            group.wake_first()

    def _set_waits(self, groups: list[_GroupSends], waits: bool) -> None:
        self.waits = waits
        for group in groups:
            group.waiting += 1 if waits else -1
