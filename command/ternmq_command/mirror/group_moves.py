"""Moves the consumer groups of the target to where they are at the source.

A group without members at the target is moved over the messages that it has consumed at the source, and never over
others (`positions.py`); it is never moved back. One that has members there is left alone. The groups of the source that
have no members any more are found too: their retries may be copied then.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ternmq_command.calls.remoting_calls import RemotingRefused
from ternmq_command.mirror.positions import Queue, TargetQueue, TopicPositions
from ternmq_common.names import RETRY_PREFIX

if TYPE_CHECKING:
    from ternmq_command.mirror.copier import Shared

_ROUNDS_WITHOUT_MEMBERS = 2
_GROUP_MISSING = 26


class GroupMoves:
    """`await moves.move_groups(groups, topics)` is one round; `topics` are the positions by topic of the target."""

    def __init__(self, shared: "Shared") -> None:
        self._shared = shared
        self._known: dict[tuple[str, Queue], int] = {}
        self._empty_rounds: dict[str, int] = {}
        self._missing: set[str] = set()
        self._rounds = 0
        self.committed: dict[str, dict[Queue, int]] = {}

    @property
    def has_watched(self) -> bool:
        """Whether it is known which groups have no members at the source."""
        return self._rounds > _ROUNDS_WITHOUT_MEMBERS

    async def move_groups(self, groups: Sequence[str], topics: Mapping[str, TopicPositions]) -> None:
        """Move each group as far as it may be moved. RemotingUnreachable, RemotingRefused."""
        self._rounds += 1
        self.committed = await self._shared.source.read_committed()
        for group in groups:
            await self._watch_members(group)
            consumed = self.committed.get(group)
            if not consumed:
                continue
            if group not in self._shared.target.groups:
                self._note_missing(group)
                continue
            its = {queue.topic for queue in consumed}
            for name, positions in topics.items():
                if name in its and not name.startswith(RETRY_PREFIX):
                    for queue, known in list(positions.queues.items()):
                        await self._move_group(group, queue, known, consumed)

    async def _move_group(self, group: str, queue: Queue, known: TargetQueue, consumed: Mapping[Queue, int]) -> None:
        if not known.end:
            return
        target, before = self._shared.target, self._known.get((group, queue))
        if before is not None and known.begin_of_group(before, consumed) == before:
            return
        begin = await target.find_begin(group, queue)
        wanted = known.begin_of_group(begin, consumed)
        if wanted > begin:
            if await target.has_members(group):
                return
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
