"""Registry sync: brings the broker to versions of the registry that proxies know, and does the deletions up to them.

The registry may be away for the broker only, so it is read again every `again_s` until it answers. No call waits for
that without end: frames go on after `patience_s`; nothing of a topic or group that was created since is stored, and
calls for it fail after `storing_patience_s`. Both together are less than a proxy waits for an answer.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.server.deletion_log import DeletionLog
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTiming:
    """Times in seconds; the module's docstring says what each is for."""

    patience_s: float = 0.5
    storing_patience_s: float = 1.2
    again_s: float = 1.0


LEARNING_TIMING = SyncTiming()


class RegistrySync:
    """Brings `DeletionLog.synced_up_to` to the latest version that a proxy has named.

    `on_synced` is called when `is_synced_to` may return another answer than before.
    """

    def __init__(
        self,
        directory: "RegistryDirectory",
        deletion_log: "DeletionLog",
        on_synced: "Callable[[], None]",
        timing: SyncTiming = LEARNING_TIMING,
    ) -> None:
        self._directory = directory
        self._deletion_log = deletion_log
        self._on_synced = on_synced
        self._timing = timing
        self._wanted = 0
        self._tasks = BackgroundTasks()
        self._again: asyncio.TimerHandle | None = None
        self._synced = asyncio.Condition()
        self._closed = False

    def is_synced_to(self, version: int) -> bool:
        """Whether all deletions up to that version are done."""
        return version <= self._deletion_log.synced_up_to

    def is_deleted_group(self, name: str, version: int) -> bool:
        """Whether the group that was created at version `made`, which is known here, was deleted since."""
        snapshot = self._directory.snapshot
        return version <= snapshot.version and snapshot.group_created_version(name) != version

    async def wait_for_version(self, version: int) -> None:
        """Sync to a version that a proxy knows, but wait for that only for `patience_s`.

        All calls of the proxy wait behind this one, and the registry may need seconds.
        """
        if not self.is_synced_to(version):
            await asyncio.wait({self._create_sync_task(version)}, timeout=self._timing.patience_s)

    async def wait_to_store(self, version: int) -> bool:
        """Wait until `knows(version)`, for a short time; returns whether it does."""
        self.request_sync(version)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timing.storing_patience_s), self._synced:
                await self._synced.wait_for(lambda: self.is_synced_to(version))
        return self.is_synced_to(version)

    def request_sync(self, version: int) -> None:
        """Start to sync to that version, unless that is under way."""
        if version > self._wanted or (not self._tasks and self._again is None):
            self.start_sync(version)

    def start_sync(self, version: int) -> None:
        """Start to sync to that version of the registry, before a call waits for it."""
        if not self.is_synced_to(version) and not self._closed:
            self._create_sync_task(version)

    def _create_sync_task(self, version: int) -> "asyncio.Task[None]":
        self._wanted = max(self._wanted, version)
        return self._tasks.start(self._sync_up_to(self._wanted), name="later version of the registry")

    async def _sync_up_to(self, version: int) -> None:
        try:
            await self._directory.wait_for_version(version)
            await self._deletion_log.catch_up()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("version %d of the registry can't be followed", version)
        async with self._synced:
            self._synced.notify_all()
        if self._closed:
            return
        if self.is_synced_to(version):
            self._on_synced()
            return
        if self._directory.problem is None and self._directory.snapshot.version < version:
            self._wanted = 0  # the registry was restored, and has no such version any more
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(self._timing.again_s, self._sync_again)

    def _sync_again(self) -> None:
        self._again = None
        if self.is_synced_to(self._wanted):
            self._on_synced()  # also for a version that was lost: the proxy that named it knows that meanwhile
        else:
            self.start_sync(self._wanted)

    def close(self) -> None:
        """Stop."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        self._tasks.cancel()
