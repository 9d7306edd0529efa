"""What every MessageService must do. A test module inherits the class and gives it a `service` fixture.

The fixture yields a service whose brokers are empty; `restarted` stops it and gives it back on the same data. `stack`
takes the settings of groups that are not to have the defaults, before they are first used.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Protocol

import pytest

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.dead_letters import ATTEMPTS, ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, REASON, DeadLetterReason
from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL, TagFilter
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.names import dead_letter_topic, retry_topic
from ternmq_common.shard.model import (
    AppendedMessage,
    ConsumerGroup,
    DeliveredMessage,
    HalfMessage,
    HistoryOf,
    MessageState,
    MessageStatus,
    NewMessage,
    PopOrder,
    PulledMessages,
    QueueBounds,
    QueueReaderId,
    QueueRef,
    SettleOutcome,
    StoredMessage,
    Topic,
    TopicContent,
    TopicSubscription,
    TransactionResolution,
)
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.interface import MessageService
from ternmq_runtime.observability.history_rings import STEP_MS

TOPIC = Topic(name="orders", type=MessageType.NORMAL, queues=4)
MINUTE_MS = 60_000
_ids = count()
versions = count(4_000_000_000_000)  # of the registry, later than any that it gives itself

HOUR_S = 3600.0

Restart = Callable[[], Awaitable[MessageService]]


class HasGroups(Protocol):
    """What the fixture `stack` is: `groups` has the settings of groups by their names."""

    groups: dict[str, ConsumerGroup]


def message(body: bytes, tag: str = "", key: str = "", group: str | None = None) -> NewMessage:
    """A message in stored form; `group` is its message group."""
    message_id = f"id-{next(_ids)}"
    properties = definition_pb2.SystemProperties(message_id=message_id, keys=[key] if key else [], message_group=group)
    if tag:
        properties.tag = tag
    rest = definition_pb2.Message(topic={"name": TOPIC.name}, body=body).SerializeToString()
    return NewMessage(tag_hash(tag), properties.SerializeToString(), rest, (message_id, key) if key else (message_id,))


def body_of(stored: StoredMessage) -> bytes:
    return definition_pb2.Message.FromString(stored.rest).body


def body(delivery: DeliveredMessage) -> bytes:
    return body_of(delivery.message)


def bodies_and_attempts(deliveries: list[DeliveredMessage]) -> list[tuple[bytes, int]]:
    return [(body(delivery), delivery.attempt) for delivery in deliveries]


def order(
    group: str = "g",
    *,
    batch: int = 32,
    tags: TagFilter = ALL,
    invisible_ms: int = MINUTE_MS,
    attempt_id: str = "",
) -> PopOrder:
    return PopOrder(
        group=group,
        topic=TOPIC.name,
        queues=range(TOPIC.queues),
        filter=tags,
        batch=batch,
        invisible_ms=invisible_ms,
        attempt_id=attempt_id,
    )


# The first in which the machine settles a message in time is waited for.
INVISIBLE_MS = (50, 500, 5000)


class MessageServiceConformance:
    """Sends, deliveries, settlements and offsets, as `MessageService` describes them."""

    async def queue(self, service: MessageService, queue_id: int = 0) -> QueueRef:
        route = service.find_route(TOPIC)
        return QueueRef(TOPIC.name, route.brokers[0], queue_id)

    async def broker(self, service: MessageService) -> str:
        return service.find_route(TOPIC).brokers[0]

    async def send(self, service: MessageService, *messages: NewMessage, queue_id: int = 0) -> list[int]:
        appended = await service.sending.append(await self.queue(service, queue_id), messages)
        assert [result.message_id for result in appended] == [each.message_id for each in messages]
        return [result.queue_offset for result in appended]

    async def pop(self, service: MessageService, wanted: PopOrder, poll_s: float = 0.0) -> list[DeliveredMessage]:
        return await service.consuming.pop(wanted, broker="", poll_s=poll_s)

    async def give_back(self, service: MessageService, *deliveries: DeliveredMessage, group: str = "g") -> None:
        for delivery in deliveries:
            await service.consuming.change_invisible(group, TOPIC.name, delivery.handle, 0, counts=True)

    async def acknowledge(
        self, service: MessageService, *deliveries: DeliveredMessage, group: str = "g"
    ) -> list[SettleOutcome]:
        return await service.consuming.acknowledge(group, TOPIC.name, [delivery.handle for delivery in deliveries])

    async def stored(self, service: MessageService, topic: str, *, poll_s: float = 0.0) -> list[StoredMessage]:
        """The messages of a topic with one queue; with `poll_s` it waits for the first."""
        broker = service.find_route(TOPIC).brokers[0]
        return (await service.reading.pull(QueueRef(topic, broker, 0), 0, ALL, batch=32, poll_s=poll_s)).messages

    async def test_a_route_names_brokers(self, service: MessageService) -> None:
        route = service.find_route(TOPIC)
        assert route.topic == TOPIC
        assert route.brokers

    async def test_offsets_of_a_queue_are_consecutive(self, service: MessageService) -> None:
        assert await self.send(service, message(b"a"), message(b"b")) == [0, 1]
        assert await self.send(service, message(b"c")) == [2]
        assert await self.send(service, message(b"d"), queue_id=1) == [0]
        bounds = await service.reading.bounds(await self.queue(service))
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
        for invisible_ms in INVISIBLE_MS:
            (delivery,) = await self.pop(service, order(invisible_ms=invisible_ms), poll_s=20)
            if await service.consuming.acknowledge("g", TOPIC.name, [delivery.handle]) == [SettleOutcome.DONE]:
                break
        assert await self.pop(service, order(), poll_s=invisible_ms / 1000 + 0.15) == []
        assert await service.consuming.acknowledge("g", TOPIC.name, [delivery.handle]) == [SettleOutcome.EXPIRED]

    async def test_a_second_acknowledgement_changes_nothing(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order())
        handles = [delivery.handle, delivery.handle]
        assert await service.consuming.acknowledge("g", TOPIC.name, handles) == [
            SettleOutcome.DONE,
            SettleOutcome.STALE,
        ]

    async def test_a_message_that_is_not_acknowledged_comes_again(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order(invisible_ms=30))
        (second,) = await self.pop(service, order(), poll_s=5)
        assert (body(second), second.attempt) == (b"a", 2)
        assert await service.consuming.acknowledge("g", TOPIC.name, [first.handle]) == [SettleOutcome.EXPIRED]
        assert await service.consuming.acknowledge("g", TOPIC.name, [second.handle]) == [SettleOutcome.DONE]

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
        deliveries = await self.pop(service, order(tags=TagFilter.parse_expression("blue || green")))
        assert [body(delivery) for delivery in deliveries] == [b"2"]
        assert await self.pop(service, order()) == []  # what does not match is skipped for good

    async def test_hidden_for_longer_then_shown(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order(invisible_ms=5000))
        changed = await service.consuming.change_invisible("g", TOPIC.name, first.handle, MINUTE_MS, counts=True)
        assert await service.consuming.acknowledge("g", TOPIC.name, [first.handle]) == [SettleOutcome.STALE]
        await service.consuming.change_invisible("g", TOPIC.name, changed, 0, counts=True)
        (second,) = await self.pop(service, order())
        assert second.attempt == 2
        with pytest.raises(MessagingError) as refused:
            await service.consuming.change_invisible("g", TOPIC.name, changed, 0, counts=True)
        assert refused.value.code == definition_pb2.INVALID_RECEIPT_HANDLE

    async def test_an_attempt_that_does_not_count(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order())
        await service.consuming.change_invisible("g", TOPIC.name, first.handle, 0, counts=False)
        (second,) = await self.pop(service, order())
        assert second.attempt == 1

    async def test_a_prolonged_message_keeps_its_handle(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        for invisible_ms in INVISIBLE_MS:
            (delivery,) = await self.pop(service, order(invisible_ms=invisible_ms), poll_s=20)
            if await service.consuming.prolong("g", TOPIC.name, [delivery.handle], MINUTE_MS) == [True]:
                break
        assert await self.pop(service, order(), poll_s=invisible_ms / 1000 + 0.15) == []
        assert await service.consuming.acknowledge("g", TOPIC.name, [delivery.handle]) == [SettleOutcome.DONE]
        assert await service.consuming.prolong("g", TOPIC.name, [delivery.handle], MINUTE_MS) == [False]

    async def test_a_released_message_goes_to_the_next_poll(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (first,) = await self.pop(service, order())
        poll = asyncio.create_task(self.pop(service, order(), poll_s=20))
        await asyncio.sleep(0)
        await service.consuming.release("g", TOPIC.name, [first.handle], counts=False)
        (second,) = await poll
        assert second.attempt == 1

    async def test_a_released_message_can_still_be_acknowledged(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order())
        await service.consuming.release("g", TOPIC.name, [delivery.handle], counts=True)
        assert await service.consuming.acknowledge("g", TOPIC.name, [delivery.handle]) == [SettleOutcome.DONE]
        assert await self.pop(service, order()) == []

    async def test_reading_by_offset_claims_nothing(self, service: MessageService) -> None:
        await self.send(service, message(b"1", tag="red"), message(b"2", tag="blue"), message(b"3", tag="blue"))
        queue = await self.queue(service)
        pulled = await service.reading.pull(queue, 0, TagFilter.parse_expression("blue"), batch=10, poll_s=0)
        assert [stored.queue_offset for stored in pulled.messages] == [1, 2]
        assert pulled.next_offset == 3
        assert len(await self.pop(service, order())) == 3

    async def test_reading_at_the_end_waits_for_the_next_message(self, service: MessageService) -> None:
        queue = await self.queue(service)
        nothing = await service.reading.pull(queue, 0, ALL, batch=10, poll_s=0)
        assert (nothing.messages, nothing.next_offset) == ([], 0)
        polls = [asyncio.ensure_future(service.reading.pull(queue, 0, ALL, batch=10, poll_s=20)) for _ in range(2)]
        await asyncio.sleep(0)
        await self.send(service, message(b"elsewhere"), queue_id=1)
        await self.send(service, message(b"a"))
        for pulled in await asyncio.gather(*polls):
            assert [stored.queue_offset for stored in pulled.messages] == [0]

    async def test_nobody_waits_beyond_the_end(self, service: MessageService) -> None:
        """As where the broker has begun anew: who waits would not notice when the queue comes up to its offset."""
        queue = await self.queue(service)
        await self.send(service, message(b"a"))
        pulled = await service.reading.pull(queue, 2, ALL, batch=10, poll_s=HOUR_S)
        assert (pulled.messages, pulled.next_offset) == ([], 2)

    async def test_an_offset_by_time(self, service: MessageService) -> None:
        queue = await self.queue(service)
        await self.send(service, message(b"a"), message(b"b"))
        (first, *_) = (await service.reading.pull(queue, 0, ALL, batch=1, poll_s=0)).messages
        assert await service.reading.offset_at(queue, 0) == 0
        assert await service.reading.offset_at(queue, first.stored_ms) == 0
        assert await service.reading.offset_at(queue, first.stored_ms + MINUTE_MS) == 2

    async def test_a_group_can_be_moved(self, service: MessageService) -> None:
        queue = await self.queue(service)
        await self.send(service, *(message(b"%d" % number) for number in range(5)))
        assert await service.reading.committed("g", queue) is None
        held = await self.pop(service, order())
        await service.reading.set_committed("g", queue, 3)
        assert await service.reading.committed("g", queue) == 3
        assert await service.consuming.acknowledge("g", TOPIC.name, [held[4].handle]) == [SettleOutcome.STALE]
        assert [body(delivery) for delivery in await self.pop(service, order())] == [b"3", b"4"]

    async def test_one_message_is_skipped_whoever_has_it(self, service: MessageService) -> None:
        queue = await self.queue(service)
        await self.send(service, *(message(b"%d" % number) for number in range(3)))
        with pytest.raises(MessagingError, match="has not reached offset 0") as refused:
            await service.administering.skip("g", queue, 0)
        assert refused.value.code == definition_pb2.BAD_REQUEST
        first, second, third = await self.pop(service, order())
        await service.administering.skip("g", queue, 0)
        assert await service.reading.committed("g", queue) == 1
        handles = [first.handle, second.handle, third.handle]
        assert await service.consuming.acknowledge("g", TOPIC.name, handles) == [
            SettleOutcome.STALE,
            SettleOutcome.DONE,
            SettleOutcome.DONE,
        ]
        await service.administering.skip("g", queue, 0)

    async def test_progress_says_how_far_a_group_is(self, service: MessageService) -> None:
        await self.send(service, message(b"a"), message(b"b"))
        first, _ = await self.pop(service, order())
        await service.consuming.acknowledge("g", TOPIC.name, [first.handle])
        (progress,) = [each for each in await service.inspecting.progress("g") if each.queue.queue_id == 0]
        assert (progress.committed, progress.cursor, progress.in_flight, progress.max_offset) == (1, 2, 1, 2)

    async def lag(self, service: MessageService, group: str) -> int:
        """What the group has to do in the topic."""
        rows = await service.inspecting.progress(group, [TOPIC.name])
        return sum(row.max_offset - row.cursor + row.in_flight for row in rows if row.queue.topic == TOPIC.name)

    async def test_progress_counts_queues_in_which_a_group_has_never_been(self, service: MessageService) -> None:
        for queue_id in range(TOPIC.queues):
            await self.send(service, *(message(b"%d" % number) for number in range(5)), queue_id=queue_id)
        (first,) = await self.pop(service, order(batch=1))
        assert await self.lag(service, "g") == 5 * TOPIC.queues
        await self.acknowledge(service, first)
        rows = await service.inspecting.progress("g")
        assert sum(row.max_offset - row.cursor + row.in_flight for row in rows) == 5 * TOPIC.queues - 1
        assert sorted(row.queue.queue_id for row in rows) == list(range(TOPIC.queues))
        assert all(row.oldest_ms is not None for row in rows)

    async def test_in_a_queue_in_which_it_has_never_been_a_group_is_where_it_would_begin(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        await self.send(service, message(b"1"), message(b"2"))
        (stored, _) = (await service.reading.pull(await self.queue(service), 0, ALL, batch=2, poll_s=0)).messages
        begins = {
            "earliest": 2,
            "auto": 2,
            "latest": 0,
            str(stored.stored_ms): 2,
            str(stored.stored_ms + MINUTE_MS): 0,
        }
        stack.groups.update({f"g{text}": ConsumerGroup(name=f"g{text}", consume_from=text) for text in begins})
        assert {text: await self.lag(service, f"g{text}") for text in begins} == begins
        assert await service.inspecting.progress("gearliest") == []
        (row,) = await service.inspecting.progress("gearliest", [TOPIC.name, "another"])
        assert (row.committed, row.cursor, row.in_flight, row.max_offset, row.oldest_ms) == (
            0,
            0,
            0,
            2,
            stored.stored_ms,
        )

    async def test_what_a_group_subscribes_is_known_before_it_takes_any_of_it(self, service: MessageService) -> None:
        await self.send(service, message(b"1"), message(b"2"))
        subscription = TopicSubscription("g", TOPIC.name)
        await service.notify_subscriptions([subscription], lambda: [subscription])
        (row,) = await service.inspecting.progress("g")
        assert (row.queue, row.cursor, row.max_offset) == (await self.queue(service), 0, 2)
        await service.administering.forget_group("g", version=next(versions))
        assert await service.inspecting.progress("g") == []

    async def test_a_new_group_begins_with_the_first_message_that_was_ever_sent(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        assert len(await self.pop(service, order("late"))) == 1

    async def test_a_deleted_topic_shows_nothing_and_goes_on_at_its_offsets(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        await service.administering.forget_topic(TOPIC.name, version=next(versions))
        assert await self.pop(service, order()) == []
        assert await self.send(service, message(b"b")) == [1]
        assert [body(delivery) for delivery in await self.pop(service, order())] == [b"b"]

    async def test_a_new_group_begins_with_the_first_message_of_a_topic_that_was_made_again(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await self.send(service, message(b"a"))
        await service.administering.forget_topic(TOPIC.name, version=next(versions))
        await self.send(service, message(b"b"))
        assert [body(delivery) for delivery in await self.pop(service, order("late"))] == [b"b"]
        again = await restarted()
        assert [body(delivery) for delivery in await self.pop(again, order("later"))] == [b"b"]

    async def test_a_handle_of_a_deleted_group_settles_nothing(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        (delivery,) = await self.pop(service, order())
        await service.administering.forget_group("g", version=next(versions))
        assert await service.consuming.acknowledge("g", TOPIC.name, [delivery.handle]) == [SettleOutcome.STALE]
        assert await service.consuming.prolong("g", TOPIC.name, [delivery.handle], MINUTE_MS) == [False]
        assert await service.inspecting.progress("g") == []

    async def test_a_deleted_group_begins_anew(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        assert len(await self.pop(service, order())) == 1
        await service.administering.forget_group("g", version=next(versions))
        assert await service.inspecting.progress("g") == []
        assert len(await self.pop(service, order())) == 1

    async def test_a_restart_keeps_messages_progress_and_handles(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await self.send(service, message(b"a"), message(b"b"), message(b"c"))
        first, second = await self.pop(service, order(batch=2))
        await service.consuming.acknowledge("g", TOPIC.name, [first.handle])
        again = await restarted()
        assert [body(delivery) for delivery in await self.pop(again, order())] == [b"c"]
        assert await again.consuming.acknowledge("g", TOPIC.name, [second.handle]) == [SettleOutcome.DONE]
        assert await self.send(again, message(b"d")) == [3]

    # --- again, and dead letters

    async def test_the_first_failure_copies_a_message_and_later_ones_show_the_copy(
        self, service: MessageService
    ) -> None:
        sent = message(b"a", tag="red", key="k")
        await self.send(service, sent, queue_id=2)
        for attempt in range(1, 5):
            (delivery,) = await self.pop(service, order(tags=TagFilter.parse_expression("red")))
            assert (delivery.message.system, delivery.message.rest) == (sent.system, sent.rest)
            assert delivery.attempt == attempt
            place = TOPIC.name if attempt == 1 else retry_topic("g")
            assert (delivery.message.queue.topic, delivery.message.queue_offset) == (place, 0)
            assert len(await self.stored(service, retry_topic("g"))) == min(1, attempt - 1)
            await self.give_back(service, delivery)
        assert await service.reading.committed("g", await self.queue(service, 2)) == 1

    async def test_a_copy_is_made_when_a_claim_ends_though_nobody_asks(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        await self.pop(service, order(invisible_ms=30))
        (copy,) = await self.stored(service, retry_topic("g"), poll_s=20)
        assert body_of(copy) == b"a"

    async def test_a_retry_is_for_its_group_and_counts_in_its_progress(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        await self.give_back(service, *await self.pop(service, order()))
        assert bodies_and_attempts(await self.pop(service, order("other"))) == [(b"a", 1)]
        (retries,) = [each for each in await service.inspecting.progress("g") if each.queue.topic == retry_topic("g")]
        assert (retries.committed, retries.in_flight, retries.max_offset) == (0, 1, 1)
        assert retries.oldest_ms is not None
        assert await self.acknowledge(service, *await self.pop(service, order())) == [SettleOutcome.DONE]
        (retries,) = [each for each in await service.inspecting.progress("g") if each.queue.topic == retry_topic("g")]
        assert (retries.committed, retries.in_flight, retries.oldest_ms) == (1, 0, None)

    async def test_retries_that_are_dropped_do_not_come(self, service: MessageService) -> None:
        await self.send(service, message(b"a"), message(b"b"))
        first, second = await self.pop(service, order())
        await self.give_back(service, first)
        await service.administering.drop_retries("g", "another")
        again = await self.pop(service, order())
        assert bodies_and_attempts(again) == [(b"a", 2)]
        await self.give_back(service, *again)
        await service.administering.drop_retries("g", TOPIC.name)
        assert await self.pop(service, order()) == []
        assert await self.acknowledge(service, *again, second) == [SettleOutcome.STALE, SettleOutcome.DONE]

    async def test_a_message_out_of_attempts_is_a_dead_letter(self, service: MessageService, stack: HasGroups) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", max_attempts=2)
        sent = message(b"a", tag="red", key="k")
        await self.send(service, sent)
        for _ in range(2):
            assert await service.inspecting.dead_letters("g", await self.broker(service), [0]) == {}
            await self.give_back(service, *await self.pop(service, order()))
        assert await self.pop(service, order()) == []
        letters = await service.inspecting.dead_letters("g", await self.broker(service), [1, 0])
        assert list(letters) == [0]
        assert letters[0].queue.topic == dead_letter_topic("g")
        letter = definition_pb2.Message.FromString(letters[0].rest)
        properties = definition_pb2.SystemProperties.FromString(letters[0].system)
        assert (letter.body, properties.message_id, properties.tag, list(properties.keys)) == (
            b"a",
            sent.message_id,
            "red",
            ["k"],
        )
        origin = properties.dead_letter_queue
        assert (origin.topic, origin.message_id) == (TOPIC.name, sent.message_id)
        assert letter.user_properties == {
            ORIGIN_TOPIC: TOPIC.name,
            ORIGIN_MESSAGE_ID: sent.message_id,
            ATTEMPTS: "2",
            REASON: DeadLetterReason.ATTEMPTS.value,
        }

    async def test_a_last_claim_that_ends_makes_a_dead_letter_though_nobody_asks(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", max_attempts=1)
        await self.send(service, message(b"a"))
        await self.pop(service, order(invisible_ms=30))
        (letter,) = await self.stored(service, dead_letter_topic("g"), poll_s=20)
        assert body_of(letter) == b"a"
        assert await self.stored(service, retry_topic("g")) == []

    async def test_a_consumer_can_make_a_message_a_dead_letter_once(self, service: MessageService) -> None:
        await self.send(service, message(b"a"), message(b"b"))
        given_up, finished = await self.pop(service, order())
        assert await service.consuming.dead_letter("g", TOPIC.name, given_up.handle) is SettleOutcome.DONE
        assert await service.consuming.dead_letter("g", TOPIC.name, given_up.handle) is SettleOutcome.STALE
        await self.acknowledge(service, finished)
        assert await service.consuming.dead_letter("g", TOPIC.name, finished.handle) is SettleOutcome.STALE
        letters = await service.inspecting.dead_letters("g", await self.broker(service), range(3))
        assert [body_of(letter) for letter in letters.values()] == [b"a"]
        properties = definition_pb2.Message.FromString(letters[0].rest).user_properties
        assert (properties[ATTEMPTS], properties[REASON]) == ("1", DeadLetterReason.FORWARDED.value)
        assert await self.pop(service, order()) == []

    async def test_messages_are_delivered_to_one_group_with_all_attempts(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", max_attempts=2)
        poll = asyncio.create_task(self.pop(service, order(), poll_s=20))
        await asyncio.sleep(0)
        sent = [message(b"a", key="k"), message(b"b")]
        await service.administering.retry("g", TOPIC.name, sent)
        assert await self.pop(service, order("other")) == []
        first = await poll
        again = first + await self.pop(service, order())
        assert [(each.message.system, each.message.rest, each.attempt) for each in again] == [
            (each.system, each.rest, 1) for each in sent
        ]
        await self.give_back(service, *again)
        again = await self.pop(service, order())
        assert bodies_and_attempts(again) == [(b"a", 2), (b"b", 2)]
        await self.give_back(service, again[0])
        assert len(await service.inspecting.dead_letters("g", await self.broker(service), [0])) == 1
        assert await self.acknowledge(service, again[1]) == [SettleOutcome.DONE]

    async def test_a_deleted_group_leaves_no_retries_and_keeps_its_dead_letters(self, service: MessageService) -> None:
        await self.send(service, message(b"a"), message(b"b"))
        first, second = await self.pop(service, order())
        await self.give_back(service, first)
        await service.consuming.dead_letter("g", TOPIC.name, second.handle)
        await service.administering.forget_group("g", version=next(versions))
        assert await self.stored(service, retry_topic("g")) == []
        [letter] = (await service.inspecting.dead_letters("g", await self.broker(service), [0])).values()
        assert body_of(letter) == b"b"

    async def test_a_restart_keeps_retries_and_dead_letters(self, service: MessageService, restarted: Restart) -> None:
        await self.send(service, message(b"ready"), message(b"held"), message(b"dead"))
        ready, held, dead = await self.pop(service, order())
        await self.give_back(service, held)
        (held,) = await self.pop(service, order())
        await self.give_back(service, ready)
        await service.consuming.dead_letter("g", TOPIC.name, dead.handle)
        await service.administering.retry("g", TOPIC.name, [message(b"resent")])
        again = await restarted()
        taken = await self.pop(again, order(), poll_s=20)
        while len(taken) < 2:
            taken += await self.pop(again, order(), poll_s=20)
        assert sorted(bodies_and_attempts(taken)) == [(b"ready", 2), (b"resent", 1)]
        assert await self.acknowledge(again, held) == [SettleOutcome.DONE]
        assert [
            body_of(letter)
            for letter in (await again.inspecting.dead_letters("g", await self.broker(again), [0, 1])).values()
        ] == [b"dead"]

    # --- looking

    async def test_messages_are_found_by_key_or_id_the_newest_first(self, service: MessageService) -> None:
        sent = [message(b"%d" % number, key="k") for number in range(4)]
        for number, each in enumerate(sent):
            await self.send(service, each, queue_id=number)
        await self.send(service, message(b"another", key="kk"))
        found = await service.inspecting.find_by_key(TOPIC.name, "k", 3)
        assert [(body_of(each), each.queue) for each in found] == [
            (b"%d" % number, await self.queue(service, number)) for number in (3, 2, 1)
        ]
        (one,) = await service.inspecting.find_by_key(TOPIC.name, sent[0].message_id, 3)
        assert (one.system, one.rest, one.queue_offset) == (sent[0].system, sent[0].rest, 0)
        assert await service.inspecting.find_by_key("another", "k", 3) == []

    async def test_copies_are_found_too(self, service: MessageService) -> None:
        await self.send(service, message(b"retry", key="k"), message(b"dead", key="k"))
        retry, dead = await self.pop(service, order())
        await self.give_back(service, retry)
        await service.consuming.dead_letter("g", TOPIC.name, dead.handle)
        for topic, expected in ((retry_topic("g"), b"retry"), (dead_letter_topic("g"), b"dead")):
            assert [body_of(each) for each in await service.inspecting.find_by_key(topic, "k", 9)] == [expected]

    async def test_a_deleted_topics_messages_are_not_found(self, service: MessageService) -> None:
        await self.send(service, message(b"old", key="k"))
        await service.administering.forget_topic(TOPIC.name, version=next(versions))
        await self.send(service, message(b"new", key="k"))
        assert [body_of(each) for each in await service.inspecting.find_by_key(TOPIC.name, "k", 9)] == [b"new"]

    async def test_a_message_is_found_by_its_log_offset(self, service: MessageService) -> None:
        queue = await self.queue(service)
        appended = await service.sending.append(queue, [message(b"a"), message(b"b")])
        pulled = (await service.reading.pull(queue, 0, ALL, batch=9, poll_s=0)).messages
        assert [each.log_offset for each in pulled] == [each.log_offset for each in appended]
        find = service.inspecting.find_by_log_offset
        assert [await find(queue.broker, each.log_offset) for each in pulled] == pulled
        for nowhere in (-1, pulled[0].log_offset + 1, 2**47):
            assert await find(queue.broker, nowhere) is None
        await self.purge(service, 1)
        assert await find(queue.broker, pulled[0].log_offset) is None
        assert await find(queue.broker, pulled[1].log_offset) == pulled[1]

    async def test_a_half_message_is_not_found_by_its_log_offset(self, service: MessageService) -> None:
        queue = await self.queue(service)
        half = await service.sending.begin_transaction(queue, HalfMessage(message(b"half"), "sender"))
        assert await service.inspecting.find_by_log_offset(queue.broker, half.queue_offset) is None

    # --- transactions that wait for nothing but the log

    async def test_a_transaction_begins_and_ends_without_a_coroutine_where_that_is_possible(
        self, service: MessageService
    ) -> None:
        queue, half = await self.queue(service), HalfMessage(message(b"half"), "sender")
        appended = await begin_at_once(service, queue, half)
        assert await begin_at_once(service, queue, half) == appended
        transaction = TransactionId.parse_id(appended.transaction_id)
        assert (await service.reading.bounds(queue)).maximum == 0
        for _ in range(2):
            await end_at_once(service, transaction, TransactionResolution.COMMIT)
        with pytest.raises(MessagingError, match="contradicts"):
            await end_at_once(service, transaction, TransactionResolution.ROLLBACK)
        [committed] = (await service.reading.pull(queue, 0, ALL, batch=9, poll_s=0)).messages
        assert (body_of(committed), committed.half_offset) == (b"half", transaction.log_offset)

    async def test_transactions_that_begin_and_end_together_keep_apart(self, service: MessageService) -> None:
        queue = await self.queue(service)
        halves = [HalfMessage(message(b"%d" % number), "sender") for number in range(8)]
        begun = await asyncio.gather(*(begin_at_once(service, queue, half) for half in halves))
        assert [each.message_id for each in begun] == [half.message.message_id for half in halves]
        transactions = [TransactionId.parse_id(each.transaction_id) for each in begun]
        resolutions = [TransactionResolution.COMMIT, TransactionResolution.ROLLBACK] * 4
        await asyncio.gather(
            *(end_at_once(service, *each) for each in zip(transactions, resolutions, strict=True)),
        )
        found = (await service.reading.pull(queue, 0, ALL, batch=9, poll_s=0)).messages
        assert sorted(map(body_of, found)) == [b"0", b"2", b"4", b"6"]

    # --- how a message stands with groups

    async def status(self, service: MessageService, sent: NewMessage, offset: int, group: str = "g") -> MessageStatus:
        found = await service.inspecting.standings(await self.queue(service), offset, sent.message_id)
        (status,) = [each for each in found if each.group == group]
        return status

    async def test_a_message_stands_with_a_group_as_it_goes_its_way(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", max_attempts=2)
        done, tried, ahead = (message(body) for body in (b"done", b"tried", b"ahead"))
        await self.send(service, done, tried, ahead)
        assert await service.inspecting.standings(await self.queue(service), 0, done.message_id) == []
        first, second = await self.pop(service, order(batch=2))
        assert await self.status(service, ahead, 2) == MessageStatus(group="g", state=MessageState.AHEAD)
        assert await self.status(service, tried, 1) == MessageStatus(
            group="g", state=MessageState.HELD, attempts=1, until_ms=second.handle.deadline_ms
        )
        await self.acknowledge(service, first)
        assert await self.status(service, done, 0) == MessageStatus(group="g", state=MessageState.FINISHED)
        await self.give_back(service, second)
        assert await self.status(service, tried, 1) == MessageStatus(group="g", state=MessageState.AGAIN, attempts=1)
        (again,) = [each for each in await self.pop(service, order()) if body(each) == b"tried"]
        held = await self.status(service, tried, 1)
        assert (held.state, held.attempts, held.until_ms) == (MessageState.HELD, 2, again.handle.deadline_ms)
        await service.consuming.dead_letter("g", TOPIC.name, again.handle)
        assert await self.status(service, tried, 1) == MessageStatus(group="g", state=MessageState.DEAD, dead_offset=0)

    async def test_an_ordered_message_stands_behind_others_of_its_group(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        first, behind, other = (message(body, group=body[:1].decode()) for body in (b"a1", b"a2", b"b1"))
        await self.send(service, first, behind, other)
        claimed = await self.pop(service, order(batch=1))
        await self.pop(service, order())
        assert (await self.status(service, first, 0)).state is MessageState.HELD
        assert (await self.status(service, behind, 1)).state is MessageState.AHEAD
        await self.give_back(service, *claimed)
        assert await self.status(service, first, 0) == MessageStatus(group="g", state=MessageState.AGAIN, attempts=1)
        (again,) = await self.pop(service, order(batch=1))
        assert (await self.status(service, first, 0)).attempts == 2
        await self.acknowledge(service, again)
        assert (await self.status(service, first, 0)).state is MessageState.FINISHED

    async def test_a_message_stands_with_who_only_subscribes_by_where_he_would_begin(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["early"] = ConsumerGroup(name="early", consume_from="earliest")
        stack.groups["late"] = ConsumerGroup(name="late", consume_from="latest")
        sent = message(b"a")
        await self.send(service, sent)
        subscriptions = [TopicSubscription("early", TOPIC.name), TopicSubscription("late", TOPIC.name)]
        await service.notify_subscriptions(subscriptions, lambda: subscriptions)
        assert (await self.status(service, sent, 0, "early")).state is MessageState.AHEAD
        assert (await self.status(service, sent, 0, "late")).state is MessageState.FINISHED

    # --- what a topic holds

    async def test_a_topic_says_what_it_holds_and_who_has_it(self, service: MessageService) -> None:
        assert (await service.inspecting.content(TOPIC.name)).queues == []
        before_ms = time.time_ns() // 1_000_000
        await self.send(service, *(message(b"x" * 1000) for _ in range(300)))
        await self.send(service, message(b"a"), queue_id=2)
        await self.pop(service, order())
        content = await service.inspecting.content(TOPIC.name)
        assert content.groups == ["g"]
        sizes = {each.queue.queue_id: each.bytes for each in content.queues}
        assert sorted(sizes) == [0, 2]
        assert 300 * 1000 < sizes[0] < 300 * 1400
        assert 0 < sizes[2] < 400
        for each in content.queues:
            assert each.oldest_ms is not None
            assert before_ms <= each.oldest_ms <= time.time_ns() // 1_000_000
        assert await service.inspecting.content("another") == TopicContent(
            queues=[], groups=[], sent_per_s=0, delivered_per_s=0
        )

    async def test_sizes_of_long_queues_are_near_what_they_are(self, service: MessageService) -> None:
        for batch in range(20):
            await self.send(service, *(message(b"x" * (100 + 10 * batch)) for _ in range(250)))
        (queue,) = (await service.inspecting.content(TOPIC.name)).queues
        await service.administering.purge(await self.queue(service), 4000, retries=False)
        (rest,) = (await service.inspecting.content(TOPIC.name)).queues
        sizes = [250 * (100 + 10 * batch + 100) for batch in range(20)]  # with some 100 bytes beside each body
        assert queue.bytes == pytest.approx(sum(sizes), rel=0.15)
        assert rest.bytes == pytest.approx(sum(sizes[16:]), rel=0.15)

    async def test_the_past_of_what_nobody_knows_is_empty(self, service: MessageService) -> None:
        for of in HistoryOf:
            found = await service.inspecting.history(of, "" if of is HistoryOf.BROKER else "nobody")
            assert found.step_ms == STEP_MS
            if of is not HistoryOf.BROKER:
                assert found.series == {}

    # --- purging

    async def purge(self, service: MessageService, below: int, *, retries: bool = True) -> None:
        await service.administering.purge(await self.queue(service), below, retries=retries)

    async def test_what_is_purged_is_found_by_nobody_and_offsets_go_on(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await self.send(service, *(message(b"%d" % number, key="k") for number in range(4)))
        await self.purge(service, 3)
        for is_again in (False, True):
            current = await restarted() if is_again else service
            assert await current.reading.bounds(await self.queue(current)) == QueueBounds(3, 4)
            assert [body_of(each) for each in await current.inspecting.find_by_key(TOPIC.name, "k", 9)] == [b"3"]
            for offset, expected in ((2, []), (3, [b"3"])):
                pulled = await current.reading.pull(await self.queue(current), offset, ALL, batch=9, poll_s=0)
                assert [body_of(each) for each in pulled.messages] == expected
        assert await self.send(current, message(b"4")) == [4]

    async def test_a_purge_moves_groups_on_and_leaves_their_claims(self, service: MessageService) -> None:
        await self.send(service, message(b"a"), message(b"b"), message(b"c"))
        first, second = await self.pop(service, order(batch=2))
        await self.purge(service, 3)
        (row,) = await service.inspecting.progress("g")
        assert (row.cursor, row.in_flight, row.max_offset) == (3, 2, 3)
        assert await self.acknowledge(service, first) == [SettleOutcome.DONE]
        await self.give_back(service, second)
        assert await self.pop(service, order()) == []
        row = (await service.inspecting.progress("g"))[0]
        assert (row.committed, row.in_flight) == (3, 0)

    async def test_a_purge_takes_what_waits_for_another_delivery_if_it_is_to(self, service: MessageService) -> None:
        await self.send(service, message(b"a"), message(b"b"))
        await self.give_back(service, *await self.pop(service, order()))
        await self.purge(service, 2, retries=False)
        again = await self.pop(service, order())
        assert bodies_and_attempts(again) == [(b"a", 2), (b"b", 2)]
        await self.give_back(service, *again)
        await self.purge(service, 2)
        assert await self.pop(service, order()) == []

    async def test_a_purge_opens_the_message_groups_of_what_is_gone(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await self.send(service, *(message(text, group="a") for text in (b"1", b"2", b"3")))
        (first,) = await self.pop(service, order(batch=1))
        await self.purge(service, 2)
        assert await self.pop(service, order()) == []
        await self.give_back(service, first)
        assert bodies_and_attempts(await self.pop(service, order())) == [(b"3", 1)]

    async def test_a_new_group_begins_behind_a_purge(self, service: MessageService, restarted: Restart) -> None:
        await self.send(service, message(b"old"))
        await self.purge(service, 1)
        await self.send(service, message(b"new"))
        assert [body(each) for each in await self.pop(service, order("late"))] == [b"new"]
        again = await restarted()
        assert [body(each) for each in await self.pop(again, order("later"))] == [b"new"]

    async def test_a_purge_beyond_the_end_of_a_queue_ends_there(self, service: MessageService) -> None:
        await self.send(service, message(b"a"))
        await self.purge(service, 1000)
        assert await self.send(service, message(b"b")) == [1]
        await self.purge(service, 0)
        assert await service.reading.bounds(await self.queue(service)) == QueueBounds(1, 2)

    # --- order

    async def test_a_message_group_waits_for_its_open_message_and_no_other_does(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await self.send(service, *(message(text, group=text[:1].decode()) for text in (b"a1", b"a2", b"b1")))
        first = await self.pop(service, order(batch=1))
        assert bodies_and_attempts(first) == [(b"a1", 1)]
        assert bodies_and_attempts(await self.pop(service, order())) == [(b"b1", 1)]
        assert await self.pop(service, order()) == []
        poll = asyncio.create_task(self.pop(service, order(), poll_s=20))
        await asyncio.sleep(0)
        assert await self.acknowledge(service, *first) == [SettleOutcome.DONE]
        assert bodies_and_attempts(await poll) == [(b"a2", 1)]

    async def test_an_ordered_message_comes_again_in_its_place(self, service: MessageService, stack: HasGroups) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await self.send(service, *(message(text, group="a") for text in (b"1", b"2", b"3")))
        first, second = await self.pop(service, order(batch=2))
        await self.acknowledge(service, second)
        await self.give_back(service, first)
        (again,) = await self.pop(service, order(batch=1))
        assert (body(again), again.attempt, again.message) == (b"1", 2, first.message)
        assert await self.pop(service, order()) == []
        await self.acknowledge(service, again)
        assert bodies_and_attempts(await self.pop(service, order())) == [(b"3", 1)]
        assert await self.stored(service, retry_topic("g")) == []

    async def test_a_call_that_is_repeated_gets_the_same_delivery_with_new_handles(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await self.send(service, message(b"1", group="a"), message(b"2", group="a"))
        first = await self.pop(service, order(attempt_id="x"))
        assert await self.pop(service, order(attempt_id="y")) == []
        again = await self.pop(service, order(attempt_id="x"))
        assert bodies_and_attempts(again) == bodies_and_attempts(first) == [(b"1", 1), (b"2", 1)]
        assert await self.acknowledge(service, *first) == [SettleOutcome.STALE] * 2
        assert await self.acknowledge(service, *again) == [SettleOutcome.DONE] * 2

    async def test_an_ordered_message_out_of_attempts_lets_the_next_go_on(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True, max_attempts=1)
        await self.send(service, message(b"1", group="a"), message(b"2", group="a"))
        await self.pop(service, order(batch=1, invisible_ms=30))
        assert bodies_and_attempts(await self.pop(service, order(), poll_s=20)) == [(b"2", 1)]
        assert [
            body_of(letter)
            for letter in (await service.inspecting.dead_letters("g", await self.broker(service), [0])).values()
        ] == [b"1"]

    async def test_an_ordered_message_can_be_given_up_after_its_time_until_another_has_it(
        self, service: MessageService, stack: HasGroups
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        await self.send(service, message(b"1", group="a"), message(b"2", group="b"))
        late = await self.pop(service, order(invisible_ms=30))
        (again,) = await self.pop(service, order(batch=1), poll_s=20)
        (taken,) = [each for each in late if body(each) == body(again)]
        (left,) = [each for each in late if body(each) != body(again)]
        assert await service.consuming.dead_letter("g", TOPIC.name, taken.handle) is SettleOutcome.EXPIRED
        assert await service.consuming.dead_letter("g", TOPIC.name, left.handle) is SettleOutcome.DONE
        assert [
            body_of(each)
            for each in (await service.inspecting.dead_letters("g", await self.broker(service), [0, 1])).values()
        ] == [body(left)]
        assert await self.pop(service, order()) == []

    async def test_a_restart_keeps_the_order(
        self, service: MessageService, stack: HasGroups, restarted: Restart
    ) -> None:
        stack.groups["g"] = ConsumerGroup(name="g", fifo=True)
        sent = (b"a1", b"a2", b"a3", b"b1", b"b2", b"c1")
        await self.send(service, *(message(text, group=text[:1].decode()) for text in sent))
        (first,) = await self.pop(service, order(batch=1))
        others = {body(each): each for each in await self.pop(service, order())}
        await self.acknowledge(service, others[b"b1"], others[b"b2"])
        await self.give_back(service, others[b"c1"])
        again = await restarted()
        assert bodies_and_attempts(await self.pop(again, order())) == [(b"c1", 2)]
        assert await self.acknowledge(again, first) == [SettleOutcome.DONE]
        following = await self.pop(again, order(batch=1))
        assert bodies_and_attempts(following) == [(b"a2", 1)]
        assert await self.pop(again, order()) == []
        await self.acknowledge(again, *following)
        assert bodies_and_attempts(await self.pop(again, order())) == [(b"a3", 1)]

    # --- one reader for each queue

    async def pull(
        self, service: MessageService, member: str, offset: int, *, poll_s: float = 0.0, hold_ms: int = MINUTE_MS
    ) -> PulledMessages:
        reader = QueueReaderId("g", member, hold_ms)
        return await service.reading.pull(
            await self.queue(service), offset, ALL, batch=32, poll_s=poll_s, reader=reader
        )

    async def commit(self, service: MessageService, member: str, offset: int) -> None:
        reader = QueueReaderId("g", member, MINUTE_MS)
        await service.reading.set_committed("g", await self.queue(service), offset, reader=reader)

    async def test_a_queue_has_one_reader_until_all_that_it_was_handed_is_committed(
        self, service: MessageService
    ) -> None:
        await self.send(service, message(b"1"), message(b"2"))
        assert len((await self.pull(service, "a", 0)).messages) == 2
        assert await self.pull(service, "b", 0) == PulledMessages([], 0)
        poll = asyncio.create_task(self.pull(service, "b", 0, poll_s=20))
        await asyncio.sleep(0)
        await self.commit(service, "a", 1)
        await self.commit(service, "a", 2)
        await self.send(service, message(b"3"))
        assert [body_of(each) for each in (await poll).messages] == [b"3"]
        assert await self.pull(service, "a", 0) == PulledMessages([], 0)

    async def test_only_the_reader_moves_the_offset_of_its_queue(self, service: MessageService) -> None:
        await self.send(service, message(b"1"), message(b"2"))
        await self.pull(service, "a", 0)
        with pytest.raises(MessagingError) as refused:
            await self.commit(service, "b", 1)
        assert refused.value.code == definition_pb2.FORBIDDEN
        assert await service.reading.committed("g", await self.queue(service)) is None
        await self.commit(service, "a", 1)
        assert await service.reading.committed("g", await self.queue(service)) == 1

    async def test_anybody_moves_the_offset_of_a_queue_without_a_reader(self, service: MessageService) -> None:
        await self.send(service, message(b"1"), message(b"2"))
        for member, offset in (("a", 2), ("b", 1)):
            await self.commit(service, member, offset)
            assert await service.reading.committed("g", await self.queue(service)) == offset
        assert [body_of(each) for each in (await self.pull(service, "a", 0)).messages] == [b"2"]

    async def test_a_reader_that_leaves_leaves_the_queue_at_the_groups_offset(self, service: MessageService) -> None:
        await self.send(service, message(b"1"), message(b"2"))
        await self.pull(service, "a", 0)
        await self.commit(service, "a", 1)
        poll = asyncio.create_task(self.pull(service, "b", 0, poll_s=20))
        await asyncio.sleep(0)
        await service.consuming.leave("g", "c")
        await service.consuming.leave("another", "a")
        assert not poll.done()
        await service.consuming.leave("g", "a")
        assert [body_of(each) for each in (await poll).messages] == [b"2"]

    async def test_a_reader_that_is_silent_for_its_hold_time_loses_the_queue(self, service: MessageService) -> None:
        await self.send(service, message(b"1"))
        await self.pull(service, "a", 0, hold_ms=100)
        pulled = await self.pull(service, "b", 0, poll_s=20, hold_ms=100)
        assert [body_of(each) for each in pulled.messages] == [b"1"]
        with pytest.raises(MessagingError):
            await self.commit(service, "a", 1)

    async def test_an_operator_frees_the_queue_by_moving_the_group(self, service: MessageService) -> None:
        await self.send(service, message(b"1"), message(b"2"))
        await self.pull(service, "a", 0)
        await service.reading.set_committed("g", await self.queue(service), 1)
        with pytest.raises(MessagingError):
            await self.commit(service, "a", 2)
        assert [body_of(each) for each in (await self.pull(service, "b", 0)).messages] == [b"2"]

    async def test_readers_that_want_no_queue_for_themselves_read_as_they_like(self, service: MessageService) -> None:
        await self.send(service, message(b"1"))
        for member in ("a", "b"):
            assert len((await self.pull(service, member, 0, hold_ms=0)).messages) == 1
            reader = QueueReaderId("g", member)
            await service.reading.set_committed("g", await self.queue(service), 1, reader=reader)


async def begin_at_once(service: MessageService, queue: QueueRef, half: HalfMessage) -> AppendedMessage:
    """Begin a transaction without a coroutine, if that is possible."""
    begun: asyncio.Future[AppendedMessage] = asyncio.get_running_loop().create_future()

    def done(appended: AppendedMessage | None, error: Exception | None) -> None:
        if appended is not None:
            begun.set_result(appended)
        else:
            begun.set_exception(error or AssertionError("neither a result nor an error"))

    if service.sending.begin_transaction_nowait(queue, half, done):
        return await begun
    return await service.sending.begin_transaction(queue, half)


async def end_at_once(service: MessageService, transaction: TransactionId, resolution: TransactionResolution) -> None:
    """End a transaction without a coroutine, if that is possible."""
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    if not service.sending.end_transaction_nowait(TOPIC.name, transaction, resolution, ended.set_result):
        await service.sending.end_transaction(TOPIC.name, transaction, resolution)
    elif (error := await ended) is not None:
        raise error
