"""Keeps a process's copy of the registry up to date, with which it starts if the registry is away then.

When     soon after a change that the directory has read, and every `stamp_s` while the registry can be read, so that
         the copy has its age. At most one write in `pause_s`; a last one at the end of the process if it is needed.
Failure  is logged once, until it works again; nothing waits for the copy or depends on it but a start.
Threads  written in a thread, decided on the event loop.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.access.users import AccessSnapshot
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.resources.quotas import QuotaSnapshot
from ternmq_registry.copies.copy_form import RegistryCopy, UnusableCopy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.catalog.cluster import RegistrySnapshot
    from ternmq_registry.copies.copy_file import CopyFile
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)
STAMP_S = 30.0
PAUSE_S = 1.0


class CopyKeeper:
    """Writes `file` as the directory changes; `synced_up_to` returns which deletions a broker has done
    (`RegistryCopy`)."""

    def __init__(
        self,
        directory: "RegistryDirectory",
        file: "CopyFile",
        *,
        shown: "Callable[[RegistrySnapshot], RegistrySnapshot]" = lambda snapshot: snapshot,
        synced_up_to: "Callable[[], int]" = lambda: 0,
        stamp_s: float = STAMP_S,
        pause_s: float = PAUSE_S,
    ) -> None:
        """`shown` returns the part of a snapshot that is kept."""
        self._directory = directory
        self._file = file
        self._shown = shown
        self._synced_up_to = synced_up_to
        self._stamp_s = stamp_s
        self._pause_s = pause_s
        self._changed = asyncio.Event()
        self._tasks, self._writes = BackgroundTasks(), BackgroundTasks()
        self._written: tuple[int, int, int] | None = None
        self._problem: str | None = None

    def start(self) -> None:
        """Keep the copy from now on."""
        self._directory.on_change(lambda _: self._changed.set())
        self._changed.set()
        self._tasks.start(self._keep_writing(), name="copy of the registry")

    def request_write(self) -> None:
        """Write the copy soon, as `synced_up_to` has changed."""
        self._changed.set()

    async def stop(self) -> None:
        if not self._tasks:
            return
        await self._tasks.stop()
        await self._writes.wait_until_done()
        if self._changed.is_set():
            await self._write_copy()

    async def _keep_writing(self) -> None:
        try:
            await asyncio.to_thread(self._file.clear)
        except OSError as error:
            self._note_failure(error)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._stamp_s):
                    await self._changed.wait()
            self._changed.clear()
            # A write goes on when this task is cancelled: a file is not left half written.
            await self._writes.run_to_end(self._write_copy())
            await asyncio.sleep(self._pause_s)

    async def _write_copy(self) -> None:
        directory = self._directory
        read_ms, synced_up_to = directory.read_ms, self._synced_up_to()
        state = (read_ms or 0, directory.snapshot.version, synced_up_to)
        if read_ms is None or state == self._written:
            return  # during an outage the file has already what was known before
        copy = RegistryCopy(
            registry=self._file.registry,
            holder=self._file.holder,
            read_ms=read_ms,
            snapshot=self._shown(directory.snapshot),
            synced_up_to=synced_up_to,
        )
        try:
            await asyncio.to_thread(self._file.write, copy)
        except (OSError, UnusableCopy) as error:
            self._note_failure(error)
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("the copy of the registry could not be written")
        else:
            self._written, self._problem = state, None

    def _note_failure(self, error: Exception) -> None:
        problem = str(error)
        if self._problem is None:
            _log.warning(
                "the copy of the registry, %s, can't be written, so a start without the registry has to wait: %s",
                self._file.path, problem,
            )  # fmt: skip
        self._problem = problem


def reduce_for_broker(snapshot: "RegistrySnapshot") -> "RegistrySnapshot":
    """The part of a snapshot that a broker keeps: without users, keys and quotas, which it does not use."""
    return replace(snapshot, access=AccessSnapshot(), handle_keys=(), quotas=QuotaSnapshot())
