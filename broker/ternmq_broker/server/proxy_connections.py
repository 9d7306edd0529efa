"""All proxies connected to a broker: which members pull where, transaction checks, and questions between proxies."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.server.call_methods import CallMethods
from ternmq_broker.server.members.departed_members import DepartedMembers
from ternmq_broker.server.proxy_connection import ANSWERS_BYTES_MAX
from ternmq_broker.server.registry_sync import LEARNING_TIMING, RegistrySync, SyncTiming
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.event_loop.done_result import DoneResult
from ternmq_common.process.own_version import own_version
from ternmq_common.shard.model import MEMBERS_CHANGED, ProxyAnswer
from ternmq_common.shard.shard_frames import ProxyQuestion
from ternmq_runtime.observability.tracing import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from ternmq_broker.broker import Broker
    from ternmq_broker.server.deletion_log import DeletionLog
    from ternmq_broker.server.proxy_connection import ProxyConnection
    from ternmq_common.catalog.cluster import RegistrySnapshot
    from ternmq_common.shard.model import DroppedLite, OrphanedTransaction, PullingMember
    from ternmq_registry.directory import RegistryDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of one proxy's connection: the bytes of unread answers, and the seconds for a question."""

    answers_bytes_max: int = ANSWERS_BYTES_MAX
    notify_s: float = 1.0


class ProxyConnections:
    """The connections, and what they share. `limits` are those of each connection."""

    def __init__(
        self,
        broker: "Broker",
        directory: "RegistryDirectory",
        deletion_log: "DeletionLog",
        continued: "Callable[[str], AbstractContextManager[object]]" = lambda _: NOTHING,
        *,
        timing: SyncTiming = LEARNING_TIMING,
    ) -> None:
        """`continued` makes what is done within it part of the trace that a proxy names."""
        self.broker = broker
        self.limits = ConnectionLimits()
        self.registry_sync = RegistrySync(directory, deletion_log, self._retry_refused, timing)
        self.answers = CallMethods(broker, deletion_log, self.registry_sync, self.pulling_members)
        self.version = own_version()
        self.continued = continued
        self._directory = directory
        self._connections: list[ProxyConnection] = []
        self._leaving = False
        self._departed = DepartedMembers(self._present_members, self._notify_changed)
        self._questions = BackgroundTasks()
        self._empty = asyncio.Event()
        broker.orphans.set_watcher(self._check_transaction)
        broker.lite.add_listener(self._send_dropped)
        directory.on_change(self._registry_changed)

    def __len__(self) -> int:
        return len(self._connections)

    def add_connection(self, connection: "ProxyConnection") -> None:
        self._connections.append(connection)
        self._empty.clear()
        connection.send_version(self._directory.snapshot.version)
        if self._leaving:
            connection.send_leaving()

    def remove_connection(self, connection: "ProxyConnection") -> None:
        self._connections.remove(connection)
        connection.close()
        if not self._leaving:
            self._departed.note_departure(list(connection.members))
        if not self._connections:
            self._empty.set()

    async def wait_until_gone(self) -> None:
        """Tell the proxies to end their streams, and return when all have."""
        self.broker.end_polls()
        for connection in self._connections:
            connection.send_leaving()
        self._leaving = True
        if self._connections:
            await self._empty.wait()

    def close(self) -> None:
        """Stop the sync with the registry."""
        self._departed.close()
        self.registry_sync.close()

    def retry_refused(self) -> None:
        """Tell the proxies that refused polls may be repeated."""
        self._retry_refused()

    def _retry_refused(self) -> None:
        for connection in self._connections:
            connection.retry_refused()

    def _registry_changed(self, snapshot: "RegistrySnapshot") -> None:
        for connection in self._connections:
            connection.send_version(snapshot.version)
        if self._connections:  # else deletions of the time when the broker was away may not be done yet
            self.registry_sync.start_sync(snapshot.version)

    def pulling_members(self, group: str, topic: str) -> DoneResult[list[str]]:
        """The client ids of the group's members that pull the topic, or any if it is empty, through all proxies."""
        members = [each for connection in self._connections for each in connection.members.members_of(group)]
        members += [each for each in self._departed.list_members() if each.group == group]
        pulling = (each for each in members if not topic or not each.topics or topic in each.topics)
        return DoneResult(sorted({each.client_id for each in pulling}))

    def _present_members(self) -> "Iterator[PullingMember]":
        return (member for connection in self._connections for member in connection.members)

    def note_arrival(self, arrived: "ProxyConnection") -> None:
        """Tell the other proxies of groups that have new members by a proxy whose stream is new: the proxy may have
        found no broker by which it could notify them."""
        others = (each for connection in self._connections if connection is not arrived for each in connection.members)
        known = {(each.group, each.client_id) for each in (*others, *self._departed.list_members())}
        for group in sorted({each.group for each in arrived.members if (each.group, each.client_id) not in known}):
            self._notify_changed(group, arrived)

    def _notify_changed(self, group: str, asker: "ProxyConnection | None" = None) -> None:
        """Tell all proxies but the asker that members of the group came or are gone."""
        question = ProxyQuestion(MEMBERS_CHANGED, group)
        for connection in self._connections:
            if connection is not asker:
                self._questions.start(connection.ask_question(question), name="members that changed")

    async def ask_others(self, asker: "ProxyConnection", question: "ProxyQuestion") -> list[ProxyAnswer]:
        """Ask all proxies but the asker the question; returns their answers, by name."""
        others = sorted((each for each in self._connections if each is not asker), key=lambda each: each.name)
        replies = await asyncio.gather(*(each.ask_question(question) for each in others))
        return [ProxyAnswer(each.name, data) for each, data in zip(others, replies, strict=True)]

    def _send_dropped(self, dropped: "Sequence[DroppedLite]") -> None:
        for connection in self._connections:
            connection.send_dropped(dropped)

    async def _check_transaction(self, orphan: "OrphanedTransaction") -> bool:
        """Find a producer for a transaction check at any proxy, the sender if possible."""
        if len(self._connections) > 1:
            for connection in list(self._connections):
                if await connection.check_transaction(orphan, sender_only=True):
                    return True
        for connection in list(self._connections):
            if await connection.check_transaction(orphan, sender_only=False):
                return True
        return False
