"""Moves the consumer groups of the target to where they are at the source.

A group without members at the target is moved over the messages that it has consumed at the source, and never over
others (`positions.py`); it is never moved back. One that has members there is left alone. The groups of the source that
have no members any more are found too: their retries may be copied then.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING

from ternmq_command.calls.remoting_calls import RemotingRefused
from ternmq_command.mirror.positions import Queue, TargetQueue, TopicPositions
from ternmq_common.names import RETRY_PREFIX

if TYPE_CHECKING:
    from ternmq_command.mirror.copier import Shared

_ROUNDS_WITHOUT_MEMBERS = 2
_AT_ONCE = 16
"""How many groups are queried at a time."""
_GROUP_MISSING = 26


class GroupMoves:
    """`await moves.move_groups(groups, topics)` is one round; `topics` are the positions by topic of the target.

    `behind` is how many messages each group without members here has consumed at the source, and would get again: from
    copies that are here, or are yet to come.
    """

    def __init__(self, shared: "Shared") -> None:
        self._shared = shared
        self._known: dict[tuple[str, Queue], int] = {}
        self._empty_rounds: dict[str, int] = {}
        self._missing: set[str] = set()
        self._rounds = 0
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.committed: dict[str, dict[Queue, int]] = {}
        self.behind: dict[str, int] = {}

    @property
    def has_watched(self) -> bool:
        """Whether it is known which groups have no members at the source."""
        return self._rounds > _ROUNDS_WITHOUT_MEMBERS

    async def move_groups(self, groups: Sequence[str], topics: Mapping[str, TopicPositions]) -> None:
        """Move each group as far as it may be moved. RemotingUnreachable, RemotingRefused."""
        self._rounds += 1
        self.committed = await self._shared.source.read_committed()
        await _await_all([self._follow_group(group, topics) for group in groups])

    async def _follow_group(self, group: str, topics: Mapping[str, TopicPositions]) -> None:
        async with self._slots:
            await self._watch_members(group)
            if places := self._find_places(group, topics):
                if await self._shared.target.has_members(group):
                    self.behind.pop(group, None)
                    return
                await _await_all([self._move_group(group, *place) for place in places])
        self.behind[group] = self._count_behind(group, topics)

    def _count_behind(self, group: str, topics: Mapping[str, TopicPositions]) -> int:
        consumed = self.committed.get(group, {})
        copied = sum(
            known.count_behind(self._known.get((group, queue), 0), consumed)
            for queue, known in self._queues_of(consumed, topics)
        )
        for queue, offset in consumed.items():
            if queue.topic in topics and not queue.topic.startswith(RETRY_PREFIX):
                at = topics[queue.topic].sources.get(queue)
                copied += max(0, offset - (0 if at is None else at.next_offset))
        return copied

    def _find_places(self, group: str, topics: Mapping[str, TopicPositions]) -> list[tuple[Queue, TargetQueue]]:
        """Return the queues in which the group may be moved."""
        consumed = self.committed.get(group)
        if not consumed:
            return []
        if group not in self._shared.target.groups:
            self._note_missing(group)
            return []
        return [
            (queue, known)
            for queue, known in self._queues_of(consumed, topics)
            if (before := self._known.get((group, queue))) is None or known.begin_of_group(before, consumed) > before
        ]

    def _queues_of(
        self, consumed: Mapping[Queue, int], topics: Mapping[str, TopicPositions]
    ) -> list[tuple[Queue, TargetQueue]]:
        its = {queue.topic for queue in consumed if not queue.topic.startswith(RETRY_PREFIX)}
        return [place for name in its if name in topics for place in topics[name].queues.items() if place[1].end]

    async def _move_group(self, group: str, queue: Queue, known: TargetQueue) -> None:
        target = self._shared.target
        begin = await target.find_begin(group, queue)
        wanted = known.begin_of_group(begin, self.committed[group])
        if wanted > begin:
            try:
                await target.commit(group, queue, wanted)
            except RemotingRefused as refusal:
                if refusal.code != _GROUP_MISSING:
                    raise
                self._note_missing(group)
                return
            self._shared.counts.moved_groups += 1
        self._known[group, queue] = wanted

    async def _watch_members(self, group: str) -> None:
        if await self._shared.source.has_members(group):
            self._empty_rounds[group] = 0
            self._shared.left_groups.discard(group)
            return
        rounds = self._empty_rounds[group] = self._empty_rounds.get(group, 0) + 1
        if rounds >= _ROUNDS_WITHOUT_MEMBERS:
            self._shared.left_groups.add(group)

    def _note_missing(self, group: str) -> None:
        if group not in self._missing:
            self._missing.add(group)
            self._shared.note(f"group {group} is not at the target, and not moved: ternmq import rocketmq creates it")


async def _await_all(works: Sequence[Coroutine[None, None, None]]) -> None:
    """Do all of it at the same time, and raise the first failure when all is done."""
    for failure in await asyncio.gather(*works, return_exceptions=True):
        if failure is not None:
            raise failure
