"""Members of groups whose proxy is gone, for as long as their clients may come back by another one.

They count as members for `GRACE_S`: a client that connects elsewhere within that time causes no rebalance. Then the
groups of those that did not come back have changed.
"""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ternmq_common.shard.model import PullingMember

GRACE_S = 2.0


class DepartedMembers:
    """The members that may come back. `present` returns those that are there, `on_gone` is called with the name of
    each group that lost some."""

    def __init__(self, present: "Callable[[], Iterable[PullingMember]]", on_gone: "Callable[[str], None]") -> None:
        self._present = present
        self._on_gone = on_gone
        self._waiting: dict[asyncio.TimerHandle, Sequence[PullingMember]] = {}

    def note_departure(self, members: "Sequence[PullingMember]") -> None:
        """Note that the proxy of these members is gone."""
        if members:
            loop = asyncio.get_running_loop()
            timer: asyncio.TimerHandle = loop.call_later(GRACE_S, lambda: self._end_grace(timer))
            self._waiting[timer] = members

    def list_members(self) -> "list[PullingMember]":
        """Return the members that may come back."""
        return [member for members in self._waiting.values() for member in members]

    def close(self) -> None:
        """Stop waiting for all members."""
        for timer in self._waiting:
            timer.cancel()
        self._waiting.clear()

    def _end_grace(self, timer: asyncio.TimerHandle) -> None:
        departed = self._waiting.pop(timer)
        present = {(member.group, member.client_id) for member in self._present()}
        for group in sorted({each.group for each in departed if (each.group, each.client_id) not in present}):
            self._on_gone(group)
