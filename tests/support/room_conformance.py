"""What every MessageService must do for clients that do not read: nothing is taken for them, and nobody else waits.

Inherited as `message_service_conformance.py` says.
"""

import asyncio

from ternmq_common.filters.tag_filter import ALL
from ternmq_common.receiving.output_room import PLACES_MAX, AnswerRoom, OutputRoom
from ternmq_common.shard.model import DeliveredMessage, PulledMessages, QueueRef
from ternmq_proxy.message_service.interface import MessageService
from tests.support.message_service_conformance import TOPIC, body, body_of, message, order

FULL = 100
PATIENCE_S = 20.0


class Client:
    """One connection. `reads` says whether what it was sent leaves the buffer."""

    def __init__(self) -> None:
        self._unread = 0
        self._room = OutputRoom(lambda: self._unread, FULL, patience_s=0.05)

    def reads(self, reads: bool) -> None:
        self._unread = 0 if reads else FULL
        self._room.admit_waiting()

    def call(self) -> AnswerRoom:
        return AnswerRoom(self._room)


async def polling(
    service: MessageService, client: Client, poll_s: float = PATIENCE_S
) -> "asyncio.Task[list[DeliveredMessage]]":
    """A pop that waits, for messages or for room."""
    task = asyncio.create_task(service.consuming.pop(order(), broker="", poll_s=poll_s, room=client.call()))
    await settled(service)
    assert not task.done()
    return task


async def settled(service: MessageService) -> None:
    """Return when calls that were begun before have come back from the brokers, which answer others meanwhile."""
    for _ in range(5):
        for broker in service.find_route(TOPIC).brokers:
            await service.reading.bounds(QueueRef(TOPIC.name, broker, 0))
            await asyncio.sleep(0)


class RoomConformance:
    """Pops and pulls for clients that read, or don't."""

    async def queue(self, service: MessageService) -> QueueRef:
        return QueueRef(TOPIC.name, service.find_route(TOPIC).brokers[0], 0)

    async def send(self, service: MessageService, *bodies: bytes) -> None:
        await service.sending.append(await self.queue(service), [message(each) for each in bodies])

    async def pull(self, service: MessageService, room: AnswerRoom | None, poll_s: float = 0.0) -> PulledMessages:
        return await service.reading.pull(await self.queue(service), 0, ALL, batch=8, poll_s=poll_s, room=room)

    async def test_nothing_is_taken_for_a_client_that_does_not_read(self, service: MessageService) -> None:
        await self.send(service, b"a")
        client = Client()
        client.reads(False)
        assert await service.consuming.pop(order(), broker="", poll_s=0.1, room=client.call()) == []
        assert (await self.pull(service, client.call(), poll_s=0.1)) == PulledMessages([], 0)
        (delivery,) = await service.consuming.pop(order(), broker="", poll_s=0)
        assert (body(delivery), delivery.attempt) == (b"a", 1)

    async def test_a_client_gets_its_messages_when_it_reads_again(self, service: MessageService) -> None:
        await self.send(service, b"a")
        client = Client()
        client.reads(False)
        popping = await polling(service, client)
        pulling = asyncio.create_task(self.pull(service, client.call(), poll_s=PATIENCE_S))
        await settled(service)
        assert not pulling.done()
        client.reads(True)
        async with asyncio.timeout(PATIENCE_S / 2):
            assert [body(delivery) for delivery in await popping] == [b"a"]
            assert [body_of(each) for each in (await pulling).messages] == [b"a"]

    async def test_a_poll_that_waits_for_messages_keeps_no_other_from_them(self, service: MessageService) -> None:
        popper, puller = Client(), Client()
        waiting = [await polling(service, popper) for _ in range(PLACES_MAX + 2)]
        pulls = [
            asyncio.create_task(self.pull(service, puller.call(), poll_s=PATIENCE_S)) for _ in range(PLACES_MAX + 2)
        ]
        await settled(service)
        await self.send(service, b"a")
        async with asyncio.timeout(PATIENCE_S / 2):
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert [body(delivery) for task in done for delivery in task.result()] == [b"a"]
            await asyncio.wait(pulls, return_when=asyncio.FIRST_COMPLETED)
        for task in (*waiting, *pulls):
            task.cancel()
        await asyncio.gather(*waiting, *pulls, return_exceptions=True)

    async def test_a_pull_with_room_does_not_wait_beyond_the_end(self, service: MessageService) -> None:
        await self.send(service, b"a")
        client, queue = Client(), await self.queue(service)
        pulled = await service.reading.pull(queue, 2, ALL, batch=8, poll_s=10 * PATIENCE_S, room=client.call())
        assert pulled == PulledMessages([], 2)

    async def test_a_call_that_took_messages_keeps_its_place_until_it_leaves(self, service: MessageService) -> None:
        await self.send(service, b"a")
        client = Client()
        calls = [client.call() for _ in range(PLACES_MAX)]
        assert await service.consuming.pop(order(), broker="", poll_s=0, room=calls[0])
        for call in calls[1:]:
            assert (await self.pull(service, call)).messages
        another = client.call()
        assert not another.is_open
        calls[0].leave_room()
        assert another.is_open

    async def test_a_call_that_took_nothing_has_no_place(self, service: MessageService) -> None:
        client = Client()
        for _ in range(PLACES_MAX + 1):
            assert await service.consuming.pop(order(), broker="", poll_s=0, room=client.call()) == []
            assert not (await self.pull(service, client.call())).messages
        assert client.call().is_open

    async def test_what_a_client_that_does_not_read_was_woken_for_goes_to_another(
        self, service: MessageService
    ) -> None:
        slow, healthy = Client(), Client()
        stuck = [await polling(service, slow) for _ in range(3)]
        fed = await polling(service, healthy)
        slow.reads(False)
        await self.send(service, b"a")
        async with asyncio.timeout(PATIENCE_S / 2):
            assert [body(delivery) for delivery in await fed] == [b"a"]
        slow.reads(True)
        await self.send(service, b"b")
        async with asyncio.timeout(PATIENCE_S / 2):
            done, waiting = await asyncio.wait(stuck, return_when=asyncio.FIRST_COMPLETED)
        assert [body(delivery) for task in done for delivery in task.result()] == [b"b"]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def test_large_bodies_come_in_as_many_answers_as_they_need(self, service: MessageService) -> None:
        large = bytes(3 << 20)
        for _ in range(3):
            await self.send(service, large)
        sizes = []
        while deliveries := await service.consuming.pop(order(), broker="", poll_s=0):
            sizes.append(len(deliveries))
        assert sizes == [1, 1, 1]
