"""The queue access lock: a group that asks for it has one pulling reader for each queue (`pulling.md, Queue lock`)."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, Proto, RawClient, code, duration, local_settings
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group, describe_topic
from tests.system.test_offsets import Pulled, pull
from tests.system.test_pull_groups import Joins, Member, joining, update

pytestmark = SERVER_LOOP
# A reader that is silent keeps its queue for longer than any test lasts, or for as short as a group may say.
FOR_EVER = duration(3600)
SHORTLY = duration(1)
WAITS_S = 60
Poll = asyncio.Future[Pulled]


@pytest_asyncio.fixture(loop_scope="session")
async def group(client: RawClient) -> AsyncIterator[str]:
    """A group that locks queues."""
    name = f"locking-{client.client_id}"
    assert code(await create_group(client, name=name, queue_lock_hold=FOR_EVER)) == "OK"
    yield name
    await client.admin("DeleteGroup", name=name)


@pytest_asyncio.fixture(loop_scope="session")
async def joins(server: Embedded, group: str, topic: str) -> AsyncIterator[Joins]:
    async with joining(server, group, topic) as join:
        yield join


@pytest_asyncio.fixture(loop_scope="session")
async def owner(client: RawClient, joins: Joins, topic: str) -> Member:
    """A member that was handed the messages 0, 1 and 2 of the topic's only queue, and has committed none."""
    await client.send(topic, b"0", b"1", b"2")
    member = await joins("a")
    assert (await member.pull(0)).bodies == [b"0", b"1", b"2"]
    return member


@pytest_asyncio.fixture(loop_scope="session")
async def second(joins: Joins) -> Member:
    return await joins("b")


def waiting(member: Member, offset: int = 0) -> Poll:
    """A pull that waits for longer than it takes to get the queue."""
    return asyncio.ensure_future(member.pull(offset, poll_s=WAITS_S))


async def got(poll: Poll) -> Pulled:
    """What a pull gets before its time is over."""
    async with asyncio.timeout(WAITS_S / 2):
        return await poll


async def refused(member: Member, offset: int = 0) -> bool:
    """Whether a pull at an offset that has messages gets none, and is to ask there again."""
    pulled = await member.pull(offset)
    return (pulled.code, pulled.bodies, pulled.next_offset) == ("MESSAGE_NOT_FOUND", [], offset)


# --- who reads


async def test_the_first_that_pulls_reads_on_and_nobody_else_does(
    client: RawClient, owner: Member, second: Member, topic: str
) -> None:
    assert await refused(second)
    await client.send(topic, b"3")
    assert (await owner.pull(3)).bodies == [b"3"]
    assert await refused(second)
    assert (await owner.pull(1)).bodies == [b"1", b"2", b"3"]


async def test_a_pull_of_another_waits_for_its_whole_time(owner: Member, second: Member) -> None:
    began = time.monotonic()
    pulled = await second.pull(0, poll_s=0.3)
    assert (pulled.code, pulled.next_offset) == ("MESSAGE_NOT_FOUND", 0)
    assert time.monotonic() - began >= 0.3
    assert await owner.commit(3) == "OK"


async def test_each_queue_has_a_reader_of_its_own(
    client: RawClient, server: Embedded, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=2)
    await client.send(new_topic, b"0")
    await client.send(new_topic, b"1")
    async with joining(server, group, new_topic) as join:
        first, second = await join("a"), await join("b")
        assert (await first.pull(0, 0)).bodies == [b"0"]
        assert (await second.pull(0, 1)).bodies == [b"1"]
        assert (await second.pull(0, 0)).bodies == []
        assert (await first.pull(0, 1)).bodies == []


async def test_each_topic_has_a_reader_of_its_own(
    client: RawClient, server: Embedded, owner: Member, new_topic: str
) -> None:
    await client.create_topic(new_topic)
    await client.send(new_topic, b"elsewhere")
    async with joining(server, owner.group, new_topic) as join:
        assert (await (await join("b")).pull(0)).bodies == [b"elsewhere"]


async def test_other_groups_and_nobody_in_particular_read_as_they_like(
    client: RawClient, server: Embedded, owner: Member, topic: str
) -> None:
    neighbour = f"{owner.group}-neighbour"
    await create_group(client, name=neighbour, queue_lock_hold=FOR_EVER)
    async with joining(server, neighbour, topic) as join:
        assert (await (await join("b")).pull(0)).bodies == [b"0", b"1", b"2"]
    for name in (f"{owner.group}-never-made", ""):
        assert (await pull(client, topic, 0, group={"name": name})).bodies == [b"0", b"1", b"2"]


