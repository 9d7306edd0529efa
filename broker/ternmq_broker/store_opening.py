"""Opens a broker's files; a StartupError says what an operator can do if that fails."""

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.copying.copy_start import UNFINISHED, UnfinishedCopy, wipe_store
from ternmq_broker.store.disk.checked_file import DamagedFile, NewerFormat
from ternmq_broker.store.disk.live_files import LiveFiles
from ternmq_broker.store.disk.reserve import MIB, DiskReserve, reserve_bytes
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log.commit_log import NO_LIMIT
from ternmq_broker.store.log.log_recovery import CommitLogCorrupted
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store_disk import RealDisk
from ternmq_broker.upkeep.disk_room import DiskSpaceWatch, disk_bytes
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.store.disk.store_lock import StoreLock
    from ternmq_broker.store_disk import StoreDisk

_log = logging.getLogger(__name__)
# A start writes a little itself: locks, and SQLite's files.
_START_BYTES = MIB


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """The open files of one broker; no other process has them while `lock` is held."""

    disk: "StoreDisk"
    lock: "StoreLock"
    store: MessageStore
    journal: ProgressJournal
    room: DiskSpaceWatch
    live: LiveFiles


def make_room_to_start(folder: "Path") -> None:
    """Release the reserve on a full disk before anything is opened: only a running broker can free space."""
    if folder.exists():
        disk = disk_bytes(folder)
        reserve = DiskReserve(folder, reserve_bytes(disk.total))
        while disk.free < _START_BYTES and reserve.give_slice(may_use_all=True):
            disk = disk_bytes(folder)


def open_store(settings: "BrokerSettings", *, is_replica: bool = False, disk: "StoreDisk | None" = None) -> OpenedStore:
    """Open or create the store and recover it; blocks. StartupError with the reason if that fails.

    `disk` replaces the one of the settings' folder.
    """
    try:
        if disk is None:
            make_room_to_start(settings.folder)
            disk = RealDisk(settings.folder)
        folders = disk.open_folders()
        lock = disk.lock_store()
    except OSError as error:
        raise StartupError(
            f"the data directory {settings.folder} can't be used: {error.strerror}; "
            "give this user the right and the room to write there, or choose another --data-dir"
        ) from error
    try:
        if is_replica and UNFINISHED in folders.root.names():
            _log.info("the store was being wiped, to be copied from its leader; wiping it again")
            wipe_store(folders)
        return open_files(settings, disk, lock, is_replica=is_replica)
    except BaseException:
        lock.release()
        raise


def open_files(
    settings: "BrokerSettings", disk: "StoreDisk", lock: "StoreLock", *, is_replica: bool = False
) -> OpenedStore:
    """Open the store as `open_store` does, for a caller that has the lock.

    What is derived of a replica's log is never written beyond what is known to be acknowledged.
    """
    live = LiveFiles()
    folders = disk.open_folders(live)
    lock.watch_with(live)
    with startup_errors(settings.folder, is_replica=is_replica):
        store = MessageStore(
            folders,
            segment_bytes=settings.segment_bytes,
            accept_corruption=settings.accept_corruption,
            spill_limit=0 if is_replica else NO_LIMIT,
            seconds=disk.monotonic_s,
            wall_s=disk.wall_s,
        )
        store.deletions.is_replicated = is_replica
        journal = ProgressJournal(folders.consumption, seconds=disk.monotonic_s)
        if journal.is_new and store.log.log_end > store.log.log_start and not is_replica:
            _log.error(
                "the consumption journal in %s is gone, and with it what groups have finished of the %d messages, so "
                "that all of them are delivered again",
                *(settings.folder, sum(held.messages for held in store.indexes.queues.held_topics().values())),
            )
            journal.note_loss(store.log.log_end)
        room = _create_room(settings, disk, live, follows=is_replica)
    if store.replayed_records:
        _log.info("recovered %d messages that the index did not have yet", store.replayed_records)
    return OpenedStore(disk, lock, store, journal, room, live)


@contextmanager
def startup_errors(folder: "Path", *, is_replica: bool = False) -> "Iterator[None]":
    """Turn errors of opening the store in that folder into a StartupError with advice for an operator."""
    try:
        yield
    except (CommitLogCorrupted, DamagedFile) as error:
        if is_replica:
            raise StartupError(
                f"the store in {folder} is damaged: {error}; start this replica with an empty --data-dir, and it "
                "copies what its leader has"
            ) from error
        raise _damage_error(folder, error) from error
    except UnfinishedCopy as error:
        raise StartupError(
            f"in {folder} {error}, and that did not come to its end; start it as a replica, which begins again"
        ) from error
    except NewerFormat as error:
        raise StartupError(
            f"the store in {folder} was written by a newer version of TernMQ: {error}; start that version"
        ) from error
    except OSError as error:
        raise StartupError(f"the store in {folder} can't be opened: {error}; look at its disk") from error


def _damage_error(folder: "Path", error: CommitLogCorrupted | DamagedFile) -> StartupError:
    if isinstance(error, CommitLogCorrupted):
        return StartupError(
            f"the commit log in {folder} is damaged at {error}; restore it from a copy, or start with "
            "--accept-corruption to go on without the records that are damaged"
        )
    return StartupError(
        f"in {folder} {error}; restore it from a copy, or start with --accept-corruption to go on without its contents"
    )


def _create_room(settings: "BrokerSettings", disk: "StoreDisk", live: LiveFiles, *, follows: bool) -> DiskSpaceWatch:
    room = DiskSpaceWatch(
        disk.free_space,
        disk.open_reserve(),
        free_min_bytes=settings.disk_free_min_bytes,
        follows=follows,
        check_files=live.find_missing,
        seconds=disk.monotonic_s,
    )
    room.renew_reserve()
    return room
