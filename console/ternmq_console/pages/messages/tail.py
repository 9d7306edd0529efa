"""The page that shows messages of a topic as they arrive.

Its script polls for messages since the position of the last answer: no connection stays open, and a page in the
background does not poll.

Position    as in `newest.py`: the next offset in each queue, in the order of brokers and numbers.
Cost        a poll is one DescribeTopic, and one PullMessage for each of up to `QUEUES_MAX` queues with new messages. If
            a queue has more than `BEHIND_MAX` new messages, the older ones are skipped.
"""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode
from ternmq_console.calls import READING, SEEKING
from ternmq_console.pages.base.forms import BadForm, PageForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import render_page
from ternmq_console.pages.messages.message_rows import MessageRow, build_row
from ternmq_console.pages.messages.newest import AT_ONCE, parse_position
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

KEPT = 200
"""Messages in the page; the script removes older ones."""
QUEUES_MAX = 64
BEHIND_MAX = 50
_NOTHING_NEW = ErrorCode.MESSAGE_NOT_FOUND


class TailPoll:
    """One poll. After `poll_topic`, `rows` are the new messages, the newest first.

    `position` is where the next poll continues, and `passed` is the number of messages that came too fast to be shown.
    """

    def __init__(self, asking: "PageContext", topic: str, tag: str) -> None:
        self._asking, self._topic, self._tag = asking, topic, tag
        self._room = asyncio.Semaphore(AT_ONCE)
        self.rows: list[MessageRow] = []
        self.passed = 0
        self.position = ""

    async def poll_topic(self, position: str) -> "Message":
        """Poll once, from that position on, or from now on if it is empty; return the topic. Raises BadForm."""
        described = await self._asking.call_server("DescribeTopic", name=self._topic)
        queues = sorted(described.queues, key=lambda each: (each.broker, each.queue_id))
        if not position and queues:
            await self._asking.call_server(
                SEEKING, message_queue=self._queue_fields(queues[0])
            )  # fails if the user may not read the topic
        offsets = parse_position(position, len(queues)) if position else [queue.max_offset for queue in queues]
        # A topic that was deleted and created again begins at 0.
        offsets = [min(offset, queue.max_offset) for offset, queue in zip(offsets, queues, strict=True)]
        new = [number for number, queue in enumerate(queues) if offsets[number] < queue.max_offset][:QUEUES_MAX]
        ends = await asyncio.gather(*(self._pull_queue(queues[number], offsets[number]) for number in new))
        for number, end in zip(new, ends, strict=True):
            offsets[number] = end
        self.position = ".".join(str(offset) for offset in offsets)
        self.rows.sort(key=lambda row: (row.stored_ns, row.place.offset), reverse=True)
        self.passed += max(0, len(self.rows) - KEPT)
        del self.rows[KEPT:]
        return described

    async def _pull_queue(self, queue: "Message", offset: int) -> int:
        """Pull the new messages of a queue; return the next offset."""
        start = max(offset, queue.min_offset, queue.max_offset - BEHIND_MAX)
        self.passed += max(0, start - max(offset, queue.min_offset))
        fields: dict[str, Any] = {
            "message_queue": self._queue_fields(queue),
            "offset": start,
            "batch_size": BEHIND_MAX,
        }
        if self._tag:
            fields["filter_expression"] = {"type": definition_pb2.TAG, "expression": self._tag}
        async with self._room:
            frames = await self._asking.call_for_frames(READING, also=(_NOTHING_NEW,), **fields)
            following: int = start
            for frame in frames:
                if frame.WhichOneof("content") == "message":
                    self.rows.append(build_row(frame.message, self._topic, queue.broker))
                elif frame.WhichOneof("content") == "next_offset":
                    following = frame.next_offset
        return following

    def _queue_fields(self, queue: "Message") -> dict[str, Any]:
        """Return the queue as a field of calls."""
        return {"topic": {"name": self._topic}, "id": queue.queue_id, "broker": {"name": queue.broker}}


async def show_tail(request: "Request", asking: "PageContext") -> "Response":
    """Show the page, with messages since the position in the query, if there is one."""
    return await _show_poll(request, asking, "messages/tail.html")


async def show_new(request: "Request", asking: "PageContext") -> "Response":
    """Return the new messages for an open page."""
    return await _show_poll(request, asking, "messages/arrived.html")


async def _show_poll(request: "Request", asking: "PageContext", template: str) -> "Response":
    query = PageForm.of_query(request)
    topic, tag, error = query.text("topic"), query.text("tag"), ""
    follower = TailPoll(asking, topic, tag)
    try:
        described = await follower.poll_topic(query.text("at"))
    except (BadForm, CallRefused) as problem:
        if isinstance(problem, CallRefused) and (problem.is_missing or problem.is_forbidden):
            raise
        error = problem.message
        follower = TailPoll(asking, topic, "")
        described = await follower.poll_topic("")
    query_text = urlencode({"topic": topic} | ({"tag": tag} if tag else {}))
    return await render_page(
        request, asking, template,
        title=f"Live: {topic}", topic=topic, tag=tag, query=query_text, at=follower.position, rows=follower.rows,
        passed=follower.passed, kept=KEPT, is_lite=described.topic.type == MessageType.LITE, error=error,
        is_first=not query.is_set("at"), status=400 if error and template == "messages/tail.html" else 200,
    )  # fmt: skip
