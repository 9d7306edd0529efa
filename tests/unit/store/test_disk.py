"""The store on a real file system: locks, damage, retention and reads that would wait for the disk."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.store.disk import side_files
from ternmq_broker.store.disk.files import DiskFile, DiskFolder, DiskFolders
from ternmq_broker.store.disk.set_aside import SetAsideFolder
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.clock import SystemClock
from ternmq_common.errors import StartupError
from ternmq_common.server_settings import FlushMode, StorageSettings
from ternmq_common.shard.model import ConsumerGroup, NewMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.retention import remove_segments
from tests.support.spilling import spill_all

SEGMENT_BYTES = 4000


def rules(name: str) -> ConsumerGroup:
    return ConsumerGroup(name=name)


def incoming(number: int) -> NewMessage:
    system = definition_pb2.SystemProperties(message_id=f"id-{number}", keys=[f"k{number % 3}"])
    return NewMessage(0, system.SerializeToString(), b"%d" % number * 50, (f"id-{number}", f"k{number % 3}"))


def settings(folder: Path, *, accept_corruption: bool = False) -> BrokerSettings:
    usual = BrokerSettings.from_storage(StorageSettings(data_dir=folder, flush=FlushMode.SYNC))
    return replace(usual, folder=folder, segment_bytes=SEGMENT_BYTES, accept_corruption=accept_corruption)


def filled(folder: Path, count: int, queues: int = 2) -> MessageStore:
    """A store with messages at one a millisecond, from 1 on."""
    store = MessageStore(DiskFolders(folder), segment_bytes=SEGMENT_BYTES)
    for number in range(count):
        store.writer.append_batch("orders", number % queues, [incoming(number)], number + 1)
    store.log.sync_segments()
    return store


def test_a_second_store_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    Broker.open(settings(tmp_path), rules, SystemClock())
    with pytest.raises(StartupError, match="in use by another stack"):
        Broker.open(settings(tmp_path), rules, SystemClock())


def test_damage_below_what_was_durable_stops_the_start_and_says_where(tmp_path: Path) -> None:
    filled(tmp_path, 100).close()
    segment = min((tmp_path / "commitlog").iterdir())
    for index_file in (tmp_path / "index").glob("0*"):
        index_file.unlink()
    content = bytearray(segment.read_bytes())
    content[1000] ^= 0xFF
    segment.write_bytes(content)
    with pytest.raises(StartupError, match=r"damaged at log offset \d+ .*--accept-corruption"):
        Broker.open(settings(tmp_path), rules, SystemClock())
    Broker.open(settings(tmp_path, accept_corruption=True), rules, SystemClock())


def test_retention_removes_whole_old_segments_and_keeps_offsets_over_a_restart(tmp_path: Path) -> None:
    store = filled(tmp_path, 300)
    spill_all(store)
    count = store.deletions.expired_segments(before_ms=200)
    assert count > 0
    remove_segments(store, count)
    first, end = store.indexes.queues.queue_bounds("orders", 0)
    assert 0 < first < 100
    assert end == 150
    assert store.indexes.queues.locate_messages("orders", 0, first - 1, 1, may_block=True) == []
    store.close()
    again = MessageStore(DiskFolders(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert again.indexes.queues.queue_bounds("orders", 0) == (first, end)
    assert len(list((tmp_path / "commitlog").iterdir())) == len(list((tmp_path / "index").glob("0*")))


def test_a_queue_that_retention_emptied_goes_on_at_its_offset(tmp_path: Path) -> None:
    store = filled(tmp_path, 50, queues=1)
    store.log.roll_segment()
    spill_all(store)
    remove_segments(store, store.deletions.expired_segments(before_ms=1000))
    assert store.indexes.queues.queue_bounds("orders", 0) == (50, 50)
    store.close()
    again = MessageStore(DiskFolders(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert again.writer.append_batch("orders", 0, [incoming(50)], 2000).first_offset == 50


def test_a_deleted_topic_stays_deleted_over_a_restart(tmp_path: Path) -> None:
    store = filled(tmp_path, 10, queues=1)
    store.deletions.forget_topic("orders")()
    store.close()
    again = MessageStore(DiskFolders(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert again.indexes.queues.queue_bounds("orders", 0) == (10, 10)


@pytest.mark.parametrize("spilled", [False, True])
def test_messages_are_found_by_key_id_and_time(tmp_path: Path, *, spilled: bool) -> None:
    store = filled(tmp_path, 90)
    if spilled:
        spill_all(store)
    assert [record.rest for record in store.reader.find_by_key("orders", "k1", 2)] == [b"88" * 50, b"85" * 50]
    assert [record.rest for record in store.reader.find_by_key("orders", "id-7", 10)] == [b"7" * 50]
    assert store.reader.find_by_key("payments", "id-7", 10) == []
    assert store.reader.find_offset_at("orders", 1, 42) == 20
    assert store.reader.find_offset_at("orders", 1, 1000) == 45


def test_timestamps_never_go_back_over_a_restart(tmp_path: Path) -> None:
    filled(tmp_path, 10, queues=1).close()
    again = MessageStore(DiskFolders(tmp_path), segment_bytes=SEGMENT_BYTES)
    again.writer.append_batch("orders", 0, [incoming(10)], now_ms=1)
    (record,) = again.reader.read_records(
        again.indexes.queues.locate_messages("orders", 0, 10, 1, may_block=True), may_block=True
    )
    assert record is not None
    assert record.stored_ms == 10


def test_a_write_in_parts_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DiskFolder(tmp_path).create("log")
    file.append([b"before"])
    monkeypatch.setattr(os, "pwritev", lambda fd, pieces, at: os.pwrite(fd, pieces[0], at))
    file.append([b"one", b"two"])
    assert file.read(0, 100) == b"beforeonetwo"


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DiskFolder(tmp_path).create("log")
    file.append([b"before"])

    def full_after_a_part(fd: int, pieces: list[bytes], at: int) -> int:
        os.pwrite(fd, pieces[0], at)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full_after_a_part)
    with pytest.raises(OSError, match="No space"):
        file.append([b"one", b"two"])
    assert file.size == DiskFile(tmp_path / "log").size == len(b"before")


def room_for(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file system have room for so many bytes more, and say so only when some are reserved."""
    reserve = os.posix_fallocate
    room = [count]

    def reserve_what_there_is(fd: int, at: int, size: int) -> None:
        if found := min(size, room[0]):
            reserve(fd, at, found)  # a part may be found before the end
        if size > room[0]:
            raise OSError(28, "No space left on device")
        room[0] -= size

    monkeypatch.setattr(os, "posix_fallocate", reserve_what_there_is)


