"""Who gets a transaction check; the test plays service and clients (`sending.md, Transaction checks`)."""

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import OpenTransaction, OrphanedTransaction, QueueRef, StoredMessage, TransactionState
from ternmq_common.shard.transaction_id import TransactionId, transaction_of_handle
from ternmq_proxy.processors.client_commands import CheckTransaction, ClientCommand
from ternmq_proxy.processors.client_settings import ClientSettings, NamedTopic
from ternmq_proxy.processors.client_type import ClientType
from ternmq_proxy.processors.clients import ClientRegistry
from ternmq_proxy.processors.orphan_checks import CHECK_AGE_MAX_S, CHECKS_MAX, OrphanChecks
from tests.support.all_parts import AllParts
from tests.support.hand_clock import Clock
from tests.support.handle_keys import made_up_handles

if TYPE_CHECKING:
    from ternmq_proxy.message_service.interface import MessageService

POLL_S = 10.0


class Ends(AllParts):
    """Plays the part of MessageService that orphan checks use: what became of each transaction."""

    def __init__(self) -> None:
        self.states: dict[str, TransactionState] = {}

    async def transaction(self, transaction: TransactionId) -> tuple[OpenTransaction, StoredMessage]:
        state = self.states.get(str(transaction))
        if state is None:
            raise MessagingError(ErrorCode.INVALID_TRANSACTION_ID, "there is none")
        known = OpenTransaction(
            transaction_id=str(transaction),
            topic="t",
            message_id=transaction.message_id,
            state=state,
            stored_ms=0,
            sender="sender",
        )
        return known, orphan(transaction.log_offset).message


class Stream:
    """A Telemetry stream that notes what it was to send, or fails."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.asked: list[str] = []
        self.arrived = asyncio.Event()

    async def push_command(self, command: ClientCommand) -> bool:
        if self.broken:
            return False
        assert isinstance(command, CheckTransaction)
        self.asked.append(str(transaction_of_handle(command.transaction_id)))
        self.arrived.set()
        return True


def publisher(topic: str, client_type: ClientType = ClientType.PRODUCER) -> ClientSettings:
    return ClientSettings(client_type=client_type, published_topics=(NamedTopic(topic),))


def orphan(number: int, sender: str = "sender") -> OrphanedTransaction:
    stored = StoredMessage(QueueRef("t", "broker-0", 0), number, 0, b"", b"")
    return OrphanedTransaction(transaction_id=name(number), topic="t", sender=sender, message=stored)


def name(number: int) -> str:
    return str(TransactionId("id", "broker-0", number))


class Room:
    """Orphan checks with everything around them."""

    def __init__(self, checks_max: int = CHECKS_MAX) -> None:
        self.seconds = Clock(0.0)
        self.ends = Ends()
        self.groups: dict[int, str] = {}  # of half messages, by number
        self.clients = ClientRegistry(self.seconds, expiry_s=120)
        self.checks = OrphanChecks(
            cast("MessageService", self.ends),
            self.clients,
            self.seconds,
            made_up_handles(),
            lambda message: self.groups.get(message.queue_offset, ""),
            checks_max=checks_max,
        )

    def enter(self, client_id: str, *, broken: bool = False) -> Stream:
        """A producer of topic t comes."""
        stream = Stream(broken=broken)
        settings = publisher("t")
        self.clients.take_settings(client_id, settings)
        self.clients.attach_stream(client_id, stream)
        return stream

    async def ask(self, number: int) -> bool:
        self.ends.states.setdefault(name(number), TransactionState.PENDING)
        return await self.checks.send_check(orphan(number))

    async def leave(self, client_id: str) -> None:
        """The client goes; returns when its checks have been passed on."""
        self.clients.forget_client(client_id)
        self.checks.forget_client(client_id)
        await asyncio.gather(*self.checks._tasks._tasks)

    async def passed_on(self) -> list[str]:
        """What another producer is asked when `sender` goes."""
        other = self.enter("other")
        await self.leave("sender")
        return other.asked


class Member:
    """A member of producer group `g`."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.stream = Stream()

    async def push_command(self, command: ClientCommand) -> bool:
        return await self.stream.push_command(command)


@pytest.fixture
def room() -> Room:
    return Room()


async def test_nobody_is_there_to_ask(room: Room) -> None:
    assert not await room.ask(1)
    stream = room.enter("a")
    assert room.clients.detach_stream("a", stream)
    assert not await room.ask(1)


async def test_a_stream_that_can_not_be_written_counts_as_not_asked(room: Room) -> None:
    broken = room.enter("sender", broken=True)
    assert not await room.ask(1)
    other = room.enter("other")
    assert await room.ask(1)
    assert (broken.asked, other.asked) == ([], [name(1)])


async def test_a_client_that_says_good_bye_while_it_is_asked_counts_as_not_asked(room: Room) -> None:
    class Leaving(Stream):
        async def push_command(self, command: ClientCommand) -> bool:
            room.clients.forget_client("sender")
            return await super().push_command(command)

    room.enter("sender")
    room.clients.attach_stream("sender", Leaving())
    other = room.enter("other")
    assert await room.ask(1)
    assert other.asked == [name(1)]


