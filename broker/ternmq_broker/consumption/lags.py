"""Counts how far behind groups are, for metrics and pages about a broker.

Topics  of a group are those of which it took messages here, which outlives a restart, and those that a client of it
        subscribes: proxies report these, also to a broker that comes back. So a restart forgets topics of which the
        group took nothing here, until a client of it is there again.
Queues  all that hold messages. In a queue where the group was never, it is behind by what is there from where it would
        begin now: everything by `earliest`, nothing by `latest`.
Age     of the oldest message that a group has not finished: the first one of each queue.
Cost    a thousandth of a millisecond for a queue of a group. A queue that is new to several groups is examined once
        for all that begin alike, and what must be read for that, as where a time is, is read only once. The time of a
        message is read once for all groups that stand at it; so a group that goes on costs a read for each of its
        queues, in a thread, and one that stands still costs none.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.consumption.group_progress import untouched_queues
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_common.names import retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID
from ternmq_runtime.observability.figures import GroupLag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from ternmq_broker.consumption.consumption import Consumption, QueueState
    from ternmq_broker.store.message_store import MessageStore

    Beginnings = dict[tuple[str, int, str], int]
    """Offsets by topic, queue id, and the `consume_from` of groups."""

    Place = tuple[str, int, int]
    """Topic, queue id, offset."""

# A thread reads the times of so many groups' messages in one call.
_AT_ONCE = 64
# About a millisecond of examining claims; then other tasks get their turn on the loop.
_CLAIMS_A_TURN = 20_000


@dataclass(slots=True)
class _LagCounts:
    """The counts of a group and topic; `oldest` are the first unfinished messages of its queues."""

    group: str
    topic: str
    messages: int = 0
    in_flight: int = 0
    lost: int = 0
    oldest: "list[Place]" = field(default_factory=list)


class LagCounter:
    """Counts lags; for the event loop's thread."""

    def __init__(self, store: "MessageStore", consumption: "Consumption", now_ms: "Callable[[], int]") -> None:
        self._store = store
        self._consumption = consumption
        self._now_ms = now_ms
        self._times: Beginnings = {}  # that were looked up; they stay where they are
        self._stored_ms: dict[Place, int] = {}  # of the messages at which groups stood the last time

    async def count_lags(self) -> "AsyncIterator[GroupLag]":
        """Yield the lag of each group and topic; other tasks may run between two of them."""
        begins: Beginnings = {}
        stored_ms: dict[Place, int] = {}
        pairs = self._consumption.lag_pairs()
        for first in range(0, len(pairs), _AT_ONCE):
            counted: list[_LagCounts] = []
            claims = 0
            for group, topic in pairs[first : first + _AT_ONCE]:
                one = await self._count_pair(group, topic, begins)
                if one is not None:
                    counted.append(one)
                    claims += one.in_flight
                if claims > _CLAIMS_A_TURN:
                    claims = 0
                    await asyncio.sleep(0)
            await self._add_times({place for one in counted for place in one.oldest}, stored_ms)
            for one in counted:
                yield self._lag_of(one, stored_ms)
        self._times = {key: offset for key, offset in begins.items() if key in self._times}
        self._stored_ms = stored_ms

    async def _count_pair(self, group: str, topic: str, begins: "Beginnings") -> _LagCounts | None:
        """Count a group in a topic; None if it has nothing and could have nothing."""
        rules = self._consumption.rules(group).lite
        if rules is not None and rules.bind == topic:
            lite = await self._consumption.lite_progress.lag_of(group, topic)
            return None if lite is None else _LagCounts(group, topic, *lite)
        states = self._consumption.find_states(group, topic)
        untouched = untouched_queues(topic, states, self._store)
        if not states and not untouched:
            return None
        counted = _LagCounts(group, topic)
        self._count_touched(counted, states)
        if untouched:
            consume_from = self._consumption.rules(group).consume_from
            for queue_id in untouched:
                begin = await self._find_begin(topic, queue_id, consume_from, begins)
                self._count_behind(counted, queue_id, begin, begin)
        counted.messages += counted.in_flight
        return counted

    def _count_touched(self, counted: _LagCounts, states: "Mapping[int, QueueState]") -> None:
        for queue_id, state in states.items():
            in_flight = state.in_flight
            counted.in_flight += in_flight
            if queue_id != RETRY_QUEUE_ID:
                self._count_lost(counted, queue_id, state)
                self._count_behind(
                    counted, queue_id, state.cursor, state.committed_offset if in_flight else state.cursor
                )
            elif in_flight:
                counted.oldest.append((retry_topic(counted.group), 0, state.committed_offset))

    def _count_lost(self, counted: _LagCounts, queue_id: int, state: "QueueState") -> None:
        first, _ = self._store.indexes.queues.queue_bounds(counted.topic, queue_id)
        counted.lost += self._consumption.losses.lost_in_queue(counted.group, counted.topic, queue_id, [state], first)

    def _count_behind(self, counted: _LagCounts, queue_id: int, cursor: int, committed: int) -> None:
        """Count what was never delivered of a queue, and note the first message that is not finished."""
        first, end = self._store.indexes.queues.queue_bounds(counted.topic, queue_id)
        counted.messages += max(0, end - max(first, cursor))
        oldest = max(first, committed)
        if oldest < end:
            counted.oldest.append((counted.topic, queue_id, oldest))

    async def _add_times(self, places: "set[Place]", stored_ms: "dict[Place, int]") -> None:
        """Add when these messages were stored; a message that can't be read has no time."""
        known = self._stored_ms
        stored_ms.update((place, known[place]) for place in places & known.keys())
        unknown = places - stored_ms.keys()
        if unknown:
            stored_ms.update(await asyncio.to_thread(self._read_times, unknown))

    def _read_times(self, places: "set[Place]") -> "dict[Place, int]":
        times = ((place, self._store.reader.stored_ms(*place)) for place in places)
        return {place: time_ms for place, time_ms in times if time_ms is not None}

    def _lag_of(self, counted: _LagCounts, stored_ms: "Mapping[Place, int]") -> GroupLag:
        oldest_ms = min((stored_ms[place] for place in counted.oldest if place in stored_ms), default=None)
        age_ms = 0 if oldest_ms is None else max(0, self._now_ms() - oldest_ms)
        return GroupLag(counted.group, counted.topic, counted.messages, counted.in_flight, age_ms, counted.lost)

    async def _find_begin(self, topic: str, queue_id: int, consume_from: str, begins: "Beginnings") -> int:
        """Return the offset where a group would begin in a new queue."""
        key = (topic, queue_id, consume_from)
        begin = begins.get(key)
        if begin is None:
            begin = begins[key] = await self._look_up_begin(*key)
        return begin

    async def _look_up_begin(self, topic: str, queue_id: int, consume_from: str) -> int:
        key = (topic, queue_id, consume_from)
        would_begin = self._consumption.predict_begin
        if not consume_from.isdigit():
            try:
                return would_begin(*key, may_block=False)
            except WouldBlock:
                return await asyncio.to_thread(would_begin, *key, may_block=True)
        if int(consume_from) > self._now_ms():
            return self._store.indexes.queues.queue_bounds(topic, queue_id)[1]  # nothing was stored then yet
        if key not in self._times:
            self._times[key] = await asyncio.to_thread(would_begin, *key, may_block=True)
        return self._times[key]
