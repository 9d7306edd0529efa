"""All proxies that are connected to a broker: who pulls where, and who can ask a producer."""

import asyncio
import logging
from importlib.metadata import version
from typing import TYPE_CHECKING

from ternmq_broker.server.answers import Answers
from ternmq_common.filters import Filters
from ternmq_common.observability.tracing import NOTHING
from ternmq_common.tag_filter import ALL, TagFilter

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ternmq_broker.broker import Broker
    from ternmq_broker.server.connection import ProxyConnection
    from ternmq_broker.server.forgetting import Forgetting
    from ternmq_common.cluster import Snapshot
    from ternmq_common.model import OrphanedTransaction
    from ternmq_registry.directory import Directory

_log = logging.getLogger(__name__)
PATIENCE_S = 0.5
LEARN_AGAIN_S = 1.0


class Proxies:
    """The connections, and what they share."""

    def __init__(
        self,
        broker: "Broker",
        directory: "Directory",
        forgetting: "Forgetting",
        continued: "Callable[[str], AbstractContextManager[object]]" = lambda _: NOTHING,
    ) -> None:
        """`continued` makes what is done within it part of the trace that a proxy names."""
        self.broker = broker
        self.filters = Filters()
        self.answers = Answers(broker, self.filters, forgetting)
        self.version = version("ternmq")
        self.continued = continued
        self._directory = directory
        self._forgetting = forgetting
        self._connections: list[ProxyConnection] = []
        self._leaving = self._closed = False
        self._wanted = 0
        self._learning: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        broker.orphans.watch(self._ask)
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

    async def known_up_to(self, version: int) -> None:
        """A proxy knows that version of the registry; know it too, as far as the registry can be reached. That may take
        seconds, and all calls of the proxy wait behind this one: those are not held up for long."""
        if version > self._forgetting.looked_up_to:
            self._wanted = max(self._wanted, version)
            await asyncio.wait({self._learn()}, timeout=PATIENCE_S)

    def _learn(self) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._learn_up_to(self._wanted), name="later version of the registry")
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)
        return task

    async def _learn_up_to(self, version: int) -> None:
        try:
            await self._directory.at_least(version)
            await self._forgetting.catch_up()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("version %d of the registry can't be followed", version)
        if self._forgetting.looked_up_to >= version or self._closed:
            return
        if self._directory.problem is None and self._directory.snapshot.version < version:
            self._wanted = 0  # the registry was restored, and has no such version any more
        elif self._again is None:
            self._again = asyncio.get_running_loop().call_later(LEARN_AGAIN_S, self._learn_again)

    def _learn_again(self) -> None:
        self._again = None
        if self._forgetting.looked_up_to < self._wanted:
            self._learn()

    def close(self) -> None:
        """Nothing more is learned."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        for task in self._learning:
            task.cancel()

    def _changed(self, snapshot: "Snapshot") -> None:
        for connection in self._connections:
            connection.tell_version(snapshot.version)

    def tag_filter(self, expression: str) -> TagFilter:
        return ALL if expression == "*" else TagFilter.parse(expression)

    def pulling_members(self, group: str, topic: str) -> list[str]:
        """The group's members that pull the topic, through whichever proxy."""
        return sorted(
            {
                member.client_id
                for connection in self._connections
                for member in connection.members
                if member.group == group and (not member.topics or topic in member.topics)
            }
        )

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
