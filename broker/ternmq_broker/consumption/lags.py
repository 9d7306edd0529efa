"""How far behind groups are, as it is counted now and then for who watches a broker.

Topics   of a group are those of which it has taken messages here, which outlives a restart, and those that a client of
         it subscribes: proxies notify of them, also a broker that comes back. So what a restart forgets are topics of
         which the group took nothing here, until a client of it is there again.
Queues   all that hold messages. Where the group has never been, it is behind by what is there from where it would begin
         if it came now: all of it by `earliest`, nothing by `latest`.
Cost     a thousandth of a millisecond for a queue of a group. A queue in which groups have never been is looked at once
         for all that begin alike, and what has to be read for that, as where a time is, only once ever.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.consumption.group_progress import untouched_queues
from ternmq_broker.store.files import WouldBlock
from ternmq_common.model import RETRY_QUEUE_ID
from ternmq_runtime.observability.figures import Lag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.store.message_store import MessageStore

    Beginnings = dict[tuple[str, int, str], int]
    """Offsets by topic, queue id, and what groups say of where they begin."""


class Lags:
    """For the event loop's thread."""

    def __init__(self, store: "MessageStore", consumption: "Consumption", now_ms: "Callable[[], int]") -> None:
        self._store = store
        self._consumption = consumption
        self._now_ms = now_ms
        self._times: Beginnings = {}  # that were looked up; they stay where they are

    async def count(self) -> "AsyncIterator[Lag]":
        """Of each group and topic; the loop may go on between two of them."""
        begins: Beginnings = {}
        for group, topic in self._consumption.pairs():
            lag = await self._lag(group, topic, begins)
            if lag is not None:
                yield lag
        self._times = {key: offset for key, offset in begins.items() if key in self._times}

    async def _lag(self, group: str, topic: str, begins: "Beginnings") -> Lag | None:
        """None where the group has nothing and could have nothing."""
        states = self._consumption.states(group, topic)
        waiting = in_flight = 0
        for queue_id, state in states.items():
            in_flight += state.in_flight
            if queue_id != RETRY_QUEUE_ID:
                waiting += self._behind(topic, queue_id, state.cursor)
        untouched = untouched_queues(topic, states, self._store)
        if not states and not untouched:
            return None
        if untouched:
            consume_from = self._consumption.rules(group).consume_from
            for queue_id in untouched:
                waiting += self._behind(topic, queue_id, await self._begin(topic, queue_id, consume_from, begins))
        return Lag(group, topic, waiting + in_flight, in_flight)

    def _behind(self, topic: str, queue_id: int, offset: int) -> int:
        first, end = self._store.bounds(topic, queue_id)
        return max(0, end - max(first, offset))

    async def _begin(self, topic: str, queue_id: int, consume_from: str, begins: "Beginnings") -> int:
        """Where a group that was never in the queue would begin."""
        key = (topic, queue_id, consume_from)
        begin = begins.get(key)
        if begin is None:
            begin = begins[key] = await self._looked_up(*key)
        return begin

    async def _looked_up(self, topic: str, queue_id: int, consume_from: str) -> int:
        key = (topic, queue_id, consume_from)
        would_begin = self._consumption.would_begin
        if not consume_from.isdigit():
            try:
                return would_begin(*key, may_block=False)
            except WouldBlock:
                return await asyncio.to_thread(would_begin, *key, may_block=True)
        if int(consume_from) > self._now_ms():
            return self._store.bounds(topic, queue_id)[1]  # nothing was stored then yet
        if key not in self._times:
            self._times[key] = await asyncio.to_thread(would_begin, *key, may_block=True)
        return self._times[key]