# --- handing over


async def test_the_next_reader_has_the_queue_when_all_was_committed(
    client: RawClient, owner: Member, second: Member, topic: str
) -> None:
    poll = waiting(second)
    assert await owner.commit(3) == "OK"
    await client.send(topic, b"3")
    # It is sent to where the group is, whatever it asked for.
    assert (await got(poll)).bodies == [b"3"]
    assert await refused(owner, 3)


async def test_an_owner_that_waits_for_more_and_has_nothing_open_lets_another_have_the_queue(
    client: RawClient, owner: Member, second: Member, topic: str
) -> None:
    assert await owner.commit(3) == "OK"
    poll = waiting(owner, 3)
    while (await second.pull(0, poll_s=0.1)).next_offset != 3:  # until it is sent to where the group is
        pass
    await client.send(topic, b"3")
    assert (await second.pull(3)).bodies == [b"3"]
    # The message woke the other pull too, and must not reach it.
    assert await second.commit(4) == "OK"
    await client.send(topic, b"4")
    await second.leave()
    assert (await got(poll)).bodies == [b"4"]


async def test_a_good_bye_counts_of_an_owner_that_never_sent_settings(
    client: RawClient, server: Embedded, second: Member, topic: str
) -> None:
    await client.send(topic, b"0")
    owner = Member(server, f"{second.group}-a", second.group, topic)
    assert (await owner.pull(0)).bodies == [b"0"]
    poll = waiting(second)
    await owner.leave()
    await owner.client.channel.close()
    assert (await got(poll)).bodies == [b"0"]


async def test_a_pull_that_waited_at_the_good_bye_takes_the_queue_no_more(
    client: RawClient, owner: Member, second: Member, topic: str
) -> None:
    assert await owner.commit(3) == "OK"
    poll = waiting(owner, 3)
    await owner.pull(2)  # the server has the other call too
    await owner.leave()
    await client.send(topic, b"3")
    assert (await got(waiting(second, 3))).bodies == [b"3"]
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)


async def test_of_several_that_wait_one_has_the_queue(
    client: RawClient, owner: Member, joins: Joins, topic: str
) -> None:
    others = [await joins(name) for name in "bcdef"]
    polls = [waiting(member, 3) for member in others]
    assert await owner.commit(3) == "OK"
    await client.send(topic, b"3")
    async with asyncio.timeout(WAITS_S / 2):
        done, pending = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert [poll.result().bodies for poll in done] == [[b"3"]]
    for poll in pending:
        poll.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


async def test_a_pull_that_was_cancelled_while_it_waited_takes_nothing_over(
    owner: Member, second: Member, joins: Joins
) -> None:
    poll = waiting(second)
    await refused(second)  # the server has the other call too
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    await owner.leave()
    assert (await got(waiting(await joins("c")))).bodies == [b"0", b"1", b"2"]


async def test_a_reader_whose_filter_lets_nothing_pass_keeps_nobody_waiting(
    client: RawClient, joins: Joins, second: Member, topic: str
) -> None:
    await client.send(topic, b"0", tag="a")
    pulled = await (await joins("a")).pull(0, filter_expression={"type": pb.TAG, "expression": "b"})
    assert (pulled.bodies, pulled.next_offset) == ([], 1)
    assert (await got(waiting(second))).bodies == [b"0"]


# --- operators


async def reset(client: RawClient, member: Member, offset: int) -> None:
    assert code(await client.admin("ResetOffsets", group=member.group, topic=member.topic, offset=offset)) == "OK"


async def test_a_reset_lets_another_have_the_queue(client: RawClient, owner: Member, second: Member) -> None:
    poll = waiting(second)
    await refused(second)
    await reset(client, owner, 2)
    assert (await got(poll)).bodies == [b"2"]
    assert await owner.commit(3) == "FORBIDDEN"


async def test_a_lock_that_was_taken_away_holds_nobody_up(client: RawClient, owner: Member, second: Member) -> None:
    await update(client, owner.group)
    assert (await second.pull(0)).bodies == [b"0", b"1", b"2"]
    assert await second.commit(3) == "OK"


async def test_a_lock_that_is_there_again_begins_where_the_group_is(
    client: RawClient, owner: Member, second: Member
) -> None:
    assert await owner.commit(1) == "OK"
    await update(client, owner.group)
    assert await owner.commit(3) == "OK"
    await owner.leave()
    await update(client, owner.group, queue_lock_hold=FOR_EVER)
    pulled = await second.pull(3)
    assert (pulled.bodies, pulled.next_offset) == ([], 3)


