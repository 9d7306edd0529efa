"""`ternmq.Admin` on the whole stack: what `test_admin_conformance.py`, which has each call, leaves open."""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message
from ternmq.admin import messages, timers
from ternmq.admin.brokers import Backlog
from ternmq.admin.requests.words import Resolution
from ternmq.admin.topics import QueueState
from ternmq.testing import Stack

DAYS_AGO = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(default_queues=1, transaction_timeout_ms="1h") as running:
        yield running


@pytest.fixture
async def admin(stack: Stack) -> AsyncIterator[ternmq.Admin]:
    async with ternmq.Admin(stack.endpoint) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


async def sent(stack: Stack, topic: str, *bodies: bytes) -> list[ternmq.SendReceipt]:
    """Messages with their bodies for keys."""
    async with ternmq.Producer(stack.endpoint) as producer:
        return [await producer.send(Message(topic, body, keys=[body.decode()])) for body in bodies]


async def received(stack: Stack, topic: str, group: str, count: int) -> list[bytes]:
    """The bodies of so many messages, which are acknowledged."""
    consumer = ternmq.SimpleConsumer(stack.endpoint, group, {topic: "*"}, await_duration=timedelta(seconds=20))
    bodies: list[bytes] = []
    async with consumer:
        while len(bodies) < count:
            views = await consumer.receive(count - len(bodies))
            await consumer.ack(views)
            bodies += [view.body for view in views]
    return bodies


async def half_sent(stack: Stack, topic: str) -> str:
    """The id of a transaction that its producer leaves open."""
    async with ternmq.Producer(stack.endpoint, [topic]) as producer:
        receipt = await producer.begin_transaction().send(Message(topic, b"paid"))
    return receipt.transaction_id


# --- topics


async def test_a_topic_is_made_once_described_changed_and_deleted(admin: ternmq.Admin, topic: str) -> None:
    assert await admin.create_topic(topic, "delay", 3)
    assert not await admin.create_topic(topic, "delay", 3)
    [found] = [each for each in await admin.list_topics() if each.name == topic]
    assert (found.type, found.queues, found.permission, found.brokers) == ("delay", 3, "read-write", ())
    assert found.created is not None
    assert abs(found.created - datetime.now(UTC)) < timedelta(hours=12)
    described = await admin.describe_topic(topic)
    assert described.topic == found
    [broker] = await admin.list_brokers()
    assert described.queues == tuple(
        QueueState(broker=broker.name, queue_id=queue_id, min_offset=0, max_offset=0, purged_below=0)
        for queue_id in range(3)
    )
    assert described.silent_brokers == ()
    assert await admin.list_topics([topic, "nowhere"]) == [found]
    with pytest.raises(TypeError, match="names is a list of names"):
        await admin.list_topics(topic)
    changed = await admin.update_topic(topic, queues=4, permission="read")
    assert (changed.queues, changed.permission, changed.identity) == (4, "read", found.identity)
    assert (await admin.describe_topic(topic)).topic == changed
    assert [each.removed for each in await admin.purge_topic(topic, dry_run=True)] == [0] * 4
    assert len(await admin.purge_topic(topic, before=datetime.now(UTC))) == 4
    await admin.delete_topic(topic)
    assert topic not in [each.name for each in await admin.list_topics()]


async def test_a_topic_that_is_there_otherwise_is_a_bad_request(admin: ternmq.Admin, topic: str) -> None:
    await admin.create_topic(topic, permission="write")
    with pytest.raises(ternmq.BadRequest, match=topic):
        await admin.create_topic(topic, "fifo")
    with pytest.raises(ternmq.BadRequest, match="broker"):
        await admin.create_topic(f"{topic}-elsewhere", brokers=["nowhere"])
    with pytest.raises(ternmq.BadRequest, match="broker"):
        await admin.update_topic(topic, add_brokers=["nowhere"])


# --- groups


