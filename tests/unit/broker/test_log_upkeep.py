"""Damage of a log is repaired by what other replicas have; what none has whole is given up, and no earlier."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from ternmq_broker.server.replication.log_requests import LogRequests
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.upkeep.log_upkeep import LogUpkeep, RepairSources, SourceAway
from ternmq_broker.upkeep.scrubbing import DAY_S, MAX_BYTES_PER_S, MIN_BYTES_PER_S, LogScrubber
from ternmq_common.shard import shard_frames
from tests.support.replica_pair import log_of
from tests.support.rotting import Rotting
from tests.support.until import until

PATIENCE_S = 10.0


class Other:
    """Another replica, with a log that was a copy once."""

    def __init__(self) -> None:
        self.rotting = Rotting()
        self.is_away = False
        self.asked = 0

    async def ask(self, position: int, size: int) -> bytes:
        self.asked += 1
        if self.is_away:
            raise SourceAway
        return self.rotting.store.repair.read_for_replica(position, min(size, 100))


class World:
    """A store that rots, and other replicas. Logs of two stores have different keys, so all begin as copies."""

    def __init__(self, others: int) -> None:
        self.rotting = Rotting()
        self.store: MessageStore = self.rotting.store
        self.others = [Other() for _ in range(others)]
        for other in self.others:
            other.rotting.leader.folders.commit_log.files.clear()
            for base, data in self.rotting.whole.items():
                file = other.rotting.leader.folders.commit_log.create(f"{base:020d}")
                file.append([data])
                file.sync()
            other.rotting.leader.folders.root.files["format"] = self.rotting.leader.folders.root.files["format"]
            other.rotting.reopen(other.rotting.leader.folders)
            other.rotting.whole = self.rotting.whole
        self.now_s = 0.0
        self.settled: list[tuple[int, int]] = []
        self.care = LogUpkeep(self.store, scrub_days=0, seconds=lambda: self.now_s, idle_s=DAY_S)
        self.care.sources = lambda: RepairSources([other.ask for other in self.others])
        self.care.on_repaired = lambda begin, end: self.settled.append((begin, end))

    def rot(self, offset: int) -> tuple[int, int]:
        """Damage a message, here, and have a read report it."""
        place = self.rotting.location(offset)
        self.rotting.flip(place.log_offset + place.size - 1)
        self.store.damage.report_damage(place.log_offset, place.size)
        return place.log_offset, place.log_offset + place.size

    @property
    def is_whole(self) -> bool:
        return log_of(self.store) == self.rotting.whole and not self.store.damage.is_known


@asynccontextmanager
async def cared_for(world: World) -> AsyncIterator[World]:
    world.care.start()
    try:
        yield world
    finally:
        await world.care.stop()


async def becomes(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await until(condition)


async def test_what_a_read_reports_is_repaired_by_the_first_replica_that_has_it_whole() -> None:
    world = World(others=2)
    begin, end = world.rot(7)
    world.others[0].rotting.flip(end - 1)
    async with cared_for(world):
        await becomes(lambda: world.is_whole)
        await becomes(lambda: world.settled == [(begin, end)])
    assert world.store.damage.repaired_bytes == end - begin
    assert world.others[1].asked > 0


async def test_damage_wakes_the_upkeep_of_a_log_that_was_whole() -> None:
    world = World(others=1)
    async with cared_for(world):
        for offset in (7, 8):
            await becomes(lambda: world.care._loop.every_s == DAY_S)
            await asyncio.to_thread(world.rot, offset)  # as a reader in a thread
            await becomes(lambda: world.is_whole and not world.store.damage.open_reports())
        begin, end = world.rotting.location(9).log_offset, world.rotting.location(10).log_offset
        await becomes(lambda: world.care._loop.every_s == DAY_S)
        world.store.damage.add_range(begin, end, 0.0)  # as the scrub does
        await becomes(lambda: world.is_whole)


async def test_what_no_replica_has_whole_is_given_up_and_asked_for_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(others=2)
    begin, end = world.rot(7)
    for other in world.others:
        other.rotting.flip(end - 1)
    async with cared_for(world):
        await becomes(lambda: world.settled == [(begin, end)])
        assert not world.store.damage.awaits_repair(begin)
        assert f"from log offset {begin} up to {end} can't be repaired" in caplog.text
        world.others[1].rotting.flip(end - 1)  # it was repaired there
        world.now_s += 61
        await becomes(lambda: world.is_whole)


async def test_nothing_is_given_up_while_a_replica_is_away_that_may_have_it() -> None:
    world = World(others=2)
    begin, end = world.rot(7)
    world.others[0].rotting.flip(end - 1)
    world.others[1].is_away = True
    async with cared_for(world):
        away = world.others[1]
        for asked in range(3):
            await becomes(partial(lambda before: away.asked > before, asked))
            assert world.store.damage.awaits_repair(begin)
            assert world.settled == []
            world.now_s += 2
        away.is_away = False
        world.now_s += 2
        await becomes(lambda: world.is_whole)


async def test_a_replica_that_would_get_it_from_here_has_it_not() -> None:
    world = World(others=1)
    begin, end = world.rot(7)

    async def has_nothing(_position: int, _size: int) -> bytes:
        return b""

    world.care.sources = lambda: RepairSources([has_nothing])
    async with cared_for(world):
        await becomes(lambda: world.settled == [(begin, end)])
    assert not world.store.damage.awaits_repair(begin)


async def test_without_replicas_damage_is_known_and_given_up_at_once() -> None:
    world = World(others=0)
    begin, end = world.rot(7)
    async with cared_for(world):
        await becomes(lambda: world.settled == [(begin, end)])
    assert world.store.damage.damaged_ranges == [(begin, end)]


async def test_a_long_stretch_is_repaired_from_two_replicas_that_have_parts_of_it() -> None:
    world = World(others=2)
    base, file = max((base, world.rotting.file(base)) for base in list(world.rotting.whole)[:-1])
    following = base + len(world.rotting.whole[base])
    file.content[:] = bytes(len(file.content))
    world.store.repair.check_piece(base, 1 << 20)
    assert world.store.damage.damaged_ranges == [(base, following)]
    world.others[0].rotting.flip(following - 3)
    world.others[1].rotting.flip(base + 70)
    async with cared_for(world):
        await becomes(lambda: world.is_whole)


# --- what two ends of a stream ask each other


def connected(one: MessageStore, other: MessageStore, answer_s: float = PATIENCE_S) -> tuple[LogRequests, LogRequests]:
    """Two ends; what one writes the other takes."""
    ends: list[LogRequests] = []

    def to(number: int, frame: bytes) -> None:
        for piece in shard_frames.decode_frame(frame):
            assert ends[number].handle_piece(piece)

    ends.append(LogRequests(lambda frame: to(1, frame), lambda: one, answer_s=answer_s))
    ends.append(LogRequests(lambda frame: to(0, frame), lambda: other, answer_s=answer_s))
    return ends[0], ends[1]


async def test_each_end_of_a_stream_gives_the_other_what_it_has() -> None:
    world = World(others=1)
    ours, theirs = world.store, world.others[0].rotting.store
    one, other = connected(ours, theirs)
    first = world.rotting.whole[0]
    assert await one.request_log(100, 50) == first[100:150]
    assert await other.request_log(0, 1 << 30) == first
    for nowhere in (ours.log.log_end, 1 << 40):
        with pytest.raises(SourceAway):
            await one.request_log(nowhere, 10)


async def test_who_is_gone_gives_nothing_and_nobody_waits_for_it() -> None:
    world = World(others=1)
    silent = LogRequests(lambda _: None, lambda: world.store, answer_s=0.01)
    with pytest.raises(SourceAway):
        await silent.request_log(0, 10)
    waiting = LogRequests(lambda _: None, lambda: world.store)
    asking = asyncio.create_task(waiting.request_log(0, 10))
    await asyncio.sleep(0)
    waiting.close()
    with pytest.raises(SourceAway):
        await asking
    with pytest.raises(SourceAway):
        await waiting.request_log(0, 10)


# --- the scrub


class Scrubbed:
    """A scrub that a test drives, and its clock."""

    def __init__(self, rotting: Rotting, days: float = 7) -> None:
        self.now_s = 1000.0
        self.rotting = rotting
        self.days = days
        self.begin()

    def begin(self) -> None:
        async def in_thread(work: Callable[[], object]) -> object:
            return work()

        self.scrub = LogScrubber(
            self.rotting.store, days=self.days, in_thread=in_thread, may_read=lambda: True, now_s=lambda: self.now_s
        )

    async def pass_through(self) -> None:
        """A whole pass, if one is due."""
        for _ in range(100):
            self.now_s += await self.scrub.check_next()


async def test_a_scrub_finds_damage_that_nobody_reads_once_in_its_days() -> None:
    scrubbed = Scrubbed(Rotting())
    await scrubbed.pass_through()
    assert not scrubbed.rotting.store.damage.is_known
    scrubbed.rotting.flip(scrubbed.rotting.location(7).log_offset + 70)
    await scrubbed.pass_through()
    assert not scrubbed.rotting.store.damage.is_known, "the pass of this week is done"
    scrubbed.now_s += 7 * DAY_S
    await scrubbed.pass_through()
    assert scrubbed.rotting.store.damage.is_known


async def test_a_pass_goes_on_after_a_restart_and_is_not_made_twice() -> None:
    scrubbed = Scrubbed(Rotting())
    await scrubbed.pass_through()
    scrubbed.rotting.flip(70)
    store = scrubbed.rotting.store
    position, began_s = store.repair.checked_end, scrubbed.now_s
    store.repair.save_scrub(position, began_s)
    store.scrub_position = [position, began_s]
    scrubbed.begin()
    await scrubbed.pass_through()
    assert not store.damage.is_known
    scrubbed.now_s = began_s - 1e6  # the clock was set back
    scrubbed.begin()
    await scrubbed.pass_through()
    assert store.damage.is_known


@pytest.mark.plain
@pytest.mark.parametrize(
    ("size", "days", "bytes_per_s"),
    [(1 << 20, 7, MIN_BYTES_PER_S), (1 << 50, 7, MAX_BYTES_PER_S), (1 << 40, 7, 2 * (1 << 40) / (7 * DAY_S))],
)
def test_a_scrub_takes_half_of_its_time_within_bounds(size: int, days: float, bytes_per_s: float) -> None:
    scrubbed = Scrubbed(Rotting(), days)

    class Long:
        log_start, checked_end = 0, size

    scrubbed.rotting.store.repair = Long()  # type: ignore[assignment]  # a log of that size
    assert scrubbed.scrub.bytes_per_s == bytes_per_s
