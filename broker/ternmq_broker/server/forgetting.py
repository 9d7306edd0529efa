"""Topics and groups that were deleted: the broker forgets each deletion's messages and progress once, soon or late.

A proxy that deletes something says so to all brokers that it can reach. A broker that was away reads in the registry
what it missed, before it serves a proxy that knows of it: messages of a topic that was made anew must not be forgotten
with those of the old one.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.cluster import Deleted, Deletion
from ternmq_common.errors import MessagingError

if TYPE_CHECKING:
    from ternmq_broker.broker import Broker
    from ternmq_registry.directory import Directory

_log = logging.getLogger(__name__)


class Forgetting:
    """What one broker has forgotten so far."""

    def __init__(self, broker: "Broker", directory: "Directory") -> None:
        self._broker = broker
        self._directory = directory
        self._registry = directory.registry
        self._done_up_to = 0
        self._looked_up_to = 0
        self._done: set[Deletion] = set()
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """Catch up with what happened while the broker was away; raises RegistryUnavailable."""
        self._done_up_to = await asyncio.to_thread(self._registry.applied, self._broker.name)
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
        """Forget what was deleted up to the version that is known; what can't be looked up now is, the next time."""
        version = self._directory.snapshot.version
        if version <= self._looked_up_to:
            return
        try:
            await self._catch_up(version)
        except MessagingError as error:
            _log.warning("what was deleted up to version %d can't be looked up: %s", version, error)

    async def _catch_up(self, version: int) -> None:
        async with self._turn:
            if version <= self._looked_up_to:
                return
            deletions = await asyncio.to_thread(self._registry.deletions, self._done_up_to)
            for deletion in sorted(deletions, key=lambda each: each.version):
                await self._forget(deletion)
                self._done.discard(deletion)
                self._done_up_to = deletion.version
            if deletions:
                await asyncio.to_thread(self._registry.set_applied, self._broker.name, self._done_up_to)
            self._looked_up_to = version

    async def _forget(self, deletion: Deletion) -> None:
        if deletion.version <= self._done_up_to or deletion in self._done:
            return
        if deletion.kind is Deleted.TOPIC:
            await self._broker.forget_topic(deletion.name)
        else:
            await self._broker.forget_group(deletion.name)
        self._done.add(deletion)
