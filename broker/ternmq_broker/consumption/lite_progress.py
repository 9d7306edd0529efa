"""The progress of groups in lite topics, summed up by LITE topic: a group may be in a hundred thousand lite topics.

A group is in the lite topics of which it has taken messages, and in those that its clients subscribe. Messages are
counted, since offsets of different queues have no sum: a row has the number of messages that the lite topics hold for
`max_offset`, and the number that were delivered to the group for `cursor`. Other tasks get their turn on the loop
meanwhile.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.consumption.group_progress import progress_of, untouched_progress
from ternmq_common.names import is_lite_queue, lite_parent
from ternmq_common.shard.model import QueueProgress, QueueRef

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from ternmq_broker.consumption.consumption import Consumption
    from ternmq_broker.delivery.ordered_consumption import OrderedConsumption
    from ternmq_broker.delivery.queue_consumption import QueueConsumption
    from ternmq_broker.store.message_store import MessageStore

    States = Mapping[tuple[str, str], Mapping[int, QueueConsumption | OrderedConsumption]]

# So many are counted in a millisecond.
_A_TURN = 1000


class LiteProgress:
    """The progress in lite topics of one broker. `states` has the groups' states by group and topic."""

    def __init__(self, consumption: "Consumption", store: "MessageStore", broker: str, states: "States") -> None:
        self._consumption = consumption
        self._store = store
        self._broker = broker
        self._states = states
        self._resting = consumption.resting

    async def _count_topics(self, group: str) -> "AsyncIterator[tuple[str, int, int, int, int]]":
        """Yield the counts of each lite topic in which the group is.

        Each has its LITE topic, and how many messages it has, has for the group, has in flight for it, and the group
        lost.
        """
        places = [
            (topic, state.cursor, state.in_flight)
            for (owner, topic), states in self._states.items()
            if owner == group and is_lite_queue(topic)
            for state in states.values()
        ]
        places += [(topic, offset, 0) for topic, offset in self._resting.offsets_of_group(group).items()]
        places += await self._untouched_topics(group, {topic for topic, _, _ in places})
        for number, (topic, cursor, in_flight) in enumerate(places, start=1):
            first, end = self._store.indexes.queues.queue_bounds(topic, 0)
            lost = self._consumption.losses.pending_losses_at(topic, 0, cursor, first)
            yield lite_parent(topic), end - first, max(0, end - max(first, cursor)), in_flight, lost
            if number % _A_TURN == 0:
                await asyncio.sleep(0)

    async def _untouched_topics(self, group: str, known: set[str]) -> list[tuple[str, int, int]]:
        """The lite topics that the group subscribes and was never in, with where it would begin."""
        rules = self._consumption.rules(group)
        if rules.lite is None:
            return []
        subscribed = self._consumption.lite.topics_of_group(group)
        if subscribed is None:
            bind = rules.lite.bind
            subscribed = [topic for topic in self._store.indexes.queues.lite_topics() if lite_parent(topic) == bind]
        topics = [topic for topic in subscribed if topic not in known]
        return await asyncio.to_thread(self._predict_begins, topics, rules.consume_from) if topics else []

    def _predict_begins(self, topics: list[str], consume_from: str) -> list[tuple[str, int, int]]:
        begin = self._consumption.predict_begin
        return [(topic, begin(topic, 0, consume_from, may_block=True), 0) for topic in topics]

    async def progress_rows(self, group: str) -> list[QueueProgress]:
        """A row for each LITE topic in whose lite topics the group is."""
        sums: dict[str, list[int]] = {}
        noted = self._consumption.losses.noted_losses
        async for topic, held, waiting, in_flight, lost in self._count_topics(group):
            its = sums.setdefault(topic, [0, 0, 0, noted(group, topic, 0)])
            its[0] += held
            its[1] += waiting
            its[2] += in_flight
            its[3] += lost
        return [
            QueueProgress(
                queue=QueueRef(topic, self._broker, 0),
                committed=held - waiting - in_flight,
                cursor=held - waiting,
                in_flight=in_flight,
                max_offset=held,
                lost=lost,
            )
            for topic, (held, waiting, in_flight, lost) in sorted(sums.items())
        ]

    def rows_of_topics(self, group: str, topics: "Iterable[str]") -> list[QueueProgress]:
        """A row with offsets for each of these lite topics in which the group has been."""
        rows: list[QueueProgress] = []
        for topic in topics:
            queue = QueueRef(topic, self._broker, 0)
            states = self._states.get((group, topic), {})
            at = self._resting.offset_of(group, topic)
            if states:
                rows += progress_of(
                    group, [(topic, states)], queue, self._broker, self._store, self._consumption.losses
                )
            elif at is not None:
                rows.append(untouched_progress(queue, at, self._store))
        return rows

    async def lag_of(self, group: str, topic: str) -> tuple[int, int, int] | None:
        """How many messages of the topic's lite topics the group has not finished, has in flight, and has lost.

        None if it was never in any.
        """
        known, behind, held_by_group, lost = False, 0, 0, self._consumption.losses.noted_losses(group, topic, 0)
        async for its, _, waiting, in_flight, gone in self._count_topics(group):
            if its == topic:
                known = True
                behind += waiting + in_flight
                held_by_group += in_flight
                lost += gone
        return (behind, held_by_group, lost) if known else None
