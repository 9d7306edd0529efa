"""The state of one queue of a pull consumer: its buffered messages, and its offsets.

Offsets     committed <= handled <= position <= pulled; seeks and the server may set all of them back
pulled      where the next PullMessage continues
position    the next to hand out: the first buffered message, or `pulled_offset` if there is none
handled     everything before it was handed out in an earlier step than the last, or left out by the filter
committed   the committed offset of the group; None if it isn't known
Bounds      the buffer is filled while it is at most half full, and never beyond `messages_max`; it may exceed
            `bytes_max` by one pull, since the size of messages isn't known before they arrive
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ternmq.connections.route import RouteQueue
from ternmq.messages.message_view import MessageView


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """The name of one queue of a topic, as it is assigned to pull consumers."""

    topic: str
    broker: str
    queue_id: int

    @classmethod
    def of(cls, view: MessageView) -> "MessageQueue":
        """Return the queue of a message."""
        return cls(view.topic, view.broker, view.queue_id)

    @classmethod
    def named(cls, queue: RouteQueue) -> "MessageQueue":
        return cls(queue.topic, queue.broker, queue.queue_id)

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id}"


class PullQueue:
    """The state of one assigned queue; changed by `PullBuffer`, and `committed` by `OffsetCommitter`.

    Invariants: messages are buffered only while the position is known and the queue is neither paused nor given up;
    `epoch` grows with each seek, so that work from before a seek isn't taken for work after it.
    """

    def __init__(self, queue: RouteQueue) -> None:
        self.name = MessageQueue.named(queue)
        self.queue = queue
        self.epoch = 0
        self.committed: int | None = None
        self.beginning = asyncio.Lock()
        self.committing = asyncio.Lock()
        self.given_up = False
        self.paused = False
        self._views: deque[MessageView] = deque()
        self._stored_bytes = 0
        self._pulled: int | None = None
        self._first_unhandled: int | None = None
        self._messages_max = self._bytes_max = 1
        self._may_pull = asyncio.Event()

    @property
    def next_offset(self) -> int | None:
        return self._views[0].offset if self._views else self._pulled

    @property
    def handled_offset(self) -> int | None:
        return self.next_offset if self._first_unhandled is None else self._first_unhandled

    @property
    def pulled_offset(self) -> int:
        assert self._pulled is not None, "the position has to be found first"
        return self._pulled

    @property
    def buffered_messages(self) -> int:
        return len(self._views)

    @property
    def free_messages(self) -> int:
        """How many messages may be pulled now."""
        return max(1, self._messages_max - len(self._views))

    async def wait_room(self) -> None:
        """Wait until messages may be pulled."""
        await self._may_pull.wait()

    def set_limits(self, *, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._update_event()

    def begin_at(self, queue_offset: int, *, committed: int | None) -> None:
        """Set the first position; this is not a seek."""
        assert self._pulled is None
        self._pulled = queue_offset
        self.committed = committed

    def seek_to(self, queue_offset: int) -> None:
        """Continue elsewhere; what was handed out before does not count any more."""
        self.epoch += 1
        self.drop_buffered()
        self._pulled = queue_offset
        self._first_unhandled = None
        self.committed = None

    def accept_pull(self, views: Sequence[MessageView], next_offset: int) -> None:
        """Accept the messages of one pull, and the offset of the next one."""
        assert not self.given_up
        self._views.extend(views)
        self._stored_bytes += sum(view.stored_bytes for view in views)
        self._pulled = next_offset
        self._update_event()

    def take_messages(self, count: int) -> list[MessageView]:
        """Take up to `count` messages."""
        views = [self._views.popleft() for _ in range(min(count, len(self._views)))]
        self._stored_bytes -= sum(view.stored_bytes for view in views)
        if views and self._first_unhandled is None:
            self._first_unhandled = views[0].offset
        self._update_event()
        return views

    def mark_handled(self) -> None:
        """Mark what was handed out so far as handled."""
        self._first_unhandled = None

    def drop_buffered(self) -> None:
        """Drop the buffered messages; they are pulled again when they are needed."""
        self._pulled = self.next_offset
        self._views.clear()
        self._stored_bytes = 0
        self._update_event()

    def set_paused(self, paused: bool) -> None:
        """Pause or resume. A paused queue has no messages: others need the room, and the pause may be long."""
        self.paused = paused
        if paused:
            self.drop_buffered()
        self._update_event()

    def _update_event(self) -> None:
        has_room = 2 * len(self._views) <= self._messages_max and self._stored_bytes < self._bytes_max
        if has_room and not self.paused:
            self._may_pull.set()
        else:
            self._may_pull.clear()
