"""The disk that a broker's store is opened on: its lock, its folders, its room, and what syncs its log.

A simulation puts another one in its place, which loses power.
"""

import time
from typing import TYPE_CHECKING, Protocol

from ternmq_broker.disk_room import DiskBytes, disk_bytes
from ternmq_broker.sending.sync_thread import SyncThread, SyncWorker
from ternmq_broker.store.files import DiskFolders, Folder, StoreFolders
from ternmq_broker.store.lock import StoreLock
from ternmq_broker.store.reserve import Reserve, reserve_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_broker.store.live_files import LiveFiles


class BrokerFolders(StoreFolders, Protocol):
    """Where a broker keeps its files."""

    @property
    def consumption(self) -> Folder: ...


class StoreDisk(Protocol):
    """What a store is opened on. All but the clocks blocks. OSError."""

    def lock(self) -> StoreLock:
        """Have the store for this process alone; StartupError if another one has it."""

    def folders(self, live: "LiveFiles | None" = None) -> BrokerFolders:
        """The store's folders, which `live` watches from now on."""

    def space(self) -> DiskBytes:
        """How much room there is."""

    def reserve(self) -> Reserve:
        """The room that is kept for a full disk."""

    def sync_worker(self) -> SyncWorker:
        """What syncs one log."""

    def seconds(self) -> float:
        """The monotonic clock by which the disk is looked at."""

    def wall_s(self) -> float:
        """The clock of the wall, for what is kept through a restart."""

    def processor_s(self) -> float:
        """The processor time of the calling thread."""


class RealDisk:
    """The disk below a folder."""

    def __init__(self, folder: "Path") -> None:
        self._folder = folder

    def lock(self) -> StoreLock:
        """See `StoreDisk`."""
        return StoreLock(self._folder)

    def folders(self, live: "LiveFiles | None" = None) -> BrokerFolders:
        """See `StoreDisk`."""
        return DiskFolders(self._folder, live)

    def space(self) -> DiskBytes:
        """See `StoreDisk`."""
        return disk_bytes(self._folder)

    def reserve(self) -> Reserve:
        """See `StoreDisk`."""
        return Reserve(self._folder, reserve_bytes(self.space().total))

    def sync_worker(self) -> SyncWorker:
        """See `StoreDisk`."""
        return SyncThread()

    def seconds(self) -> float:
        """See `StoreDisk`."""
        return time.monotonic()

    def wall_s(self) -> float:
        """See `StoreDisk`."""
        return time.time()

    def processor_s(self) -> float:
        """See `StoreDisk`."""
        return time.thread_time()
