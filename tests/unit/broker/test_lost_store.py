"""A broker whose files are gone takes no messages, says so once, and writes nothing where they were."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_broker.broker import Broker
from ternmq_broker.replication.timing import ReplicationTiming
from ternmq_broker.server.deletion_notes import DeletionNotes
from ternmq_broker.server.replication.follower import ShardFollower, _StoreLost
from ternmq_broker.server.replication.replica_files import ReplicaFiles
from ternmq_broker.store.disk.reserve import DiskReserve
from ternmq_broker.upkeep.disk_room import DiskBytes, DiskShort, DiskSpaceWatch
from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion
from ternmq_common.clock import MovableClock
from ternmq_common.errors import StartupError
from ternmq_common.shard.model import ConsumerGroup, SettleOutcome, TimedMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.message_service_conformance import order
from tests.support.removing import remove_folder
from tests.support.until import until
from tests.unit.broker.test_full_disk import GROUP, QUEUE, TOPIC, message, opened, settings

if TYPE_CHECKING:
    from ternmq_broker.server.replication.membership import ShardMembership
    from ternmq_rpc.grpc_stream.stream import MessageStream


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    made = opened(tmp_path / "data", MovableClock())
    made.start()
    yield made
    await made.close()


async def test_sends_are_refused_as_on_a_full_disk_and_readiness_says_why(broker: Broker, tmp_path: Path) -> None:
    await broker.sending.append(QUEUE, [message("a")])
    remove_folder(tmp_path / "data")
    await broker._room.check_and_renew()
    with pytest.raises(DiskShort, match="gone") as caught:
        await broker.sending.append(QUEUE, [message("b")])
    assert caught.value.code == definition_pb2.INTERNAL_SERVER_ERROR
    assert str(tmp_path) not in caught.value.message, "clients need not know where"
    assert broker.problem is not None
    assert str(tmp_path / "data" / "store") in broker.problem
    assert broker.refuses_for_room, "a replica that has its files is to lead"
    figures = broker.figures.current_figures()
    assert figures.disk_refuses
    assert 0 < figures.disk_used < 1, "what was seen last"


async def test_what_is_stored_can_be_consumed(broker: Broker, tmp_path: Path) -> None:
    await broker.sending.append(QUEUE, [message("a")])
    remove_folder(tmp_path / "data")
    await broker._room.check_and_renew()
    (delivery,) = await broker.consuming.pop(order(), 5)
    assert await broker.consuming.acknowledge(GROUP, TOPIC, [delivery.handle]) == [SettleOutcome.DONE]


async def test_it_is_said_once_and_so_is_the_return(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ternmq_broker.upkeep.disk_room")
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.rename(elsewhere)
    for _ in range(3):
        await broker._room.check_and_renew()
    (said,) = caplog.records
    assert said.levelno == logging.ERROR
    assert "ternmq store rescue" in said.getMessage()
    elsewhere.rename(data)
    for _ in range(3):
        await broker._room.check_and_renew()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "accepted again" in caplog.messages[1]
    await broker.sending.append(QUEUE, [message("a")])


async def test_housekeeping_and_the_end_leave_what_is_there_as_it_is(tmp_path: Path) -> None:
    broker = opened(tmp_path / "data", MovableClock())
    broker.start()
    await broker.sending.append(QUEUE, [message("a")])
    await broker.consuming.pop(order(), 5)
    await until((tmp_path / "data" / "store" / "scrub").exists)  # which is written soon after the start
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "data").rename(elsewhere)
    (tmp_path / "data").mkdir()
    await broker._room.check_and_renew()
    before = contents(elsewhere)
    for loop in broker._housekeeping._loops:
        step = loop._step()
        assert step is not None
        await step
    await broker.close()
    assert contents(elsewhere) == before
    assert contents(tmp_path / "data") == {}


def contents(folder: Path) -> dict[str, bytes]:
    """All files but their reserved room, and the one that is given back when the log is let go of."""
    return {
        str(path.relative_to(folder)): path.read_bytes().rstrip(b"\0") for path in folder.rglob("*") if path.is_file()
    }


async def test_a_file_beside_the_store_is_missed_too(broker: Broker, tmp_path: Path) -> None:
    registry = tmp_path / "registry.db"
    registry.write_bytes(b"")
    broker.live_files.watch_file(registry)
    await broker._room.check_and_renew()
    assert broker.problem is None
    registry.unlink()
    await broker._room.check_and_renew()
    assert f"{registry} is gone" in (broker.problem or "")


def test_a_disk_that_can_not_be_looked_at_is_as_one_that_is_gone() -> None:
    def fails() -> DiskBytes:
        raise OSError(5, "Input/output error", "/data")

    room = DiskSpaceWatch(lambda: DiskBytes(10**12, 10**12), DiskReserve(Path("nowhere"), 1), free_min_bytes=1)
    assert not room.refuses
    room._read_disk = fails
    room.check_disk()
    assert room.refuses
    assert "/data: Input/output error" in (room.problem or "")


def test_a_replica_does_not_make_a_store_again_that_is_gone(tmp_path: Path) -> None:
    files = ReplicaFiles(settings(tmp_path / "data"))
    remove_folder(tmp_path / "data")
    with pytest.raises(StartupError, match="gone"):
        files.reopen_store()
    assert not (tmp_path / "data").exists()
    files.opened.store.abandon_files()
    files.opened.journal.close()
    files.opened.lock.release()


def test_notes_of_deletions_do_not_make_a_data_directory_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    notes = DeletionNotes(folder)
    notes.add_done(RegistryDeletion(1, DeletedKind.TOPIC, "a"))
    remove_folder(folder)
    with pytest.raises(FileNotFoundError):
        notes.add_done(RegistryDeletion(2, DeletedKind.TOPIC, "b"))
    assert not folder.exists()


class Beats:
    """A stream from a leader that says something now and then."""

    async def read_all(self) -> list[bytes]:
        return [b""]


async def test_a_follower_whose_store_is_gone_holds_nothing_for_a_leader(tmp_path: Path) -> None:
    files = ReplicaFiles(settings(tmp_path / "data"))
    membership = cast(
        "ShardMembership", SimpleNamespace(store_id="s", timing=ReplicationTiming(), settings=settings(tmp_path))
    )
    follower = ShardFollower(membership, files, DeletionNotes(tmp_path))
    remove_folder(tmp_path / "data")
    await files.opened.room.check_and_renew()
    assert files.opened.room.refuses, "so that it is not given the leadership"
    with pytest.raises(_StoreLost, match="gone"):
        await follower._receive_forever(cast("MessageStream", Beats()))
    following = asyncio.create_task(follower._follow_forever())
    async with asyncio.timeout(10):
        await until(lambda: "data/store is gone" in (follower.problem or ""))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    files.opened.store.abandon_files()
    files.opened.journal.close()
    files.opened.lock.release()


async def test_a_journal_that_is_gone_at_a_start_is_said_and_everything_is_delivered_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = ConsumerGroup(name=GROUP, consume_from="latest")
    for is_first in (True, False):
        broker = opened(tmp_path / "data", MovableClock())
        broker._consumption.rules = lambda _: rules
        broker.start()
        if is_first:
            assert await broker.consuming.pop(order(), 0) == []
            await broker.sending.append(QUEUE, [message("a"), message("b")])
            (first, _) = await broker.consuming.pop(order(), 5)
            assert await broker.consuming.acknowledge(GROUP, TOPIC, [first.handle]) == [SettleOutcome.DONE]
            assert "is gone" not in caplog.text
        else:
            assert len(await broker.consuming.pop(order(), 5)) == 2
        await broker.close()
        (tmp_path / "data" / "store" / "consumption" / "journal").unlink()
    said = [record.getMessage() for record in caplog.records if "is gone" in record.getMessage()]
    assert [text for text in said if "of the 2 messages, so" in text] == said != []


def errors_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def filled(folder: Path) -> None:
    """A broker with 20 messages and a timer, which are in its index files; it has ended."""
    broker = opened(folder, MovableClock())
    broker.start()
    for number in range(20):
        await broker.sending.append(QUEUE, [message(f"m{number}")])
        (got,) = await broker.consuming.pop(order(), 1)
        assert await broker.consuming.acknowledge(GROUP, TOPIC, [got.handle]) == [SettleOutcome.DONE]
        await broker._housekeeping.write_journal()
    await broker.sending.schedule(QUEUE, [TimedMessage(message("later"), MovableClock().now_ms() + 600_000)])
    await broker.close()


async def test_a_journal_that_was_cut_off_is_said_and_the_rest_is_delivered_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(tmp_path / "data")
    journal = tmp_path / "data" / "store" / "consumption" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    before = len(b"".join(lines))
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    left = journal.stat().st_size
    assert errors_of(caplog) == []
    broker = opened(tmp_path / "data", MovableClock())
    broker.start()
    assert 0 < len(await broker.consuming.pop(order(), 32)) <= 20
    await broker.close()
    [said] = errors_of(caplog)
    assert f"the consumption journal has {left} bytes, and had {before}" in said
    caplog.clear()
    again = opened(tmp_path / "data", MovableClock())
    again.start()
    await again.close()
    assert errors_of(caplog) == [], "once"


@pytest.mark.parametrize(
    ("gone", "text"),
    [
        ("index/00000000000000000000", "index files from log offset 0 to"),
        ("timers/*", "timer files from log offset 0 to"),
        ("durable", "the file durable of the store is missing"),
    ],
)
async def test_files_beside_the_log_that_are_gone_are_said_once_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, gone: str, text: str
) -> None:
    await filled(tmp_path / "data")
    files = list((tmp_path / "data" / "store").glob(gone))
    assert files
    for each in files:
        each.unlink()
    for is_first in (True, False):
        broker = opened(tmp_path / "data", MovableClock())
        broker.start()
        assert (await broker.reading.bounds(QUEUE)).maximum == 20
        await broker.close()
        assert [text in each for each in errors_of(caplog)] == [True] * is_first
        caplog.clear()
