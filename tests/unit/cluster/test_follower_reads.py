"""When a proxy asks a follower, when the leader, and what a follower's stream is good for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ternmq_broker.server.replication.copy_reads import CopyReads, not_readable_here
from ternmq_broker.server.replication.read_connection import METHOD, ReadService
from ternmq_broker.server.storage_front import METHOD as EXCHANGE
from ternmq_broker.server.storage_front import StorageFront
from ternmq_common.catalog.cluster import BrokerEntry, RegistrySnapshot, ReplicaEntry
from ternmq_common.errors import MessagingError
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.filters.tag_filter import ALL, TagFilter
from ternmq_common.receiving.output_room import AnswerRoom, OutputRoom
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.model import PulledMessages, QueueBounds, QueueReaderId, QueueRef, StoredMessage
from ternmq_common.shard.shard_frames import PeerGreeting, ShardFailure
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.message_service.cluster.receives.follower_reads import COLD_MESSAGES, FollowerReads, ReadLimits
from ternmq_proxy.message_service.cluster.receives.pulling import ClusterPulling
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.tls.contexts import member_client_context, member_server_context
from ternmq_rpc.tls.opening import PortTls
from tests.support.all_parts import AllParts
from tests.support.certificates import Certificates
from tests.support.until import until

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls
    from ternmq_registry.directory import RegistryDirectory

PATIENCE_S = 20.0
QUEUE = QueueRef("orders", "broker-0", 0)
END = 5000
LEADERS = PulledMessages([], 7777)


def pulled(offset: int, count: int = 1) -> PulledMessages:
    return PulledMessages([StoredMessage(QUEUE, offset + each, 1, b"s", b"r") for each in range(count)], offset + count)


def replica_entry(name: str, address: str) -> ReplicaEntry:
    return ReplicaEntry(name=name, store_id=f"store-{name}", address=address, in_sync=True, live=True)


class Copy:
    """A follower's copy that answers as the test says; `asked` has what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, int]] = []
        self.answer: Callable[[int], Awaitable[PulledMessages]] = self.usual

    async def usual(self, offset: int) -> PulledMessages:
        return pulled(offset)

    async def pull_messages(self, queue: QueueRef, offset: int, passing: MessageFilter, limit: int) -> PulledMessages:
        assert queue.broker == QUEUE.broker
        self.asked.append((offset, passing.expression, limit))
        return await self.answer(offset)


class Replica:
    """A follower's server with a copy."""

    def __init__(self, name: str, tls: PortTls | None = None) -> None:
        self.name = name
        self.copy = Copy()
        self.front = StorageFront("127.0.0.1:0", tls=tls)
        self.service = ReadService(
            name=f"{QUEUE.broker}/{name}", version="test", reads=lambda: cast("CopyReads", self.copy)
        )

    @property
    def entry(self) -> ReplicaEntry:
        return replica_entry(self.name, self.front.address)


class Known:
    def __init__(self, snapshot: RegistrySnapshot) -> None:
        self.snapshot = snapshot


@dataclass
class Clock:
    now_s: float = 100.0


@dataclass
class World:
    """A shard of a leader "a" and followers "b" and "c", and a proxy's view of it."""

    replicas: dict[str, Replica]
    directory: Known
    reads: FollowerReads
    clock: Clock
    asked_leader: int = 0

    def change(self, *entries: ReplicaEntry, leader: str = "a") -> None:
        """The registry has these replicas."""
        shard = BrokerEntry(
            name=QUEUE.broker, address="leader", epoch=1, store_id=f"store-{leader}", replicas=tuple(entries)
        )
        self.directory.snapshot = RegistrySnapshot(version=1, brokers={shard.name: shard})
        self.reads.follow_snapshot(self.directory.snapshot)

    @property
    def entries(self) -> list[ReplicaEntry]:
        leader = replica_entry("a", "leader")
        return [leader, *(each.entry for each in self.replicas.values())]

    async def at_leader(self, poll_s: float) -> PulledMessages:
        assert poll_s >= 0
        self.asked_leader += 1
        return LEADERS

    async def pull(self, offset: int, queue: QueueRef = QUEUE) -> PulledMessages:
        return await self.reads.pull_messages(queue, offset, ALL, 32, self.at_leader, 1.0)

    async def connected(self, *names: str) -> None:
        """Return when the links to exactly these followers are there."""
        wanted = {f"{QUEUE.broker}/{name}" for name in names}
        await until(
            lambda: {each.link.broker for each in self.reads._followers.values() if each.link.is_connected} == wanted
        )

    def counts(self) -> tuple[int, int]:
        [figures] = self.reads.read_figures()
        assert figures.broker == QUEUE.broker
        return figures.by_followers, figures.by_leader


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        replicas = {name: Replica(name) for name in "bc"}
        for replica in replicas.values():
            await replica.front.start()
            stack.push_async_callback(replica.front.stop, 0)
            replica.front.serve_reads(replica.service)
        directory = Known(RegistrySnapshot())
        clock = Clock()
        reads = FollowerReads(cast("RegistryDirectory", directory), proxy="p", seconds=lambda: clock.now_s)
        stack.push_async_callback(reads.close)
        made = World(replicas, directory, reads, clock)
        reads.start()
        made.change(*made.entries)
        await made.connected("b", "c")
        reads.note_bounds(QUEUE, QueueBounds(0, END))
        yield made