async def test_a_pull_from_before_the_lock_was_taken_away_is_no_second_reader_when_it_is_there_again(
    client: RawClient, owner: Member, second: Member, joins: Joins
) -> None:
    poll = waiting(second)
    await second.pull(0)  # the server has the other call too
    await update(client, owner.group)
    await owner.pull(0)
    await update(client, owner.group, queue_lock_hold=FOR_EVER)
    third = await joins("c")
    assert (await third.pull(0)).bodies == [b"0", b"1", b"2"]
    assert (await got(poll)).bodies == []


async def test_a_shorter_hold_time_is_for_queues_that_are_held_already_too(
    client: RawClient, owner: Member, second: Member
) -> None:
    await update(client, owner.group, queue_lock_hold=SHORTLY)
    assert (await got(waiting(second))).bodies == [b"0", b"1", b"2"]


async def test_a_deleted_group_leaves_no_lock_to_its_successor(
    client: RawClient, owner: Member, second: Member
) -> None:
    assert await owner.commit(2) == "OK"
    await client.admin("DeleteGroup", name=owner.group)
    await create_group(client, name=owner.group, queue_lock_hold=FOR_EVER)
    assert (await second.pull(0)).bodies == [b"0", b"1", b"2"]
    assert await refused(owner)


@pytest.mark.parametrize(
    ("hold_s", "expected"),
    [(0, "OK"), (0.999, "BAD_REQUEST"), (1, "OK"), (43200, "OK"), (43200.001, "BAD_REQUEST"), (-1, "BAD_REQUEST")],
)
async def test_how_long_a_queue_may_be_held(client: RawClient, new_topic: str, hold_s: float, expected: str) -> None:
    assert code(await create_group(client, name=new_topic, queue_lock_hold=duration(hold_s))) == expected


