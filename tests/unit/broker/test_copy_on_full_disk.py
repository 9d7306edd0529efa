"""A follower on a disk that is full: what makes room gets the reserve, and what can't be done changes nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.server.deletion_notes import DeletionNotes
from ternmq_broker.server.replication.follower_copy import FollowerCopy
from ternmq_broker.server.replication.replica_files import ReplicaFiles
from ternmq_broker.server.replication.replica_messages import LeaderHeartbeat, LogBytes
from ternmq_broker.store.disk.files import DiskFile, DiskFolder
from ternmq_broker.store.disk.reserve import DiskReserve
from ternmq_common.server_settings import FlushMode, StorageSettings
from tests.support.memory_disk import MemoryFolders
from tests.support.replica_pair import message, opened
from tests.support.until import until

LOG_START = 2 << 20


@pytest.fixture
def settings(tmp_path: Path) -> BrokerSettings:
    return BrokerSettings.from_storage(StorageSettings(data_dir=tmp_path, segment_bytes=1 << 20, disk_free_min_bytes=1))


@pytest.fixture
def files(settings: BrokerSettings) -> Iterator[ReplicaFiles]:
    """Four segments, of which all is acknowledged."""
    files = ReplicaFiles(settings)
    store = files.current_store
    store.replica_log.begin_epoch(1)()
    for number in range(40):
        store.writer.append_batch("orders", 0, [message(str(number), bytes(100_000))], 1000)
    store.log.sync_segments()
    store.indexes.spill_limit = store.log.log_end
    yield files
    files.close()


class FullDisk:
    """Files can be replaced when so much of the reserve was given back."""

    def __init__(self, patch: pytest.MonkeyPatch, settings: BrokerSettings, *, reserve_left: float) -> None:
        self._reserve = settings.folder / "reserve"
        self._whole = self.reserve_bytes
        replace = DiskFolder.replace

        def replace_if_there_is_room(folder: DiskFolder, name: str, data: bytes) -> None:
            if self.reserve_bytes > reserve_left * self._whole:
                raise OSError(28, "No space left on device", name)
            replace(folder, name, data)

        patch.setattr(DiskFolder, "replace", replace_if_there_is_room)

    @property
    def reserve_bytes(self) -> int:
        return self._reserve.stat().st_size


def running(files: ReplicaFiles, settings: BrokerSettings) -> FollowerCopy:
    copy = FollowerCopy(files.opened, FlushMode.SYNC, DeletionNotes(settings.folder), lambda: None)
    copy.start()
    return copy


async def test_what_the_leader_has_removed_goes_though_the_disk_is_full(
    files: ReplicaFiles, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = running(files, settings)
    FullDisk(monkeypatch, settings, reserve_left=0.2)
    copy.note_leader_state(files.current_store.log.log_end, LOG_START)
    async with asyncio.timeout(20):
        await until(lambda: files.current_store.log.log_start > 1 << 20)
    await copy.stop()


async def test_the_journal_gets_half_of_the_reserve_at_most(
    files: ReplicaFiles, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = running(files, settings)
    with monkeypatch.context() as patch:
        FullDisk(patch, settings, reserve_left=0.5)
        await copy.replace_journal([])
    with monkeypatch.context() as patch:
        disk = FullDisk(patch, settings, reserve_left=0.0)
        before = disk.reserve_bytes
        with pytest.raises(OSError, match="No space"):
            await copy.replace_journal([])
        assert disk.reserve_bytes == before
    await copy.stop()


async def test_a_log_that_could_not_be_cut_off_is_open_as_it_was(
    files: ReplicaFiles, settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, end = running(files, settings), files.current_store.log.log_end
    await copy.stop()
    began = files.current_store.replica_log.epoch_marks[0][1]
    with monkeypatch.context() as patch:
        FullDisk(patch, settings, reserve_left=0.0)
        with pytest.raises(OSError, match="No space"):
            await asyncio.to_thread(files.cut_log, began)
    assert files.is_open
    assert files.current_store.log.log_end == end
    assert await asyncio.to_thread(files.cut_log, began) is not None
    await copy.stop()  # a second time, which does nothing


async def test_a_follower_looks_at_its_disk(files: ReplicaFiles, settings: BrokerSettings) -> None:
    copy, room = running(files, settings), files.opened.room
    assert not room.refuses
    room._configured = 1 << 60
    async with asyncio.timeout(20):
        await until(lambda: room.refuses)
    room._configured = 1
    async with asyncio.timeout(20):
        await until(lambda: not room.refuses)
    await copy.stop()


async def test_a_follower_that_can_not_append_says_why_until_a_write_works(
    settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, files = opened(MemoryFolders()), ReplicaFiles(settings)
    leader.replica_log.begin_epoch(1)()
    files.replace_log(leader.replica_log.join_state())
    leader.writer.append_batch("orders", 0, [message("1")], 1000)
    copy, room = running(files, settings), files.opened.room
    base, data = leader.replica_log.log_bytes(copy.wanted_offset, 1 << 20, may_block=True)
    log = LogBytes(LeaderHeartbeat(1.0, 0, leader.log.log_end, 0), base, copy.wanted_offset, data)

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(DiskFile, "append", refuse)
        patch.setattr(DiskReserve, "probe_disk", refuse)
        assert room.write_problem is None
        with pytest.raises(OSError, match="Input/output error"):
            await copy.append_bytes(log)
        assert "Input/output error" in str(room.write_problem)
        assert "does not lead" in str(room.write_problem)
        assert room.refuses, "the leader must not hand over to it"
    async with asyncio.timeout(20):
        await until(lambda: room.write_problem is None)
    await copy.append_bytes(LogBytes(log.heartbeat, base, copy.wanted_offset, data))
    assert files.current_store.log.log_end == leader.log.log_end
    await copy.stop()
    files.close()
