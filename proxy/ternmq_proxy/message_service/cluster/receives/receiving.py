"""Receives: from whichever broker has messages, waiting for all of them (`polls.py`).

Each receive carries the version in which its group was created, from the registry's snapshot. A broker that missed the
deletion of an earlier group of that name would take the new one for it, and remove it later. It refuses instead, and
notifies when it has caught up.

Limits of messages in flight are divided among brokers, each of which counts its own, so that brokers need not agree
while a receive waits: a topic's limit among the brokers of the topic, a group's among all, since its topics may be
anywhere.
"""

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ternmq_common.errors import MessagingError
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerRefused, BrokerUnavailable, LateAnswer
from ternmq_proxy.message_service.cluster.receives.urgency import BrokerUrgency

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.shard.model import DeliveredMessage, PopOrder
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_proxy.message_service.cluster.receives.polls import BrokerPolls
    from ternmq_registry.directory import RegistryDirectory


class ClusterReceiving:
    """Asks the brokers of a topic in turn."""

    def __init__(self, directory: "RegistryDirectory", links: "BrokerLinks", polls: "BrokerPolls") -> None:
        self._directory = directory
        self._links = links
        self._polls = polls
        self._urgency = BrokerUrgency(directory, links)

    async def pop(
        self, order: "PopOrder", *, broker: str, poll_s: float, room: "AnswerRoom | None" = None
    ) -> "list[DeliveredMessage]":
        try:
            deliveries = await self._poll_broker(order, broker, poll_s, room)
        except BaseException:
            self._pass_on(order, broker)
            raise
        if deliveries:
            self._polls.wake_more(order.group, order.wait_key)
        else:
            self._pass_on(order, broker)
        return deliveries

    def _pass_on(self, order: "PopOrder", broker: str) -> None:
        """End this receive, and wake another one for the brokers that it has not called."""
        try:
            names = self._readable_brokers(order.topic, broker)
        except BrokerUnavailable:
            return  # the first broker that comes back wakes one
        if self._polls.promising_brokers(order.group, order.wait_key, names):
            self._polls.wake_next(order.group, order.wait_key)

    async def _poll_broker(
        self, order: "PopOrder", broker: str, poll_s: float, room: "AnswerRoom | None"
    ) -> "list[DeliveredMessage]":
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        place: int | None = None
        while True:
            await self._until_led(order, broker, end)
            found = False
            try:
                deliveries = await self._pop_now(order, broker, end, room, watch=poll_s > 0)
                found = bool(deliveries)
            finally:
                if room is not None and not found:
                    room.leave_room()
            left_s = end - loop.time()
            if deliveries or left_s <= 0:
                return deliveries
            if self._polls.promising_brokers(order.group, order.wait_key, self._readable_brokers(order.topic, broker)):
                continue  # a notification arrived while the others were called
            if place is None:
                place = self._polls.next_place()
            if not await self._polls.wait(order.group, order.wait_key, left_s, place):
                return []

    async def _until_led(self, order: "PopOrder", first: str, end: float) -> None:
        """Wait for a new leader of a shard, which may come soon, before failing."""
        loop = asyncio.get_running_loop()
        while (left_s := end - loop.time()) > 0:
            try:
                self._readable_brokers(order.topic, first)
            except BrokerUnavailable:
                if not any(map(self._links.is_replicated, self._directory.snapshot.brokers_of(order.topic))):
                    return
                await self._polls.wait(order.group, order.wait_key, left_s)
            else:
                return

    async def _pop_now(
        self, order: "PopOrder", first: str, end: float, room: "AnswerRoom | None", *, watch: bool
    ) -> "list[DeliveredMessage]":
        """Return messages of one broker: the most urgent, or preferably those of `first`. No broker is called without a
        place in `room`."""
        group, wait_key = order.group, order.wait_key
        names = self._readable_brokers(order.topic, first)
        brokers = self._polls.promising_brokers(group, wait_key, names)
        if order.by_priority and len(brokers) > 1:
            brokers, most_urgent = await self._urgency.order_brokers(order, brokers)
            if most_urgent:
                if room is not None and not await self._enter_room(room, group, wait_key, end):
                    return []
                deliveries = await self._most_urgent(replace(order, most_urgent=most_urgent), brokers[0])
                if deliveries:
                    return deliveries
        return await self._in_turn(order, names, brokers, end, room, watch=watch)

    async def _most_urgent(self, order: "PopOrder", name: str) -> "list[DeliveredMessage]":
        """Return the most urgent messages of the broker. They say nothing about its other messages, and neither does a
        failure."""
        try:
            return await self._links.require_broker(name).shard.consuming.pop(
                self._broker_order(order, name), watch=False
            )
        except MessagingError:  # the next call to it, for all its messages, has the reason
            return []

    async def _in_turn(
        self,
        order: "PopOrder",
        names: list[str],
        brokers: list[str],
        end: float,
        room: "AnswerRoom | None",
        *,
        watch: bool,
    ) -> "list[DeliveredMessage]":
        """Return messages of the first broker that has any. A broker that fails or refuses does not keep others from
        answering."""
        group, wait_key = order.group, order.wait_key
        failure: MessagingError | None = None
        for name in brokers:
            if room is not None and not await self._enter_room(room, group, wait_key, end):
                return []
            number = self._polls.note_asking(group, wait_key)
            try:
                deliveries = await self._links.require_broker(name).shard.consuming.pop(
                    self._broker_order(order, name), watch=watch
                )
            except BrokerRefused as error:
                if watch:
                    self._polls.note_empty(group, wait_key, name, number)
                else:
                    failure = error
                continue
            except MessagingError as error:
                failure = error
                continue
            if deliveries:
                return deliveries
            if watch:
                self._polls.note_empty(group, wait_key, name, number)
        if failure is not None and (len(names) == 1 or not isinstance(failure, BrokerUnavailable | LateAnswer)):
            raise failure
        return []

    async def _enter_room(self, room: "AnswerRoom", group: str, wait_key: str, end: float) -> bool:
        if not room.is_open:
            self._polls.wake_next(group, wait_key)  # the messages are for a receive with room
        return await room.enter_room(end - asyncio.get_running_loop().time())

    def _readable_brokers(self, topic: str, first: str) -> list[str]:
        """Return the connected brokers that may have messages of the topic. Raises HA_NOT_AVAILABLE if there is
        none."""
        known = self._directory.snapshot
        placed = sorted(known.brokers_of(topic))
        names = [name for name in placed if name in known.brokers and known.brokers[name].can_read]
        connected = [name for name in names if self._links.is_connected(name)]
        if not connected:
            listed = ", ".join(names) or "none is registered"
            raise BrokerUnavailable(f"no broker of topic {topic!r} can be reached: {listed}", maybe_done=False)
        if first in connected:
            turn = connected.index(first)
            return connected[turn:] + connected[:turn]
        return connected

    def _broker_order(self, order: "PopOrder", broker: str) -> "PopOrder":
        """Return the order with that broker's part of the limits of messages in flight."""
        of_group, of_topic = order.group_in_flight_max, order.topic_in_flight_max
        if of_group is None and of_topic is None:
            return order
        return replace(
            order,
            group_in_flight_max=_part_of(of_group, broker, self._directory.snapshot.brokers),
            topic_in_flight_max=_part_of(of_topic, broker, self._directory.snapshot.brokers_of(order.topic)),
        )


def _part_of(limit: int | None, broker: str, brokers: "Iterable[str]") -> int | None:
    """Return the broker's part of the limit, at least 1: with 0 its messages would stay forever. The parts sum up to
    the limit, unless it is below the number of brokers."""
    if limit is None:
        return None
    names = sorted(brokers)
    part, left = divmod(limit, max(1, len(names)))
    return max(1, part + (broker in names[:left]))
