"""Receives: from whichever broker has something, waiting for all of them (`polls.py`).

Each says when its group was made, as the registry's snapshot has it: a broker that missed the deletion of an earlier
group of that name would take the new one for that, and remove it then. It refuses, and notifies when it has caught up.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_proxy.message_service.cluster.calls import BrokerRefused, BrokerUnavailable, LateAnswer

if TYPE_CHECKING:
    from ternmq_common.model import Delivery, PopOrder
    from ternmq_common.output_room import AnswerRoom
    from ternmq_proxy.message_service.cluster.links import Links
    from ternmq_proxy.message_service.cluster.polls import Polls
    from ternmq_registry.directory import Directory


class ClusterReceiving:
    """Asks the brokers of a topic in turn."""

    def __init__(self, directory: "Directory", links: "Links", polls: "Polls") -> None:
        self._directory = directory
        self._links = links
        self._polls = polls

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[Delivery]":
        try:
            deliveries = await self._poll(order, broker, poll_s, room)
        except BaseException:
            self._pass_on(order, broker)
            raise
        if deliveries:
            self._polls.found(order.group, order.topic)
        else:
            self._pass_on(order, broker)
        return deliveries

    def _pass_on(self, order: "PopOrder", broker: str) -> None:
        """This poll is over. What it was woken for and did not ask, another one asks."""
        try:
            names = self._readable(order.topic, broker)
        except BrokerUnavailable:
            return  # the first broker that comes back wakes one
        if self._polls.worth_asking(order.group, order.topic, names):
            self._polls.pass_on(order.group, order.topic)

    async def _poll(self, order: "PopOrder", broker: str, poll_s: float, room: "AnswerRoom | None") -> "list[Delivery]":
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        while True:
            found = False
            try:
                deliveries = await self._pop_now(order, broker, end, room, watch=poll_s > 0)
                found = bool(deliveries)
            finally:
                if room is not None and not found:
                    room.leave()
            left_s = end - loop.time()
            if deliveries or left_s <= 0:
                return deliveries
            if self._polls.worth_asking(order.group, order.topic, self._readable(order.topic, broker)):
                continue  # a notification came while the others were asked
            if not await self._polls.wait(order.group, order.topic, left_s):
                return []

    async def _pop_now(
        self, order: "PopOrder", first: str, end: float, room: "AnswerRoom | None", *, watch: bool
    ) -> "list[Delivery]":
        """What one of the brokers has, the `first` for choice. One that fails or refuses keeps no other from giving.
        Nobody is asked without a place in `room`."""
        group, topic = order.group, order.topic
        failure: MessagingError | None = None
        names = self._readable(topic, first)
        for name in self._polls.worth_asking(group, topic, names):
            if room is not None and not await self._entered(room, group, topic, end):
                return []
            number = self._polls.about_to_ask(group, topic)
            try:
                deliveries = await self._links.broker(name).shard.pop(order, watch=watch)
            except BrokerRefused as error:
                if watch:
                    self._polls.found_nothing(group, topic, name, number)
                else:
                    failure = error
                continue
            except MessagingError as error:
                failure = error
                continue
            if deliveries:
                return deliveries
            if watch:
                self._polls.found_nothing(group, topic, name, number)
        if failure is not None and (len(names) == 1 or not isinstance(failure, BrokerUnavailable | LateAnswer)):
            raise failure
        return []

    async def _entered(self, room: "AnswerRoom", group: str, topic: str, end: float) -> bool:
        if not room.is_open:
            self._polls.pass_on(group, topic)  # what came is for one who can take it
        return await room.enter(end - asyncio.get_running_loop().time())

    def _readable(self, topic: str, first: str) -> list[str]:
        """The brokers that may have messages of the topic and can be asked; HA_NOT_AVAILABLE if there is none."""
        known = self._directory.snapshot
        entry = known.topics.get(topic)
        placed = sorted(entry.brokers if entry is not None and known.is_placed else known.brokers)
        names = [name for name in placed if name in known.brokers and known.brokers[name].can_read]
        connected = [name for name in names if self._links.is_connected(name)]
        if not connected:
            listed = ", ".join(names) or "none is registered"
            raise BrokerUnavailable(f"no broker of topic {topic!r} can be reached: {listed}", maybe_done=False)
        if first in connected:
            turn = connected.index(first)
            return connected[turn:] + connected[:turn]
        return connected
