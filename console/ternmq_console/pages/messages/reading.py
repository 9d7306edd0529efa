"""Reads messages by the call QueryMessage, whose answers contain bodies only if the user has the right to see them.

Position    QueryMessage continues at a `scroll_id`, `BROKER/QUEUE/OFFSET`, and its answers have no broker: each call
            reads from one broker.
Bounds      a page of an answer has 3 MiB, or one message; lists do not keep bodies.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ternmq_common.errors import ErrorCode
from ternmq_console.calls import QUERYING
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.messages.message_rows import MessagePosition, MessageRow, QueueKey, build_row
from ternmq_protos.pool import Timestamp

if TYPE_CHECKING:
    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

_MS = 1_000_000
# The year 1, the first of the calendar.
_FIRST_NS = -62_135_596_800 * 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearch:
    """A search for messages of a topic; empty fields do not restrict it.

    By lite topic, tag, store time from `since` to before `before`, broker and queue.
    """

    topic: str
    lite: str = ""
    tag: str = ""
    since: Timestamp | None = None
    before: Timestamp | None = None
    broker: str = ""
    queue: int | None = None

    def call_fields(self, broker: str) -> dict[str, Any]:
        """Return the fields of the call at that broker."""
        fields: dict[str, Any] = {"topic": {"name": self.topic}, "broker_name": broker}
        if self.lite:
            fields["lite_topic"] = self.lite
        elif self.tag:
            fields["subscription"] = self.tag
        if self.queue is not None:
            fields["queue_id"] = self.queue
        if self.since is not None:
            fields["begin_timestamp"] = self.since
        if self.before is not None:
            fields["end_timestamp"] = _last_before(self.before)
        return fields


def _last_before(time: Timestamp) -> Timestamp:
    """Return the last millisecond before a time, since the call's end is inclusive."""
    last = Timestamp()
    last.FromNanoseconds(max(time.ToNanoseconds() - _MS, _FIRST_NS))
    return last


async def read_messages(
    asking: "PageContext", search: MessageSearch, queue: QueueKey, offset: int, size: int
) -> tuple[list[MessageRow], str]:
    """Read up to `size` messages from that offset on; return them and the position of the next, "" at the end.

    Without a `queue` in the search, reading continues in the broker's next queues.
    """
    scroll = f"{queue.broker}/{queue.number}/{offset}"
    answer = await asking.call_server(QUERYING, **search.call_fields(queue.broker), scroll_id=scroll, page_size=size)
    rows = [build_row(message, search.topic, queue.broker, search.lite) for message in answer.messages]
    return rows, answer.scroll_id


async def find_first_since(
    asking: "PageContext", search: MessageSearch, queue: QueueKey, time: Timestamp, end: int
) -> int:
    """Return the offset of the queue's first message stored at that time or later; `end` if there is none."""
    fields = replace(search, queue=queue.number, since=time, before=None, tag="").call_fields(queue.broker)
    answer = await asking.call_server(QUERYING, **fields, page_size=1)
    return min((message.system_properties.queue_offset for message in answer.messages), default=end)


async def read_message(asking: "PageContext", place: MessagePosition) -> "Message":
    """Return the whole message; raises Refused, also if it does not exist (any more)."""
    queue = 0 if place.lite else place.queue
    search = MessageSearch(topic=place.topic, lite=place.lite, queue=None if place.lite else place.queue)
    scroll = f"{place.broker}/{queue}/{place.offset}"
    answer = await asking.call_server(QUERYING, **search.call_fields(place.broker), scroll_id=scroll, page_size=1)
    for message in answer.messages:
        if message.system_properties.queue_offset == place.offset:
            return message
    where = f"lite topic {place.lite}" if place.lite else f"queue {place.queue}"
    raise CallRefused(
        ErrorCode.MESSAGE_NOT_FOUND,
        f"There is no message at offset {place.offset} in {where} of topic {place.topic} on {place.broker}: it was "
        "removed, or is not stored yet.",
    )
