"""All proxies that are connected to a broker: who pulls where, who can ask a producer, what they ask each other."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.server.answers import Answers
from ternmq_broker.server.connection import ANSWERS_BYTES_MAX
from ternmq_broker.server.registry_sync import LEARNING_TIMING, LearningTiming, RegistrySync
from ternmq_common.model import ProxyAnswer
from ternmq_common.own_version import own_version
from ternmq_common.shard.shard import Done
from ternmq_runtime.observability.tracing import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ternmq_broker.broker import Broker
    from ternmq_broker.server.connection import ProxyConnection
    from ternmq_broker.server.deletion_log import DeletionLog
    from ternmq_common.cluster import RegistrySnapshot
    from ternmq_common.model import DroppedLite, OrphanedTransaction
    from ternmq_common.shard.form import ProxyQuestion
    from ternmq_registry.directory import Directory


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Of one proxy's connection: the bytes of answers that it has not read, and how long it has for a question."""

    answers_bytes_max: int = ANSWERS_BYTES_MAX
    tell_s: float = 1.0


class Proxies:
    """The connections, and what they share. `limits` are those of each connection."""

    def __init__(
        self,
        broker: "Broker",
        directory: "Directory",
        deletion_log: "DeletionLog",
        continued: "Callable[[str], AbstractContextManager[object]]" = lambda _: NOTHING,
        *,
        timing: LearningTiming = LEARNING_TIMING,
    ) -> None:
        """`continued` makes what is done within it part of the trace that a proxy names."""
        self.broker = broker
        self.limits = ConnectionLimits()
        self.registry_sync = RegistrySync(directory, deletion_log, self._synced, timing)
        self.answers = Answers(broker, deletion_log, self.registry_sync, self.pulling_members)
        self.version = own_version()
        self.continued = continued
        self._directory = directory
        self._connections: list[ProxyConnection] = []
        self._leaving = False
        self._empty = asyncio.Event()
        broker.orphans.watch(self._ask)
        broker.watch_lite(self._dropped)
        directory.on_change(self._changed)

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: "ProxyConnection") -> None:
        self._connections.append(connection)
        self._empty.clear()
        connection.tell_version(self._directory.snapshot.version)
        if self._leaving:
            connection.leave()

    def remove(self, connection: "ProxyConnection") -> None:
        self._connections.remove(connection)
        connection.close()
        if not self._connections:
            self._empty.set()

    async def leave(self) -> None:
        """Have the proxies end their streams, and return when all have."""
        self.broker.end_polls()
        for connection in self._connections:
            connection.leave()
        self._leaving = True
        if self._connections:
            await self._empty.wait()

    def close(self) -> None:
        """Sync with the registry no more."""
        self.registry_sync.close()

    def served_again(self) -> None:
        """What was refused may be asked for again."""
        self._synced()

    def _synced(self) -> None:
        for connection in self._connections:
            connection.learned()

    def _changed(self, snapshot: "RegistrySnapshot") -> None:
        for connection in self._connections:
            connection.tell_version(snapshot.version)
        if self._connections:  # else what was deleted while the broker was away may not be removed yet
            self.registry_sync.begin(snapshot.version)

    def pulling_members(self, group: str, topic: str) -> Done[list[str]]:
        """The group's members that pull the topic, through whichever proxy."""
        members = (member for connection in self._connections for member in connection.members)
        pulling = (each for each in members if each.group == group and (not each.topics or topic in each.topics))
        return Done(sorted({each.client_id for each in pulling}))

    async def ask_others(self, asker: "ProxyConnection", question: "ProxyQuestion") -> list[ProxyAnswer]:
        """What all but the asker say to it, by their names."""
        others = sorted((each for each in self._connections if each is not asker), key=lambda each: each.name)
        told = await asyncio.gather(*(each.tell(question) for each in others))
        return [ProxyAnswer(each.name, data) for each, data in zip(others, told, strict=True)]

    def _dropped(self, dropped: "Sequence[DroppedLite]") -> None:
        for connection in self._connections:
            connection.dropped(dropped)

    async def _ask(self, orphan: "OrphanedTransaction") -> bool:
        """Find a producer to ask, wherever one is connected: the sender for choice."""
        if len(self._connections) > 1:
            for connection in list(self._connections):
                if await connection.ask(orphan, sender_only=True):
                    return True
        for connection in list(self._connections):
            if await connection.ask(orphan, sender_only=False):
                return True
        return False
