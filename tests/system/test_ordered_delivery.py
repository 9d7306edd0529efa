"""FIFO groups: order within each message group, and only a message group that has something open waits
(`consuming.md, FIFO groups`)."""

import asyncio
import random
import uuid
from collections import defaultdict
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, RawClient, Received, code, message, names, receive_request
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group
from tests.system.test_offsets import get
from tests.system.test_receive_polling import until_known
from tests.system.test_retry_and_dead_letters import dead_letters, handle_of, nack, stored, terminate

pytestmark = SERVER_LOOP


@pytest_asyncio.fixture(loop_scope="session")
async def topic(client: RawClient) -> str:
    """A FIFO topic with one queue."""
    return await client.create_topic(f"fifo-{uuid.uuid4().hex[:12]}", kind=pb.FIFO)


@pytest_asyncio.fixture(loop_scope="session")
async def group(client: RawClient) -> str:
    """A FIFO group that dead-letters a message after its second delivery."""
    name = f"group-{uuid.uuid4().hex[:12]}"
    assert code(await create_group(client, name=name, fifo=True, max_attempts=2)) == "OK"
    return name


async def send(client: RawClient, topic: str, *bodies: bytes) -> None:
    """Send messages one after the other, each in the message group of its first letter."""
    for body in bodies:
        await client.send(topic, body, message_group=body[:1].decode())


async def ack(client: RawClient, topic: str, group: str, received: Received) -> None:
    answer = await client.ack(topic, group, *map(handle_of, received.messages))
    assert set(names(answer.entries)) == {"OK"}


async def consumed(client: RawClient, topic: str, group: str) -> list[pb.Message]:
    """What can be had now, acknowledged batch by batch."""
    found: list[pb.Message] = []
    while messages := (received := await client.receive(topic, group)).messages:
        await ack(client, topic, group, received)
        found += messages
    return found


# --- order, and who waits for whom


async def test_a_batch_has_each_message_group_in_order(client: RawClient, topic: str, group: str) -> None:
    await send(client, topic, b"a1", b"b1", b"a2", b"c1", b"b2", b"a3")
    received = await client.receive(topic, group)
    assert received.attempts == [1] * 6
    assert [body for body in received.bodies if body[:1] == b"a"] == [b"a1", b"a2", b"a3"]
    assert [body for body in received.bodies if body[:1] == b"b"] == [b"b1", b"b2"]
    properties = {each.body: each.system_properties for each in received.messages}
    assert {body: own.message_group for body, own in properties.items()} == {
        body: body[:1].decode() for body in properties
    }
    assert {own.message_type for own in properties.values()} == {pb.FIFO}


@pytest.mark.parametrize("settles", ["ack", "nack", "forward", "silence"])
async def test_a_waiting_poll_gets_the_message_group_when_its_open_message_is_settled(
    client: RawClient, other: RawClient, topic: str, group: str, settles: str
) -> None:
    await send(client, topic, b"a1", b"a2")
    held = await client.receive(topic, group, batch_size=1)
    handle = handle_of(held.messages[0])
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    await until_known(client, other, group)
    if settles == "ack":
        await ack(client, topic, group, held)
    elif settles == "nack":
        await nack(client, topic, group, held.messages)
    elif settles == "forward":
        assert await client.forward_to_dead_letters(topic, group, handle) == "OK"
    else:
        await client.change(topic, group, handle, 0.1)
    async with asyncio.timeout(5):
        received = await waiting
    if settles in ("ack", "forward"):
        assert (received.bodies, received.attempts) == ([b"a2"], [1])
    else:
        assert (received.bodies[0], received.attempts[0]) == (b"a1", 2)


async def test_an_ordered_group_has_a_normal_topics_queues_in_order(
    client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=2)
    for body in (b"0", b"1", b"2", b"3"):  # in turn to both queues
        await client.send(new_topic, body)
    first = await client.receive(new_topic, group, batch_size=1)
    second = await client.receive(new_topic, group, batch_size=1)
    assert {*first.bodies, *second.bodies} == {b"0", b"1"}
    assert (await client.receive(new_topic, group)).bodies == []
    await ack(client, new_topic, group, second)
    following = await client.receive(new_topic, group)
    assert following.bodies == [b"%d" % (int(second.bodies[0]) + 2)]


