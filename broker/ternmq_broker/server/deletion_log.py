"""The deletion log: of topics and groups that were deleted the broker removes messages and progress once, soon or late.

A proxy that deletes something says so to all brokers that it can reach. A broker that was away reads in the registry
what it missed, before it takes messages of a topic that was made later, or serves such a group (`answers.py`): what is
of a topic or group that was made anew must not be removed with what was of the old one. For the same reason it notes
what it has done, beside the store and before anybody hears of it: the registry may be out when it is to be notified.

File        `deletions-done`, a `NoteFile`: JSON, `up_to` is the version up to which all was done, `beyond` what was
            done above it.
"""

import asyncio
import json
import logging
import re
from typing import TYPE_CHECKING

from ternmq_broker.server.note_file import NoteFile
from ternmq_common.cluster import Deleted, Deletion
from ternmq_common.errors import MessagingError

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_broker.broker import Broker
    from ternmq_registry.directory import Directory

_log = logging.getLogger(__name__)
_NOTES = "deletions-done"


class DeletionLog:
    """The deletions that one broker has done so far; `folder` is where it notes them."""

    def __init__(self, broker: "Broker", directory: "Directory", folder: "Path") -> None:
        self._broker = broker
        self._directory = directory
        self._registry = directory.registry
        self._notes = NoteFile(
            folder / _NOTES,
            old=re.compile(r"\{.*\}"),
            advice="restore it from a copy; or delete it, if no topic or group that was deleted was made again, since "
            "messages of the later one could be removed then",
        )
        self._done_up_to = self._told_up_to = 0
        self._done: set[Deletion] = set()
        self._turn = asyncio.Lock()
        self.synced_up_to = 0

    async def begin(self) -> None:
        """Catch up with what happened while the broker was away; raises RegistryUnavailable, and StartupError for
        notes that are damaged. For a broker that is registered."""
        self._done_up_to = self._told_up_to = await asyncio.to_thread(self._registry.applied, self._broker.name)
        self._take_notes(await asyncio.to_thread(self._notes.read))
        await self._catch_up(self._directory.snapshot.version)

    async def topic(self, name: str, version: int) -> None:
        """A proxy deleted the topic."""
        async with self._turn:
            await self._forget(Deletion(version, Deleted.TOPIC, name))

    async def group(self, name: str, version: int) -> None:
        """A proxy deleted the group."""
        async with self._turn:
            await self._forget(Deletion(version, Deleted.GROUP, name))

    async def catch_up(self) -> None:
        """Remove what was deleted up to the version that is known; `synced_up_to` stays behind if that can't be
        looked up now."""
        version = self._directory.snapshot.version
        if version <= self.synced_up_to:
            return
        try:
            await self._catch_up(version)
        except MessagingError as error:
            _log.warning("what was deleted up to version %d can't be looked up, or said to be done: %s", version, error)

    async def _catch_up(self, version: int) -> None:
        async with self._turn:
            if version <= self.synced_up_to:
                return
            deletions = await asyncio.to_thread(self._registry.deletions, self._done_up_to)
            for deletion in sorted(deletions, key=lambda each: each.version):
                await self._forget(deletion)
                self._done_up_to = deletion.version
                self._done.discard(deletion)
            if deletions:
                await self._note()
            # Messages may come from here on, whether or not the registry hears it now: the notes say what is done.
            self.synced_up_to = version
            if self._done_up_to > self._told_up_to:
                await asyncio.to_thread(self._registry.set_applied, self._broker.name, self._done_up_to)
                self._told_up_to = self._done_up_to

    async def _forget(self, deletion: Deletion) -> None:
        if deletion.version <= self._done_up_to or deletion in self._done:
            return
        if deletion.kind is Deleted.TOPIC:
            await self._broker.forget_topic(deletion.name, version=deletion.version)
        else:
            await self._broker.forget_group(deletion.name, version=deletion.version)
        self._done.add(deletion)
        await self._note()

    # --- notes

    async def _note(self) -> None:
        beyond = [[each.version, each.kind.value, each.name] for each in self._done]
        content = json.dumps({"up_to": self._done_up_to, "beyond": beyond})
        await asyncio.to_thread(self._notes.write, content)

    def _take_notes(self, content: str | None) -> None:
        if content is None:
            return
        try:
            noted = json.loads(content)
            up_to = int(noted["up_to"])
            beyond = {Deletion(version, Deleted(kind), name) for version, kind, name in noted["beyond"]}
        except (ValueError, TypeError, KeyError) as error:
            raise self._notes.damaged() from error  # one of an earlier version has no checksum
        if up_to > self._directory.snapshot.version:
            _log.warning("the notes on deletions are of another registry, and not looked at")
            return
        self._done_up_to, self._done = max(self._done_up_to, up_to), beyond
