"""The deletion log: makes the broker remove messages and progress of each deleted topic and group exactly once.

A proxy that deletes a topic or group tells all brokers that it can reach. A broker that was away reads in the registry
what it missed, before it accepts messages of a topic that was created later, or serves such a group (`answers.py`):
data of a topic or group that was created again must not be removed with the data of the old one. For the same reason
it notes each deletion that it has done (`deletion_notes.py`) before it reports it: the registry may be away at that
time. A broker that began with a copy of the registry does not ask the registry before it is registered: another store
may be the broker.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_broker.server.deletion_notes import DeletionNotes
from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion
from ternmq_common.errors import MessagingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ternmq_broker.broker import Broker
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)


class DeletionLog:
    """The deletions that one broker has done so far; `folder` is where it notes them."""

    def __init__(self, broker: "Broker", directory: "RegistryDirectory", folder: "Path") -> None:
        self._broker = broker
        self._directory = directory
        self._registry = directory.registry
        self._folder = folder
        self._notes = DeletionNotes(folder)
        self._reported_up_to = 0
        self._problem: str | None = None
        self._turn = asyncio.Lock()
        self._is_registered = True
        self.synced_up_to = 0
        self.on_synced: Callable[[], None] = lambda: None

    async def begin_with_registry(self) -> None:
        """Catch up with deletions while the broker was away; for a broker that is registered.

        Raises RegistryUnavailable, and StartupError for damaged notes.
        """
        applied = await asyncio.to_thread(self._registry.applied_version, self._broker.name)
        async with self._turn:
            self._reported_up_to = applied
            await asyncio.to_thread(self._notes.read)
            if self._notes.up_to > self._directory.snapshot.version:
                _log.warning("ignoring the record of deletions: it is of another registry")
                self._notes = DeletionNotes(self._folder)
            self._notes.raise_up_to(self._reported_up_to)
            version = self._directory.snapshot.version
            if version > self.synced_up_to or not self._is_registered:
                await self._catch_up(version)
        self._is_registered = True

    async def begin_from_copy(self, synced_up_to: int) -> None:
        """Begin without the registry: all deletions up to that version were done when the broker ran last.

        `begin_with_registry` follows when it is registered. StartupError for damaged notes.
        """
        self._is_registered = False
        await asyncio.to_thread(self._notes.read)
        self.synced_up_to = synced_up_to

    async def delete_topic(self, name: str, version: int) -> None:
        """Remove a topic that a proxy deleted."""
        async with self._turn:
            await self._apply_deletion(RegistryDeletion(version, DeletedKind.TOPIC, name))

    async def delete_group(self, name: str, version: int) -> None:
        """Remove a group that a proxy deleted."""
        async with self._turn:
            await self._apply_deletion(RegistryDeletion(version, DeletedKind.GROUP, name))

    async def catch_up(self) -> None:
        """Do the deletions up to the known version; `synced_up_to` stays behind if they can't be read now."""
        version = self._directory.snapshot.version
        if version <= self.synced_up_to or not self._is_registered:
            return
        try:
            async with self._turn:
                if version > self.synced_up_to:
                    await self._catch_up(version)
        except MessagingError as error:
            if str(error) != self._problem:  # it is tried again every second
                self._problem = str(error)
                _log.warning("deletions up to version %d can't be read, or reported as done: %s", version, error)
        else:
            self._problem = None

    async def _catch_up(self, version: int) -> None:
        """Catch up; the caller has `_turn`."""
        deletions = await asyncio.to_thread(self._registry.list_deletions, self._notes.up_to)
        for deletion in sorted(deletions, key=lambda each: each.version):
            await self._apply_deletion(deletion)
        if deletions:
            await asyncio.to_thread(self._notes.prune_up_to, max(deletion.version for deletion in deletions))
        # Messages may come from here on, whether or not the registry gets the report: the notes have what is done.
        self.synced_up_to = max(self.synced_up_to, version)
        self.on_synced()
        if self._notes.up_to > self._reported_up_to:
            await asyncio.to_thread(self._registry.set_applied_version, self._broker.name, self._notes.up_to)
            self._reported_up_to = self._notes.up_to

    async def _apply_deletion(self, deletion: RegistryDeletion) -> None:
        if self._notes.is_done(deletion):
            return
        if deletion.kind is DeletedKind.TOPIC:
            await self._broker.administering.forget_topic(deletion.name, version=deletion.version)
        else:
            await self._broker.administering.forget_group(deletion.name, version=deletion.version)
        await asyncio.to_thread(self._notes.add_done, deletion)
