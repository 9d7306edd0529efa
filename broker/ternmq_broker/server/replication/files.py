"""The files of a replica, whose store is opened anew when its log is cut off, or begins anew as a copy of the leader's.

Everything but `wait_until_open` blocks, and is for a thread. The lock is kept from the beginning to `close`.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_broker.background_loop import FailureLog
from ternmq_broker.opening import open_files, open_store
from ternmq_broker.store.joining import JoinState, begin_copy
from ternmq_broker.store.truncating import truncated
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.store.message_store import MessageStore
    from ternmq_broker.store_disk import BrokerFolders, StoreDisk

_log = logging.getLogger(__name__)
_OPEN_AGAIN_S = 1.0


class ReplicaFiles:
    """One replica's files, open. StartupError of every method says what stands in the way; after OSError they are open
    as they were. After a StartupError whose cause is an OSError they are closed, and can be opened when the disk works
    again: `wait_until_open`."""

    def __init__(self, settings: "BrokerSettings", disk: "StoreDisk | None" = None) -> None:
        """`disk`: another one than that of the settings' folder."""
        self._settings = settings
        self.opened = open_store(settings, is_replica=True, disk=disk)
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def store(self) -> "MessageStore":
        return self.opened.store

    def reopen(self) -> None:
        """Let go of the store as it is, and open it again."""
        self._with_files_closed(lambda _: None)

    async def wait_until_open(self, is_ending: "Callable[[], bool]", again_s: float = _OPEN_AGAIN_S) -> None:
        """Open the store again as soon as its disk allows that, which is tried every `again_s` seconds. StartupError if
        something else stands in the way, or if the process ends meanwhile."""
        failures = FailureLog("this replica can't open its store")
        while True:
            try:
                await asyncio.to_thread(self.reopen)
            except StartupError as error:
                if not isinstance(error.__cause__, OSError) or is_ending():
                    raise
                failures.failed(error.__cause__, again_s)
                await asyncio.sleep(again_s)
            else:
                failures.worked()
                return

    def cut(self, end: int) -> str | None:
        """Cut the log off; the name below `set-aside/` of what was cut off, None if it was nothing."""
        kept: list[str | None] = []
        size = self.store.end - end
        self._with_files_closed(lambda folders: kept.append(truncated(folders, end)))
        _log.warning(
            "the leader has not the last %d bytes of this log: they were cut off, from log offset %d on, and are kept "
            "in set-aside/%s",
            size,
            end,
            kept[0],
        )
        return kept[0]

    def begin_as(self, state: JoinState) -> None:
        """Have an empty log that begins as the leader's does; what was there is gone."""
        self._with_files_closed(lambda folders: begin_copy(folders, state))

    def _with_files_closed(self, change: "Callable[[BrokerFolders], object]") -> None:
        opened = self.opened
        if (lost := opened.live.look()) is not None:
            raise StartupError(f"{lost}; it is not created again, since the registry knows it as a store with messages")
        if self._is_open:
            opened.store.abandon()
            opened.journal.close()
            self._is_open = False
        try:
            change(opened.disk.folders())
        finally:  # a disk that is full changes nothing, and the copy goes on when there is room
            self.opened = open_files(self._settings, opened.disk, opened.lock, is_replica=True)
            self._is_open = True

    def let_go(self) -> None:
        """A broker that ended has closed the store and the journal."""
        self._is_open = False

    def close(self) -> None:
        """Leave nothing to be recovered, and let go of all."""
        if self._is_open:
            self.opened.store.close()
            self.opened.journal.note_size()
            self.opened.journal.close()
            self._is_open = False
        self.opened.lock.release()
