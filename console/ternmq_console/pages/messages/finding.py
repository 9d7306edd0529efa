"""The page that finds messages of a topic: the newest, those of a time, by tag, key or id, or from an offset on.

Newest first    without a tag, an offset or a lite topic: over all queues (`newest.py`).
Oldest first    with one of these: queue by queue, as the server reads them.
By key or id    the newest 64 that the server finds, on one page.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ternmq_common.message_type import MessageType
from ternmq_console.pages.base.answering import page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.forms import BadForm, Form
from ternmq_console.pages.messages.newest import Newest
from ternmq_console.pages.messages.places import Queue, Row, row_of
from ternmq_console.pages.messages.reading import Search, read

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking

PAGE = 25
FOUND_MAX = 64
FIELDS = ("topic", "from", "before", "tag", "key", "id", "broker", "queue", "offset", "lite")
NEWEST, OLDEST = "The newest first", "Queue by queue, the oldest first"
_POSITION = re.compile(r"(?P<broker>.+)/(?P<queue>[0-9]{1,9})/(?P<offset>[0-9]{1,18})")
_ELSEWHERE = "this page of the list is outdated; open the list again"
# Ways to select messages that exclude each other.
_ALONE = ("id", "key", "tag", "offset", "lite")


@dataclass(frozen=True, slots=True)
class Found:
    """A page of messages; `following` is where the next one begins, "" at the end, and `says` names their order."""

    rows: list[Row]
    following: str = ""
    says: str = NEWEST


async def finding(request: "Request", asking: "Asking") -> "Response":
    """Show the messages that the query selects; without a topic, a list of topics."""
    query = Form.of_query(request)
    topic = query.text("topic")
    if not topic:
        return await _choosing(request, asking, query)
    described = await asking.ask("DescribeTopic", name=topic)
    said = {field: query.text(field) for field in FIELDS if query.is_set(field)}
    found, error = Found([]), ""
    try:
        found = await _found(asking, query, described)
    except BadForm as problem:
        error = problem.message
        if problem.field in ("from", "before"):  # a browser's field for times can't show an invalid one
            said.pop(problem.field)
    except Refused as problem:
        if problem.is_missing or problem.is_forbidden:
            raise
        error = problem.message
    return await page(
        request, asking, "messages/list.html",
        title=f"Messages of {topic}", topic=topic, said=said, query=urlencode(said), at=query.text("at"), found=found,
        is_lite=described.topic.type == MessageType.LITE, error=error, status=400 if error else 200,
        brokers=sorted({queue.broker for queue in described.queues}), silent=described.silent_brokers,
    )  # fmt: skip


async def _choosing(request: "Request", asking: "Asking", query: Form) -> "Response":
    """Show a page of topics."""
    search, after = query.raw("search"), query.raw("page")
    listed = await asking.ask("ListTopics", search=search, limit=PAGE, page=after)
    return await page(
        request, asking, "messages/topics.html",
        title="Messages", search=search, after=after, following=listed.next_page, topics=listed.topics,
    )  # fmt: skip


async def _found(asking: "Asking", query: Form, described: "Message") -> Found:
    """Return the messages that the fields select; raises BadForm."""
    ways = [field for field in _ALONE if query.is_set(field)]
    if len(ways) > 1:
        raise BadForm(ways[1], f"choose one of {' and '.join(ways)}: they can't be combined")
    search = Search(
        topic=query.text("topic"),
        lite=query.text("lite"),
        tag=query.text("tag"),
        since=query.moment("from") if query.is_set("from") else None,
        before=query.moment("before") if query.is_set("before") else None,
        broker=query.text("broker"),
        queue=query.whole("queue") if query.is_set("queue") else None,
    )
    queues = list(described.queues)
    _check_queue(search, queues)
    if described.topic.type == MessageType.LITE and ways not in ([], ["lite"]):
        raise BadForm(ways[0], "name a lite topic: its messages are found in no other way")
    if query.is_set("id") or query.is_set("key"):
        return await _by_key(asking, search, query.text("id"), query.text("key"))
    if not queues:  # no broker of the topic answers
        return Found([])
    if query.is_set("offset"):
        return await _from_offset(asking, search, query, queues)
    if search.tag or search.lite:
        return await _walked(asking, search, query.text("at"), queues)
    newest = await Newest.of(asking, search, queues, query.text("at"), size=PAGE)
    return Found(await newest.page(), newest.following)


def _check_queue(search: Search, queues: "list[Message]") -> None:
    """Raise BadForm if the topic has no such broker or queue."""
    if search.broker and all(queue.broker != search.broker for queue in queues):
        raise BadForm("broker", f"the topic is not on broker {search.broker}, or it does not answer")
    if search.queue is not None and not search.lite and all(queue.queue_id != search.queue for queue in queues):
        last = max((queue.queue_id for queue in queues), default=0)
        raise BadForm("queue", f"the topic has the queues 0 to {last}, not {search.queue}")


async def _by_key(asking: "Asking", search: Search, message_id: str, key: str) -> Found:
    """Find messages by id or key; the server has one index for both, so the messages are checked."""
    answer = await asking.ask("QueryMessages", topic=search.topic, key=message_id or key, limit=FOUND_MAX)
    rows = [
        row_of(message, search.topic, broker)
        for message, broker in zip(answer.messages, answer.brokers, strict=True)
        if (message.system_properties.message_id == message_id if message_id else key in message.system_properties.keys)
    ]
    says = f"{NEWEST}; at most {FOUND_MAX} are found" if len(answer.messages) == FOUND_MAX else NEWEST
    return Found([row for row in rows if _is_of(row, search)], says=says)


def _is_of(row: Row, search: Search) -> bool:
    """Return whether broker, queue and time of a message match the search."""
    since = 0 if search.since is None else search.since.ToNanoseconds()
    before = row.stored_ns + 1 if search.before is None else search.before.ToNanoseconds()
    is_there = search.broker in ("", row.place.broker) and search.queue in (None, row.place.queue)
    return is_there and since <= row.stored_ns < before


async def _from_offset(asking: "Asking", search: Search, query: Form, queues: "list[Message]") -> Found:
    """Read the messages of one queue from an offset on."""
    brokers = sorted({queue.broker for queue in queues})
    if search.queue is None:
        raise BadForm("queue", "an offset needs a queue: choose one")
    if not search.broker and len(brokers) > 1:
        raise BadForm("broker", f"an offset needs a broker: choose one of {', '.join(brokers)}")
    queue = Queue(search.broker or brokers[0], search.queue)
    offset = query.whole("at") if query.is_set("at") else query.whole("offset")
    rows, following = await read(asking, search, queue, offset, PAGE)
    return Found(rows, following.rpartition("/")[2], OLDEST)


async def _walked(asking: "Asking", search: Search, at: str, queues: "list[Message]") -> Found:
    """Read messages broker by broker; `at` is the position where the previous page ended, as the server returned it."""
    brokers = sorted({queue.broker for queue in queues if search.broker in ("", queue.broker)})
    queue, offset = _position(at) if at else (Queue(brokers[0], search.queue or 0), 0)
    if queue.broker not in brokers:
        raise BadForm("at", _ELSEWHERE)
    rows, following = await read(asking, search, queue, offset, PAGE)
    left = brokers[brokers.index(queue.broker) + 1 :]
    while not following and left and len(rows) < PAGE:
        queue = Queue(left.pop(0), search.queue or 0)
        more, following = await read(asking, search, queue, 0, PAGE - len(rows))
        rows += more
    if not following and left:
        following = f"{left[0]}/{search.queue or 0}/0"
    return Found(rows, following, OLDEST)


def _position(at: str) -> tuple[Queue, int]:
    """Parse a position of the server, `BROKER/QUEUE/OFFSET`; raises BadForm."""
    match = _POSITION.fullmatch(at)
    if match is None:
        raise BadForm("at", _ELSEWHERE)
    return Queue(match["broker"], int(match["queue"])), int(match["offset"])
