"""What every MessageService must do with lite topics. Used as `message_service_conformance` is."""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.names import lite_name, lite_queue_topic
from ternmq_common.shard.model import (
    ConsumerGroup,
    DeliveredMessage,
    DroppedLite,
    LiteAction,
    LiteSync,
    PopOrder,
    SettleOutcome,
    Topic,
    group_by_settled_topic,
)
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.interface import MessageService
from ternmq_proxy.processors.sending.placement import queue_of_lite
from tests.support.message_service_conformance import HasGroups, Restart, body, message, versions
from tests.support.room_conformance import settled

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = Topic(name="chats", type=MessageType.LITE, queues=1)
MINUTE_MS = 60_000
POLL_S = 20.0
GROUP = "readers"


async def send(service: MessageService, name: str, *bodies: bytes) -> None:
    queue = queue_of_lite(service.find_route(TOPIC), name)
    await service.sending.append(queue, [message(each) for each in bodies])


async def sync(
    service: MessageService, client: str, *names: str, action: LiteAction = LiteAction.COMPLETE_ADD, group: str = GROUP
) -> None:
    await service.consuming.sync_lite(LiteSync(group, TOPIC.name, client, action, names))


async def pop(
    service: MessageService, client: str, *, batch: int = 32, poll_s: float = 0, invisible_ms: int = MINUTE_MS
) -> list[DeliveredMessage]:
    order = PopOrder(
        group=GROUP,
        topic=TOPIC.name,
        queues=range(1),
        filter=ALL,
        batch=batch,
        invisible_ms=invisible_ms,
        lite_client=client,
    )
    return await service.consuming.pop(order, broker="", poll_s=poll_s)


async def acknowledge(service: MessageService, deliveries: list[DeliveredMessage]) -> list[SettleOutcome]:
    outcomes: list[SettleOutcome] = []
    for topic, some in group_by_settled_topic(TOPIC.name, deliveries).items():
        outcomes += await service.consuming.acknowledge(GROUP, topic, [each.handle for each in some])
    return outcomes


def told(deliveries: list[DeliveredMessage]) -> list[tuple[str, bytes, int]]:
    """Lite topic, body and attempt of each."""
    return [(lite_name(each.message.queue.topic), body(each), each.attempt) for each in deliveries]


async def all_taken(service: MessageService, *clients: str) -> dict[str, list[bytes]]:
    """What these clients are given by turns until none of them is given any more, acknowledged at once; by lite
    topic."""
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    while batches := [batch for client in clients if (batch := await pop(service, client, batch=8))]:
        for batch in batches:
            for name, sent, _ in told(batch):
                found[name].append(sent)
            assert set(await acknowledge(service, batch)) == {SettleOutcome.DONE}
    return found


