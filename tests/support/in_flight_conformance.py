"""What every MessageService must do with orders that limit what may be in flight.

Used as `message_service_conformance` is; `stack` also has the clock of the brokers.
"""

import asyncio
from typing import Protocol

from msgspec.structs import replace

from ternmq_common.clock import MovableClock
from ternmq_common.shard.model import ConsumerGroup, DeliveredMessage, PopOrder, QueueRef
from ternmq_proxy.message_service.interface import MessageService
from tests.support.message_service_conformance import TOPIC, Restart, message
from tests.support.message_service_conformance import order as unlimited

MINUTE_MS = 60_000
POLL_S = 20.0
LIMIT = 4


class HasGroupsAndClock(Protocol):
    """What the fixture `stack` is."""

    groups: dict[str, ConsumerGroup]
    clock: MovableClock


def order(
    group: str = "g", *, of_group: int | None = None, of_topic: int | None = None, batch: int = 32, attempt_id: str = ""
) -> PopOrder:
    plain = unlimited(group, batch=batch, attempt_id=attempt_id)
    return replace(plain, group_in_flight_max=of_group, topic_in_flight_max=of_topic)


BY_GROUP = order(of_group=LIMIT)


async def fill(service: MessageService, each: int = 20) -> None:
    """So many messages on each broker, in message groups of their own."""
    for broker in service.find_route(TOPIC).brokers:
        await service.sending.append(
            QueueRef(TOPIC.name, broker, 1), [message(b"x", group=f"m{number}") for number in range(each)]
        )


async def taken(service: MessageService, wanted: PopOrder) -> list[DeliveredMessage]:
    """All that can be had now, in as many calls as that needs."""
    found: list[DeliveredMessage] = []
    while some := await service.consuming.pop(wanted, broker="", poll_s=0):
        found += some
    return found


async def acknowledge(service: MessageService, *deliveries: DeliveredMessage, group: str = "g") -> None:
    await service.consuming.acknowledge(group, TOPIC.name, [delivery.handle for delivery in deliveries])


