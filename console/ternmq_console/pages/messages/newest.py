"""Reads the newest messages of several queues, page by page, and only those that are shown.

Merge       each queue is read from its end to its beginning in short stretches, and merged by store time.
Position    `17.5.0`: the end of the remaining offsets in each queue, in the order of brokers and queue numbers. A
            position is invalid if the number of queues has changed.
"""

import asyncio
import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.messages.message_rows import MessageRow, QueueKey
from ternmq_console.pages.messages.reading import MessageSearch, find_first_since, read_messages

if TYPE_CHECKING:
    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

QUEUES_MAX = 256
# Concurrent reads, whose answers are in memory.
AT_ONCE = 4
_DIGITS_MAX = 18


@dataclass(slots=True)
class _QueueTail:
    """The remaining messages of one queue: `rows`, the newest first, and below them the offsets from `first` to
    `end`."""

    queue: QueueKey
    first: int
    end: int
    rows: deque[MessageRow] = field(default_factory=deque)

    @property
    def position(self) -> int:
        return self.rows[0].place.offset + 1 if self.rows else self.end


class NewestMessages:
    """The messages of a search, the newest first; `search.tag` is ignored."""

    def __init__(self, asking: "PageContext", search: MessageSearch, tails: list[_QueueTail], size: int) -> None:
        self._asking, self._search, self._tails, self._size = asking, search, tails, size
        self._stretch = max(1, math.ceil(size / max(1, len(tails))))
        self._room = asyncio.Semaphore(AT_ONCE)

    @classmethod
    async def open_search(
        cls, asking: "PageContext", search: MessageSearch, queues: "list[Message]", position: str, *, size: int
    ) -> "NewestMessages":
        """Begin to read these queues, of DescribeTopic, at a position; raises BadForm."""
        chosen = [
            queue
            for queue in sorted(queues, key=lambda each: (each.broker, each.queue_id))
            if search.broker in ("", queue.broker) and search.queue in (None, queue.queue_id)
        ]
        if len(chosen) > QUEUES_MAX:
            raise BadForm(
                "queue", f"{len(chosen)} queues are too many (at most {QUEUES_MAX}); choose a broker or a queue"
            )
        ends = parse_position(position, len(chosen)) if position else [queue.max_offset for queue in chosen]
        tails = [
            _QueueTail(QueueKey(queue.broker, queue.queue_id), queue.min_offset, min(end, queue.max_offset))
            for queue, end in zip(chosen, ends, strict=True)
        ]
        newest = cls(asking, search, tails, size)
        await asyncio.gather(
            *(newest._limit_times(tail, is_first=not position) for tail in tails if tail.first < tail.end)
        )
        return newest

    async def _limit_times(self, tail: _QueueTail, *, is_first: bool) -> None:
        """Limit the offsets of a queue to the time of the search."""
        async with self._room:
            if self._search.since is not None:
                since = self._search.since
                tail.first = await find_first_since(self._asking, self._search, tail.queue, since, tail.end)
            if self._search.before is not None and is_first:
                before = self._search.before
                tail.end = min(
                    tail.end, await find_first_since(self._asking, self._search, tail.queue, before, tail.end)
                )

    async def read_page(self) -> list[MessageRow]:
        """Return the next page of messages."""
        await asyncio.gather(*(self._fill_rows(tail) for tail in self._tails))
        heads = [(-tail.rows[0].stored_ns, number) for number, tail in enumerate(self._tails) if tail.rows]
        heapq.heapify(heads)
        found: list[MessageRow] = []
        while heads and len(found) < self._size:
            _, number = heapq.heappop(heads)
            tail = self._tails[number]
            found.append(tail.rows.popleft())
            if len(found) < self._size:
                await self._fill_rows(tail)
            if tail.rows:
                heapq.heappush(heads, (-tail.rows[0].stored_ns, number))
        return found

    @property
    def following(self) -> str:
        """The position of the next page; "" if no messages remain."""
        if all(not tail.rows and tail.first >= tail.end for tail in self._tails):
            return ""
        return ".".join(str(tail.position) for tail in self._tails)

    def remaining_offsets(self) -> "list[tuple[QueueKey, range]]":
        """Return the remaining offsets of each queue; before the first page, all of the search."""
        return [(tail.queue, range(tail.first, tail.position)) for tail in self._tails]

    async def _fill_rows(self, tail: _QueueTail) -> None:
        """Read rows of the queue unless there are some, or none remain."""
        while not tail.rows and tail.first < tail.end:
            start = max(tail.first, tail.end - self._stretch)
            async with self._room:
                rows = await self._read_stretch(tail.queue, start, tail.end)
            tail.rows.extend(reversed(rows))
            tail.end = start

    async def _read_stretch(self, queue: QueueKey, start: int, end: int) -> list[MessageRow]:
        rows: list[MessageRow] = []
        search = MessageSearch(topic=self._search.topic, queue=queue.number)
        while start < end:
            found, following = await read_messages(self._asking, search, queue, start, end - start)
            rows += [row for row in found if row.place.offset < end]
            if not following:
                break
            start = max(start + 1, int(following.rpartition("/")[2]))
        return rows


def parse_position(position: str, count: int) -> list[int]:
    """Parse a position into offsets, one for each queue; raises BadForm if it does not fit the queues."""
    parts = position.split(".")
    if len(parts) != count or not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS_MAX for part in parts):
        raise BadForm(
            "at", "this page of the list is outdated, since the topic's queues have changed; open the list again"
        )
    return [int(part) for part in parts]
