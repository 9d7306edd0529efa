"""The files of a replica, opened again when its log is cut off or replaced by a copy of the leader's.

All methods but `wait_until_open` block; call them in a thread. The lock is held from the beginning to `close`.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_broker.store.copying.copy_start import JoinState, begin_copy
from ternmq_broker.store.copying.log_truncation import truncate_store
from ternmq_broker.store_opening import open_files, open_store
from ternmq_common.errors import StartupError
from ternmq_common.event_loop.background_loop import FailureLog
from ternmq_common.pacing.backoff import RETRY_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store_disk import BrokerFolders, StoreDisk

_log = logging.getLogger(__name__)


class ReplicaFiles:
    """One replica's open files. Each method may raise StartupError with the reason.

    After OSError the files are open as they were. After a StartupError whose cause is an OSError they are closed, and
    can be opened when the disk works again: `wait_until_open`.
    """

    def __init__(self, settings: "BrokerSettings", disk: "StoreDisk | None" = None) -> None:
        """`disk` replaces the one of the settings' folder."""
        self._settings = settings
        self.opened = open_store(settings, is_replica=True, disk=disk)
        self._is_open = True
        self.open_problem: str | None = None
        """Why the store can't be opened again, while that is tried."""

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def current_store(self) -> "MessageStore":
        return self.opened.store

    def reopen_store(self) -> None:
        """Close the store without writing, and open it again."""
        self._with_files_closed(lambda _: None)

    async def wait_until_open(self, is_ending: "Callable[[], bool]", again_s: float = RETRY_S) -> None:
        """Open the store again as soon as its disk allows it; tries every `again_s` seconds.

        StartupError for another reason, or if the process ends meanwhile.
        """
        failures = FailureLog("this replica can't open its store")
        while True:
            try:
                await asyncio.to_thread(self.reopen_store)
            except StartupError as error:
                if not isinstance(error.__cause__, OSError) or is_ending():
                    raise
                failures.log_failure(error.__cause__, again_s)
                self.open_problem = f"this replica can't open its store: {error.__cause__}"
                await asyncio.sleep(again_s)
            else:
                failures.note_success()
                self.open_problem = None
                return

    def cut_log(self, end: int) -> str | None:
        """Cut the log off at `end`; returns the name below `set-aside/` of what was cut off, None if nothing
        was."""
        kept: list[str | None] = []
        size = self.current_store.log.log_end - end
        self._with_files_closed(lambda folders: kept.append(truncate_store(folders, end)))
        _log.warning(
            "the leader has not the last %d bytes of this log: they were cut off, from log offset %d on, and are kept "
            "in set-aside/%s",
            size,
            end,
            kept[0],
        )
        return kept[0]

    def replace_log(self, state: JoinState) -> None:
        """Replace the log by an empty one that begins as the leader's does; what was there is lost."""
        self._with_files_closed(lambda folders: begin_copy(folders, state))

    def _with_files_closed(self, change: "Callable[[BrokerFolders], object]") -> None:
        opened = self.opened
        if (lost := opened.live.find_missing()) is not None:
            raise StartupError(f"{lost}; it is not created again, since the registry knows it as a store with messages")
        if self._is_open:
            opened.store.abandon_files()
            opened.journal.close()
            self._is_open = False
        try:
            change(opened.disk.open_folders())
        finally:  # a full disk changes nothing, and the copy goes on when there is space
            self.opened = open_files(self._settings, opened.disk, opened.lock, is_replica=True)
            self._is_open = True

    def mark_closed(self) -> None:
        """Note that a broker that ended has closed the store and the journal."""
        self._is_open = False

    def close(self) -> None:
        """Close all files, with nothing left to recover, and release the lock."""
        if self._is_open:
            self.opened.store.close()
            self.opened.journal.note_size()
            self.opened.journal.close()
            self._is_open = False
        self.opened.lock.release()