class InFlightConformance:
    """As many are in flight as the order says, all brokers together, and no more."""

    async def test_no_more_is_handed_out_than_may_be_in_flight(self, service: MessageService) -> None:
        await fill(service)
        first = await taken(service, BY_GROUP)
        assert len(first) == LIMIT
        await acknowledge(service, *first[:3])
        assert len(await taken(service, BY_GROUP)) == 3
        assert len(await taken(service, order("other", of_group=LIMIT))) == LIMIT

    async def test_a_limit_of_a_topic_is_for_all_groups_together(self, service: MessageService) -> None:
        await fill(service)
        first = await taken(service, order(of_topic=LIMIT))
        assert len(first) == LIMIT
        other = order("other", of_topic=LIMIT)
        assert await taken(service, other) == []
        await acknowledge(service, *first)
        assert len(await taken(service, other)) == LIMIT

    async def test_a_poll_waits_until_something_is_acknowledged(self, service: MessageService) -> None:
        await fill(service)
        first = await taken(service, BY_GROUP)
        waiting = asyncio.create_task(service.consuming.pop(BY_GROUP, broker="", poll_s=POLL_S))
        assert await service.consuming.pop(BY_GROUP, broker="", poll_s=0.01) == []
        await acknowledge(service, first[0])
        [freed] = await waiting
        assert freed.handle.broker == first[0].handle.broker

    async def test_a_poll_of_another_group_of_the_topic_waits_and_is_woken_too(self, service: MessageService) -> None:
        await fill(service)
        first = await taken(service, order(of_topic=LIMIT))
        waiting = asyncio.create_task(service.consuming.pop(order("other", of_topic=LIMIT), broker="", poll_s=POLL_S))
        assert await service.consuming.pop(order(of_topic=LIMIT), broker="", poll_s=0.01) == []
        await acknowledge(service, *first)
        assert await waiting

    async def test_what_is_shown_again_is_in_flight_no_more(self, service: MessageService) -> None:
        await fill(service)
        first = await taken(service, BY_GROUP)
        for delivery in first:
            await service.consuming.change_invisible("g", TOPIC.name, delivery.handle, 0, counts=True)
        again = await taken(service, BY_GROUP)
        assert len(again) == LIMIT
        await service.consuming.release("g", TOPIC.name, [delivery.handle for delivery in again], counts=False)
        assert len(await taken(service, BY_GROUP)) == LIMIT

    async def test_what_is_hidden_for_longer_stays_in_flight(self, service: MessageService) -> None:
        await fill(service)
        for delivery in await taken(service, BY_GROUP):
            await service.consuming.change_invisible("g", TOPIC.name, delivery.handle, 2 * MINUTE_MS, counts=True)
        assert await taken(service, BY_GROUP) == []

    async def test_dead_letters_make_room(self, service: MessageService) -> None:
        await fill(service)
        first = await taken(service, BY_GROUP)
        waiting = asyncio.create_task(service.consuming.pop(BY_GROUP, broker="", poll_s=POLL_S))
        await service.consuming.dead_letter("g", TOPIC.name, first[0].handle)
        assert len(await waiting) == 1

    async def test_the_end_of_the_invisible_duration_makes_room(
        self, service: MessageService, stack: HasGroupsAndClock
    ) -> None:
        await fill(service)
        await taken(service, BY_GROUP)
        waiting = asyncio.create_task(service.consuming.pop(BY_GROUP, broker="", poll_s=POLL_S))
        assert await service.consuming.pop(BY_GROUP, broker="", poll_s=0.01) == []
        stack.clock.advance_by(2 * MINUTE_MS)
        assert await waiting

    async def test_a_restart_forgets_nothing_that_is_in_flight(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await fill(service)
        first = await taken(service, BY_GROUP)
        service = await restarted()
        assert await taken(service, BY_GROUP) == []
        await acknowledge(service, *first[:2])
        assert len(await taken(service, BY_GROUP)) == 2

    async def test_a_limit_that_is_lowered_lets_nothing_out_until_less_is_in_flight(
        self, service: MessageService
    ) -> None:
        await fill(service)
        first = await taken(service, order(of_group=3 * LIMIT))
        assert len(first) == 3 * LIMIT
        await acknowledge(service, *first[:LIMIT])
        assert await taken(service, BY_GROUP) == []
        await acknowledge(service, *first[LIMIT:])
        assert len(await taken(service, BY_GROUP)) == LIMIT

    async def test_an_operator_who_moves_a_group_makes_room(self, service: MessageService) -> None:
        await fill(service)
        await taken(service, BY_GROUP)
        waiting = asyncio.create_task(service.consuming.pop(BY_GROUP, broker="", poll_s=POLL_S))
        assert await service.consuming.pop(BY_GROUP, broker="", poll_s=0.01) == []
        for broker in service.find_route(TOPIC).brokers:
            await service.reading.set_committed("g", QueueRef(TOPIC.name, broker, 1), 10)
        assert await waiting

    # --- in order

    async def test_a_fifo_group_is_limited_too(self, service: MessageService, stack: HasGroupsAndClock) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await fill(service)
        first = await taken(service, BY_GROUP)
        assert len(first) == LIMIT
        await acknowledge(service, first[0])
        assert len(await taken(service, BY_GROUP)) == 1
        stack.clock.advance_by(2 * MINUTE_MS)
        assert await service.consuming.pop(BY_GROUP, broker="", poll_s=POLL_S)

    async def test_a_fifo_group_goes_on_after_a_restart_in_which_all_claims_ended(
        self, service: MessageService, stack: HasGroupsAndClock, restarted: Restart
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await fill(service)
        await taken(service, BY_GROUP)
        service = await restarted()
        assert await taken(service, BY_GROUP) == []
        stack.clock.advance_by(2 * MINUTE_MS)
        assert await service.consuming.pop(BY_GROUP, broker="", poll_s=POLL_S)

    async def test_a_call_that_is_repeated_gets_its_messages_though_there_is_no_room(
        self, service: MessageService, stack: HasGroupsAndClock
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await fill(service)
        broker = service.find_route(TOPIC).brokers[0]
        wanted = replace(BY_GROUP, attempt_id="x")
        first = await service.consuming.pop(wanted, broker=broker, poll_s=0)
        again = await service.consuming.pop(wanted, broker=broker, poll_s=0)
        assert [each.message.queue_offset for each in again] == [each.message.queue_offset for each in first]
        assert [each.attempt for each in again] == [1] * len(first)
