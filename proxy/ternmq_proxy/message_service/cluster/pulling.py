"""Pulls, for a client that may not take what comes: messages are fetched when there is room for them.

A broker that waits for messages sends them when they are there. So who has no room is not to wait for messages, but for
word that there are some, and then fetches them at once or when it has room. The one reader of a queue that is locked
waits for the messages themselves: there is one such pull a queue, and what it does not take is as if its call was cut.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.model import Pulled

if TYPE_CHECKING:
    from ternmq_common.message_filter import MessageFilter
    from ternmq_common.model import QueueReaderId, QueueRef
    from ternmq_common.output_room import AnswerRoom
    from ternmq_proxy.message_service.cluster.repeats import Repeats
    from ternmq_registry.directory import Directory


class Pulling:
    """Asks the broker that a queue names."""

    def __init__(self, directory: "Directory", repeats: "Repeats") -> None:
        self._directory = directory
        self._repeats = repeats

    async def pull(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None",
        room: "AnswerRoom | None",
    ) -> Pulled:
        """See `MessageService.pull`."""
        if room is None:
            return await self._ask(queue, offset, passing, batch, poll_s, reader)
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        if reader is not None and reader.lock_hold_ms:
            pulled = await self._ask(queue, offset, passing, batch, poll_s, reader)
            taken = not pulled.messages or await room.enter(end - loop.time())
            return pulled if taken else Pulled([], offset)
        while True:
            pulled = await self._fetch(queue, offset, passing, batch, reader, room, end)
            left_s = end - loop.time()
            if pulled.messages or pulled.next_offset > offset or left_s <= 0:
                return pulled
            if (await self._ask(queue, offset, passing, 0, left_s, None)).next_offset == offset:
                return pulled

    async def _fetch(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        batch: int,
        reader: "QueueReaderId | None",
        room: "AnswerRoom",
        end: float,
    ) -> Pulled:
        pulled = Pulled([], offset)
        if await room.enter(end - asyncio.get_running_loop().time()):
            try:
                pulled = await self._ask(queue, offset, passing, batch, 0.0, reader)
            finally:
                if not pulled.messages:
                    room.leave()
        return pulled

    async def _ask(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None",
    ) -> Pulled:
        made = 0 if reader is None else self._directory.snapshot.group_made(reader.group)
        return await self._repeats.repeated(
            queue.broker,
            lambda broker: broker.pull(
                queue, offset, passing, batch=batch, poll_s=poll_s, reader=reader, group_made=made
            ),
        )