async def test_a_group_is_made_once_described_changed_and_deleted(admin: ternmq.Admin, group: str) -> None:
    assert await admin.create_group(group, fifo=True, consume_from=DAYS_AGO, queue_lock_hold=timedelta(seconds=30))
    assert not await admin.create_group(group, fifo=True, consume_from=DAYS_AGO, queue_lock_hold=timedelta(seconds=30))
    with pytest.raises(ternmq.BadRequest, match=group):
        await admin.create_group(group)
    [found] = [each for each in await admin.list_groups() if each.name == group]
    assert (found.fifo, found.consume_from, found.queue_lock_hold) == (True, DAYS_AGO, timedelta(seconds=30))
    assert (found.assignment, found.priority_factor) == ("averagely", 99)
    changed = await admin.update_group(group, max_attempts=3, retry_backoff="customized:1s,5s", priority_factor=0)
    assert (changed.max_attempts, changed.retry_backoff, changed.priority_factor) == (3, "customized:1s,5s", 0)
    assert (changed.fifo, changed.consume_from, changed.queue_lock_hold) == (True, DAYS_AGO, timedelta(seconds=30))
    described = await admin.describe_group(group)
    assert described.group == changed
    assert (described.progress, described.members, described.lag) == ((), (), 0)
    await admin.delete_group(group)
    assert group not in [each.name for each in await admin.list_groups()]


async def test_a_lite_topic_and_its_group_have_settings_of_their_own(
    admin: ternmq.Admin, topic: str, group: str
) -> None:
    day, hour = timedelta(days=1), timedelta(hours=1)
    assert await admin.create_topic(topic, "lite", lite_ttl=day, flush="async")
    found = (await admin.describe_topic(topic)).topic
    assert (found.lite_ttl, found.retention, found.flush) == (day, None, "async")
    with pytest.raises(ternmq.BadRequest, match="no retention of its own"):
        await admin.update_topic(topic, lite_ttl=hour, retention=day)
    changed = await admin.update_topic(topic, lite_ttl=hour, flush="broker")
    assert (changed.lite_ttl, changed.flush) == (hour, "broker")
    assert (await admin.update_topic(topic, lite_ttl=timedelta(0))).lite_ttl is None
    assert await admin.create_group(group, lite_bind=topic, lite_quota=7, lite_reset=["unsubscribed", "taken"])
    assert not await admin.create_group(group, lite_bind=topic, lite_quota=7, lite_reset=["taken", "unsubscribed"])
    made = (await admin.describe_group(group)).group
    assert (made.lite_bind, made.lite_model, made.lite_quota) == (topic, "shared", 7)
    assert (made.lite_wildcard, made.lite_reset) == (False, ("taken", "unsubscribed"))
    other = await admin.update_group(group, lite_model="exclusive", lite_wildcard=True, lite_reset=[])
    assert other == replace(made, lite_model="exclusive", lite_wildcard=True, lite_reset=())
    assert await admin.update_group(group, max_attempts=3) == replace(other, max_attempts=3)


async def test_a_group_that_is_no_lite_group_never_becomes_one(admin: ternmq.Admin, group: str) -> None:
    await admin.create_group(group)
    made = (await admin.describe_group(group)).group
    assert (made.lite_bind, made.lite_model, made.lite_quota, made.lite_wildcard, made.lite_reset) == (None,) * 5
    with pytest.raises(ternmq.BadRequest, match="is no lite group, and that can't change"):
        await admin.update_group(group, lite_model="shared")
    assert (await admin.describe_group(group)).group == made


async def test_a_settings_text_that_says_nothing_is_a_bad_request(admin: ternmq.Admin, group: str) -> None:
    with pytest.raises(ternmq.BadRequest, match="retry"):
        await admin.create_group(group, retry_backoff="soon")


async def test_a_described_group_tells_what_a_purge_took_unread(
    admin: ternmq.Admin, stack: Stack, topic: str, group: str
) -> None:
    stack.create_topic(topic, queues=1)
    stack.create_group(group, consume_from="earliest")
    await sent(stack, topic, b"0", b"1", b"2")
    async with ternmq.SimpleConsumer(stack.endpoint, group, {topic: "*"}) as consumer:
        [first] = await consumer.receive(1)
        await consumer.ack(first)
    await admin.purge_topic(topic)
    [progress] = [each for each in (await admin.describe_group(group)).progress if each.topic == topic]
    assert (progress.lag, progress.lost) == (0, 2)
    [queue] = (await admin.describe_topic(topic)).queues
    assert queue.purged_below == 3


async def test_a_described_group_tells_how_far_it_is_and_who_is_in_it(
    admin: ternmq.Admin, stack: Stack, topic: str, group: str
) -> None:
    stack.create_topic(topic)
    stack.create_group(group, consume_from="earliest")
    await sent(stack, topic, b"0", b"1", b"2")
    consumer = ternmq.SimpleConsumer(stack.endpoint, group, {topic: "*"})
    async with consumer:
        [view] = await consumer.receive(1)
        described = await admin.describe_group(group)
        [member] = described.members
        assert (member.client_id, member.client_type) == (consumer.client_id, "simple_consumer")
        assert member.subscriptions == {topic: "*"}
        assert described.client_ids == (consumer.client_id,)
        await consumer.ack(view)
    [progress] = (await admin.describe_group(group)).progress
    assert (progress.topic, progress.queue_id, progress.max_offset, progress.lag) == (topic, 0, 3, 2)
    assert progress.oldest_age is not None
    assert progress.oldest_age >= timedelta(0)


