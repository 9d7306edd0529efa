"""The disk that a broker's store is on: its lock, its folders, its free space, and the worker that syncs its log.

A simulation replaces it by a disk that loses power.
"""

import time
from typing import TYPE_CHECKING, Protocol

from ternmq_broker.sending.sync_thread import SyncThread, SyncWorker
from ternmq_broker.store.disk.files import DiskFolders, Folder, StoreFolders
from ternmq_broker.store.disk.reserve import DiskReserve, reserve_bytes
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.upkeep.disk_room import DiskBytes, disk_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_broker.store.disk.live_files import LiveFiles


class BrokerFolders(StoreFolders, Protocol):
    """The folders of a broker's files."""

    @property
    def consumption(self) -> Folder: ...


class StoreDisk(Protocol):
    """The disk of a store. All methods but the clocks block, and may raise OSError."""

    def lock_store(self) -> StoreLock:
        """Lock the store for this process; StartupError if another process has it."""

    def open_folders(self, live: "LiveFiles | None" = None) -> BrokerFolders:
        """Open the store's folders; `live` watches them from now on."""

    def free_space(self) -> DiskBytes:
        """The free and total bytes of the disk."""

    def open_reserve(self) -> DiskReserve:
        """The reserve for a full disk."""

    def sync_worker(self) -> SyncWorker:
        """A worker that syncs one log."""

    def monotonic_s(self) -> float:
        """The monotonic clock for checks of the disk."""

    def wall_s(self) -> float:
        """The wall clock, for times that are kept through a restart."""

    def processor_s(self) -> float:
        """The processor time of the calling thread."""


class RealDisk:
    """The disk below a folder."""

    def __init__(self, folder: "Path") -> None:
        self._folder = folder

    def lock_store(self) -> StoreLock:
        """See `StoreDisk`."""
        return StoreLock(self._folder)

    def open_folders(self, live: "LiveFiles | None" = None) -> BrokerFolders:
        """See `StoreDisk`."""
        return DiskFolders(self._folder, live)

    def free_space(self) -> DiskBytes:
        """See `StoreDisk`."""
        return disk_bytes(self._folder)

    def open_reserve(self) -> DiskReserve:
        """See `StoreDisk`."""
        return DiskReserve(self._folder, reserve_bytes(self.free_space().total))

    def sync_worker(self) -> SyncWorker:
        """See `StoreDisk`."""
        return SyncThread()

    def monotonic_s(self) -> float:
        """See `StoreDisk`."""
        return time.monotonic()

    def wall_s(self) -> float:
        """See `StoreDisk`."""
        return time.time()

    def processor_s(self) -> float:
        """See `StoreDisk`."""
        return time.thread_time()
