"""All messages of some queues that were stored within a time and pass a filter, page by page.

Order     queue by queue, in each by offset; times are those at which messages were stored.
Position  `BROKER/QUEUE/OFFSET`: where a page ended, by which the next one begins.
Cost      each queue and each range of messages that is read count as a step, and a call takes
          `steps_max` of them. If they did not fill the page, it says where to go on and may be empty.
"""

from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import PULL_BATCH_MAX
from ternmq_proxy.operations.admin.messages.message_pages import MessagePage, parse_number, unknown_scroll_error

if TYPE_CHECKING:
    from ternmq_common.filters.message_filter import MessageFilter
    from ternmq_common.shard.model import QueueRef
    from ternmq_proxy.message_service.interface import MessageService


class TimeSpan(NamedTuple):
    """From `begin_ms` on, up to `end_ms` with it, milliseconds since the epoch; None leaves that side open."""

    begin_ms: int | None
    end_ms: int | None

    def __contains__(self, stored_ms: object) -> bool:
        assert isinstance(stored_ms, int)
        if self.begin_ms is not None and stored_ms < self.begin_ms:
            return False
        return self.end_ms is None or stored_ms <= self.end_ms


ALL_TIMES = TimeSpan(None, None)


class MessageWalk:
    """One call's way through the queues."""

    def __init__(
        self,
        queues: "list[QueueRef]",
        span: TimeSpan,
        passing: "MessageFilter",
        messages: "MessageService",
        *,
        steps_max: int,
    ) -> None:
        self._queues = queues
        self._span = span
        self._passing = passing
        self._messages = messages
        self._steps_max = steps_max
        self._steps = 0

    async def fill_page(self, page: MessagePage) -> None:
        """Put into the page what belongs there, and where the next one begins. BAD_REQUEST if that can't be found."""
        number, queue_offset = self._position(page.scroll)
        for queue in self._queues[number:]:
            following = await self._fill_from(queue, queue_offset, page)
            if following is not None:
                if page.skipped:
                    raise MessagingError(
                        ErrorCode.BAD_REQUEST, "that page is too far behind the first; go there by scroll_id"
                    )
                page.following = f"{queue.broker}/{queue.queue_id}/{following}"
                return
            queue_offset = 0

    def _position(self, scroll: str) -> tuple[int, int]:
        """The number of the queue to begin with, and the offset there."""
        if not scroll:
            return 0, 0
        broker, _, place = scroll.partition("/")
        queue_id, _, queue_offset = place.partition("/")
        for number, queue in enumerate(self._queues):
            if (queue.broker, str(queue.queue_id)) == (broker, queue_id):
                return number, parse_number(queue_offset)
        raise unknown_scroll_error()

    async def _fill_from(self, queue: "QueueRef", queue_offset: int, page: MessagePage) -> int | None:
        """The offset at which the page ends; None if it may go on with the next queue."""
        if self._is_over():
            return queue_offset
        at, end = await self._held(queue)
        at = max(at, queue_offset)
        while at < end:
            if self._is_over():
                return at
            batch = min(page.most, PULL_BATCH_MAX) if self._passing.takes_all else PULL_BATCH_MAX
            pulled = await self._messages.reading.pull(queue, at, self._passing, batch=batch, poll_s=0.0)
            for stored in pulled.messages:
                if stored.queue_offset >= end:
                    return None
                if not page.take_message(stored):
                    return stored.queue_offset
            if pulled.next_offset <= at:
                return None  # what was there is gone
            at = pulled.next_offset
        return None

    async def _held(self, queue: "QueueRef") -> tuple[int, int]:
        """The offsets of what was stored within the time."""
        bounds = await self._messages.reading.bounds(queue)
        first, end = bounds.minimum, bounds.maximum
        if self._span.begin_ms is not None:
            first = max(first, await self._messages.reading.offset_at(queue, self._span.begin_ms))
        if self._span.end_ms is not None:
            end = min(end, await self._messages.reading.offset_at(queue, self._span.end_ms + 1))
        return first, end

    def _is_over(self) -> bool:
        self._steps += 1
        return self._steps > self._steps_max