async def test_a_group_is_moved_in_every_way(admin: ternmq.Admin, stack: Stack, topic: str, group: str) -> None:
    stack.create_topic(topic)
    stack.create_group(group)
    await sent(stack, topic, b"0", b"1", b"2", b"3")
    [first] = await admin.reset_offsets(group, topic, "latest")
    assert (first.queue_id, first.before, first.after) == (0, None, 4)
    [rehearsed] = await admin.reset_offsets(group, topic, "earliest", dry_run=True)
    assert (rehearsed.before, rehearsed.after) == (4, 0)
    [shifted] = await admin.reset_offsets(group, topic, shift=-1)
    assert (shifted.before, shifted.after) == (4, 3), "the rehearsal moved nothing"
    [placed] = await admin.reset_offsets(group, topic, 1, queue_ids=[0], broker=first.broker)
    assert (placed.before, placed.after) == (3, 1)
    [timed] = await admin.reset_offsets(group, topic, DAYS_AGO)
    assert (timed.before, timed.after) == (1, 0)
    assert await received(stack, topic, group, 4) == [b"0", b"1", b"2", b"3"]
    with pytest.raises(ternmq.BadRequest, match="nowhere"):
        await admin.reset_offsets(group, topic, "latest", broker="nowhere")


async def test_one_message_is_skipped(admin: ternmq.Admin, stack: Stack, topic: str, group: str) -> None:
    stack.create_topic(topic)
    stack.create_group(group)
    await sent(stack, topic, b"0", b"1", b"2")
    await admin.reset_offsets(group, topic, "earliest")
    async with ternmq.SimpleConsumer(stack.endpoint, group, {topic: "*"}) as consumer:
        [view] = await consumer.receive(1)
        [move] = await admin.skip_message(group, topic, 0, view.offset)
        assert (move.queue_id, move.before, move.after) == (0, 0, 1)
        [view] = await consumer.receive(1)
        with ternmq.blocking.Admin(stack.endpoint) as blocking:
            [move] = await asyncio.to_thread(blocking.skip_message, group, topic, 0, view.offset)
        assert (move.queue_id, move.before, move.after) == (0, 1, 2)
    assert await received(stack, topic, group, 1) == [b"2"]
    with pytest.raises(ternmq.BadRequest):
        await admin.skip_message(group, topic, 0, 17)


# --- what is stored


async def test_messages_are_found_by_key_and_by_id(admin: ternmq.Admin, stack: Stack, topic: str) -> None:
    stack.create_topic(topic)
    receipts = await sent(stack, topic, b"order-7", b"order-7", b"order-8")
    found = await admin.find_messages(topic, "order-7")
    assert [view.offset for view in found] == [1, 0], "the newest first"
    assert {view.broker for view in found} == {broker.name for broker in await admin.list_brokers()}
    assert [view.body for view in await admin.find_messages(topic, receipts[2].message_id)] == [b"order-8"]
    assert [view.offset for view in await admin.find_messages(topic, "order-7", limit=1)] == [1]
    assert await admin.find_messages(topic, "order-9") == []


async def test_dead_letters_are_listed_and_delivered_again(
    admin: ternmq.Admin, stack: Stack, topic: str, group: str
) -> None:
    stack.create_topic(topic)
    stack.create_group(group, max_attempts=1, consume_from="earliest")
    await sent(stack, topic, b"0")
    async with ternmq.SimpleConsumer(stack.endpoint, group, {topic: "*"}) as consumer:
        assert [letter async for letter in admin.list_dead_letters(group)] == [], "none ever came"
        [view] = await consumer.receive(1, timedelta(seconds=10))
        await admin.advance_clock(11)
        letters: list[ternmq.MessageView] = []
        while not letters:
            letters = [letter async for letter in admin.list_dead_letters(group)]
        assert [(letter.body, letter.offset) for letter in letters] == [(b"0", 0)]
        assert [each.body async for each in admin.list_dead_letters(group, broker=letters[0].broker)] == [b"0"]
        assert [each async for each in admin.list_dead_letters(group, broker="nowhere")] == []
        with ternmq.blocking.Admin(stack.endpoint) as blocking:
            found = await asyncio.to_thread(list, blocking.list_dead_letters(group))
        assert [(letter.body, letter.offset) for letter in found] == [(b"0", 0)]
        again: list[ternmq.ReceivedMessage] = []
        [resent, refused] = await admin.resend_dead_letters(group, [0, 5])
        assert (resent.offset, resent.message_id, resent.error) == (0, view.message_id, None)
        assert refused.offset == 5
        assert isinstance(refused.error, ternmq.NotFound)
        while not again:
            again = await consumer.receive(1)
        assert again[0].body == b"0"
        await consumer.ack(again)
    with pytest.raises(ternmq.NotFound):
        await anext(aiter(admin.list_dead_letters("none")))