# --- who is asked


async def test_what_is_cold_is_asked_of_a_follower(world: World) -> None:
    assert await world.pull(10) == pulled(10)
    assert (world.replicas["b"].copy.asked, world.replicas["c"].copy.asked) == ([(10, "*", 32)], [])
    assert (world.counts(), world.asked_leader) == ((1, 0), 0)


async def test_queues_are_shared_out_to_followers(world: World) -> None:
    other = QueueRef("orders", QUEUE.broker, 1)
    world.reads.note_bounds(other, QueueBounds(0, END))
    await world.pull(10, other)
    assert len(world.replicas["c"].copy.asked) == 1


async def test_what_is_near_the_end_or_of_which_nothing_is_known_is_the_leaders(world: World) -> None:
    assert await world.pull(END - COLD_MESSAGES + 1) == LEADERS
    assert await world.pull(10, QueueRef("orders", QUEUE.broker, 1)) == LEADERS
    alone = QueueRef("orders", "broker-1", 0)
    world.reads.note_bounds(alone, QueueBounds(0, END))
    assert await world.pull(10, alone) == LEADERS
    assert world.counts() == (0, 0)
    assert await world.pull(END - COLD_MESSAGES) == pulled(END - COLD_MESSAGES)


@pytest.mark.parametrize("change", [{"in_sync": False}, {"live": False}])
async def test_a_follower_that_is_not_in_sync_or_not_live_is_not_asked(world: World, change: dict[str, Any]) -> None:
    world.change(*(each if each.name == "c" else replace(each, **change) for each in world.entries))
    assert await world.pull(10) == pulled(10)
    assert world.replicas["b"].copy.asked == []
    world.change(*(replace(each, **change) for each in world.entries))
    assert await world.pull(10) == LEADERS
    assert world.counts() == (1, 1)


async def test_only_as_many_ends_are_kept_as_there_is_room_for(world: World) -> None:
    world.reads._limits = ReadLimits(ends_max=2)
    others = [QueueRef("orders", QUEUE.broker, number) for number in (1, 2)]
    for queue in (others[0], QUEUE, others[1]):
        world.reads.note_bounds(queue, QueueBounds(0, END))
    assert list(world.reads._ends) == [QUEUE, others[1]]


# --- who answers instead


async def refused(_: int) -> PulledMessages:
    raise not_readable_here("a test says so")


async def broken(_: int) -> PulledMessages:
    raise RuntimeError("a defect")


async def nothing(offset: int) -> PulledMessages:
    return PulledMessages([], offset)


@pytest.mark.parametrize("answer", [refused, broken, nothing])
async def test_the_leader_answers_where_a_follower_does_not_which_is_left_alone_for_a_while(
    world: World, answer: Callable[[int], Awaitable[PulledMessages]]
) -> None:
    failing, other = world.replicas["b"].copy, world.replicas["c"].copy
    failing.answer = answer
    assert await world.pull(10) == LEADERS
    assert world.counts() == (0, 1)
    for offset in (20, 21):
        assert await world.pull(offset) == pulled(offset)
    assert (len(failing.asked), len(other.asked)) == (1, 2)
    world.clock.now_s += 1
    assert await world.pull(30) == LEADERS
    world.clock.now_s += 1
    failing.answer = failing.usual
    assert await world.pull(40) == pulled(40)
    assert [each[0] for each in failing.asked] == [10, 30, 40]