async def test_the_sender_is_asked_for_choice(room: Room) -> None:
    other, sender = room.enter("other"), room.enter("sender")
    for number in range(4):
        assert await room.ask(number)
    assert (other.asked, sender.asked) == ([], [name(number) for number in range(4)])


async def test_others_are_asked_in_turn_for_each_topic(room: Room) -> None:
    streams = [room.enter(client_id) for client_id in ("a", "b", "c")]
    for number in range(6):
        assert await room.ask(number)
    assert [stream.asked for stream in streams] == [
        [name(0), name(3)],
        [name(1), name(4)],
        [name(2), name(5)],
    ]


async def test_settings_sent_again_do_not_change_whose_turn_it_is(room: Room) -> None:
    first, second = room.enter("a"), room.enter("b")
    for number in range(4):
        room.clients.take_settings("a", publisher("t"))
        assert await room.ask(number)
    assert (first.asked, second.asked) == ([name(0), name(2)], [name(1), name(3)])


@pytest.mark.parametrize(
    "settings",
    [
        publisher("other"),
        publisher("t", ClientType.PUSH_CONSUMER),
        publisher("t", ClientType.CLIENT_TYPE_UNSPECIFIED),
    ],
    ids=["other topic", "consumer", "no type"],
)
async def test_settings_say_who_can_be_asked(room: Room, settings: ClientSettings) -> None:
    room.enter("a")
    room.clients.take_settings("a", settings)
    assert not await room.ask(1)


async def test_open_questions_are_passed_on_in_order(room: Room) -> None:
    room.enter("sender")
    for number in range(3):
        await room.ask(number)
    other = room.enter("other")
    room.checks.forget_transaction(name(1))
    await room.leave("sender")
    assert other.asked == [name(0), name(2)]
    # They are the other's now.
    third = room.enter("third")
    await room.leave("other")
    assert third.asked == [name(0), name(2)]


@pytest.mark.parametrize(
    "state", [TransactionState.COMMITTED, TransactionState.ROLLED_BACK, TransactionState.DISCARDED, None]
)
async def test_what_was_ended_through_another_proxy_or_nobody_knows_is_not_passed_on(
    room: Room, state: TransactionState | None
) -> None:
    room.enter("sender")
    await room.ask(1)
    await room.ask(2)
    del room.ends.states[name(1)]
    if state is not None:
        room.ends.states[name(1)] = state
    assert await room.passed_on() == [name(2)]


async def test_with_nobody_left_nothing_is_looked_up(room: Room) -> None:
    room.enter("sender")
    await room.ask(1)
    room.ends.states.clear()
    await room.leave("sender")
    await room.leave("sender")


async def test_an_old_question_is_forgotten(room: Room) -> None:
    room.enter("sender")
    await room.ask(1)
    room.seconds.now_s = 100
    await room.ask(2)
    room.seconds.now_s = CHECK_AGE_MAX_S + 1
    assert await room.passed_on() == [name(2)]


async def test_a_question_put_again_is_young(room: Room) -> None:
    room.enter("sender")
    await room.ask(1)
    room.seconds.now_s = CHECK_AGE_MAX_S - 1
    await room.ask(1)
    room.seconds.now_s = CHECK_AGE_MAX_S + 1
    assert await room.passed_on() == [name(1)]


async def test_no_more_questions_are_remembered_than_there_is_room_for() -> None:
    room = Room(checks_max=3)
    room.enter("sender")
    for number in range(10):
        await room.ask(number)
    assert await room.passed_on() == [name(7), name(8), name(9)]


async def test_a_failure_while_questions_are_passed_on_is_logged(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(ends: Ends, transaction: TransactionId) -> None:
        raise RuntimeError("out of order")

    room.enter("sender")
    await room.ask(1)
    room.enter("other")
    monkeypatch.setattr(Ends, "transaction", broken)
    await room.leave("sender")
    assert "could not be passed on" in caplog.text


async def test_closing_ends_what_is_under_way(room: Room) -> None:
    forever = asyncio.Event()

    class Stuck(Stream):
        async def push_command(self, command: ClientCommand) -> bool:
            self.arrived.set()
            return await forever.wait()

    room.enter("sender")
    await room.ask(1)
    stuck = Stuck()
    room.enter("other")
    room.clients.attach_stream("other", stuck)
    room.clients.forget_client("sender")
    room.checks.forget_client("sender")
    await stuck.arrived.wait()
    async with asyncio.timeout(POLL_S):
        await room.checks.close()
    assert not room.checks._tasks


async def test_a_half_message_of_a_producer_group_is_checked_at_its_members_alone(room: Room) -> None:
    room.groups = {1: "g", 2: "g", 3: "other"}
    publisher_stream = room.enter("publisher")
    one, two = Member("one"), Member("two")
    members = {"g": [one, two]}
    room.checks.find_members = lambda group: members.get(group, [])
    assert [await room.ask(number) for number in (1, 2, 3, 4)] == [True, True, False, True]
    assert sorted(one.stream.asked + two.stream.asked) == [name(1), name(2)]
    assert publisher_stream.asked == [name(4)]
    asked = set(one.stream.asked)
    members["g"] = [two]
    room.checks.forget_client("one")
    await asyncio.gather(*room.checks._tasks._tasks)
    assert set(two.stream.asked) >= asked
