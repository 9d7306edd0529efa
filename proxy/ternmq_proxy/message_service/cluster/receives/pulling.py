"""Pulls for a client with limited room: messages are fetched when there is room for them.

A broker that waits for messages sends them as soon as there are some. So a pull without room waits only for the notice
that there are messages, and then fetches them at once or when it has room. The single reader of a locked queue waits
for the messages themselves: there is one such pull for each queue, and messages that it does not accept are as if its
call was cut.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.shard.model import PulledMessages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.receiving.output_room import AnswerRoom
    from ternmq_common.shard.model import QueueReaderId, QueueRef
    from ternmq_proxy.message_service.cluster.receives.follower_reads import FollowerReads
    from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls


class ClusterPulling:
    """Pulls from the broker that a queue names; with `followers` cold messages first from those."""

    def __init__(self, repeats: "RepeatedCalls", followers: "FollowerReads | None" = None) -> None:
        self._repeats = repeats
        self._followers = followers

    async def pull_messages(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None" = None,
        room: "AnswerRoom | None" = None,
    ) -> PulledMessages:
        """See `ServiceReading.pull`."""
        broker = self._repeats.shard_of(queue.broker)
        is_locked = reader is not None and reader.lock_hold_ms > 0

        def at_leader(wait_s: float) -> "Awaitable[PulledMessages]":
            return broker.reading.pull(queue, offset, passing, batch=batch, poll_s=wait_s, reader=reader)

        fetched: Callable[[float], Awaitable[PulledMessages]] = at_leader
        if self._followers is not None and not is_locked:
            fetched = partial(self._followers.pull_messages, queue, offset, passing, batch, at_leader)
        if room is None:
            return await fetched(poll_s)
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        if is_locked:
            pulled = await fetched(poll_s)
            taken = not pulled.messages or await room.enter_room(end - loop.time())
            return pulled if taken else PulledMessages([], offset)
        while True:
            pulled = await _fetch_into(room, end, fetched) or PulledMessages([], offset)
            left_s = end - loop.time()
            if pulled.messages or pulled.next_offset > offset or left_s <= 0:
                return pulled
            if not await broker.reading.wait_for_more(queue, offset, left_s):
                return pulled


async def _fetch_into(
    room: "AnswerRoom", end: float, fetched: "Callable[[float], Awaitable[PulledMessages]]"
) -> PulledMessages | None:
    """Return the messages that are there now, if there is room for them in time."""
    pulled = None
    if await room.enter_room(end - asyncio.get_running_loop().time()):
        try:
            pulled = await fetched(0.0)
        finally:
            if pulled is None or not pulled.messages:
                room.leave_room()
    return pulled