class LiteConformance:
    """Lite topics come with their first message, are read in order, and are shared by who subscribes them."""

    @pytest.fixture(autouse=True)
    def lite_group(self, stack: HasGroups) -> None:
        stack.groups[GROUP] = ConsumerGroup(name=GROUP, lite=LiteGroup(TOPIC.name), max_attempts=3)

    async def test_many_lite_topics_are_shared_by_who_subscribes_them_each_in_order(
        self, service: MessageService
    ) -> None:
        names = [f"n{number}" for number in range(60)]
        for client in ("x", "y", "z"):
            await sync(service, client, *names)
        for round_ in range(3):
            for name in names:
                await send(service, name, b"%d" % round_)
        assert await all_taken(service, "x", "y", "z") == {name: [b"0", b"1", b"2"] for name in names}

    async def test_a_group_goes_on_where_it_was_after_a_restart(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await sync(service, "x", "a", "b", "c")
        for name in ("a", "b", "c"):
            await send(service, name, b"1", b"2")
        held = await pop(service, "x", batch=1)
        [(name, _, _)] = told(held)
        rest = [each for each in ("a", "b", "c") if each != name]
        assert await all_taken(service, "x") == {each: [b"1", b"2"] for each in rest}
        service = await restarted()
        await sync(service, "x", "a", "b", "c")
        for each in ("a", "b", "c"):
            await send(service, each, b"3")
        assert await all_taken(service, "x") == {each: [b"3"] for each in rest}
        assert await acknowledge(service, held) == [SettleOutcome.DONE]
        assert await all_taken(service, "x") == {name: [b"2", b"3"]}

    async def test_a_poll_waits_for_the_lite_topics_of_its_client(self, service: MessageService) -> None:
        await sync(service, "x", "a")
        await sync(service, "y", "b")
        polls = [asyncio.create_task(pop(service, client, poll_s=POLL_S)) for client in ("x", "y")]
        await settled(service)
        await send(service, "b", b"1")
        assert told(await polls[1]) == [("b", b"1", 1)]
        await send(service, "a", b"2")
        assert told(await polls[0]) == [("a", b"2", 1)]

    async def test_a_poll_is_woken_when_the_batch_before_is_settled(self, service: MessageService) -> None:
        await sync(service, "x", "a")
        await sync(service, "y", "a")
        await send(service, "a", b"1", b"2")
        first = await pop(service, "x", batch=1)
        poll = asyncio.create_task(pop(service, "y", poll_s=POLL_S))
        await settled(service)
        await acknowledge(service, first)
        assert told(await poll) == [("a", b"2", 1)]

    async def test_a_poll_is_woken_when_a_claim_ends(self, service: MessageService) -> None:
        await sync(service, "x", "a")
        await send(service, "a", b"1")
        await pop(service, "x", invisible_ms=300)
        assert told(await pop(service, "x", poll_s=POLL_S)) == [("a", b"1", 2)]

    async def test_what_is_given_back_comes_to_others_and_does_not_count(self, service: MessageService) -> None:
        await sync(service, "x", "a")
        await sync(service, "y", "a")
        await send(service, "a", b"1", b"2")
        first = await pop(service, "x")
        for topic, some in group_by_settled_topic(TOPIC.name, first).items():
            await service.consuming.release(GROUP, topic, [each.handle for each in some], counts=False)
        assert told(await pop(service, "y", poll_s=POLL_S)) == [("a", b"1", 1), ("a", b"2", 1)]

    async def test_who_lost_a_lite_topic_to_another_is_told(self, service: MessageService, stack: HasGroups) -> None:
        stack.groups[GROUP] = ConsumerGroup(name=GROUP, lite=LiteGroup(TOPIC.name, exclusive=True))
        heard: asyncio.Queue[DroppedLite] = asyncio.Queue()

        def hear(dropped: "Sequence[DroppedLite]") -> None:
            for each in dropped:
                heard.put_nowait(each)

        service.watch_lite(hear)
        await sync(service, "x", "a", "b")
        await sync(service, "y", "a", action=LiteAction.PARTIAL_ADD)
        assert await asyncio.wait_for(heard.get(), 10) == DroppedLite(GROUP, "x", "a")
        await send(service, "a", b"1")
        await send(service, "b", b"2")
        assert told(await pop(service, "x", poll_s=0.2)) == [("b", b"2", 1)]
        assert told(await pop(service, "y", poll_s=POLL_S)) == [("a", b"1", 1)]

    async def test_a_wildcard_group_has_all_lite_topics(self, service: MessageService, stack: HasGroups) -> None:
        stack.groups[GROUP] = ConsumerGroup(name=GROUP, lite=LiteGroup(TOPIC.name, wildcard=True))
        await send(service, "before", b"1")
        await sync(service, "x")
        await send(service, "after", b"2")
        assert await all_taken(service, "x") == {"before": [b"1"], "after": [b"2"]}

    async def test_another_topic_s_group_subscribes_nothing(self, service: MessageService, stack: HasGroups) -> None:
        for lite in (LiteGroup("others"), None):
            stack.groups["g"] = ConsumerGroup(name="g", lite=lite)
            with pytest.raises(MessagingError) as refused:
                await sync(service, "x", "a", group="g")
            assert refused.value.code == definition_pb2.ILLEGAL_TOPIC

    async def test_nothing_is_left_of_a_deleted_topic_also_after_a_restart(
        self, service: MessageService, restarted: Restart
    ) -> None:
        await sync(service, "x", "a", "b")
        await send(service, "a", b"old")
        await send(service, "b", b"old")
        await service.administering.forget_topic(TOPIC.name, version=next(versions))
        await send(service, "a", b"new")
        await sync(service, "x", "a", "b")
        assert await all_taken(service, "x") == {"a": [b"new"]}
        service = await restarted()
        await sync(service, "x", "a", "b")
        await send(service, "b", b"new")
        assert await all_taken(service, "x") == {"b": [b"new"]}

    async def test_progress_counts_the_messages_of_all_subscribed_lite_topics_together(
        self, service: MessageService
    ) -> None:
        await sync(service, "x", *(f"n{number}" for number in range(8)))
        for number in range(10):
            await send(service, f"n{number}", b"1", b"2", b"3")
        held = await pop(service, "x", batch=6)
        await acknowledge(service, held[:3])
        rows = [row for row in await service.inspecting.progress(GROUP) if row.queue.topic == TOPIC.name]
        assert sum(row.max_offset - row.cursor + row.in_flight for row in rows) == 21
        assert sum(row.max_offset for row in rows) == 24
        topic = held[-1].message.queue.topic
        one = [row for row in await service.inspecting.progress(GROUP, (topic,)) if row.queue.topic == topic]
        assert [(row.max_offset, row.in_flight) for row in one if row.max_offset] == [(3, 3)]

    async def test_a_position_can_be_set_where_a_group_rests(self, service: MessageService) -> None:
        await sync(service, "x", "a")
        await send(service, "a", b"1", b"2")
        assert await all_taken(service, "x") == {"a": [b"1", b"2"]}
        queue = queue_of_lite(service.find_route(TOPIC), "a")
        assert queue.topic == lite_queue_topic(TOPIC.name, "a")
        await service.reading.set_committed(GROUP, queue, 1)
        assert await all_taken(service, "x") == {"a": [b"2"]}
