"""Tells clients which lite topics they lost: deleted ones, and those that another client of an exclusive group took.

A client that can't be reached learns it when it repeats its subscriptions, or keeps a name that delivers nothing.
"""

from collections import deque
from typing import TYPE_CHECKING

from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_proxy.processors.client_commands import DropLiteTopic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import DroppedLite
    from ternmq_proxy.processors.clients import ClientRegistry

WAITING_MAX = 100_000


class LiteNotices:
    """The notices of one proxy; a client that is connected elsewhere gets them there."""

    def __init__(self, clients: "ClientRegistry") -> None:
        self._clients = clients
        self._waiting: deque[DroppedLite] = deque(maxlen=WAITING_MAX)
        self._tasks = BackgroundTasks()

    def notify_dropped(self, dropped: "Sequence[DroppedLite]") -> None:
        """Notify those of the clients that are connected here."""
        self._waiting += [each for each in dropped if self._clients.find_client(each.client_id) is not None]
        if self._waiting and not self._tasks:
            self._tasks.start(self._notify_clients(), name="lite notices")

    async def _notify_clients(self) -> None:
        while self._waiting:
            each = self._waiting.popleft()
            client = self._clients.find_client(each.client_id)
            if client is not None and client.group == each.group:
                await client.push_command(DropLiteTopic(each.name))

    async def close(self) -> None:
        await self._tasks.stop()
