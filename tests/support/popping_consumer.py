"""A small push consumer of the remoting protocol that pops: it acknowledges what it handles, and has what it fails on
come again in a moment."""

import asyncio

from tests.support.popping_client import POPPING_VERSION, Popped, acknowledge, pop, read_popped, settle
from tests.support.remoting_client import RemotingClient
from tests.support.remoting_consumer import PAUSE_S, REBALANCE_S, RemotingConsumer

INVISIBLE_MS = 10_000
"""After that others get what a member had that was killed; the least that is allowed."""
_AGAIN_MS = 500
_POLL_MS = 3000
_BATCH = 8
_AT_ONCE = 2
_MESSAGES, _NOTHING, _FULL = 0, 210, 209


class PoppingConsumer(RemotingConsumer):
    """One member of a group that pops; it asks for messages of any broker."""

    async def _consume(self, client: RemotingClient) -> None:
        client.version = POPPING_VERSION
        while (await self._beat(client)).code:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_S)
        work = [self._pop_forever(client) for _ in range(_AT_ONCE)]
        tasks: list[asyncio.Task[object]] = [asyncio.create_task(each) for each in (*work, self._beat_forever(client))]
        tasks.append(asyncio.create_task(client.closed.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise ConnectionError("the server closed the connection")

    async def _beat_forever(self, client: RemotingClient) -> None:
        while True:
            await asyncio.sleep(REBALANCE_S)
            await self._beat(client)

    async def _pop_forever(self, client: RemotingClient) -> None:
        while True:
            answer = await pop(
                client, self.group, self.topic, invisible_ms=INVISIBLE_MS, poll_ms=_POLL_MS, batch=_BATCH
            )
            for message in read_popped(answer) if answer.code == _MESSAGES else ():
                await self._settle(client, message)
            if answer.code not in (_MESSAGES, _NOTHING, _FULL):
                await asyncio.sleep(PAUSE_S)

    async def _settle(self, client: RemotingClient, message: Popped) -> None:
        """Finish a message, or let it come again; if that can't be told, it comes when its claim ends."""
        if self._handle(message.record):
            await acknowledge(client, self.group, message)
        else:
            await settle(client, 200053, self.group, message, invisibleTime=_AGAIN_MS)
