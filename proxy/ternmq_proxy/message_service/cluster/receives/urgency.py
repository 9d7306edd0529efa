"""Receives of PRIORITY topics from several brokers: finds the broker with the most urgent messages.

All brokers report the urgency of their most urgent message. Messages are received from the broker that has it at
least as urgent as those of the others, so that a receive claims nothing while a more urgent message waits anywhere, as
far as that can be known before the claim. Now and then, by the group's `priority_factor`, brokers are called in turn as
usual, so that no broker starves.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.limits import DEFAULT_PRIORITY_FACTOR
from ternmq_common.receiving.priority import turn_of_lower
from ternmq_proxy.message_service.cluster.receives.polls import STATES_MAX

if TYPE_CHECKING:
    from ternmq_common.shard.model import PopOrder
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_registry.directory import RegistryDirectory


class BrokerUrgency:
    """Counts the receives of each group and topic, the latest `STATES_MAX` of them, and asks brokers."""

    def __init__(self, directory: "RegistryDirectory", links: "BrokerLinks") -> None:
        self._directory = directory
        self._links = links
        self._turns: dict[tuple[str, str], int] = {}

    async def order_brokers(self, order: "PopOrder", names: list[str]) -> tuple[list[str], int]:
        """Return the brokers, the most urgent first, and how many of the topic's queues, by urgency, that one may
        deliver from; 0 for all."""
        known = self._directory.snapshot.groups.get(order.group)
        factor = DEFAULT_PRIORITY_FACTOR if known is None else known.priority_factor
        if turn_of_lower(self._next_turn(order), factor) is not None:
            return names, 0
        queues = len(order.queues)
        places = dict(
            zip(names, await asyncio.gather(*(self._first_waiting(order, name) for name in names)), strict=True)
        )
        ordered = sorted(names, key=places.__getitem__)  # equal brokers stay in turn
        second = places[ordered[1]]
        return ordered, 0 if second == queues else second + 1

    async def _first_waiting(self, order: "PopOrder", name: str) -> int:
        """Return how many queues of the broker are empty before the first one that is not, by urgency."""
        try:
            return await self._links.require_broker(name).shard.consuming.urgency(
                order.group, order.topic, order.queues, lowest_first=order.lowest_first
            )
        except MessagingError:  # it is called last, and its failure counts if no other broker has messages
            return len(order.queues)

    def _next_turn(self, order: "PopOrder") -> int:
        line = (order.group, order.topic)
        turn = self._turns.pop(line, -1) + 1
        self._turns[line] = turn
        if len(self._turns) > STATES_MAX:
            del self._turns[next(iter(self._turns))]
        return turn
