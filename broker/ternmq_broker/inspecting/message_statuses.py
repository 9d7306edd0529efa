"""The status of one message in each consumer group: finished, in flight, waiting, or a dead letter.

Where  a group's own state of the queue has most of it. A message that is finished there may have a copy in the group's
       retry topic, or among its dead letters: these are looked up by the message's id.
Lost   whether a finished message was acknowledged, filtered out or skipped is not recorded.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.names import dead_letter_topic, retry_topic
from ternmq_common.shard.model import RETRY_QUEUE_ID, MessageState, MessageStatus, QueueRef

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.consumption.consumption import Consumption, QueueState
    from ternmq_broker.inspecting.key_searches import KeySearches
    from ternmq_broker.store.message_store import MessageStore

GROUPS_MAX = 1000


class MessageStatuses:
    """Finds message statuses in one broker; changes nothing."""

    def __init__(
        self,
        store: "MessageStore",
        searches: "KeySearches",
        consumption: "Consumption",
        now_ms: "Callable[[], int]",
    ) -> None:
        self._store = store
        self._searches = searches
        self._consumption = consumption
        self._now_ms = now_ms

    async def find_statuses(self, queue: QueueRef, offset: int, message_id: str) -> list[MessageStatus]:
        """The status of the message in the first 1,000 groups, by name, that are known to have the topic."""
        groups = self._consumption.groups_of(queue.topic)[:GROUPS_MAX]
        found = [await self._in_queue(group, queue, offset) for group in groups]
        return [
            await self._of_copies(status, queue.topic, message_id) if status.state is MessageState.FINISHED else status
            for status in found
        ]

    async def _in_queue(self, group: str, queue: QueueRef, offset: int) -> MessageStatus:
        state = self._consumption.find_states(group, queue.topic).get(queue.queue_id)
        if state is not None:
            return self._in_state(group, state, offset)
        begins = self._consumption.resting.offset_of(group, queue.topic)
        if begins is None:
            consume_from = self._consumption.rules(group).consume_from
            begins = await asyncio.to_thread(
                self._consumption.predict_begin, queue.topic, queue.queue_id, consume_from, may_block=True
            )
        is_ahead = offset >= begins
        return MessageStatus(group=group, state=MessageState.AHEAD if is_ahead else MessageState.FINISHED)

    def _in_state(self, group: str, state: "QueueState", offset: int) -> MessageStatus:
        if offset >= state.cursor:
            return MessageStatus(group=group, state=MessageState.AHEAD)
        claim = state.unfinished_claim(offset)
        if claim is None:
            return MessageStatus(group=group, state=MessageState.FINISHED)
        if state.is_held(offset, self._now_ms()):
            return MessageStatus(
                group=group, state=MessageState.HELD, attempts=claim.attempt, until_ms=claim.deadline_ms
            )
        kind = MessageState.AGAIN if claim.attempt else MessageState.AHEAD
        return MessageStatus(group=group, state=kind, attempts=claim.attempt)

    async def _of_copies(self, finished: MessageStatus, topic: str, message_id: str) -> MessageStatus:
        group = finished.group
        retries = self._consumption.find_states(group, topic).get(RETRY_QUEUE_ID)
        if retries is not None:
            copied = await self._newest_offset(retry_topic(group), message_id)
            if copied is not None and retries.unfinished_claim(copied) is not None:
                return self._in_state(group, retries, copied)
        dead = await self._newest_offset(dead_letter_topic(group), message_id)
        if dead is not None:
            return MessageStatus(group=group, state=MessageState.DEAD, dead_offset=dead)
        return finished

    async def _newest_offset(self, topic: str, message_id: str) -> int | None:
        """The offset of the newest message with that id in a retry or dead-letter topic."""
        first, end = self._store.indexes.queues.queue_bounds(topic, 0)
        if first == end:
            return None
        records = await self._searches.find_messages(topic, message_id, 1)
        return records[0].queue_offset if records else None