async def test_messages_that_a_filter_does_not_pass_are_an_answer(world: World) -> None:
    async def filtered(offset: int) -> PulledMessages:
        return PulledMessages([], offset + 32)

    world.replicas["b"].copy.answer = filtered
    assert await world.reads.pull_messages(
        QUEUE, 10, TagFilter.parse_expression("red"), 32, world.at_leader, 1.0
    ) == PulledMessages([], 42)
    assert world.replicas["b"].copy.asked == [(10, "red", 32)]


def hang(world: World) -> tuple[asyncio.Event, asyncio.Event]:
    """Follower b answers no more; it says when a pull begins, and when it is given up."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def hangs(_: int) -> PulledMessages:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    world.replicas["b"].copy.answer = hangs
    return began, ended


async def test_a_follower_that_hangs_is_not_waited_for(world: World) -> None:
    world.reads._limits = ReadLimits(answer_s=0.05)
    _, ended = hang(world)
    assert await world.pull(10) == LEADERS
    await ended.wait()  # it heard for how long the answer is wanted
    assert await world.pull(11) == pulled(11)


async def test_a_pull_that_is_given_up_is_given_up_at_the_follower(world: World) -> None:
    began, ended = hang(world)
    pull = asyncio.create_task(world.pull(10))
    await began.wait()
    pull.cancel()
    await ended.wait()
    assert world.asked_leader == 0


async def test_followers_that_are_lost_or_lead_are_replaced_by_the_leader(world: World) -> None:
    await world.replicas["b"].front.stop(0)
    await world.connected("c")
    assert await world.pull(10) == pulled(10)
    world.replicas["c"].front.end_reads()
    await world.connected()
    assert await world.pull(11) == LEADERS
    world.replicas["c"].front.serve_reads(world.replicas["c"].service)
    restarted = replace(world.replicas["c"].entry, started_ms=5)
    world.change(world.entries[0], restarted)
    await world.connected("c")
    assert await world.pull(12) == pulled(12)
    world.change(world.entries[0], restarted, leader="c")
    assert await world.pull(13) == LEADERS
    assert world.replicas["c"].service.counts.delivered.total_count() == 2


async def test_another_replica_at_a_followers_address_is_not_asked(world: World) -> None:
    b, c = (world.replicas[name].entry for name in "bc")
    world.change(replace(b, address=c.address))
    assert await world.pull(10) == LEADERS
    assert world.replicas["c"].copy.asked == []
    await world.connected()


async def test_followers_and_proxies_know_each_other_by_certificates(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    server = member_server_context(certificates.files("broker", verifies=True, prefix="cluster_tls"))
    client = member_client_context(certificates.files("proxy", verifies=True, prefix="cluster_tls"))
    replica = Replica("b", PortTls(lambda: server, allow_plain=False))
    directory = cast("RegistryDirectory", Known(RegistrySnapshot()))
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        await replica.front.start()
        stack.push_async_callback(replica.front.stop, 0)
        replica.front.serve_reads(replica.service)
        worlds: list[World] = []
        for tls in (lambda: client, None):
            reads = FollowerReads(directory, proxy="p", tls=tls)
            stack.push_async_callback(reads.close)
            worlds.append(World({"b": replica}, cast("Known", directory), reads, Clock()))
            worlds[-1].change(*worlds[-1].entries)
            reads.note_bounds(QUEUE, QueueBounds(0, END))
        known, stranger = worlds
        await known.connected("b")
        assert await known.pull(10) == pulled(10)
        await until(lambda: replica.front._server.limit_counts.get("plain", 0) >= 1)
        assert await stranger.pull(10) == LEADERS


# --- pulls of clients


class Leader(AllParts):
    """What `Repeats.at` gives."""

    def __init__(self) -> None:
        self.pulls: list[tuple[int, float]] = []

    def shard_of(self, broker: str) -> "Leader":
        assert broker == QUEUE.broker
        return self

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        passing: MessageFilter,
        *,
        batch: int,
        poll_s: float,
        reader: QueueReaderId | None,
    ) -> PulledMessages:
        del queue, passing, batch, reader
        self.pulls.append((offset, poll_s))
        return pulled(offset, 2)


@pytest.mark.parametrize("has_room", [False, True])
async def test_a_pull_of_a_group_that_locks_its_queues_is_the_leaders(world: World, *, has_room: bool) -> None:
    room = AnswerRoom(OutputRoom(lambda: 0, 1)) if has_room else None
    leader = Leader()
    pulling = ClusterPulling(cast("RepeatedCalls", leader), world.reads)
    locked, plain = QueueReaderId("g", "c", 1000), QueueReaderId("g", "c")
    assert await pulling.pull_messages(QUEUE, 10, ALL, batch=4, poll_s=0.5, reader=locked, room=room) == pulled(10, 2)
    assert (leader.pulls, world.counts()) == ([(10, 0.5)], (0, 0))
    if room is not None:
        room.leave_room()
    assert await pulling.pull_messages(QUEUE, 20, ALL, batch=4, poll_s=0.5, reader=plain, room=room) == pulled(20)
    assert (len(leader.pulls), world.counts()) == (1, (1, 0))


# --- a follower's stream


async def said(address: str, *pieces: bytes, method: str = METHOD) -> list[shard_frames.FramePiece]:
    """What a follower answers until it has ended its side."""
    stream = await open_stream(address, method, timeout_s=PATIENCE_S)
    stream.write_messages(shard_frames.join_pieces(pieces))
    await stream.end_stream()
    answers: list[shard_frames.FramePiece] = []
    while (data := await stream.read_message()) is not None:
        answers += shard_frames.decode_frame(data)
    return answers


async def test_a_follower_greets_pongs_and_refuses_all_but_pulls(world: World) -> None:
    hello = shard_frames.HELLO.encode_note(PeerGreeting("p", "test"))
    bounds = CALLS["bounds"].encode_call(1, (QUEUE,))
    pull = CALLS["pull"].encode_call(2, (QUEUE, 10, TagFilter.parse_expression("red"), 8, 0.0, None))
    unreadable = shard_frames.encode_piece("pull", 3, "nothing")
    version = shard_frames.VERSION.encode_note(9)
    answers = await said(
        world.replicas["b"].front.address, hello, shard_frames.PING.encode_note(None), version, bounds, pull, unreadable
    )
    by_what = {(each.what, each.number): each for each in answers}
    assert shard_frames.WELCOME.decode_note(by_what[shard_frames.WELCOME.what, 0]) == PeerGreeting("broker-0/b", "test")
    assert (shard_frames.PONG.what, 0) in by_what
    failure: ShardFailure = shard_frames.FAILED.decode_note(by_what[shard_frames.FAILED.what, 1])
    assert failure.code == pb.HA_NOT_AVAILABLE
    assert shard_frames.FAILED.decode_note(by_what[shard_frames.FAILED.what, 3]).code == pb.BAD_REQUEST
    assert CALLS["pull"].decode_result(by_what[shard_frames.ANSWER, 2]) == pulled(10)
    assert len(answers) == 5


async def test_who_looks_for_the_leader_is_not_welcome_at_a_follower(world: World) -> None:
    with pytest.raises(StreamBroken, match="does not lead"):
        await said(
            world.replicas["b"].front.address, shard_frames.HELLO.encode_note(PeerGreeting("p")), method=EXCHANGE
        )


async def test_a_replica_that_does_not_follow_is_not_read(world: World) -> None:
    front = world.replicas["b"].front
    front.end_reads()
    with pytest.raises(StreamBroken, match="does not follow"):
        await said(front.address, shard_frames.HELLO.encode_note(PeerGreeting("p")))


async def test_frames_that_are_none_and_proxies_of_another_form_are_refused(world: World) -> None:
    address = world.replicas["b"].front.address
    with pytest.raises(StreamBroken, match="of form"):
        await said(address, shard_frames.HELLO.encode_note(PeerGreeting("p", form=99)))
    stream = await open_stream(address, METHOD, timeout_s=PATIENCE_S)
    stream.write_messages(b"\xc1")
    with pytest.raises(StreamBroken, match="no valid frame"):
        await stream.read_message()


def test_an_error_that_sends_to_the_leader_says_why() -> None:
    error = not_readable_here("it is not in sync")
    assert isinstance(error, MessagingError)
    assert "not in sync" in error.message