async def test_a_message_is_described_with_its_groups(
    admin: ternmq.Admin, stack: Stack, topic: str, group: str
) -> None:
    stack.create_topic(topic)
    stack.create_group(group, consume_from="earliest")
    await sent(stack, topic, b"0", b"1")
    assert (await admin.describe_message(topic, 0, 0)).standings == ()
    assert await received(stack, topic, group, 2) == [b"0", b"1"]
    found = await admin.describe_message(topic, 0, 1)
    assert (found.message.body, found.message.offset, found.message.broker) == (b"1", 1, "broker-0")
    (standing,) = found.standings
    assert (standing.group, standing.state, standing.until, standing.dead_letter_offset) == (
        *(group, "finished"),
        *(None, None),
    )
    with pytest.raises(ternmq.NotFound):
        await admin.describe_message(topic, 0, 2)
    held = await admin.describe_topic(topic, contents=True)
    assert held.groups == (group,)
    assert held.queues[0].size
    assert held.queues[0].oldest is not None
    assert held.messages_in is not None


async def test_what_waits_is_listed(
    admin: ternmq.Admin, stack: Stack, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "list_timers", partial(timers.list_timers, limit=2))
    stack.create_topic(topic, "delay")
    hours = (12, 8, 16, 10, 14)  # the server's clock may be some ahead, by other tests
    async with ternmq.Producer(stack.endpoint, [topic]) as producer:
        for number in hours:
            await producer.send(Message(topic, b"later", tag=str(number), delay=timedelta(hours=number)))
        found = [each async for each in admin.list_timers(topic=topic)]
        assert [each.tag for each in found] == ["8", "10", "12", "14", "16"]
        await producer.recall_handle(topic, found[0].recall_handle)
    assert [each.tag async for each in admin.list_timers(topic=topic)] == ["10", "12", "14", "16"]
    assert found[0].due is not None
    assert found[0].stored is not None
    assert found[0].due > found[0].stored


async def test_the_last_hours_are_told(admin: ternmq.Admin, stack: Stack, topic: str, group: str) -> None:
    stack.create_topic(topic)
    stack.create_group(group)
    for history in (await admin.history(), await admin.history(topic=topic), await admin.history(group=group)):
        assert history.step == timedelta(seconds=10)
        assert all(len(each.values) == 2160 for each in history.series)
    with pytest.raises(ValueError, match="not of both"):
        await admin.history(topic=topic, group=group)


@pytest.mark.parametrize(("resolution", "state"), [("commit", "committed"), ("rollback", "rolled_back")])
async def test_open_transactions_are_listed_described_and_resolved(
    admin: ternmq.Admin, stack: Stack, topic: str, group: str, resolution: Resolution, state: str
) -> None:
    stack.create_topic(topic, "transaction")
    stack.create_group(group, consume_from="earliest")
    transaction_id = await half_sent(stack, topic)
    [listed] = [each async for each in admin.list_transactions(topic=topic)]
    assert (listed.transaction_id, listed.topic, listed.state) == (transaction_id, topic, "pending")
    assert [each async for each in admin.list_transactions("discarded", topic=topic)] == []
    described = await admin.describe_transaction(transaction_id)
    assert (described.transaction, described.message.body) == (listed, b"paid")
    resolved = await admin.resolve_transaction(transaction_id, resolution)
    assert (resolved.transaction_id, resolved.state) == (transaction_id, state)
    assert [each async for each in admin.list_transactions(topic=topic)] == []
    if state == "committed":
        assert await received(stack, topic, group, 1) == [b"paid"]
    other: Resolution = "rollback" if resolution == "commit" else "commit"
    with pytest.raises(ternmq.BadRequest):
        await admin.resolve_transaction(transaction_id, other)


