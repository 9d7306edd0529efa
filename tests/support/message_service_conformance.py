"""What every MessageService must do. A test module inherits the class and gives it a `service` fixture.

The fixture yields a service whose brokers are empty; `restarted` stops it and gives it back on the same data.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.model import Delivery, NewMessage, PopOrder, QueueRef, Settled, Topic
from ternmq_common.tag_filter import ALL, TagFilter
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.interface import MessageService

TOPIC = Topic(name="orders", type=definition_pb2.NORMAL, queues=4)
MINUTE_MS = 60_000
_ids = count()

Restart = Callable[[], Awaitable[MessageService]]


def message(body: bytes, tag: str = "", key: str = "") -> NewMessage:
    """A message in stored form."""
    message_id = f"id-{next(_ids)}"
    properties = definition_pb2.SystemProperties(message_id=message_id, keys=[key] if key else [])
    if tag:
        properties.tag = tag
    rest = definition_pb2.Message(topic={"name": TOPIC.name}, body=body).SerializeToString()
    return NewMessage(properties.SerializeToString(), rest, message_id, (key,) if key else (), tag)


def body(delivery: Delivery) -> bytes:
    return definition_pb2.Message.FromString(delivery.message.rest).body


def order(group: str = "g", *, batch: int = 32, tags: TagFilter = ALL, invisible_ms: int = MINUTE_MS) -> PopOrder:
    return PopOrder(
        group=group, topic=TOPIC.name, queues=range(TOPIC.queues), filter=tags, batch=batch, invisible_ms=invisible_ms
    )


class MessageServiceConformance:
    """Sends, deliveries, settlements and offsets, as `MessageService` describes them."""

    async def queue(self, service: MessageService, queue_id: int = 0) -> QueueRef:
        route = await service.route(TOPIC)
        return QueueRef(TOPIC.name, route.brokers[0], queue_id)

    async def send(self, service: MessageService, *messages: NewMessage, queue_id: int = 0) -> list[int]:
        appended = await service.append(await self.queue(service, queue_id), messages)
        assert [result.message_id for result in appended] == [each.message_id for each in messages]
        return [result.queue_offset for result in appended]

    async def pop(self, service: MessageService, wanted: PopOrder, poll_s: float = 0.0) -> list[Delivery]:
        return await service.pop(wanted, broker="", poll_s=poll_s)

    async def test_a_route_names_brokers(self, service: MessageService) -> None:
        route = await service.route(TOPIC)
        assert route.topic == TOPIC
        assert route.brokers

    async def test_offsets_of_a_queue_are_consecutive(self, service: MessageService) -> None:
        assert await self.send(service, message(b"a"), message(b"b")) == [0, 1]
        assert await self.send(service, message(b"c")) == [2]
        assert await self.send(service, message(b"d"), queue_id=1) == [0]
        bounds = await service.bounds(await self.queue(service))
        assert (bounds.minimum, bounds.maximum) == (0, 3)

    async def test_a_message_comes_as_it_was_stored(self, service: MessageService) -> None:
        sent = message(b"a", tag="red", key="k")
        before = time.time_ns() // 1_000_000
        await self.send(service, sent)
        (delivery,) = await self.pop(service, order())
        assert (delivery.message.system, delivery.message.rest) == (sent.system, sent.rest)
        assert delivery.message.queue == await self.queue(service)
        assert delivery.message.queue_offset == 0
        assert before <= delivery.message.stored_ms <= time.time_ns() // 1_000_000
        assert delivery.attempt == 1

    async def test_each_group_gets_every_message_once(self, service: MessageService) -> None:
        for queue_id in range(TOPIC.queues):
            await self.send(
                service, *(message(b"%d-%d" % (queue_id, number)) for number in range(10)), queue_id=queue_id
            )
        for group in ("g1", "g2"):
            bodies: list[bytes] = []
            while deliveries := await self.pop(service, order(group, batch=7)):
                assert len(deliveries) <= 7
                bodies += map(body, deliveries)
            assert sorted(bodies) == sorted(b"%d-%d" % (queue, number) for queue in range(4) for number in range(10))

    async def test_every_queue_has_its_turn_while_two_groups_take_turns(self, service: MessageService) -> None:
        for queue_id in range(TOPIC.queues):
            await self.send(service, *(message(b"%d" % queue_id) for _ in range(3 * TOPIC.queues)), queue_id=queue_id)
        served: dict[str, set[int]] = {"g1": set(), "g2": set()}
        for _ in range(TOPIC.queues):
            for group, queues in served.items():
                (delivery,) = await self.pop(service, order(group, batch=1))
                queues.add(delivery.message.queue.queue_id)
        assert served == {"g1": set(range(TOPIC.queues)), "g2": set(range(TOPIC.queues))}

    async def test_an_acknowledged_message_is_finished(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order(invisible_ms=50))
        assert await service.acknowledge("g", TOPIC.name, [delivery.handle]) == [Settled.DONE]
        assert await self.pop(service, order(), poll_s=0.2) == []
        assert await service.acknowledge("g", TOPIC.name, [delivery.handle]) == [Settled.EXPIRED]

    async def test_a_second_acknowledgement_changes_nothing(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order())
        handles = [delivery.handle, delivery.handle]
        assert await service.acknowledge("g", TOPIC.name, handles) == [Settled.DONE, Settled.STALE]

    async def test_a_message_that_is_not_acknowledged_comes_again(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order(invisible_ms=30))
        (second,) = await self.pop(service, order(), poll_s=5)
        assert (body(second), second.attempt) == (b"a", 2)
        assert await service.acknowledge("g", TOPIC.name, [first.handle]) == [Settled.EXPIRED]
        assert await service.acknowledge("g", TOPIC.name, [second.handle]) == [Settled.DONE]

    async def test_a_waiting_poll_is_answered_by_a_send(self, service: MessageService) -> None:
        polls = [asyncio.create_task(self.pop(service, order(f"g{number}"), poll_s=20)) for number in range(3)]
        await asyncio.sleep(0)
        await self.send(service, message(b"a"))
        for deliveries in await asyncio.gather(*polls):
            assert [body(delivery) for delivery in deliveries] == [b"a"]

    async def test_a_poll_that_was_cancelled_takes_nothing(self, service: MessageService) -> None:
        gone = asyncio.create_task(self.pop(service, order(), poll_s=20))
        stays = asyncio.create_task(self.pop(service, order(), poll_s=20))
        await asyncio.sleep(0)
        gone.cancel()
        await self.send(service, message(b"a"))
        assert [body(delivery) for delivery in await stays] == [b"a"]

    async def test_a_filter_lets_only_its_tags_pass(self, service: MessageService) -> None:
        await self.send(service, message(b"1", tag="red"), message(b"2", tag="blue"), message(b"3"))
        deliveries = await self.pop(service, order(tags=TagFilter.parse("blue || green")))
        assert [body(delivery) for delivery in deliveries] == [b"2"]
        assert await self.pop(service, order()) == []  # what does not match is skipped for good

    async def test_hidden_for_longer_then_shown(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order(invisible_ms=5000))
        changed = await service.change_invisible("g", TOPIC.name, first.handle, MINUTE_MS, counts=True)
        assert await service.acknowledge("g", TOPIC.name, [first.handle]) == [Settled.STALE]
        await service.change_invisible("g", TOPIC.name, changed, 0, counts=True)
        (second,) = await self.pop(service, order())
        assert second.attempt == 2
        with pytest.raises(MessagingError) as refused:
            await service.change_invisible("g", TOPIC.name, changed, 0, counts=True)
        assert refused.value.code == definition_pb2.INVALID_RECEIPT_HANDLE

    async def test_an_attempt_that_does_not_count(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order())
        await service.change_invisible("g", TOPIC.name, first.handle, 0, counts=False)
        (second,) = await self.pop(service, order())
        assert second.attempt == 1

    async def test_a_prolonged_message_keeps_its_handle(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order(invisible_ms=200))
        assert await service.prolong("g", TOPIC.name, [delivery.handle], MINUTE_MS) == [True]
        assert await self.pop(service, order(), poll_s=0.4) == []
        assert await service.acknowledge("g", TOPIC.name, [delivery.handle]) == [Settled.DONE]
        assert await service.prolong("g", TOPIC.name, [delivery.handle], MINUTE_MS) == [False]

    async def test_a_released_message_goes_to_the_next_poll(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order())
        poll = asyncio.create_task(self.pop(service, order(), poll_s=20))
        await asyncio.sleep(0)
        await service.release("g", TOPIC.name, [first.handle], counts=False)
        (second,) = await poll
        assert second.attempt == 1

    async def test_a_released_message_can_still_be_acknowledged(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order())
        await service.release("g", TOPIC.name, [delivery.handle], counts=True)
        assert await service.acknowledge("g", TOPIC.name, [delivery.handle]) == [Settled.DONE]
        assert await self.pop(service, order()) == []

    async def test_reading_by_offset_claims_nothing(self, service: MessageService) -> None:
        await self.send(service, message(b"1", tag="red"), message(b"2", tag="blue"), message(b"3", tag="blue"))
        queue = await self.queue(service)
        pulled = await service.pull(queue, 0, TagFilter.parse("blue"), batch=10, poll_s=0)
        assert [stored.queue_offset for stored in pulled.messages] == [1, 2]
        assert pulled.next_offset == 3
        assert len(await self.pop(service, order())) == 3

    async def test_reading_at_the_end_waits_for_the_next_message(self, service: MessageService) -> None:
        queue = await self.queue(service)
        nothing = await service.pull(queue, 0, ALL, batch=10, poll_s=0)
        assert (nothing.messages, nothing.next_offset) == ([], 0)
        polls = [asyncio.create_task(service.pull(queue, 0, ALL, batch=10, poll_s=20)) for _ in range(2)]
        await asyncio.sleep(0)
        await self.send(service, message(b"elsewhere"), queue_id=1)
        await self.send(service, message(b"a"))
        for pulled in await asyncio.gather(*polls):
            assert [stored.queue_offset for stored in pulled.messages] == [0]

    async def test_an_offset_by_time(self, service: MessageService) -> None:
        queue = await self.queue(service)
        await self.send(service, message(b"a"), message(b"b"))
        (first, *_) = (await service.pull(queue, 0, ALL, batch=1, poll_s=0)).messages
        assert await service.offset_at(queue, 0) == 0
        assert await service.offset_at(queue, first.stored_ms) == 0
        assert await service.offset_at(queue, first.stored_ms + MINUTE_MS) == 2

    async def test_a_group_can_be_moved(self, service: MessageService) -> None:
        queue = await self.queue(service)
        await self.send(service, *(message(b"%d" % number) for number in range(5)))
        assert await service.committed("g", queue) is None
        held = await self.pop(service, order())
        await service.set_committed("g", queue, 3)
        assert await service.committed("g", queue) == 3
        assert await service.acknowledge("g", TOPIC.name, [held[4].handle]) == [Settled.STALE]
        assert [body(delivery) for delivery in await self.pop(service, order())] == [b"3", b"4"]

    async def test_progress_says_how_far_a_group_is(self, service: MessageService) -> None:
        await self.send(service, message(b"a"), message(b"b"))
        first, _ = await self.pop(service, order())
        await service.acknowledge("g", TOPIC.name, [first.handle])
        (progress,) = [each for each in await service.progress("g") if each.queue.queue_id == 0]
        assert (progress.committed, progress.cursor, progress.in_flight, progress.max_offset) == (1, 2, 1, 2)

    async def test_a_new_group_begins_with_the_first_message_that_was_ever_sent(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        assert len(await self.pop(service, order("late"))) == 1

    async def test_a_deleted_topic_shows_nothing_and_goes_on_at_its_offsets(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        await service.forget_topic(TOPIC.name)
        assert await self.pop(service, order()) == []
        assert await self.send(service, message(b"b")) == [1]
        assert [body(delivery) for delivery in await self.pop(service, order())] == [b"b"]

    async def test_a_new_group_begins_with_the_first_message_of_a_topic_that_was_made_again(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await self.send(service, message(b"a"))
        await service.forget_topic(TOPIC.name)
        await self.send(service, message(b"b"))
        assert [body(delivery) for delivery in await self.pop(service, order("late"))] == [b"b"]
        again = await restarted()
        assert [body(delivery) for delivery in await self.pop(again, order("later"))] == [b"b"]

    async def test_a_handle_of_a_deleted_group_settles_nothing(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order())
        await service.forget_group("g")
        assert await service.acknowledge("g", TOPIC.name, [delivery.handle]) == [Settled.STALE]
        assert await service.prolong("g", TOPIC.name, [delivery.handle], MINUTE_MS) == [False]
        assert await service.progress("g") == []

    async def test_a_deleted_group_begins_anew(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        assert len(await self.pop(service, order())) == 1
        await service.forget_group("g")
        assert await service.progress("g") == []
        assert len(await self.pop(service, order())) == 1

    async def test_a_restart_keeps_messages_progress_and_handles(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await self.send(service, message(b"a"), message(b"b"), message(b"c"))
        first, second = await self.pop(service, order(batch=2))
        await service.acknowledge("g", TOPIC.name, [first.handle])
        again = await restarted()
        assert [body(delivery) for delivery in await self.pop(again, order())] == [b"c"]
        assert await again.acknowledge("g", TOPIC.name, [second.handle]) == [Settled.DONE]
        assert await self.send(again, message(b"d")) == [3]
