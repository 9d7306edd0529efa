"""The page that finds messages of a topic: the newest, those of a time, by tag, key or id, or from an offset on.

Newest first    without a tag, an offset or a lite topic: over all queues (`newest.py`).
Oldest first    with one of these: queue by queue, as the server reads them.
By key or id    the newest 64 that the server finds, on one page.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ternmq_common.catalog.message_type import MessageType
from ternmq_console.pages.base.forms import BadForm, PageForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import render_page
from ternmq_console.pages.messages.message_rows import MessageRow, QueueKey, build_row
from ternmq_console.pages.messages.newest import NewestMessages
from ternmq_console.pages.messages.reading import MessageSearch, read_messages

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
FOUND_MAX = 64
FIELDS = ("topic", "from", "before", "tag", "key", "id", "broker", "queue", "offset", "lite")
NEWEST, OLDEST = "The newest first", "Queue by queue, the oldest first"
_POSITION = re.compile(r"(?P<broker>.+)/(?P<queue>[0-9]{1,9})/(?P<offset>[0-9]{1,18})")
_ELSEWHERE = "this page of the list is outdated; open the list again"
# Ways to select messages that exclude each other.
_ALONE = ("id", "key", "tag", "offset", "lite")


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """A page of messages; `following` is where the next one begins, "" at the end, and `says` names their order."""

    rows: list[MessageRow]
    following: str = ""
    says: str = NEWEST


async def show_messages(request: "Request", asking: "PageContext") -> "Response":
    """Show the messages that the query selects; without a topic, a list of topics."""
    query = PageForm.of_query(request)
    topic = query.text("topic")
    if not topic:
        return await _show_topics(request, asking, query)
    described = await asking.call_server("DescribeTopic", name=topic)
    given = {field: query.text(field) for field in FIELDS if query.is_set(field)}
    found, error = FoundMessages([]), ""
    try:
        found = await _find_messages(asking, query, described)
    except BadForm as problem:
        error = problem.message
        if problem.field in ("from", "before"):  # a browser's field for times can't show an invalid one
            given.pop(problem.field)
    except CallRefused as problem:
        if problem.is_missing or problem.is_forbidden:
            raise
        error = problem.message
    return await render_page(
        request, asking, "messages/list.html",
        title=f"Messages of {topic}", topic=topic, given=given, query=urlencode(given), at=query.text("at"),
        found=found, is_lite=described.topic.type == MessageType.LITE, error=error, status=400 if error else 200,
        brokers=sorted({queue.broker for queue in described.queues}), silent=described.silent_brokers,
    )  # fmt: skip


async def _show_topics(request: "Request", asking: "PageContext", query: PageForm) -> "Response":
    """Show a page of topics."""
    search, after = query.raw("search"), query.raw("page")
    listed = await asking.call_server("ListTopics", search=search, limit=PAGE, page=after)
    return await render_page(
        request, asking, "messages/topics.html",
        title="Messages", search=search, after=after, following=listed.next_page, topics=listed.topics,
    )  # fmt: skip


async def _find_messages(asking: "PageContext", query: PageForm, described: "Message") -> FoundMessages:
    """Return the messages that the fields select; raises BadForm."""
    ways = [field for field in _ALONE if query.is_set(field)]
    if len(ways) > 1:
        raise BadForm(ways[1], f"choose one of {' and '.join(ways)}: they can't be combined")
    search = MessageSearch(
        topic=query.text("topic"),
        lite=query.text("lite"),
        tag=query.text("tag"),
        since=query.parse_time("from") if query.is_set("from") else None,
        before=query.parse_time("before") if query.is_set("before") else None,
        broker=query.text("broker"),
        queue=query.parse_integer("queue") if query.is_set("queue") else None,
    )
    queues = list(described.queues)
    _check_queue(search, queues)
    if described.topic.type == MessageType.LITE and ways not in ([], ["lite"]):
        raise BadForm(ways[0], "name a lite topic: its messages are found in no other way")
    if query.is_set("id") or query.is_set("key"):
        return await _find_by_key(asking, search, query.text("id"), query.text("key"))
    if not queues:  # no broker of the topic answers
        return FoundMessages([])
    if query.is_set("offset"):
        return await _read_from_offset(asking, search, query, queues)
    if search.tag or search.lite:
        return await _walk_queues(asking, search, query.text("at"), queues)
    newest = await NewestMessages.open_search(asking, search, queues, query.text("at"), size=PAGE)
    return FoundMessages(await newest.read_page(), newest.following)


def _check_queue(search: MessageSearch, queues: "list[Message]") -> None:
    """Raise BadForm if the topic has no such broker or queue."""
    if search.broker and all(queue.broker != search.broker for queue in queues):
        raise BadForm("broker", f"the topic is not on broker {search.broker}, or it does not answer")
    if search.queue is not None and not search.lite and all(queue.queue_id != search.queue for queue in queues):
        last = max((queue.queue_id for queue in queues), default=0)
        raise BadForm("queue", f"the topic has the queues 0 to {last}, not {search.queue}")


async def _find_by_key(asking: "PageContext", search: MessageSearch, message_id: str, key: str) -> FoundMessages:
    """Find messages by id or key; the server has one index for both, so the messages are checked."""
    answer = await asking.call_server("QueryMessages", topic=search.topic, key=message_id or key, limit=FOUND_MAX)
    rows = [
        build_row(message, search.topic, broker)
        for message, broker in zip(answer.messages, answer.brokers, strict=True)
        if (message.system_properties.message_id == message_id if message_id else key in message.system_properties.keys)
    ]
    says = f"{NEWEST}; at most {FOUND_MAX} are found" if len(answer.messages) == FOUND_MAX else NEWEST
    return FoundMessages([row for row in rows if _matches_search(row, search)], says=says)


def _matches_search(row: MessageRow, search: MessageSearch) -> bool:
    """Return whether broker, queue and time of a message match the search."""
    since = 0 if search.since is None else search.since.ToNanoseconds()
    before = row.stored_ns + 1 if search.before is None else search.before.ToNanoseconds()
    is_there = search.broker in ("", row.place.broker) and search.queue in (None, row.place.queue)
    return is_there and since <= row.stored_ns < before


async def _read_from_offset(
    asking: "PageContext", search: MessageSearch, query: PageForm, queues: "list[Message]"
) -> FoundMessages:
    """Read the messages of one queue from an offset on."""
    brokers = sorted({queue.broker for queue in queues})
    if search.queue is None:
        raise BadForm("queue", "an offset needs a queue: choose one")
    if not search.broker and len(brokers) > 1:
        raise BadForm("broker", f"an offset needs a broker: choose one of {', '.join(brokers)}")
    queue = QueueKey(search.broker or brokers[0], search.queue)
    offset = query.parse_integer("at") if query.is_set("at") else query.parse_integer("offset")
    rows, following = await read_messages(asking, search, queue, offset, PAGE)
    return FoundMessages(rows, following.rpartition("/")[2], OLDEST)


async def _walk_queues(asking: "PageContext", search: MessageSearch, at: str, queues: "list[Message]") -> FoundMessages:
    """Read messages broker by broker; `at` is the position where the previous page ended, as the server returned it."""
    brokers = sorted({queue.broker for queue in queues if search.broker in ("", queue.broker)})
    queue, offset = _parse_position(at) if at else (QueueKey(brokers[0], search.queue or 0), 0)
    if queue.broker not in brokers:
        raise BadForm("at", _ELSEWHERE)
    rows, following = await read_messages(asking, search, queue, offset, PAGE)
    left = brokers[brokers.index(queue.broker) + 1 :]
    while not following and left and len(rows) < PAGE:
        queue = QueueKey(left.pop(0), search.queue or 0)
        more, following = await read_messages(asking, search, queue, 0, PAGE - len(rows))
        rows += more
    if not following and left:
        following = f"{left[0]}/{search.queue or 0}/0"
    return FoundMessages(rows, following, OLDEST)


def _parse_position(at: str) -> tuple[QueueKey, int]:
    """Parse a position of the server, `BROKER/QUEUE/OFFSET`; raises BadForm."""
    match = _POSITION.fullmatch(at)
    if match is None:
        raise BadForm("at", _ELSEWHERE)
    return QueueKey(match["broker"], int(match["queue"])), int(match["offset"])
