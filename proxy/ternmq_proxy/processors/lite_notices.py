"""Tells clients which lite topics they have no more: these are gone, or another client of an exclusive group has them.

A client that can't be told hears it when it says again what it subscribes, or keeps a name for which nothing comes.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ternmq_protos.v2.service_pb2 import NotifyUnsubscribeLiteCommand, TelemetryCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.model import DroppedLite
    from ternmq_proxy.processors.clients import ClientRegistry

WAITING_MAX = 100_000


class LiteNotices:
    """Those of one proxy; a client that is connected elsewhere hears it there."""

    def __init__(self, clients: "ClientRegistry") -> None:
        self._clients = clients
        self._waiting: deque[DroppedLite] = deque(maxlen=WAITING_MAX)
        self._telling: asyncio.Task[None] | None = None

    def dropped(self, dropped: "Sequence[DroppedLite]") -> None:
        """Have the clients told that are here."""
        self._waiting += [each for each in dropped if self._clients.find(each.client_id) is not None]
        if self._waiting and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell(), name="lite notices")

    async def _tell(self) -> None:
        while self._waiting:
            each = self._waiting.popleft()
            client = self._clients.find(each.client_id)
            if client is not None and client.group == each.group:
                command = NotifyUnsubscribeLiteCommand(lite_topic=each.name)
                await client.push(TelemetryCommand(notify_unsubscribe_lite_command=command))

    async def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
