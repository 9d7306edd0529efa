"""Messages of a topic page by page: by id, by key, of a lite topic, or all of a time that pass a filter."""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.tag_filter import ALL, TagFilter
from ternmq_common.printable import cut_text
from ternmq_common.shard.model import QueueRef, StoredMessage
from ternmq_proxy.access.needs import TOPIC_QUERY
from ternmq_proxy.operations.admin.messages.bodies import hide_bodies
from ternmq_proxy.operations.admin.messages.message_pages import FIRST_PAGE, MessagePage, MessagePageQuery, begin_page
from ternmq_proxy.operations.admin.messages.message_search import FOUND_MAX
from ternmq_proxy.operations.admin.messages.message_walk import ALL_TIMES, MessageWalk, TimeSpan
from ternmq_proxy.operations.admin.named import find_lite_queue, find_topic
from ternmq_proxy.processors.sending.stored_form import read_names

if TYPE_CHECKING:
    from ternmq_common.shard.model import Topic
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


class SearchKey(enum.Enum):
    """The kind of a query's text: a message's id, one of its keys, a lite topic, or a tag expression."""

    ID = "id"
    KEY = "key"
    LITE_TOPIC = "lite topic"
    TAGS = "tags"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """Which messages of a topic, of all if `key` is None: those of a time, of one broker or one queue id if these are
    not None."""

    topic: str
    key: SearchKey | None = None
    text: str = ""
    span: TimeSpan = ALL_TIMES
    broker: str | None = None
    queue_id: int | None = None
    page: MessagePageQuery = FIRST_PAGE


class MessageQueryResult(NamedTuple):
    """The messages of a page, without bodies if the caller may not receive them, and where the next one begins, empty
    at the end."""

    messages: list[StoredMessage]
    following: str


async def query_messages(query: MessageQuery, call: "Call", services: "Services") -> MessageQueryResult:
    """Return a page of messages: the newest first for an id or key, else queue by queue, the oldest
    first."""
    services.access.require_all("QueryMessage", call, (TOPIC_QUERY, query.topic))
    topic = await find_topic(query.topic, services)
    queues = _find_queues(query, topic, services)
    if query.key is SearchKey.LITE_TOPIC:
        queues = _find_lite_queues(query.text, topic, queues)
    page = begin_page(query.page)
    if query.key in (SearchKey.ID, SearchKey.KEY):
        await _fill_by_key(page, query, topic, queues, services)
    else:
        passing = TagFilter.parse_expression(query.text) if query.key is SearchKey.TAGS else ALL
        steps_max = services.answer_limits.walk_steps_max
        await MessageWalk(queues, query.span, passing, services.messages, steps_max=steps_max).fill_page(page)
    return MessageQueryResult(hide_bodies(page.messages, query.topic, call, services), page.following)


def _find_queues(query: MessageQuery, topic: "Topic", services: "Services") -> list[QueueRef]:
    """Return those that the query is about; BAD_REQUEST for one that is not the topic's."""
    brokers = services.messages.find_route(topic).brokers
    if query.broker is not None:
        if query.broker not in brokers:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"topic {topic.name!r} is not on broker {cut_text(query.broker)!r}, but on {', '.join(brokers)}",
            )
        brokers = (query.broker,)
    ids = range(topic.queues)
    if query.queue_id is not None:
        if query.queue_id not in ids:
            raise MessagingError(
                ErrorCode.BAD_REQUEST,
                f"topic {topic.name!r} has the queues 0 to {topic.queues - 1}, not {query.queue_id}",
            )
        ids = range(query.queue_id, query.queue_id + 1)
    return [QueueRef(topic.name, broker, queue_id) for broker in sorted(brokers) for queue_id in ids]


def _find_lite_queues(name: str, topic: "Topic", queues: list[QueueRef]) -> list[QueueRef]:
    """Return that of the lite topic, on each of the brokers; BAD_REQUEST if the topic has no lite topics."""
    queue_topic = find_lite_queue(name, topic)
    return [QueueRef(queue_topic, broker, 0) for broker in sorted({queue.broker for queue in queues})]


async def _fill_by_key(
    page: MessagePage, query: MessageQuery, topic: "Topic", queues: list[QueueRef], services: "Services"
) -> None:
    """Fill the page with the found messages. A message that is found by a key may have it as its id too: a message says
    which it is."""
    if not query.text:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names an empty id or key")
    found = await services.messages.inspecting.find_by_key(topic.name, query.text, FOUND_MAX)
    wanted = set(queues)
    left = page.start_number(len(found))
    matching = [
        stored
        for stored in found
        if stored.queue in wanted and stored.stored_ms in query.span and _matches(stored, query)
    ]
    for number, stored in enumerate(matching[left:], left):
        if not page.take_message(stored):
            page.following = str(number)
            break


def _matches(stored: StoredMessage, query: MessageQuery) -> bool:
    names = read_names(stored.system)
    return names.message_id == query.text if query.key is SearchKey.ID else query.text in names.keys