def test_the_last_bytes_of_a_disk_are_reserved_exactly_and_no_byte_is_written_beyond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = DiskFolder(tmp_path).create("log", reserve_bytes=1 << 16)
    room_for(9, monkeypatch)
    file.append([b"one", b"two"])
    assert (tmp_path / "log").stat().st_size == 6
    with pytest.raises(OSError, match="No space"):
        file.append([b"four"])
    assert file.size == (tmp_path / "log").stat().st_size == 6
    file.append([b"six"])
    assert (tmp_path / "log").read_bytes() == b"onetwosix"


def test_what_is_reserved_is_kept_when_a_longer_append_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = DiskFolder(tmp_path).create("log", reserve_bytes=100)
    file.append([b"one"])
    room_for(0, monkeypatch)
    with pytest.raises(OSError, match="No space"):
        file.append([bytes(98)])
    file.append([bytes(97)])
    assert (tmp_path / "log").stat().st_size == 100


def test_a_replacement_that_fails_leaves_nothing_that_takes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DiskFolder(tmp_path)
    folder.replace("floors", b"old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(OSError, match="No space"):
        folder.replace("floors", b"new")
    assert folder.names() == ["floors"]
    assert folder.content("floors") == b"old"


def test_room_that_was_reserved_is_given_back(tmp_path: Path) -> None:
    file = DiskFolder(tmp_path).create("log", reserve_bytes=1 << 16)
    file.append([b"some bytes"])
    file.append([b" more"])
    assert (file.size, (tmp_path / "log").stat().st_size) == (15, 1 << 16)
    assert file.read(0, 100, may_block=True)[:15] == b"some bytes more"
    file.seal()
    assert (tmp_path / "log").stat().st_size == 15


def test_a_crash_leaves_reserved_room_that_is_no_message(tmp_path: Path) -> None:
    store = filled(tmp_path, 30)
    log = tmp_path / "commitlog"
    assert sum(file.stat().st_size for file in log.iterdir()) > store.log.log_end
    end, segments = store.log.log_end, len(list(log.iterdir()))
    assert segments > 1
    again = MessageStore(DiskFolders(tmp_path), segment_bytes=SEGMENT_BYTES)  # the first was never closed
    assert (again.log.log_end, again.replayed_records, again.indexes.queues.queue_bounds("orders", 0)) == (
        end,
        30,
        (0, 15),
    )
    assert again.writer.append_batch("orders", 0, [incoming(30)], 31).first_offset == 15


def test_zeros_that_a_crash_left_in_an_older_segment_are_given_back(tmp_path: Path) -> None:
    store = filled(tmp_path, 3)
    store.log.roll_segment()
    store.writer.append_batch("orders", 0, [incoming(3)], 4)  # and no sync that would seal the segment before
    first, second = sorted((tmp_path / "commitlog").iterdir())
    assert first.stat().st_size > int(second.name)
    again = MessageStore(DiskFolders(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert first.stat().st_size == int(second.name)
    assert again.log.log_end == again.log.synced == store.log.log_end


def test_a_segment_is_sealed_by_the_first_sync_after_it_ended(tmp_path: Path) -> None:
    store = filled(tmp_path, 3)
    store.log.roll_segment()
    store.writer.append_batch("orders", 0, [incoming(3)], 4)
    store.log.sync_segments()
    first, second = sorted((tmp_path / "commitlog").iterdir())
    assert first.stat().st_size == int(second.name)


def test_an_abandoned_store_promises_nothing_that_was_not_synced(tmp_path: Path) -> None:
    store = filled(tmp_path, 10)
    store.checkpoints.save_checkpoint()
    durable = store.log.synced
    store.writer.append_batch("orders", 0, [incoming(10)], 11)
    store.abandon_files()
    checkpoint = side_files.SideFileReader(
        SetAsideFolder(DiskFolder(tmp_path)), accept_damage=False, may_be_plain=False
    )
    content = checkpoint.read_derived(DiskFolder(tmp_path), "checkpoint")
    assert isinstance(content, dict)
    assert content["durable"] == durable
    assert not list((tmp_path / "index").glob("0*"))