async def test_a_group_that_is_not_ordered_takes_a_fifo_topic_as_it_comes(
    client: RawClient, topic: str, group: str
) -> None:
    await send(client, topic, b"a1", b"a2")
    unordered = f"{group}-unordered"
    await create_group(client, name=unordered)
    first = await client.receive(topic, unordered, batch_size=1)
    assert (await client.receive(topic, unordered)).bodies == [b"a2"]
    await nack(client, topic, unordered, first.messages)
    assert (await client.receive(topic, unordered)).attempts == [2]
    assert await stored(client, f"%RETRY%{unordered}") == 1


# --- again


async def test_what_a_push_consumer_leaves_behind_goes_to_another_in_order(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await send(client, topic, b"a1", b"a2", b"a3")
    held = await client.receive(topic, group, auto_renew=True, invisible_s=None, batch_size=2)
    assert held.bodies == [b"a1", b"a2"]
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    await until_known(client, other, group)
    await terminate(client, group)
    async with asyncio.timeout(5):
        received = await waiting
    assert (received.bodies, received.attempts) == ([b"a1", b"a2", b"a3"], [2, 2, 1])


async def test_messages_of_an_answer_that_was_cut_come_in_order_as_if_never_delivered(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    # More than fits into the buffers between server and client, so that the server is still writing.
    for number in range(4):
        await client.send(topic, bytes([number]) * 1_000_000, message_group="a")
    stream = other.stream("ReceiveMessage", receive_request(topic, group))
    assert (await stream.read()).status.code == pb.OK
    stream.cancel()
    received = await client.receive(topic, group, poll_s=15)
    assert [body[:1] for body in received.bodies] == [b"\x00", b"\x01", b"\x02", b"\x03"]
    assert received.attempts == [1] * 4


# --- the same call again


async def test_a_call_that_is_repeated_gets_the_same_messages_with_the_same_attempt_and_new_handles(
    client: RawClient, topic: str, group: str
) -> None:
    await send(client, topic, b"a1", b"a2", b"b1")
    first = await client.receive(topic, group, attempt_id="x")
    again = await client.receive(topic, group, attempt_id="x")
    assert sorted(first.bodies) == sorted(again.bodies) == [b"a1", b"a2", b"b1"]
    assert again.bodies.index(b"a1") < again.bodies.index(b"a2")
    assert again.attempts == [1, 1, 1]
    assert not {*map(handle_of, first.messages)} & {*map(handle_of, again.messages)}
    await ack(client, topic, group, first)  # fine, and without effect
    assert (await get(client, topic, group)).offset == 0
    await ack(client, topic, group, again)
    assert (await get(client, topic, group)).offset == 3


async def test_calls_without_a_name_are_no_repetitions(client: RawClient, topic: str, group: str) -> None:
    await send(client, topic, b"a1", b"a2")
    assert (await client.receive(topic, group, batch_size=1)).bodies == [b"a1"]
    assert (await client.receive(topic, group)).bodies == []


async def test_a_repeated_call_gets_what_is_left_and_more_up_to_its_batch(
    client: RawClient, topic: str, group: str
) -> None:
    await send(client, topic, b"a1", b"a2", b"a3", b"b1")
    first = await client.receive(topic, group, batch_size=2, attempt_id="x")
    assert first.bodies == [b"a1", b"a2"]
    await client.ack(topic, group, handle_of(first.messages[0]))
    again = await client.receive(topic, group, batch_size=2, attempt_id="x")
    assert (again.bodies, again.attempts) == ([b"a2", b"b1"], [1, 1])
    assert (await client.receive(topic, group, attempt_id="y")).bodies == []


async def test_the_name_of_a_call_is_nothing_to_an_unordered_group(client: RawClient, topic: str, group: str) -> None:
    await create_group(client, name=f"{group}-unordered")
    await send(client, topic, b"a1")
    assert (await client.receive(topic, f"{group}-unordered", attempt_id="x")).bodies == [b"a1"]
    assert (await client.receive(topic, f"{group}-unordered", attempt_id="x")).bodies == []


# --- out of attempts


async def test_a_message_out_of_attempts_is_a_dead_letter_and_the_next_goes_on(
    client: RawClient, topic: str, group: str
) -> None:
    await send(client, topic, b"a1", b"a2")
    for attempt in (1, 2):
        received = await client.receive(topic, group, batch_size=1)
        assert (received.bodies, received.attempts) == ([b"a1"], [attempt])
        await nack(client, topic, group, received.messages)
    received = await client.receive(topic, group)
    assert (received.bodies, received.attempts) == ([b"a2"], [1])
    [letter] = await dead_letters(client, group)
    own = letter.system_properties
    assert (letter.body, own.message_group, own.message_type) == (b"a1", "a", pb.FIFO)
    assert (own.dead_letter_queue.topic, own.dead_letter_queue.message_id) == (topic, own.message_id)
    assert (letter.user_properties["DLQ_ATTEMPTS"], letter.user_properties["DLQ_REASON"]) == ("2", "attempts")
    assert await stored(client, f"%RETRY%{group}") == 0


async def test_a_last_attempt_whose_consumer_leaves_is_no_more_delivered(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await send(client, topic, b"a1", b"a2")
    await nack(client, topic, group, (await client.receive(topic, group, batch_size=1)).messages)
    held = await client.receive(topic, group, batch_size=1, auto_renew=True, invisible_s=None)
    assert held.attempts == [2]
    await terminate(client, group)
    assert b"a1" not in (await other.receive(topic, group)).bodies


async def test_a_message_that_is_forwarded_twice_at_the_same_time_is_one_dead_letter(
    client: RawClient, topic: str, group: str
) -> None:
    await send(client, topic, b"a1")
    [held] = (await client.receive(topic, group)).messages
    answers = await asyncio.gather(*(client.forward_to_dead_letters(topic, group, handle_of(held)) for _ in range(8)))
    assert "OK" in answers
    assert set(answers) <= {"OK", "INVALID_RECEIPT_HANDLE"}
    assert [letter.body for letter in await dead_letters(client, group)] == [b"a1"]


# --- where messages go


async def test_a_message_group_is_in_one_queue_whoever_sends_it(
    client: RawClient, other: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=8, kind=pb.FIFO)
    letters = [bytes([letter]) for letter in range(ord("a"), ord("q"))]
    for sender in (client, other):
        await send(sender, new_topic, *letters)
    queues: dict[bytes, set[int]] = defaultdict(set)
    for received in (await client.receive(new_topic, group)).messages:
        queues[received.body].add(received.system_properties.queue_id)
    assert queues.keys() == set(letters)
    assert {len(found) for found in queues.values()} == {1}
    assert len(set().union(*queues.values())) > 1


async def test_a_request_of_several_message_groups_is_answered_message_by_message(
    client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=8, kind=pb.FIFO)
    sent = [message(new_topic, b"%c%d" % (letter, at), message_group=chr(letter)) for at in (1, 2) for letter in b"fad"]
    answer = await client.call("SendMessage", messages=sent)
    assert (code(answer), names(answer.entries)) == ("OK", ["OK"] * 6)
    assert [entry.message_id for entry in answer.entries] == [each.system_properties.message_id for each in sent]
    received = (await client.receive(new_topic, group)).messages
    offsets = {each.system_properties.message_id: each.system_properties.queue_offset for each in received}
    assert [entry.offset for entry in answer.entries] == [offsets[entry.message_id] for entry in answer.entries]
    for letter in (b"f", b"a", b"d"):
        assert [each.body for each in received if each.body[:1] == letter] == [letter + b"1", letter + b"2"]


# --- all of it together


class Contest:
    """Consumers that acknowledge and give back at random until all is finished, and what they see of the order."""

    LETTERS = b"abcde"
    PER_LETTER = 20

    def __init__(self, topic: str, group: str, rng: random.Random) -> None:
        self._topic, self._group, self._rng = topic, group, rng
        self.finished: dict[bytes, list[int]] = defaultdict(list)
        self._held: set[bytes] = set()

    async def produce(self, producer: RawClient) -> None:
        for number in range(self.PER_LETTER):
            await send(producer, self._topic, *(b"%c%d" % (letter, number) for letter in self.LETTERS))

    async def consume(self, consumer: RawClient) -> None:
        while sum(map(len, self.finished.values())) < len(self.LETTERS) * self.PER_LETTER:
            batch = self._rng.randint(1, 6)
            received = await consumer.receive(self._topic, self._group, poll_s=0.2, batch_size=batch)
            by_letter: dict[bytes, list[pb.Message]] = defaultdict(list)
            for each in received.messages:
                by_letter[each.body[:1]].append(each)
            for letter, messages in by_letter.items():
                self._take(letter, [int(each.body[1:]) for each in messages])
            for letter, messages in by_letter.items():
                for each in messages:
                    if each is messages[-1]:
                        self._held.remove(letter)  # before the call that may let others have it
                    await self._settle(consumer, letter, each)

    def _take(self, letter: bytes, numbers: list[int]) -> None:
        assert numbers == sorted(numbers)
        # All that was sent before is finished, and nobody else has anything of this message group.
        assert set(range(numbers[0])) <= {*self.finished[letter]}
        assert letter not in self._held
        self._held.add(letter)

    async def _settle(self, consumer: RawClient, letter: bytes, received: pb.Message) -> None:
        if self._rng.random() < 0.7:
            self.finished[letter].append(int(received.body[1:]))
            await consumer.ack(self._topic, self._group, handle_of(received))
        else:
            await nack(consumer, self._topic, self._group, [received])


async def test_any_number_of_consumers_see_each_message_group_in_order_and_one_at_a_time(
    server: Embedded, client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=3, kind=pb.FIFO)
    await create_group(client, name=f"{group}-patient", fifo=True, max_attempts=1000)
    contest = Contest(new_topic, f"{group}-patient", random.Random(7))
    async with AsyncExitStack() as stack:
        consumers = [await stack.enter_async_context(RawClient(server.grpc)) for _ in range(4)]
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(contest.produce(client))
            for consumer in consumers:
                tasks.create_task(contest.consume(consumer))
    everything = [*range(Contest.PER_LETTER)]
    assert {letter: sorted(numbers) for letter, numbers in contest.finished.items()} == {
        bytes([letter]): everything for letter in Contest.LETTERS
    }


# --- clients that need care


@pytest.mark.parametrize(("language", "expected"), [("GO", [b"a1", b"b1"]), ("JAVA", [b"a1", b"a2", b"b1"])])
async def test_go_gets_one_message_of_a_message_group_at_a_time(
    server: Embedded, client: RawClient, topic: str, group: str, language: str, expected: list[bytes]
) -> None:
    await send(client, topic, b"a1", b"a2", b"b1")
    metadata = (("x-mq-client-id", f"{language}-{group}"), ("x-mq-language", language))
    async with RawClient(server.grpc, metadata=metadata) as push:
        await push.configure(pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}}))
        received = await push.receive(topic, group, auto_renew=True, invisible_s=None)
        assert sorted(received.bodies) == expected


# --- large bodies


async def test_large_messages_come_in_batches_that_fit_into_memory(client: RawClient, topic: str, group: str) -> None:
    bodies = [bytes((lane,)) * (3 << 20) for lane in b"aabbc"]
    for body in bodies:
        await client.send(topic, body, message_group=body[:1].decode())
    first = await client.receive(topic, group)
    assert 0 < len(first.messages) < len(bodies)
    assert sum(map(len, first.bodies)) <= 12 << 20
    await ack(client, topic, group, first)
    rest = await consumed(client, topic, group)
    assert sorted([*first.bodies, *(each.body for each in rest)]) == bodies
