"""The official clients of four languages, unmodified, as consumers: retries, dead letters, filters and order.

The programs in `consumers/` do what the bodies of the messages say; their README has the words. In each test the
consumers of all languages work at the same time, each with a group of its own, unless they share one.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import LANGUAGES, in_each
from tests.interop.consumers.running import Consumers, Event, at_least, attempts, deliveries, outcomes
from tests.interop.processes import DEADLINE_S
from tests.interop.server import CURVE, MAX_ATTEMPTS, STEPS, Server
from tests.support.embedded import Proto, RawClient, message

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]


def counting_up(numbers: dict[str, int]) -> dict[str, list[int]]:
    return {body: list(range(1, number + 1)) for body, number in numbers.items()}


RETRIED = {
    **{f"good-{n}": 1 for n in range(20)},
    **{f"fail-2-{n}": 3 for n in range(5)},
    **{f"poison-{n}": MAX_ATTEMPTS for n in range(3)},
    **{f"good-held-{n}": 1 for n in range(4)},
}


async def test_what_a_push_consumer_fails_comes_again_and_becomes_a_dead_letter(server: Server) -> None:
    topic = await server.client.create_topic("retries", queues=4)
    sent = {
        body: message(topic, body.encode(), properties={"of": body}, tag="t", keys=[f"key-{body}"]) for body in RETRIED
    }
    await server.send(list(sent.values()))

    async def check(language: str) -> None:
        group = await server.create_group(f"retries-{language}")
        async with server.consumers(language, kind="push", topic=topic, group=group) as consumers:
            await consumers.until(all_held, "four handlers at work at the same time")
            await consumers.release()
            await consumers.until(at_least(sum(RETRIED.values())), "all deliveries")
            await server.finished(group)
        assert attempts(consumers.events) == counting_up(RETRIED)
        letters = {letter.body.decode(): letter for letter in await server.dead_letters(group)}
        assert letters.keys() == {body for body in RETRIED if body.startswith("poison-")}
        for body, letter in letters.items():
            check_letter(letter, sent[body], reason="attempts")
            assert letter.user_properties["DLQ_ATTEMPTS"] == str(MAX_ATTEMPTS)

    await in_each(LANGUAGES, check)


def all_held(events: Sequence[Event]) -> bool:
    return {body for body in RETRIED if "-held-" in body} <= attempts(events).keys()


def check_letter(letter: pb.Message, sent: pb.Message, *, reason: str) -> None:
    """A dead letter is the message as it was sent, and says where it came from."""
    system, topic = sent.system_properties, sent.topic.name
    assert letter.system_properties.message_id == system.message_id
    assert (letter.body, letter.system_properties.tag) == (sent.body, system.tag)
    assert letter.system_properties.keys == system.keys
    assert letter.system_properties.message_group == system.message_group
    assert letter.system_properties.dead_letter_queue == pb.DeadLetterQueue(topic=topic, message_id=system.message_id)
    assert dict(letter.user_properties) == {
        **sent.user_properties,
        "DLQ_ORIGIN_TOPIC": topic,
        "DLQ_ORIGIN_MESSAGE_ID": system.message_id,
        "DLQ_ATTEMPTS": letter.user_properties["DLQ_ATTEMPTS"],
        "DLQ_REASON": reason,
    }


NOT_ACKED = {"good-1": 1, "good-2": 1, "fail-1-1": 2, "fail-2-1": 3, "forget-1": 2, "forget-2": 2}


async def test_what_a_simple_consumer_does_not_acknowledge_comes_again(server: Server) -> None:
    topic = await server.client.create_topic("unacknowledged", queues=4)
    await server.send([message(topic, body.encode()) for body in NOT_ACKED])

    async def check(language: str) -> None:
        group = await server.create_group(f"unacknowledged-{language}")
        async with server.consumers(language, kind="simple", topic=topic, group=group) as consumers:
            await consumers.until(at_least(sum(NOT_ACKED.values())), "all deliveries")
            await server.finished(group)
        assert attempts(consumers.events) == counting_up(NOT_ACKED)
        assert await server.dead_letters(group) == []

    await in_each(LANGUAGES, check)


# body: tag, properties
FILTERED: dict[str, tuple[str | None, dict[str, str]]] = {
    "fail-1-a-11-eu": ("a", {"price": "11", "region": "eu"}),
    "a-10-eu": ("a", {"price": "10", "region": "eu"}),
    "b-200-eu": ("b", {"price": "200", "region": "eu"}),
    "b-200-us": ("b", {"price": "200", "region": "us"}),
    "c-12-eu": ("c", {"price": "12", "region": "eu"}),
    "ab-9-eu": ("ab", {"price": "9", "region": "eu"}),
    "A-none": ("A", {}),
    "none-cheap-eu": (None, {"price": "cheap", "region": "eu"}),
    "none-eu": (None, {"region": "eu"}),
}
# filter: the deliveries of what passes
PASSING = {
    "tag:a || b": {"fail-1-a-11-eu": 2, "a-10-eu": 1, "b-200-eu": 1, "b-200-us": 1},
    "sql:price > 10 AND region = 'eu'": {"fail-1-a-11-eu": 2, "b-200-eu": 1, "c-12-eu": 1},
}


@pytest.mark.parametrize("kind", ["push", "simple"])
@pytest.mark.parametrize("passing", PASSING)
async def test_a_consumer_gets_exactly_what_its_filter_lets_pass(server: Server, passing: str, kind: str) -> None:
    topic, expected = await server.client.create_topic("filtered", queues=4), PASSING[passing]
    for body, (tag, properties) in FILTERED.items():
        await server.send([message(topic, body.encode(), tag=tag, properties=properties)])

    async def check(language: str) -> None:
        group = await server.create_group(f"filtered-{language}")
        async with server.consumers(language, kind=kind, topic=topic, group=group, passing=passing) as consumers:
            await consumers.until(at_least(sum(expected.values())), "what passes the filter")
            await server.finished(group)
        assert attempts(consumers.events) == counting_up(expected)
        for event in deliveries(consumers.events):
            tag, properties = FILTERED[event.body]
            assert event.tag == (tag or "-")
            assert event.properties == ",".join(f"{key}={value}" for key, value in sorted(properties.items()))

    await in_each(LANGUAGES, check)


# message group: what is sent in it, in order; all of these message groups share a queue
ORDERED = {
    "a": ["good-a-1", "good-a-2", "fail-1-a-3", "good-a-4", "good-a-5"],
    "b": ["good-b-1", "good-b-2", "good-b-3", "good-b-4", "good-b-5"],
    "d": ["fail-1-d-1", "good-d-2", "fail-1-d-3", "good-d-4", "good-d-5"],
    "k": ["good-k-1", "poison-held-k-2", "good-k-3", "good-k-4", "good-k-5"],
    "s": ["good-s-1", "good-s-2", "good-s-3", "good-s-4", "fail-1-s-5"],
}
HELD, BEHIND_THE_HELD = "poison-held-k-2", ("good-k-3", "good-k-4", "good-k-5")
# group: language, retry back-off, how often the client tries
FIFO_GROUPS = {
    "go": ("go", STEPS, MAX_ATTEMPTS),
    "java": ("java", STEPS, MAX_ATTEMPTS),
    "python": ("python", STEPS, MAX_ATTEMPTS),
    "node": ("node", CURVE, MAX_ATTEMPTS),
    # This client reads no customized back-off, and then none of the maximum of attempts either.
    "node-steps": ("node", STEPS, 1),
}


def ordered_deliveries(tries: int) -> dict[str, int]:
    needed = {"good": 1, "fail": 2, "poison": MAX_ATTEMPTS}
    return {body: min(needed[body.split("-", maxsplit=1)[0]], tries) for bodies in ORDERED.values() for body in bodies}


@pytest.mark.parametrize("sent_first", [True, False])
async def test_a_fifo_group_keeps_the_order_of_each_message_group_whatever_fails(
    server: Server, sent_first: bool
) -> None:
    async def check(name: str) -> None:
        language, backoff, tries = FIFO_GROUPS[name]
        topic = await server.client.create_topic(name, queues=4, kind=pb.FIFO)
        group = await server.create_group(name, fifo=True, retry_backoff=backoff)
        sent = {body: ordered(topic, key, body) for key, bodies in ORDERED.items() for body in bodies}
        in_turn = [sent[body] for row in zip(*ORDERED.values(), strict=True) for body in row]
        expected = ordered_deliveries(tries)
        if sent_first:  # then consumers get several messages of a message group at once
            await server.send(in_turn)
        async with server.consumers(language, language, kind="fifo", topic=topic, group=group) as consumers:
            if not sent_first:
                await all_at_work(server, consumers, topic, count=2)
                await server.send(in_turn)
            await consumers.until(all_done(expected, but="k"), "the message groups behind which nobody waits")
            await consumers.until(lambda events: HELD in attempts(events), "the handler that waits")
            assert not attempts(consumers.events).keys() & set(BEHIND_THE_HELD)
            await consumers.release()
            await consumers.until(all_done(expected), "the last message group")
            await server.finished(group)
        assert await server.queues_in_use(topic) == 1
        for bodies in ORDERED.values():
            check_order(consumers.events, bodies)
        assert {body: len(found) for body, found in attempts(consumers.events).items() if body in sent} == expected
        letters = {letter.body.decode(): letter for letter in await server.dead_letters(group)}
        assert letters.keys() == {body for body in expected if expected[body] == tries and "good" not in body}
        for body, letter in letters.items():
            check_letter(letter, sent[body], reason="forwarded")

    await in_each(FIFO_GROUPS, check)


def ordered(topic: str, key: str, body: str) -> pb.Message:
    return message(topic, body.encode(), message_group=key, message_type=pb.FIFO)


async def all_at_work(server: Server, consumers: Consumers, topic: str, *, count: int) -> None:
    """Send until each of so many processes has had a message: all of them poll now."""
    async with asyncio.timeout(DEADLINE_S):
        for number in itertools.count(1):
            await server.send([ordered(topic, "w", f"good-w-{number}")])
            await consumers.until(at_least(number), "a first message")
            if len({event.pid for event in consumers.events}) == count:
                return


def all_done(expected: dict[str, int], *, but: str = "") -> Callable[[Sequence[Event]], bool]:
    """Whether all message groups, `but` one, have had the deliveries that are expected."""
    awaited = {body: expected[body] for key, bodies in ORDERED.items() if key != but for body in bodies}

    def done(events: Sequence[Event]) -> bool:
        found = outcomes(events)
        return all(found[body] == number for body, number in awaited.items())

    return done


def check_order(events: Sequence[Event], bodies: Sequence[str]) -> None:
    """One of these messages at a time, in this order, and none before all deliveries of the one before it."""
    mine = [event for event in events if event.body in bodies]
    assert [body for body, _ in itertools.groupby(event.body for event in mine)] == list(bodies)
    for got, outcome in zip(mine[::2], mine[1::2], strict=True):
        assert (got.kind, got.pid, got.body) == ("got", outcome.pid, outcome.body)
        assert outcome.kind in ("ok", "failed")


async def test_consumers_of_all_languages_share_a_fifo_group(server: Server) -> None:
    topic = await server.client.create_topic("shared", queues=4, kind=pb.FIFO)
    group = await server.create_group("shared", fifo=True)
    sent = {f"key-{key}": [f"good-{key}-{number}" for number in range(10)] for key in range(8)}
    async with server.consumers(*LANGUAGES, kind="fifo", topic=topic, group=group) as consumers:
        await all_at_work(server, consumers, topic, count=len(LANGUAGES))
        for row in zip(*sent.values(), strict=True):
            await server.send([ordered(topic, key, body) for key, body in zip(sent, row, strict=True)])
        wanted = {body for bodies in sent.values() for body in bodies}
        await consumers.until(lambda events: wanted <= outcomes(events).keys(), "all messages")
        await server.finished(group)
    for bodies in sent.values():
        check_order(consumers.events, bodies)
    assert all(event.attempt == 1 for event in deliveries(consumers.events))


LETTERS = {"good-1": 1, "fail-1-1": 2}


@pytest.mark.parametrize("kind", ["push", "simple"])
async def test_a_consumer_reads_dead_letters_as_any_other_topic(server: Server, kind: str) -> None:
    topic = await server.client.create_topic("given-up")
    group = await server.create_group("gives-up")
    await server.send([message(topic, body.encode()) for body in LETTERS])
    for received in (await server.client.receive(topic, group)).messages:
        await forward(server.client, topic, group, received)

    async def check(language: str) -> None:
        readers = await server.create_group(f"readers-{language}")
        async with server.consumers(language, kind=kind, topic=f"%DLQ%{group}", group=readers) as consumers:
            await consumers.until(at_least(sum(LETTERS.values())), "all dead letters")
            await server.finished(readers)
        assert attempts(consumers.events) == counting_up(LETTERS)
        assert all("DLQ_ORIGIN_TOPIC=given-up" in event.properties for event in deliveries(consumers.events))

    await in_each(LANGUAGES, check)


async def forward(client: RawClient, topic: str, group: str, received: Proto) -> None:
    handle, message_id = received.system_properties.receipt_handle, received.system_properties.message_id
    assert await client.forward_to_dead_letters(topic, group, handle, message_id=message_id) == "OK"