async def test_transactions_are_read_page_by_page(
    admin: ternmq.Admin, stack: Stack, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "list_transactions", partial(messages.list_transactions, limit=2))
    stack.create_topic(topic, "transaction")
    ids = [await half_sent(stack, topic) for _ in range(5)]
    assert [each.transaction_id async for each in admin.list_transactions(topic=topic)] == ids
    described = await admin.describe_transaction(ids[3])
    message_id = described.transaction.message_id
    assert [each.transaction_id async for each in admin.list_transactions(message_id=message_id)] == [ids[3]]


# --- brokers and the server


async def test_the_one_broker_of_an_embedded_stack_is_told_and_stays_as_it_is(
    admin: ternmq.Admin, stack: Stack, topic: str, group: str
) -> None:
    [broker] = await admin.list_brokers()
    assert (broker.live, broker.draining, broker.permission) == (True, False, "read-write")
    assert (broker.replicas, broker.leader) == ((), None)
    assert broker.load.messages_in >= 0
    stack.create_topic(topic)
    stack.create_group(group, consume_from="earliest")
    await sent(stack, topic, b"0", b"1")
    assert await received(stack, topic, group, 1) == [b"0"]
    remaining = await admin.broker_remaining(broker.name)
    assert Backlog(group=group, topic=topic, messages=1) in remaining.backlogs
    assert not remaining.is_nothing
    with pytest.raises(ternmq.BadRequest, match="its own and only broker"):
        await admin.update_broker(broker.name, draining=True)


async def test_a_topic_says_itself_when_its_sends_are_answered(admin: ternmq.Admin, topic: str) -> None:
    assert await admin.create_topic(topic, replication="async")
    assert not await admin.create_topic(topic, replication="async")
    assert not await admin.create_topic(topic)
    with pytest.raises(ternmq.BadRequest, match="exists with permission read-write, replication async"):
        await admin.create_topic(topic, replication="sync")
    assert (await admin.describe_topic(topic)).topic.replication == "async"
    assert (await admin.update_topic(topic, queues=9)).replication == "async"
    assert (await admin.update_topic(topic, replication="shard")).replication == "shard"


async def test_the_server_tells_its_version_and_time_which_can_be_moved(admin: ternmq.Admin) -> None:
    before = await admin.server_info()
    assert before.test_clock
    assert before.resident_bytes > 1_000_000
    assert before.started is not None
    assert before.now is not None
    assert timedelta(0) <= datetime.now(UTC) - before.started < timedelta(minutes=10)
    after = await admin.advance_clock(timedelta(hours=1))
    assert after - before.now >= timedelta(hours=1)
    assert (await admin.advance_clock(0.5)) - after >= timedelta(milliseconds=500)
    with pytest.raises(ternmq.BadRequest):
        await admin.advance_clock(-1)


async def test_time_of_a_server_without_a_test_clock_is_not_moved() -> None:
    with Stack(test_clock=False) as stack:
        with ternmq.blocking.Admin(stack.endpoint) as blocking, pytest.raises(ternmq.Forbidden):
            await asyncio.to_thread(blocking.advance_clock, 1)
        async with ternmq.Admin(stack.endpoint) as admin:
            with pytest.raises(ternmq.Forbidden):
                await admin.advance_clock(1)


# --- the client


async def test_a_server_that_is_not_there_is_a_failed_connection(unused_tcp_port: int) -> None:
    async with ternmq.Admin(f"127.0.0.1:{unused_tcp_port}") as admin:
        with pytest.raises(ternmq.ConnectionFailed) as failed:
            await admin.list_topics()
    assert failed.value.retryable


async def test_an_admin_is_used_between_its_start_and_its_end(stack: Stack) -> None:
    admin = ternmq.Admin(stack.endpoint)
    with pytest.raises(ternmq.NotRunning, match="was not started"):
        await admin.list_topics()
    async with admin:
        await admin.list_topics()
        with pytest.raises(ternmq.NotRunning, match="is running"):
            await admin.start()
    await admin.close()
    with pytest.raises(ternmq.NotRunning, match="was closed"):
        await admin.list_topics()


def test_the_blocking_admin_has_the_methods_and_arguments_of_the_asyncio_one() -> None:
    original, blocking = ternmq.Admin, ternmq.blocking.Admin
    assert inspect.signature(blocking.__init__) == inspect.signature(original.__init__)
    for name, function in inspect.getmembers(original, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(blocking, name)).parameters == inspect.signature(function).parameters
            assert (getattr(blocking, name).__doc__ or "").splitlines()[0] == (function.__doc__ or "").splitlines()[0]