async def test_after_a_restart_who_asks_first_is_the_reader(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = local_settings(tmp_path_factory.mktemp("locked"))
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        await create_group(client, name="g", queue_lock_hold=FOR_EVER)
        await client.send("orders", b"0", b"1")
        async with joining(server, "g", "orders") as join:
            owner = await join("a")
            assert (await owner.pull(0)).bodies == [b"0", b"1"]
            assert await owner.commit(1) == "OK"
    async with Embedded(settings) as server, joining(server, "g", "orders") as join:
        owner, second = await join("a"), await join("b")
        assert (await second.pull(0)).bodies == [b"1"]
        assert await refused(owner, 1)
        assert await owner.commit(2) == "FORBIDDEN"


# --- a rebalance under load

QUEUES = 4
BACKLOG_MAX = 64
MESSAGES_BETWEEN_REBALANCES = 20


class Ledger:
    """To which members each message was handed, without those that are gone; `shared` were handed to two of them."""

    def __init__(self) -> None:
        self.holders: dict[tuple[int, int], set[str]] = {}  # by queue id and offset
        self.shared: set[tuple[int, int]] = set()
        self.committed: dict[int, int] = dict.fromkeys(range(QUEUES), 0)
        self.room = asyncio.Semaphore(BACKLOG_MAX)  # so many messages may be on their way
        self._changed = asyncio.Event()

    def handed(self, member: str, queue_id: int, pulled: Pulled) -> None:
        for each in pulled.messages:
            place = queue_id, each.system_properties.queue_offset
            if place not in self.holders:
                self.room.release()
            holders = self.holders.setdefault(place, set())
            holders.add(member)
            if len(holders) > 1:
                self.shared.add(place)
        self._changed.set()

    def forget(self, member: str) -> None:
        for holders in self.holders.values():
            holders.discard(member)

    async def has_more(self, count: int) -> None:
        """Return when so many messages were handed out that nobody had before."""
        wanted = len(self.holders) + count
        while len(self.holders) < wanted:
            await self._change()

    async def has_all(self, ends: list[int]) -> None:
        """Return when every message up to these ends is committed, or in the hands of somebody."""
        places = {(queue_id, offset) for queue_id, end in enumerate(ends) for offset in range(end)}
        while not all(
            offset < self.committed[queue_id] or self.holders.get((queue_id, offset)) for queue_id, offset in places
        ):
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class Worker:
    """A member that reads its queues, and commits each batch only when it has the next one.

    So it has open messages in every queue that it reads, once `busy` has returned and until it drops the queue.
    """

    def __init__(self, member: Member, ledger: Ledger, tasks: asyncio.TaskGroup) -> None:
        self.member, self._ledger, self._tasks = member, ledger, tasks
        self._busy: dict[int, asyncio.Event] = {}
        self._readers: dict[int, asyncio.Task[int | None]] = {}

    async def rebalance(self) -> None:
        """Read the queues that are assigned now, each after a first try, and finish those that are not any more."""
        assigned = {*await self.member.assigned()}
        for queue_id in assigned - self._readers.keys():
            pulled = await self._pull(await self.member.committed(queue_id) or 0, queue_id)
            self._busy[queue_id] = asyncio.Event()
            self._readers[queue_id] = self._tasks.create_task(self._read(queue_id, pulled))
        await self.drop(self._readers.keys() - assigned)

    async def _read(self, queue_id: int, pulled: Pulled) -> int | None:
        """Up to which offset all was handled when the queue was dropped; the last batch is not committed."""
        handled: int | None = None
        while True:
            if pulled.messages:
                if handled is not None:
                    await self._commit(handled, queue_id)
                handled = pulled.next_offset
                self._busy[queue_id].set()
            if queue_id not in self._readers:
                return handled
            assert pulled.next_offset is not None
            pulled = await self._pull(pulled.next_offset, queue_id, poll_s=0.2)

    async def _pull(self, offset: int, queue_id: int, *, poll_s: float = 0.0) -> Pulled:
        pulled = await self.member.pull(offset, queue_id, poll_s=poll_s, batch_size=8)
        self._ledger.handed(self.member.name, queue_id, pulled)
        return pulled

    async def _commit(self, offset: int, queue_id: int) -> None:
        assert await self.member.commit(offset, queue_id) == "OK"
        self._ledger.committed[queue_id] = offset

    async def busy(self) -> None:
        for event in self._busy.values():
            await event.wait()

    async def drop(self, queue_ids: set[int] | None = None, *, commits: bool = True) -> None:
        """Read no more there, or anywhere, and commit what is handled."""
        dropped = {*self._readers} if queue_ids is None else queue_ids
        readers = {queue_id: self._readers.pop(queue_id) for queue_id in dropped}
        for queue_id, reader in readers.items():
            handled = await reader
            if commits and handled is not None:
                await self._commit(handled, queue_id)
            del self._busy[queue_id]

    async def leave(self, *, commits: bool) -> None:
        """Say good-bye, as it should be or with messages that are open."""
        await self.drop(commits=commits)
        if not commits:
            self._ledger.forget(self.member.name)
        await self.member.leave()


async def rebalances_under_load(server: Embedded, client: RawClient, topic: str, **settings: Proto) -> Ledger:
    """Members join and leave while messages are sent. At every handover the last reader has open messages."""
    group = f"loaded-{topic}"
    await create_group(client, name=group, **settings)
    await client.create_topic(topic, queues=QUEUES)
    ledger = Ledger()

    async def produce() -> None:
        while True:
            await ledger.room.acquire()
            await client.send(topic, b"body")

    async def rebalance() -> None:
        # Who is new comes first, and tries before those before it give up anything.
        for worker in reversed(workers):
            await worker.rebalance()
        for worker in workers:
            await worker.busy()
        await ledger.has_more(MESSAGES_BETWEEN_REBALANCES)

    async with asyncio.timeout(60), joining(server, group, topic) as join, asyncio.TaskGroup() as tasks:
        producing = tasks.create_task(produce())
        workers: list[Worker] = []
        for name in "abcd":
            workers.append(Worker(await join(name), ledger, tasks))
            await rebalance()
        for commits in (True, False):
            await workers.pop(1).leave(commits=commits)
            await rebalance()
        producing.cancel()
        await asyncio.wait([producing])
        ends = [queue.max_offset for queue in (await describe_topic(client, topic)).queues]
        await ledger.has_all(ends)
        for worker in workers:
            await worker.drop()
        assert [await workers[0].member.committed(queue_id) for queue_id in range(QUEUES)] == ends
    return ledger


async def test_with_the_lock_no_message_is_handed_to_two_living_members(
    server: Embedded, client: RawClient, new_topic: str
) -> None:
    ledger = await rebalances_under_load(server, client, new_topic, queue_lock_hold=FOR_EVER)
    assert ledger.shared == set()


async def test_without_the_lock_the_same_rebalances_hand_messages_to_two_living_members(
    server: Embedded, client: RawClient, new_topic: str
) -> None:
    ledger = await rebalances_under_load(server, client, new_topic)
    # In each queue that changed hands while its last reader was alive.
    assert {queue_id for queue_id, _ in ledger.shared} == {1, 2, 3}
